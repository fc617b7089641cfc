"""docs/api.md names every endpoint that the service has."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

from serving import described

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "api.md").read_text()


def test_the_page_names_every_path_and_method() -> None:
    for path, operations in cast("dict[str, dict[str, Any]]", described()["paths"]).items():
        shown = path.removeprefix("/v1")
        rows = [line for line in PAGE.splitlines() if line.startswith("| `") and _names(line, shown)]
        assert rows, f"docs/api.md does not name {path}"
        for method in operations:
            assert any(f"`{method.upper()}" in row for row in rows), (method, path)


def _names(row: str, path: str) -> bool:
    *_, last = path.split("/")
    return f"{path}`" in row or ("/people/" in path and f"`/{last}`" in row)


def test_every_operation_says_what_it_does_and_what_may_go_wrong() -> None:
    for path, operations in cast("dict[str, dict[str, Any]]", described()["paths"]).items():
        for method, operation in operations.items():
            assert operation.get("description"), (method, path)
            if path.startswith("/v1"):
                assert {"401", "403", "422", "503"} <= operation["responses"].keys(), (method, path)
                problem = operation["responses"]["401"]["content"]
                assert list(problem) == ["application/problem+json"], (method, path)
