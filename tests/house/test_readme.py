"""The README stays short, its transcript is the recorded one, and its code runs; what pages link to and name exists."""

import ast
import os
import re
from pathlib import Path
from pkgutil import resolve_name
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


def test_the_pages_name_targets_of_make_that_exist_and_contributing_names_all_that_run_tests() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), flags=re.MULTILINE))
    for page in [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")]:
        assert set(re.findall(r"`make ([a-z-]+)", page.read_text())) <= targets, page.name
    listed = set(
        re.findall(r"^make ([a-z-]+)", (ROOT / "CONTRIBUTING.md").read_text().split("```")[1], flags=re.MULTILINE)
    )
    assert listed <= targets
    assert {one for one in targets if one.startswith("test")} <= listed


# --- pages ---

PAGES = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md")]
PAGES += [*sorted((ROOT / "docs").rglob("*.md")), ROOT / "tests" / "data" / "README.md"]
BLOCK = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
CODE = re.compile(rf"{BLOCK.pattern}|`[^`\n]+`", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\(<?([^)\s>]+)>?\)")
HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)


def links(page: Path) -> list[tuple[Path, str]]:
    """The files that a page links to, each with the heading meant, if one is."""
    found = LINK.findall(CODE.sub("", page.read_text()))
    parts = [one.partition("#") for one in found if "://" not in one and not one.startswith("mailto:")]
    return [((page.parent / path).resolve() if path else page, heading) for path, _, heading in parts]


def anchors(page: Path) -> set[str]:
    """What GitHub makes of the headings of a page."""
    headings = (re.sub(r"\]\([^)]*\)", "", one.lower()) for one in HEADING.findall(BLOCK.sub("", page.read_text())))
    return {re.sub(r"[^\w\- ]", "", one).replace(" ", "-") for one in headings}


def test_every_page_is_reachable_from_the_readme() -> None:
    seen, ahead = set[Path](), [ROOT / "README.md"]
    while ahead:
        page = ahead.pop()
        seen.add(page)
        ahead += [
            target for target, _ in links(page) if target.suffix == ".md" and target.is_file() and target not in seen
        ]
    assert set(PAGES) <= seen, set(PAGES) - seen


def test_the_index_links_to_every_page_itself() -> None:
    listed = {target for target, _ in links(ROOT / "docs" / "README.md")}
    assert set((ROOT / "docs").rglob("*.md")) - {ROOT / "docs" / "README.md"} <= listed


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_of_a_page_leads_somewhere(page: Path) -> None:
    for target, heading in links(page):
        assert target.exists(), target
        assert not heading or heading in anchors(target), (target, heading)


PATH = re.compile(r"\b(?:channelmem|bot|tests|scripts|docs|requirements)/[\w./*{}-]*[\w/*}]")
"""What looks like a path of ours: in backticks, or in a command within a block."""


@pytest.mark.parametrize(
    "page", [*PAGES, *sorted((ROOT / ".github").rglob("*.md"))], ids=lambda page: str(page.relative_to(ROOT))
)
def test_every_path_that_a_page_names_exists(page: Path) -> None:
    quoted = CODE.findall(page.read_text())
    for name in {path for text in quoted for path in PATH.findall(text)}:
        assert list(ROOT.glob(name.rstrip("/"))), name


def test_every_module_and_script_that_a_page_names_exists() -> None:
    files = [
        f"/{path}" for folder in ("channelmem", "bot", "tests", "scripts") for path in ROOT.glob(f"{folder}/**/*.*")
    ]
    for page in PAGES:
        text = page.read_text()
        names = set(re.findall(r"`([\w./]+\.(?:py|lua|npz|jsonl))`", text))
        names |= {f"scripts/{name}.py" for name in re.findall(r"-m scripts\.(\w+)", text)}
        for name in names:
            assert any(file.endswith(f"/{name}") for file in files), (page.name, name)


def test_every_dotted_name_on_a_page_can_be_imported() -> None:
    for page in PAGES:
        names = re.findall(r"(?:`|\bfrom |\bimport )(channelmem(?:\.[A-Za-z_]+)+)", page.read_text())
        for name in names:
            assert resolve_name(name), (page.name, name)
