"""Imports point one way: adapters -> memory -> stages -> types. Only the store, the server
and what shows them to people speak to Redis."""

import ast
import graphlib
from collections.abc import Iterable
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

# What any module may use.
GROUND = {
    "types", "ids", "errors", "settings", "secrets", "display", "commands", "durations", "policy", "extras", "access",
    "media.kinds", "tasks", "telling.explanation",
}  # fmt: skip
# Modules that stand elsewhere than the rest of their package.
APART = {"policy.policies", "media.media", "media.kinds", "summaries.summaries", "telling.explanation"}
# The stages, each with the stages it may build on: a question passes them from left to right.
STAGES: dict[str, set[str]] = {
    "policy": set(),
    "server": set(),
    "embedding": set(),
    "times": set(),
    "routing": {"times", "text"},
    "linking": {"text"},
    "store": {"server"},
    "text": {"store"},
    "ingest": {"store", "embedding"},
    "recalling": {"routing", "store", "embedding", "linking", "text"},
    "telling": {"recalling", "embedding", "text"},
    "summaries": {"store", "recalling", "telling", "text"},
    "media": {"store", "ingest"},
}
# What adapters may use besides the ground: the front door.
FRONT = GROUND | {
    "memory",
    "interface",
    "policy.policies",
    "llm",
    "tool",
    "context_window",
    "export",
    "cli",
    "media.media",
}
# What the rooms above memory may build on; the chat platform is not part of it.
ADAPTERS = {
    "wire": {"summaries"},
    "api": {"connections", "web", "wire", "memory", "llm", "policy.policies", "browse"},
    "client": {"wire", "policy.policies", "recaps", "summaries", "telling", "media.media"},
    "mcp": {"connections", "memory", "browse", "tool"},
    "web": {"memory", "browse", "summaries", "telling"},
}
ABOVE_MEMORY = {
    "tool": {"interface"},
    "llm": {"interface", "tool", "media", "summaries"},
    "context_window": {"interface", "times", "telling", "summaries"},
    "export": {"interface", "context_window", "summaries"},
}
# Commands that show one stage on its own, and what opens the service's tokens.
WINDOWS = {
    "cli/redis.py": {"server"},
    "cli/route.py": {"routing", "times"},
    "cli/summarise.py": {"summaries"},
    "cli/summaries.py": {"summaries", "telling"},
    "cli/doctor.py": {"store", "server", "embedding"},
    "cli/inspect.py": {"ops", "store", "telling"},
    "cli/settings.py": {"ops"},
    "cli/token.py": {"ops"},
    "cli/serve.py": {"store", "api"},
    "api/app.py": {"ops", "store"},
    "mcp/http.py": {"ops", "embedding"},
    "client/writes.py": {"store"},
    "cli/upkeep.py": {"ingest", "store", "embedding", "server"},
}
# Besides the store: starting a Redis, and showing people whether it is the right one and what it holds.
SPEAKS_REDIS = ("store/", "ingest/", "server/", "ops.py", "cli/")


@cache
def modules(folder: str) -> dict[str, Path]:
    base = ROOT / folder
    return {str(path.relative_to(base)): path for path in sorted(base.rglob("*.py"))}


def source(node: ast.ImportFrom, path: Path) -> str:
    """The module that `from ... import` names, also if it is named from where the file is."""
    if not node.level:
        return node.module or ""
    package = path.relative_to(ROOT).parts[: -node.level]
    return ".".join([*package, *filter(None, [node.module])])


@cache
def imported(path: Path) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom):
            module = source(node, path)
            names |= {module} | {f"{module}.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
    return names


def room_of(dotted: str) -> str:
    """Of a module or a name in one, without `channelmem`: its package, or itself if it stands apart."""
    two = ".".join(dotted.split(".")[:2])
    return two if two in APART else dotted.split(".", maxsplit=1)[0]


def room(name: str) -> str:
    return room_of(name.removesuffix(".py").replace("/", "."))


def ours(path: Path) -> set[str]:
    """Rooms of channelmem that a file imports."""
    known = {room(name) for name in modules("channelmem")}
    names = {name.removeprefix("channelmem.") for name in imported(path) if name.startswith("channelmem.")}
    return {room_of(name) for name in names} & known


def test_a_stage_builds_only_on_the_stages_before_it() -> None:
    for name, path in modules("channelmem").items():
        if room(name) in STAGES:
            allowed = GROUND | STAGES[room(name)] | {room(name)}
            assert ours(path) <= allowed, (name, ours(path) - allowed)


def test_nothing_below_the_adapters_imports_an_adapter() -> None:
    for name, path in modules("channelmem").items():
        if room(name) not in {"cli", "__main__"}:
            above = {"cli", *ADAPTERS} - ADAPTERS.get(room(name), set()) - {room(name)}
            assert not above & ours(path), (name, above & ours(path))
            assert not any(used == "bot" or used.startswith("bot.") for used in imported(path)), name


def test_the_bot_talks_to_memory_and_nothing_below_it() -> None:
    for name, path in modules("bot").items():
        assert ours(path) <= FRONT, (name, ours(path) - FRONT)


def test_commands_talk_to_memory_but_for_those_that_show_a_stage() -> None:
    for name, path in modules("channelmem").items():
        if name.startswith("cli/"):
            allowed = FRONT | WINDOWS.get(name, set())
            assert ours(path) <= allowed, (name, ours(path) - allowed)


def test_the_other_adapters_talk_to_memory_and_nothing_below_it() -> None:
    for name, path in modules("channelmem").items():
        if room(name) in ADAPTERS:
            allowed = GROUND | ADAPTERS[room(name)] | {room(name)} | WINDOWS.get(name, set())
            assert ours(path) <= allowed, (name, ours(path) - allowed)


def test_the_shared_types_import_nothing_of_ours() -> None:
    assert ours(ROOT / "channelmem" / "types.py") == set()
    assert ours(ROOT / "channelmem" / "errors.py") == set()


def test_only_the_store_the_server_and_what_shows_them_speak_to_redis() -> None:
    for name, path in modules("channelmem").items():
        if not name.startswith(SPEAKS_REDIS):
            spoken = {used for used in imported(path) if used.split(".")[0] in {"redis", "redisvl"}}
            assert not spoken, (name, spoken)


def test_inference_leaves_the_event_loop_for_embeddings_and_offline_media_only() -> None:
    hopping = {name for name, path in modules("channelmem").items() if "ThreadPoolExecutor" in path.read_text()}
    assert hopping == {"embedding/embed.py", "media/opening.py"}


def test_every_module_of_routing_and_recalling_has_tests_named_after_it_or_its_package() -> None:
    named = {path.stem.removeprefix("test_") for path in (ROOT / "tests").rglob("test_*.py")}
    covered_by = {"routing": "route", "people": "people", "times": "times", "recalling": "recall", "ranking": "rank"}
    for name in modules("channelmem"):
        *packages, module = name.removesuffix(".py").split("/")
        if packages[:1] in (["routing"], ["recalling"]) and module != "__init__":
            assert named & {module, packages[-1], covered_by.get(packages[-1], "")}, f"no tests for {name}"


def test_tools_and_language_models_build_on_memory_and_know_no_chat_platform() -> None:
    for name, path in modules("channelmem").items():
        if room(name) in ABOVE_MEMORY:
            allowed = GROUND | ABOVE_MEMORY[room(name)] | {room(name)}
            assert ours(path) <= allowed, (name, ours(path) - allowed)
            assert not {one for one in imported(path) if one.split(".")[0] == "discord"}, name


def module_imports(path: Path, known: Iterable[str]) -> set[str]:
    """Modules of ours that a file imports at its top level, type-checking blocks included."""
    found: set[str] = set()
    blocks: list[ast.stmt] = list(ast.parse(path.read_text()).body)
    while blocks:
        node = blocks.pop()
        if isinstance(node, ast.If | ast.Try):
            blocks += [child for child in ast.iter_child_nodes(node) if isinstance(child, ast.stmt)]
        elif isinstance(node, ast.ImportFrom):
            module = source(node, path)
            full = {f"{module}.{alias.name}" for alias in node.names}
            found |= {one if one in known else module for one in full}
        elif isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
    return found & set(known)


def test_no_module_imports_itself_by_way_of_others() -> None:
    paths = {
        ".".join((folder, *Path(name).with_suffix("").parts)).removesuffix(".__init__"): path
        for folder in ("channelmem", "bot")
        for name, path in modules(folder).items()
    }
    graph = {name: module_imports(path, paths) - {name} for name, path in paths.items()}
    graphlib.TopologicalSorter(graph).prepare()  # raises CycleError, which names the modules


def test_features_of_the_bot_know_their_context_and_not_the_client() -> None:
    for name, path in modules("bot").items():
        if name != "client.py":
            assert "bot.client" not in imported(path), name


def test_the_bot_names_its_own_modules_from_where_they_are_since_the_wheel_calls_it_otherwise() -> None:
    for name, path in modules("bot").items():
        nodes = [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.ImportFrom)]
        assert not [node.module for node in nodes if not node.level and source(node, path).split(".")[0] == "bot"], name
    assert "bot.history" in imported(ROOT / "bot" / "client.py")


def test_no_two_public_classes_have_one_name() -> None:
    """The JSON of the service aside: an `AnswerShown` may stand beside another adapter's."""
    places: dict[str, list[str]] = {}
    for folder in ("channelmem", "bot"):
        for name, path in modules(folder).items():
            if room(name) != "wire":
                nodes = [node for node in ast.parse(path.read_text()).body if isinstance(node, ast.ClassDef)]
                for node in nodes:
                    places.setdefault(node.name, []).append(f"{folder}/{name}")
    public = {name: files for name, files in places.items() if not name.startswith("_")}
    assert {name: files for name, files in public.items() if len(files) > 1} == {}
