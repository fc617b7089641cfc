"""What bench_scale times: everything that a bot asks of a large store, beside a PING.

The model is excluded: a topic's vector is looked up. Questions are routed beforehand; what is timed is recall: the
searches, their ranking and the choice. Each call takes another channel and another topic.
"""

from __future__ import annotations

import itertools
import random
import time
from collections.abc import Awaitable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Final

from channelmem.policy.policy import Policy
from channelmem.recalling.candidates import Asked
from channelmem.recalling.recall import Found, Recall
from channelmem.routing.route import Roster, Scene, route
from channelmem.store.redis import command
from channelmem.store.search import Query, Search
from channelmem.store.store import Store
from channelmem.types import Kind, Message, Person, Question, Route, Source, Window
from scripts.fake_embedder import FakeEmbedder
from scripts.fill import Vectors
from scripts.measure import ASKER, ASKING, SUBJECTS, Call
from scripts.scaling.world import LARGE, PER_CHANNEL, Known, channel_id, channels_of

QUESTION: Final = "archive question, a channel of 500"
QUESTION_BY: Final = "the same about one person's words"
QUESTION_WHEN: Final = "the same about one day"
QUESTION_WIDE: Final = "the same over 20 channels"
GUILD_NEAREST: Final = "nearest, the whole guild"
DAY_S: Final = 86_400.0
ALONE: Final = 999
"""The channel of messages that are stored one by one."""
ALWAYS: Final = Window()


class KnownTopics(FakeEmbedder):
    """Looks a topic's vector up."""

    def __init__(self, real: Known) -> None:
        super().__init__()
        self.dims = real.topics.shape[1]
        self._topics: dict[str, Vectors] = dict(zip(SUBJECTS, real.topics, strict=True))

    def vector(self, text: str) -> Vectors:
        return self._topics[next((topic for topic in SUBJECTS if topic in text), SUBJECTS[0])]


class Operations:
    """All calls, on one store and at one size."""

    def __init__(self, store: Store, real: Known, stored: int) -> None:
        self._store, self._search = store, Search(store.buckets)
        self._embedder = KnownTopics(real)
        self._recall = Recall(self._search, self._embedder, clock=store.buckets.clock)
        self._policy = Policy.of_settings(store.buckets.settings)
        self._channels = _shuffled(channels_of(LARGE, stored))
        self._topics = itertools.cycle(SUBJECTS)
        self._ids = itertools.count(10**12)
        self._wide = min(20, len(channels_of(LARGE, stored)))

    def ways(self) -> Mapping[str, Call]:
        return {
            "PING": self._store.buckets.redis.ping,
            "store one message": self._add,
            "buffer view": lambda: self._search.view(Query(LARGE, (self._channel(),))),
            "newest, archive": partial(self._newest, ALWAYS),
            "newest, archive, one day": partial(self._newest, self._day()),
            "nearest, archive": lambda: self._search.nearest(self._query(self._channel())),
            GUILD_NEAREST: lambda: self._search.nearest(self._query()),
            "nearest by words, the whole guild": lambda: self._search.nearest(
                replace(self._query(), vector=None, words=(next(self._topics).split()[-1],))
            ),
            QUESTION: self._ask,
            QUESTION_BY: partial(self._ask, speakers=(Person(505, "Eve"),)),
            QUESTION_WHEN: lambda: self._ask(window=self._day()),
            QUESTION_WIDE: partial(self._ask, channels=self._wide),
        }

    async def tidy(self) -> None:
        """Takes back what was stored while it was timed: a later fill expects its own messages on the stream."""
        stream = self._store.buckets.keys(0).one("ingest")
        while entries := await command(self._store.buckets.redis, "XRANGE", stream, "-", "+", "COUNT", 500):
            await self._store.commit_rows(0, [(entry.decode(), f"{LARGE}c{ALONE}:0", "", b"") for entry, _ in entries])
        await self._store.delete_channel(LARGE, ALONE)

    def _channel(self) -> int:
        return channel_id(next(self._channels))

    def _day(self) -> Window:
        end = time.time() - DAY_S
        return Window(end - DAY_S, end)

    def _query(self, *channels: int) -> Query:
        vector = self._embedder.vector(next(self._topics))
        return Query(LARGE, channels, vector=vector, source=Source.ARCHIVE)

    def _add(self) -> Awaitable[object]:
        number = next(self._ids)
        return self._store.add([Message(LARGE, ALONE, number, 77, "Zoe", "a line that is stored alone", time.time())])

    def _newest(self, window: Window) -> Awaitable[object]:
        return self._search.newest(Query(LARGE, (self._channel(),), window=window, source=Source.ARCHIVE))

    async def _ask(
        self,
        *,
        speakers: tuple[Person, ...] = (),
        window: Window = ALWAYS,
        channels: int = 1,
    ) -> Found:
        first, *others = [self._channel() for _ in range(channels)]
        text = ASKING[0].format(next(self._topics))
        question = Question(
            LARGE, first, next(self._ids), ASKER, "Zoe", text, time.time(), readable_channel_ids=tuple(others)
        )
        routed = replace(_routed(text), speakers=speakers, window=window, sources=(Source.ARCHIVE,))
        found = await self._recall(Asked.of(question, routed, self._policy))
        assert found.reports[0].count > PER_CHANNEL / 2, "the archive was not searched"
        return found


def _routed(text: str) -> Route:
    if text not in _ROUTES:
        scene = Scene(Person(ASKER, "Zoe"), Person(0, "bot"), Roster([Person(505, "Eve")]), time.time())
        _ROUTES[text] = route(text, scene, force=Kind.CHANNEL)
    return _ROUTES[text]


_ROUTES: dict[str, Route] = {}


def _shuffled(values: list[int]) -> Iterator[int]:
    order = list(values)
    random.Random(2).shuffle(order)  # noqa: S311  (an order, no secret)
    return itertools.cycle(order)
