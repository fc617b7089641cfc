"""What people and managers decide holds for every source, with Redis and without it, before and after a restart."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from conftest import Clock, FakeEmbedder, OwnServer, make_settings
from test_memory import ANN, BOB, CHANNEL, GUILD, MARK, Shelf, Talk

from channelmem import Memory, Message, Settings
from channelmem.filtered_history import UNDECIDED

VAULT = "the vault code is 4711"
ASKED = "who mentioned the vault code?"


@asynccontextmanager
async def opened(
    settings: Settings, clock: Clock, embedder: FakeEmbedder, *past: Message
) -> AsyncIterator[tuple[Talk, Shelf]]:
    """A process, started with or without Redis, on a platform that remembers everything."""
    shelf = Shelf(past)
    async with Memory.open(settings, clock=clock, embedder=embedder, history=shelf, patient=True) as memory:
        yield Talk(memory, clock), shelf


@pytest.fixture
def frail(own_server: OwnServer, tmp_path: Path) -> Settings:
    return make_settings(own_server.url, tmp_path, redis_timeout_s=0.5)


def said(clock: Clock, number: int, text: str, ago_s: float = 60, **changes: object) -> Message:
    plain = {"author_id": BOB.id, "author": BOB.name}
    return Message(GUILD, CHANNEL, number, content=text, ts=clock() - ago_s, **{**plain, **changes})  # type: ignore[arg-type]


# --- opt-outs, without Redis ---


@pytest.mark.parametrize("way", ["opt_out", "forget"])
async def test_who_opted_out_stays_hidden_after_a_restart_without_redis(
    own_server: OwnServer, frail: Settings, clock: Clock, fake_embedder: FakeEmbedder, way: str
) -> None:
    past = said(clock, 1, VAULT), said(clock, 2, "a vault code, hm", author_id=ANN.id, author=ANN.name)
    async with opened(frail, clock, fake_embedder) as (talk, _):
        await getattr(talk.memory, way)(BOB.id)
    own_server.kill()
    async with opened(frail, clock, fake_embedder, *past) as (talk, _):
        answer = await talk.ask(MARK, ASKED)
        assert {hit.message.author for hit in answer.hits} == {"Ann"}
        assert "4711" not in answer.text
        context = await talk.memory.context(talk.question(MARK, "what does that mean?", reply_to=1), answer)
        assert "4711" not in context


async def test_without_redis_and_copy_nothing_is_quoted_and_the_answer_says_why(
    own_server: OwnServer, frail: Settings, clock: Clock, fake_embedder: FakeEmbedder
) -> None:
    own_server.kill()
    async with opened(frail, clock, fake_embedder, said(clock, 1, VAULT)) as (talk, _):
        answer = await talk.ask(MARK, ASKED)
        assert not answer.found
        assert UNDECIDED in answer.text
        assert "4711" not in await talk.memory.context(talk.question(MARK, ASKED, reply_to=1), answer)


async def test_a_copy_from_before_the_restart_lets_questions_go_on_without_redis(
    own_server: OwnServer, frail: Settings, clock: Clock, fake_embedder: FakeEmbedder
) -> None:
    async with opened(frail, clock, fake_embedder) as (talk, _):
        await talk.memory.opt_out(ANN.id)
    own_server.kill()
    async with opened(frail, clock, fake_embedder, said(clock, 1, VAULT)) as (talk, _):
        assert "4711" in (await talk.ask(MARK, ASKED)).text
