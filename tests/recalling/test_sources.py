"""Where candidates come from: what the buffer, the archive and the platform's history each give, and report."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from conftest import CHANNEL, GUILD, NOW, FakeEmbedder, message

from channelmem.ingest.worker import Worker
from channelmem.policy.policy import Policy
from channelmem.recalling.candidates import Archive, Asked, Buffer, Cosines, PlatformHistory, Topic
from channelmem.recalling.choosing import wanted
from channelmem.settings import Settings
from channelmem.store.search import Search
from channelmem.store.store import Store
from channelmem.types import History, Kind, Message, Past, Person, Question, Route, Source, SourceReport, Window

ANN = Person(5, "Ann")
DAY_S = 86_400


def asked(settings: Settings, **route: Any) -> Asked:
    question = Question(GUILD, CHANNEL, 9_000, 77, "Zoe", "what about turtles?", NOW)
    routed = replace(Route(Kind.CHANNEL, topic="turtles"), **route)
    return Asked.of(question, routed, Policy.of_settings(settings))


@pytest.fixture
def cosines(fake_embedder: FakeEmbedder) -> Cosines:
    return Cosines(fake_embedder, 5.0)


@pytest.fixture
async def topic(fake_embedder: FakeEmbedder) -> Topic:
    return fake_embedder.begin_question("turtles")


class Platform(History):
    def __init__(self, *messages: Message) -> None:
        self.messages, self.asked = messages, (0, 0.0)

    async def fetch(self, question: Question, limit: int, max_age_s: float) -> Past:
        self.asked = (limit, max_age_s)
        return Past(self.messages)

    async def fetch_message(self, channel_id: int, message_id: int) -> Message | None:
        return None

    def jump_url(self, guild_id: int, channel_id: int, message_id: int) -> str:
        return ""


async def test_the_buffer_comes_whole_before_the_model_is_done(
    store: Store, worker: Worker, search: Search, cosines: Cosines, settings: Settings
) -> None:
    await store.add([message(1, "turtles are slow"), message(2, "lunch anyone", author_id=6)])
    assert await store.flush()
    never: Topic = asyncio.get_running_loop().create_future()
    gathered = await Buffer(search, cosines).about(asked(settings, speakers=(ANN,)), never)
    assert [one.id for one in gathered.pool.messages] == [1, 2]
    assert gathered.view is not None
    assert gathered.report == SourceReport(Source.BUFFER, 2, message(1).ts)


async def test_what_still_waits_for_its_vector_is_compared_all_the_same(
    store: Store, search: Search, cosines: Cosines, settings: Settings, topic: Topic
) -> None:
    await store.add([message(1, "turtles are slow"), message(2, "lunch anyone")])
    gathered = await Buffer(search, cosines).about(asked(settings), topic)
    near, far = await cosines.gathered(gathered, topic)
    assert near > far


async def test_the_archive_brings_neighbours_of_what_it_finds(
    store: Store, worker: Worker, search: Search, cosines: Cosines, settings: Settings, topic: Topic
) -> None:
    day = NOW - DAY_S
    talk = [message(n, f"small talk {n}", ts=day + n * 30) for n in range(1, 40)]
    talk[19] = message(20, "turtles are slow", ts=day + 600)
    await store.add(talk)
    assert await store.flush()
    gathered = await Archive(search, cosines).about(asked(settings), topic)
    assert {16, 17, 18, 19, 20, 21, 22, 23, 24} <= {one.id for one in gathered.pool.messages}
    assert gathered.report.count == 39
    assert not np.isnan(gathered.pool.cosines).any()


async def test_the_history_is_fetched_within_the_policy_and_reported(cosines: Cosines, settings: Settings) -> None:
    platform = Platform(message(50, "turtles are slow"), message(51, "bot, turtles?", addressed=True))
    looked = replace(asked(settings), policy=replace(Policy.of_settings(settings), history_limit=7))
    newest, report = await PlatformHistory(platform, cosines).newest(looked, 10)
    assert [one.id for one in newest] == [50]
    assert platform.asked == (7, settings.history_max_age_minutes * 60)
    assert report == SourceReport(Source.HISTORY, 2, message(50).ts)


async def test_newest_keeps_to_speaker_and_window(
    store: Store, search: Search, cosines: Cosines, settings: Settings
) -> None:
    await store.add([message(n, f"line {n}", author_id=5 + n % 2, ts=NOW - 100 + n) for n in range(1, 9)])
    looked = asked(settings, speakers=(ANN,), window=Window(NOW - 97, NOW))
    for source in (Buffer(search, cosines), Archive(search, cosines)):
        newest, _ = await source.newest(looked, 10)
        assert [one.id for one in newest] == [8, 6, 4]
    platform = Platform(*[message(n, f"line {n}", author_id=5 + n % 2, ts=NOW - 100 + n) for n in range(1, 9)])
    newest, _ = await PlatformHistory(platform, cosines).newest(looked, 2)
    assert [one.id for one in newest] == [8, 6]


def test_speaker_and_window_bind_only_where_words_are_wanted(settings: Settings) -> None:
    messages = [
        message(1, author_id=5, ts=NOW - 10),
        message(2, author_id=6, ts=NOW - 5),
        message(3, own=True, ts=NOW - 3),
    ]
    by_ann = asked(settings, speakers=(ANN,), window=Window(NOW - 20, NOW))
    assert wanted(messages, by_ann) == [True, False, False]
    assert wanted(messages, replace(by_ann, route=replace(by_ann.route, binds=False))) == [True, True, False]
    assert wanted(messages, replace(by_ann, route=replace(by_ann.route, to_bot=True, speakers=()))) == [True] * 3
