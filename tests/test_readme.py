"""The README stays short, and its transcript is the recorded one."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


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


def test_the_documents_it_links_to_exist() -> None:
    for page in re.findall(r"\]\(((?:docs/)?[\w.-]+\.md)\)", (ROOT / "README.md").read_text()):
        assert (ROOT / page).is_file(), page
