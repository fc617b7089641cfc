"""A memory with a loopback content host and a loopback vision model, for tests of pictures and voices."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from conftest import CHANNEL, GUILD, NOW, Clock, FakeEmbedder
from llm_server import LlmServer, llm_server
from media_server import MediaServer, media_server
from pydantic import SecretStr

from channelmem.embedding.embed import Embedder
from channelmem.memory import Memory
from channelmem.settings import Settings
from channelmem.types import Answer, Attachment, History, Message, Person, Question

BOT = Person(99, "Vivy")
MODEL = "openai:eyes"
GREY = "a grey cat on a sofa"


@dataclass
class Studio:
    memory: Memory
    cdn: MediaServer
    model: LlmServer
    settings: Settings
    counts: Counter[tuple[str, str]] = field(default_factory=Counter)
    """How often something of this kind had this outcome: "described", "cached", "failed"."""
    spent_usd: float = 0.0

    def __post_init__(self) -> None:
        def read(kind: str, outcome: str) -> None:
            self.counts[kind, outcome] += 1

        def spent(usd: float) -> None:
            self.spent_usd += usd

        self.memory.media.on_read, self.memory.media.on_spent = read, spent

    @property
    def described(self) -> int:
        """Requests with a picture."""
        return sum(bool(one.pictures) for one in self.model.requests)

    async def ask(self, text: str, id_: int = 5_000, **changes: Any) -> tuple[Answer, str]:
        """The answer, and what a language model would be given."""
        asked = question(text, id_, **changes)
        answer = await self.memory.ask(asked)
        return answer, (await self.memory.context(asked, answer)).text


def question(text: str, id_: int = 5_000, **changes: Any) -> Question:
    return replace(Question(GUILD, CHANNEL, id_, 9, "Bob", text, NOW, bot=BOT), **changes)


def post(id_: int, *files: Attachment, text: str = "", **changes: Any) -> Message:
    """A message with files, as the bot converts it."""
    notes = "\n".join([text, *(f"[image: {one.name}]" for one in files)]).strip()
    return replace(Message(GUILD, CHANNEL, id_, 5, "Ann", notes, NOW - 600 + id_, attachments=files), **changes)


def vision(settings: Settings, cdn: MediaServer, model: LlmServer, **changes: Any) -> Settings:
    base = {
        "media_hosts": (cdn.host,),
        "vision_model": MODEL,
        "llm_base_url": model.openai_url,
        "llm_api_key": SecretStr("k"),
        "llm_retries": 0,
        "llm_daily_usd": 1000.0,
        "vision_wait_s": 60.0,
    }
    return settings.model_copy(update=base | changes)


@asynccontextmanager
async def studio(
    settings: Settings, history: History | None = None, embedder: Embedder | None = None, **changes: Any
) -> AsyncIterator[Studio]:
    async with media_server() as cdn, llm_server() as model:
        ours = vision(settings, cdn, model, **changes)
        model_ = embedder or FakeEmbedder()
        async with Memory.open(ours, clock=Clock(), embedder=model_, history=history) as memory:
            yield Studio(memory, cdn, model, ours)


@asynccontextmanager
async def again(one: Studio, history: History | None = None, **changes: Any) -> AsyncIterator[Studio]:
    """Another process, or the same after a restart."""
    ours = one.settings.model_copy(update=changes)
    async with Memory.open(ours, clock=Clock(), embedder=FakeEmbedder(), history=history) as memory:
        yield Studio(memory, one.cdn, one.model, ours)


async def idle(memory: Memory) -> None:
    """Waits until what arrived so far is read, or was given up."""
    while arriving := memory.media._arriving:
        await asyncio.wait(arriving)
