"""The README stays short, its transcript is the recorded one, and its code runs."""

import ast
import os
import re
from pathlib import Path
from types import FunctionType

import pytest

from channelmem.settings import Settings

ROOT = Path(__file__).resolve().parents[2]


def test_the_readme_has_at_most_150_lines() -> None:
    assert len((ROOT / "README.md").read_text().splitlines()) <= 150


def test_every_line_of_its_transcript_was_recorded() -> None:
    readme = (ROOT / "README.md").read_text()
    shown = re.findall(r"^(\w+): (.+)$", readme.split("```")[1], flags=re.MULTILINE)
    recorded = set(
        re.findall(r"^> \*\*(\w+)\*\*: (.+?) *$", (ROOT / "docs/transcript.md").read_text(), flags=re.MULTILINE)
    )
    assert len(shown) >= 6
    assert set(shown) <= recorded, set(shown) - recorded


async def test_its_code_prints_what_the_comment_beside_it_says(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (sample,) = re.findall(r"^```python\n(.+?)^```", (ROOT / "README.md").read_text(), flags=re.MULTILINE | re.DOTALL)
    (promised,) = re.findall(r"print\(.+\)  # (.+)", sample)
    assert settings.redis_url is not None
    for name in [one for one in os.environ if one.startswith("CHANNELMEM_")]:
        monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)  # a developer's .env stays out too
    monkeypatch.setenv("REDIS_URL", settings.redis_url.get_secret_value())
    monkeypatch.setenv("CHANNELMEM_KEY_PREFIX", settings.key_prefix)
    monkeypatch.setenv("CHANNELMEM_DATA_DIR", str(settings.data_dir))
    # As in the body of a coroutine, where a bot has it.
    body = compile(sample, "README.md", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    await FunctionType(body, {})()
    assert capsys.readouterr().out.strip() == promised


def test_the_documents_it_links_to_exist() -> None:
    for page in re.findall(r"\]\(((?:docs/)?[\w.-]+\.md)\)", (ROOT / "README.md").read_text()):
        assert (ROOT / page).is_file(), page


def test_the_pages_name_targets_of_make_that_exist_and_contributing_names_all_that_run_tests() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), flags=re.MULTILINE))
    for page in [*ROOT.glob("*.md"), *ROOT.glob("docs/*.md")]:
        assert set(re.findall(r"`make ([a-z-]+)", page.read_text())) <= targets, page.name
    listed = set(
        re.findall(r"^make ([a-z-]+)", (ROOT / "CONTRIBUTING.md").read_text().split("```")[1], flags=re.MULTILINE)
    )
    assert listed <= targets
    assert {one for one in targets if one.startswith("test")} <= listed
