"""Writes a recorded conversation through Memory as a channel would live it, and tells what a language model is given of
it after the last message.

Shared by `eval_summaries` and `bench_summaries`. The clock is replayed; embeddings play no part, so there are none.
"""

from __future__ import annotations

from collections.abc import Sequence

from channelmem.durations import HOUR_S
from channelmem.memory import Memory
from channelmem.settings import Settings
from channelmem.types import Answer, Kind, Message, Question, Route
from scripts.fake_embedder import FakeEmbedder

AFTER_S = 60.0
"""The question comes a minute after the last message."""
FOREVER_DAYS = 3_650


class Replayed:
    """A clock that shows the time of what is being replayed."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def lasting(settings: Settings) -> Settings:
    """Conversations of months, which a channel would forget: nothing expires, and ambient context has no end."""
    changes = {"archive_days": FOREVER_DAYS, "summary_days": FOREVER_DAYS, "context_max_age_hours": None}
    return settings.model_copy(update={**changes, "embed_in_process": False})


async def replayed_context(settings: Settings, sessions: Sequence[Sequence[Message]]) -> str:
    """Each session is stored as it happens and summarised an hour later; then somebody says hello."""
    clock = Replayed()
    async with Memory.open(settings, clock=clock, embedder=FakeEmbedder()) as memory:
        for messages in sessions:
            clock.now = messages[-1].ts
            await memory.remember_many(messages)
            clock.now += HOUR_S
            if messages is not sessions[-1]:
                await memory.summaries.update(messages[0].guild_id, messages[0].channel_id)
        last = sessions[-1][-1]
        clock.now = last.ts + AFTER_S
        await memory.summaries.update(last.guild_id, last.channel_id)
        return await context(memory, hello(last, clock.now))


def hello(last: Message, now: float) -> Question:
    return Question(last.guild_id, last.channel_id, last.id + 1, 9_999, "Zoe", "hello", now)


async def context(memory: Memory, question: Question) -> str:
    return (await memory.context(question, Answer("", Route(Kind.NONE)))).text
