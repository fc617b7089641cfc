"""Imports point one way: adapters -> memory -> stages -> types. Only the store modules speak to Redis."""

import ast
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

# What any module may use.
GROUND = {"types", "errors", "settings", "durations", "words", "quote"}
# What adapters may use besides: the front door, and what it says in public.
FRONT = GROUND | {"memory", "tool", "cli", "metrics"}
# Commands that show one stage on its own.
WINDOWS = {
    "cli/redis.py": {"server", "server_find", "server_state"},
    "cli/route.py": {"route", "people", "spans"},
    "cli/doctor.py": {"server", "embed", "model", "doctor"},
    "cli/inspect.py": {"inspect"},
    "cli/reindex.py": {"reindex", "buckets", "embed", "server"},
}
SPEAKS_REDIS = {
    *("buckets", "scripts", "store", "search", "ingest", "outbox", "heal", "sweep", "reindex", "schema", "keys"),
    *("privacy", "bookmarks", "inspect", "doctor"),
}


def modules(folder: str) -> dict[str, Path]:
    base = ROOT / folder
    return {str(path.relative_to(base)): path for path in sorted(base.rglob("*.py"))}


def imported(path: Path) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module:
            names |= {node.module} | {f"{node.module}.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
    return names


def ours(path: Path) -> set[str]:
    """First-level modules of channelmem that a file imports."""
    known = {name.removesuffix(".py").split("/")[0] for name in modules("channelmem")}
    return {part for name in imported(path) if name.startswith("channelmem.") for part in [name.split(".")[1]]} & known


def test_nothing_below_the_adapters_imports_an_adapter() -> None:
    for name, path in modules("channelmem").items():
        if not name.startswith("cli/"):
            assert "cli" not in ours(path), name
            assert not any(used == "bot" or used.startswith("bot.") for used in imported(path)), name


def test_no_stage_imports_the_memory() -> None:
    for name, path in modules("channelmem").items():
        if not name.startswith("cli/") and name not in {"__init__.py", "memory.py", "tool.py"}:
            assert "memory" not in ours(path), name


def test_the_bot_talks_to_memory_and_nothing_below_it() -> None:
    for name, path in modules("bot").items():
        assert ours(path) <= FRONT, (name, ours(path) - FRONT)


def test_commands_talk_to_memory_but_for_those_that_show_a_stage() -> None:
    for name, path in modules("channelmem").items():
        if name.startswith("cli/"):
            allowed = FRONT | WINDOWS.get(name, set())
            assert ours(path) <= allowed, (name, ours(path) - allowed)


def test_the_shared_types_import_nothing_of_ours() -> None:
    assert ours(ROOT / "channelmem" / "types.py") == set()
    assert ours(ROOT / "channelmem" / "errors.py") == set()


def test_only_the_store_modules_speak_to_redis() -> None:
    for name, path in modules("channelmem").items():
        if not name.startswith(("cli/", "server")) and name.removesuffix(".py") not in SPEAKS_REDIS:
            spoken = {used for used in imported(path) if used.split(".")[0] in {"redis", "redisvl"}}
            assert not spoken, (name, spoken)


def test_inference_leaves_the_event_loop_in_one_place_only() -> None:
    hopping = {
        name
        for name, path in modules("channelmem").items()
        if "run_in_executor" in path.read_text() and not name.startswith("cli/")
    }
    assert all(name.startswith("embed") for name in hopping), hopping
