"""docs/architecture.md tells the way of a message and of a question; here both are walked to see that it is right."""

from __future__ import annotations

import asyncio
import re
import sys
from collections.abc import Awaitable
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
from conftest import CHANNEL, GUILD, Clock

from channelmem import Memory, Message, Question, Settings

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "architecture.md").read_text()
NAMED = re.compile(r"`((?:channelmem|bot)/[\w/]*(?:\.py)?)`")
# The worker runs beside the flows: it reads, embeds and commits while somebody asks. So does the copy of decisions.
BESIDE = {"channelmem/ingest/worker.py", "channelmem/store/store.py", "channelmem/ingest/streams.py"}
BESIDE |= {"channelmem/store/decisions.py"}


def told(flow: str) -> set[str]:
    match = re.search(rf"<!-- walk: {flow} -->(.*?)<!-- end -->", PAGE, re.DOTALL)
    assert match is not None
    return set(NAMED.findall(match[1]))


async def walked(flow: Awaitable[Any]) -> set[str]:
    """The files that the flow passes, and not what other tasks do beside it."""
    files, others = set[str](), asyncio.all_tasks() - {asyncio.current_task()}

    def note(frame: FrameType, event: str, _argument: object) -> None:
        name = frame.f_code.co_filename
        if event == "call" and name.startswith(str(ROOT / "channelmem")) and asyncio.current_task() not in others:
            files.add(str(Path(name).relative_to(ROOT)))

    sys.setprofile(note)
    try:
        await flow
    finally:
        sys.setprofile(None)
    return files


def test_every_file_and_folder_that_the_page_names_is_there() -> None:
    missing = [name for name in NAMED.findall(PAGE) if not (ROOT / name).exists()]
    assert not missing


def test_every_package_and_module_at_the_top_has_its_row() -> None:
    rooms = {path.name for path in (ROOT / "channelmem").iterdir() if path.is_dir() and path.name != "__pycache__"}
    modules = {path.name for path in (ROOT / "channelmem").glob("*.py") if not path.name.startswith("__")}
    rows = {Path(name).name for name in NAMED.findall(PAGE)}
    assert rooms | modules <= rows


@pytest.fixture
async def asked(settings: Settings, embedder: Any, clock: Clock) -> Any:
    ts = clock.now
    async with Memory.open(settings, embedder=embedder, clock=clock) as memory:
        for at, (who, text) in enumerate([("Ann", "the venue is the old mill"), ("Bob", "how many people fit in?")]):
            await memory.remember(Message(GUILD, CHANNEL, 100 + at, at + 1, who, text, ts - 60 + at))
        await memory.flush()
        question = Question(GUILD, CHANNEL, 200, 2, "Bob", "what did Ann say about the venue?", ts)
        await memory.ask(question)
        yield memory, question, Message(GUILD, CHANNEL, 150, 1, "Ann", "bring cake", ts)


async def test_a_message_passes_the_files_that_the_page_names(asked: Any) -> None:
    memory, _, message = asked
    files = await walked(memory.remember(message))
    assert files - BESIDE == told("message") - BESIDE


async def test_a_question_passes_the_files_that_the_page_names(asked: Any) -> None:
    memory, question, _ = asked
    files = await walked(memory.ask(question))
    assert files - BESIDE == told("question") - BESIDE
