"""Random histories on real Redis against a simple model of what must be visible.

Rules: add, edit, describe an attachment, delete, bulk delete, clear, delete the channel, leave the guild, let time
pass, embed late, a worker that dies between store and embed, a restart of the process. After each step every way of
asking must agree with the model.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterator
from dataclasses import dataclass, replace
from itertools import count
from typing import Any, ClassVar, TypeVar

import pytest
from conftest import CHANNEL, GUILD, NOW, Clock, FakeEmbedder, message, open_store
from hypothesis import HealthCheck, Phase
from hypothesis import settings as examples
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from stored import commit
from waiting import LIMIT_S

from channelmem.ingest.worker import Worker
from channelmem.settings import Settings
from channelmem.store.keys import GROUP, room
from channelmem.store.redis import connect
from channelmem.store.search import Query, Search
from channelmem.store.store import Store
from channelmem.tasks import cancel_all
from channelmem.types import Attachment, Message, Outcome, Source

T = TypeVar("T")
CAP = 6
BUFFER_S = 12_000.0
ARCHIVE_S = 48_000.0
NUMBERS = st.integers(1, 14)
WORDS = st.sampled_from(["turtles", "cats", "bicycles", "rain", "tea"])


@dataclass
class Model:
    """What must be visible, in the simplest way that can be right."""

    archive: bool
    now: float = NOW
    floor: float = -1.0

    def __post_init__(self) -> None:
        self.messages: dict[int, Message] = {}
        self.gone: dict[int, float] = {}

    def add(self, one: Message) -> Outcome:
        life = ARCHIVE_S if self.archive else BUFFER_S
        known = self.messages.get(one.id)
        if one.ts < self.now - life or one.ts <= self.floor or self.gone.get(one.id, -1.0) >= one.revision:
            return Outcome.IGNORED
        if known is not None and known.revision >= one.revision:
            return Outcome.STORED
        texts = {file.id: file.text for file in known.attachments} if known else {}
        kept = tuple(replace(file, text=texts.get(file.id, "")) for file in one.attachments)
        self.messages[one.id] = replace(one, attachments=kept)
        self.age()
        return Outcome.STORED if one.id in self.messages else Outcome.IGNORED

    def enrich(self, number: int, text: str) -> bool:
        known = self.messages.get(number)
        if known is None or not known.attachments:
            return False
        self.messages[number] = replace(known, attachments=(replace(known.attachments[0], text=text),))
        return True

    def empty(self, one: Message) -> None:
        known = self.messages.get(one.id)
        if (known is None or known.revision < one.revision) and self.gone.get(one.id, -1.0) < one.revision:
            self.gone[one.id] = one.revision
            self.messages.pop(one.id, None)

    def delete(self, ids: list[int]) -> None:
        for one in ids:
            self.gone[one] = float("inf")
            self.messages.pop(one, None)

    def clear(self) -> None:
        self.floor = self.now
        self.messages.clear()

    def age(self) -> None:
        """What is too old, or too much with the archive off, is gone for good."""
        life = ARCHIVE_S if self.archive else BUFFER_S
        live = {one.id: one for one in self.messages.values() if one.ts >= self.now - life}
        newest = self._newest(list(live.values()))
        self.messages = live if self.archive else {one.id: one for one in newest[:CAP]}

    def view(self, source: Source) -> list[Message]:
        newest = self._newest(list(self.messages.values()))
        if source is Source.ARCHIVE and self.archive:
            return [one for one in newest if one.ts >= self.now - ARCHIVE_S]
        return [one for one in newest[:CAP] if one.ts >= self.now - BUFFER_S]

    @staticmethod
    def _newest(messages: list[Message]) -> list[Message]:
        return sorted(messages, key=lambda one: (one.ts, one.id), reverse=True)


class Histories(RuleBasedStateMachine):
    """One instance is one history, with a key prefix of its own."""

    base: ClassVar[Settings]
    loop: ClassVar[asyncio.AbstractEventLoop]
    numbers: ClassVar[Iterator[int]] = count()

    def __init__(self) -> None:
        super().__init__()
        self.clock = Clock()
        self.embedder = FakeEmbedder()
        self.store: Store

    @initialize(archive=st.booleans())
    def begin(self, *, archive: bool) -> None:
        changes = {"key_prefix": f"{self.base.key_prefix}.{next(self.numbers)}", "archive": archive}
        self.settings = self.base.model_copy(update=changes)
        self.model = Model(archive)
        self.redis = connect(_url(self.base), self.settings)
        self.run(self.open())

    def run(self, work: Awaitable[T]) -> T:
        return self.loop.run_until_complete(asyncio.wait_for(work, LIMIT_S))

    async def open(self) -> None:
        self.store = await open_store(self.redis, self.settings, self.clock)
        self.search = Search(self.store.buckets)

    def teardown(self) -> None:
        self.run(self.store.close(0.1))
        self.run(self.redis.aclose())

    def sent(self, number: int, text: str, revision: int) -> Message:
        # The time of a message follows from its id, as with snowflakes; two ids share a moment. Whatever is visible has
        # at least 100 seconds left, more than a history takes: Redis expires documents in real time.
        ts = NOW - 7_900 + number // 2 * 1_200.0
        picture = () if revision == 2 else (Attachment(number * 10, name="pic"),)  # the second edit removes it
        return message(number, text, ts=ts, revision=float(revision), attachments=picture)

    @rule(number=NUMBERS, text=WORDS)
    def add(self, number: int, text: str) -> None:
        one = self.sent(number, text, 0)
        assert self.run(self.store.add([one])) == [self.model.add(one)]

    @rule(numbers=st.lists(NUMBERS, min_size=2, max_size=12), text=WORDS)
    def add_many(self, numbers: list[int], text: str) -> None:
        many = [self.sent(number, text, 0) for number in numbers]
        assert self.run(self.store.add(many)) == [self.model.add(one) for one in many]

    @rule(number=NUMBERS, text=WORDS, revision=st.integers(1, 3))
    def edit(self, number: int, text: str, revision: int) -> None:
        one = self.sent(number, text, revision)
        assert self.run(self.store.edit(one)) == self.model.add(one)

    @rule(number=NUMBERS, text=WORDS)
    def describe(self, number: int, text: str) -> None:
        done = self.run(self.store.enrich(GUILD, CHANNEL, number, number * 10, text))
        assert done == self.model.enrich(number, text)

    @precondition(lambda self: self.model.messages)
    @rule(data=st.data(), text=WORDS, revision=st.integers(1, 3))
    def edit_what_is_described(self, data: st.DataObject, text: str, revision: int) -> None:
        number = data.draw(st.sampled_from(sorted(self.model.messages)))
        self.describe(number, "turtles")
        self.edit(number, text, revision)

    @rule(number=NUMBERS, revision=st.integers(1, 3))
    def edit_to_nothing(self, number: int, revision: int) -> None:
        one = self.sent(number, " ", revision)
        self.run(self.store.edit(one))
        self.model.empty(one)

    @rule(number=NUMBERS)
    def delete(self, number: int) -> None:
        self.run(self.store.delete(GUILD, CHANNEL, [number]))
        self.model.delete([number])

    @rule(numbers=st.sets(NUMBERS, min_size=9))
    def bulk_delete(self, numbers: set[int]) -> None:
        self.run(self.store.delete(GUILD, CHANNEL, sorted(numbers)))
        self.model.delete(sorted(numbers))

    @rule()
    def clear(self) -> None:
        self.run(self.store.clear(GUILD, CHANNEL))
        self.model.clear()

    @rule()
    def the_channel_is_deleted(self) -> None:
        self.run(self.store.delete_channel(GUILD, CHANNEL))
        self.model.clear()

    @rule()
    def the_guild_is_left(self) -> None:
        self.run(self.store.delete_guild(GUILD))
        self.model.clear()

    @rule(seconds=st.sampled_from([600.0, 4_000.0, 14_000.0]))
    def time_passes(self, seconds: float) -> None:
        self.clock.now += seconds
        self.model.now += seconds
        self.model.age()

    @precondition(lambda self: self.model.messages)
    @rule(data=st.data(), late=st.booleans())
    def embed_late(self, data: st.DataObject, *, late: bool) -> None:
        """A vector that was computed for a message as it is, or (late) for an older revision of it."""
        one = data.draw(st.sampled_from(sorted(self.model.messages.values(), key=lambda one: one.id)))
        if late:
            one = replace(one, content="something else", revision=one.revision + 0.5)
        self.run(commit(self.store, [(one, self.embedder.vector(one.searchable))]))

    @rule()
    def a_worker_embeds_everything(self) -> None:
        self.run(self.embed_all())
        found = self.run(self.search.nearest(self.query(Source.BUFFER)))
        assert found.pending == ()

    async def embed_all(self) -> None:
        task = asyncio.create_task(Worker(self.store, self.embedder, claim_idle_s=0.001).run())
        assert await self.store.flush(LIMIT_S)
        await cancel_all([task])

    @rule(count=st.integers(1, 5))
    def a_worker_dies_between_store_and_embed(self, count: int) -> None:
        stream: dict[Any, Any] = {self.store.buckets.keys(0).one("ingest"): ">"}
        self.run(self.redis.xreadgroup(GROUP, "dead", stream, count=count))

    @rule()
    def the_process_restarts(self) -> None:
        self.run(self.store.close(1))
        self.run(self.open())

    @rule()
    def leftovers_are_unlinked(self) -> None:
        self.run(self.store.swept())
        self.run(self.nothing_is_left_over())

    async def nothing_is_left_over(self) -> None:
        keys, place = self.store.buckets.keys(0), room(GUILD, CHANNEL)
        order: list[Any] = await self.redis.zrange(keys.of("chan", place), 0, -1)
        stored = {key async for key in self.redis.scan_iter(f"{keys.one('msg')}*")}
        assert stored == {keys.message(GUILD, CHANNEL, int(one)).encode() for one in order}
        if not await self.redis.exists(keys.of("chan", place), keys.of("people", place)):
            assert await self.redis.hlen(keys.one("epochs")) == await self.redis.scard(keys.of("guild", GUILD)) == 0

    def query(self, source: Source) -> Query:
        vector = self.embedder.vector("turtles")
        return Query(GUILD, (CHANNEL,), limit=100, source=source, vector=vector, words=("turtles",))

    @invariant()
    def every_way_of_asking_agrees_with_the_model(self) -> None:
        for source in (Source.BUFFER, Source.ARCHIVE):
            expected = self.model.view(source)
            query = self.query(source)
            assert self.run(self.search.newest(query)) == expected
            by_author = replace(query, author_ids=(5,), channel_ids=())
            assert self.run(self.search.newest(by_author)) == expected
            self.nearest_agrees(query, expected)
        known = self.run(self.search.get(GUILD, CHANNEL, range(1, 15)))
        assert known == self.model.view(Source.ARCHIVE)[::-1]
        assert self.run(self.store.channels.status(GUILD, CHANNEL)).messages == len(self.model.view(Source.ARCHIVE))

    def nearest_agrees(self, query: Query, expected: list[Message]) -> None:
        found = self.run(self.search.nearest(query))
        pending = {one.id for one in found.pending}
        known = {one.id: one for one in expected}
        assert pending <= known.keys()
        assert found.total == len(expected)
        for hit in found.hits:
            assert hit.message == known[hit.message.id]
            if hit.similarity is not None:
                assert hit.message.id not in pending
                wanted = float(self.embedder.vector(hit.message.searchable) @ self.embedder.vector("turtles"))
                assert abs(hit.similarity - wanted) < 0.01
        with_vector = {hit.message.id for hit in found.hits if hit.similarity is not None}
        assert with_vector | pending == known.keys()
        if query.source is Source.ARCHIVE:
            by_text = {hit.message.id for hit in found.hits if hit.text_score is not None}
            assert by_text == {one.id for one in expected if "turtles" in one.searchable}


def _url(settings: Settings) -> str:
    assert settings.redis_url is not None
    return settings.redis_url.get_secret_value()


@pytest.fixture
def loop() -> Iterator[asyncio.AbstractEventLoop]:
    loop = asyncio.new_event_loop()
    yield loop
    loop.close()


def test_every_history_shows_exactly_what_the_model_says(settings: Settings, loop: asyncio.AbstractEventLoop) -> None:
    Histories.base = settings.model_copy(
        update={"max_messages": CAP, "max_age_minutes": BUFFER_S / 60, "archive_days": ARCHIVE_S / 86_400}
    )
    Histories.loop = loop
    # Not shrunk: on a server that takes longer than the test may, and 25 steps can be read.
    run_state_machine_as_test(
        Histories,
        settings=examples(
            max_examples=25,
            stateful_step_count=25,
            deadline=None,
            suppress_health_check=list(HealthCheck),
            phases=(Phase.explicit, Phase.generate),
        ),
    )
