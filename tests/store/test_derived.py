"""What was made of messages goes when they go: one rule, tested once for every kind against a simple model."""

from __future__ import annotations

import asyncio
import json
import uuid
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from clock import wall_now
from conftest import CHANNEL, GUILD, NOW, Clock, FakeEmbedder, message, open_store
from hypothesis import HealthCheck, Phase, given
from hypothesis import settings as examples
from hypothesis import strategies as st
from making import OTHER, make_other, other_text
from redis.asyncio import Redis
from stored import ARCHIVE, BUFFER, documents
from waiting import until

from channelmem.policy.policy import Policy
from channelmem.settings import Settings
from channelmem.store.derived import Committed, SummaryRow, SummaryStore
from channelmem.store.redis import connect
from channelmem.store.search import Search
from channelmem.store.store import Store
from channelmem.types import Message, Origin, Outcome

ANSWER, SUMMARY = "answer", "summary"
KINDS = [ANSWER, SUMMARY, OTHER]
ENDING = [ANSWER, OTHER]
"""Kinds that expire with their sources."""
BOT = 99
CHANNELS = (CHANNEL, CHANNEL + 1)
AUTHORS = (5, 6, 7)
FIRST_MADE = 10_000


async def make(store: Store, kind: str, number: int, origins: Sequence[Origin], text: str = "a quote") -> bool:
    """Makes something of messages; whether it was stored."""
    if kind == ANSWER:
        own = message(number, text, author_id=BOT, own=True, ts=store.buckets.clock(), derived_from=tuple(origins))
        return await store.add([own]) == [Outcome.STORED]
    policy = store.buckets.policy
    if kind == SUMMARY:
        return await summarise(store, number, origins, text)
    return await make_other(store, GUILD, CHANNEL, number, text, origins, policy)


async def summarise(store: Store, number: int, origins: Sequence[Origin], text: str) -> bool:
    """With a level above it, which is made of nothing else."""
    summaries, place, token = SummaryStore(store.buckets), (GUILD, CHANNEL), f"token {number}"
    assert await summaries.lock(*place, token)
    messages = [{"id": str(one.id), "revision": one.revision} for one in origins]
    now, document = store.buckets.clock(), json.dumps({"id": number, "text": text, "messages": messages})
    rows = [
        SummaryRow(f"1-{number}-{number}", now, document, origins=tuple(origins)),
        SummaryRow(f"2-{number}-{number}", now, document, parts=(f"1-{number}-{number}",)),
    ]
    committed = await summaries.commit(*place, token, [], rows, store.buckets.policy)
    assert await summaries.free(*place, token, None)
    return committed is Committed.DONE


async def is_summarised(store: Store, number: int) -> bool:
    wanted = [f"1-{number}-{number}", f"2-{number}-{number}"]
    found = await SummaryStore(store.buckets).some(GUILD, CHANNEL, wanted, store.buckets.policy)
    everything = await SummaryStore(store.buckets).since(GUILD, CHANNEL, None, store.buckets.policy)
    assert len(found) in {0, 2}
    assert set(found) <= set(everything)
    assert len(found) == sum(json.loads(one)["id"] == number for one in everything)
    return bool(found)


async def is_shown(store: Store, kind: str, number: int) -> bool:
    """In any source."""
    if kind == SUMMARY:
        return await is_summarised(store, number)
    if kind != ANSWER:
        return await other_text(store, GUILD, CHANNEL, number) is not None
    search, vector = Search(store.buckets), FakeEmbedder().vector("quote")
    found: list[Message] = await search.get(GUILD, CHANNEL, [number])
    for query in (replace(BUFFER, flagged=True), replace(ARCHIVE, flagged=True)):
        near = await search.nearest(replace(query, vector=vector, words=("quote",)))
        found += [*await search.newest(query), *(hit.message for hit in near.hits), *near.pending]
    return any(one.id == number for one in found)


@dataclass
class World:
    """The model: which messages stand, what was made of which, and what of that is lost."""

    store: Store
    clock: Clock
    kind: str
    messages: dict[int, Message] = field(default_factory=dict)
    made: dict[int, set[int]] = field(default_factory=dict)
    """Number of something made -> all messages it was made of, also by way of answers."""
    lost: set[int] = field(default_factory=set)
    """Numbers whose sources are no longer what they were."""
    former: list[Origin] = field(default_factory=list)
    """Messages as they were before they went or were edited."""
    out: set[int] = field(default_factory=set)
    last: int = 0

    async def step(self, name: str, at: int, other: int) -> None:
        self.clock.now += 2
        await getattr(self, name)(at, other)

    async def check(self) -> None:
        for number in self.made:
            assert await is_shown(self.store, self.kind, number) is (number not in self.lost), number

    def pick(self, at: int) -> Message | None:
        shown = [one for one in self.messages.values() if one.author_id not in self.out]
        return shown[at % len(shown)] if shown else None

    def lose(self, ids: set[int]) -> None:
        """For good: an opt-in shows messages again, but nothing that was made of them."""
        self.former += [self.messages[one].origin for one in ids]
        self.lost |= {number for number, sources in self.made.items() if sources & ids}

    def remove(self, ids: set[int]) -> None:
        self.lose(ids)
        for one in ids:
            del self.messages[one]

    # --- saying and making ---

    async def say(self, at: int, other: int) -> None:
        self.last += 1
        author = AUTHORS[at % 3]
        said = message(self.last, author_id=author, channel_id=CHANNELS[other % 2], ts=self.clock())
        stored = await self.store.add([said])
        assert stored == [Outcome.IGNORED if author in self.out else Outcome.STORED]
        if author not in self.out:
            self.messages[said.id] = said

    async def make(self, at: int, other: int) -> None:
        sources = {one.id: one.origin for one in (self.pick(at), self.pick(other)) if one}
        if sources:
            await self._make(set(sources), list(sources.values()))

    async def repeat(self, at: int, other: int) -> None:
        """Made of an earlier answer, as "what did you just say?" is."""
        earlier = [number for number in self.made if self.kind == ANSWER and number not in self.lost]
        if earlier:
            number = earlier[at % len(earlier)]
            await self._make(self.made[number], [Origin(CHANNEL, number)])

    async def _make(self, sources: set[int], origins: list[Origin]) -> None:
        number = FIRST_MADE + len(self.made)
        assert await make(self.store, self.kind, number, origins)
        self.made[number] = sources

    async def make_of_former(self, at: int, other: int) -> None:
        hidden = {one.origin for one in self.messages.values() if one.author_id in self.out}
        never = [one for one in self.former if one in hidden or one not in self._origins()]
        if never:
            assert not await make(self.store, self.kind, FIRST_MADE - 1, [never[at % len(never)]])

    def _origins(self) -> set[Origin]:
        return {one.origin for one in self.messages.values()}

    # --- losing ---

    async def delete(self, at: int, other: int) -> None:
        if one := self.pick(at):
            await self.store.delete(GUILD, one.channel_id, [one.id])
            self.remove({one.id})

    async def edit(self, at: int, other: int) -> None:
        if one := self.pick(at):
            edited = replace(one, content="other words", revision=self.clock())
            assert await self.store.edit(edited) is Outcome.STORED
            self.lose({one.id})
            self.messages[one.id] = edited

    async def empty(self, at: int, other: int) -> None:
        if one := self.pick(at):
            await self.store.edit(replace(one, content="", revision=self.clock()))
            self.remove({one.id})

    async def clear(self, at: int, other: int) -> None:
        channel = CHANNELS[at % 2]
        await (self.store.clear if other % 2 else self.store.delete_channel)(GUILD, channel)
        self.remove({one.id for one in self.messages.values() if one.channel_id == channel})
        if self.kind in {ANSWER, SUMMARY} and channel == CHANNEL:
            self.lost |= self.made.keys()  # answers are messages of that channel themselves, summaries are of it

    async def leave(self, at: int, other: int) -> None:
        await self.store.delete_guild(GUILD)
        self.remove(set(self.messages))
        self.lost |= self.made.keys()

    async def opt_out(self, at: int, other: int) -> None:
        author = AUTHORS[at % 3]
        await self.store.consent.opt_out(author, GUILD if other % 2 else None)
        self.lose(self._of(author))
        self.out.add(author)

    async def forget(self, at: int, other: int) -> None:
        author = AUTHORS[at % 3]
        await self.store.consent.forget(author, GUILD if other % 2 else None)
        self.remove(self._of(author))
        self.out.add(author)

    def _of(self, author: int) -> set[int]:
        return {one.id for one in self.messages.values() if one.author_id == author}

    async def opt_in(self, at: int, other: int) -> None:
        for guild in (None, GUILD):
            if await self.store.consent.opt_in(AUTHORS[at % 3], guild) is not None:
                await self.store.swept()  # it takes effect once everything forgotten is removed
        self.out.discard(AUTHORS[at % 3])


STEPS = [
    *["say"] * 4,
    *["make"] * 4,
    *["repeat"] * 3,
    *("make_of_former", "delete", "edit", "empty", "clear", "leave", "opt_out", "forget", "opt_in"),
]
HISTORIES = st.lists(st.tuples(st.sampled_from(STEPS), st.integers(0, 11), st.integers(0, 11)), min_size=8, max_size=25)


@pytest.fixture
def loop() -> Iterator[asyncio.AbstractEventLoop]:
    loop = asyncio.new_event_loop()
    yield loop
    loop.close()


async def live(settings: Settings, kind: str, history: list[tuple[str, int, int]]) -> None:
    assert settings.redis_url is not None
    mine = settings.model_copy(update={"key_prefix": f"{settings.key_prefix}{uuid.uuid4().hex[:6]}"})
    redis = connect(settings.redis_url.get_secret_value(), mine)
    clock = Clock()
    store = await open_store(redis, mine, clock)
    world = World(store, clock, kind)
    for step in [("say", 0, 0), ("say", 1, 1), *history]:
        await world.step(*step)
        await world.check()
    await store.swept()
    await world.check()
    await store.close()
    await redis.aclose()


@pytest.mark.parametrize("kind", KINDS)
def test_something_made_is_shown_exactly_while_all_its_sources_stand(
    settings: Settings, loop: asyncio.AbstractEventLoop, kind: str
) -> None:
    @examples(
        max_examples=25,
        deadline=None,
        suppress_health_check=list(HealthCheck),
        phases=(Phase.explicit, Phase.generate),
    )
    @given(HISTORIES)
    def lives(history: list[tuple[str, int, int]]) -> None:
        loop.run_until_complete(live(settings, kind, history))

    lives()


# --- one by one, for every kind ---


def without_archive(store: Store) -> Policy:
    default = store.buckets.policy
    return replace(default, limits=default.limits._replace(archive=False))


Loss = Callable[[Store], Awaitable[Any]]
LOSSES: dict[str, Loss] = {
    "deleted": lambda store: store.delete(GUILD, CHANNEL, [1]),
    "edited": lambda store: store.edit(message(1, "new words", revision=NOW)),
    "emptied": lambda store: store.edit(message(1, " ", revision=NOW)),
    "forgotten": lambda store: store.consent.forget(5),
    "forgotten in the guild": lambda store: store.consent.forget(5, GUILD),
    "opted out": lambda store: store.consent.opt_out(5),
    "opted out in the guild": lambda store: store.consent.opt_out(5, GUILD),
    "cleared": lambda store: store.clear(GUILD, CHANNEL),
    "channel deleted": lambda store: store.delete_channel(GUILD, CHANNEL),
    "guild left": lambda store: store.delete_guild(GUILD),
    "archive switched off": lambda store: store.channels.fit(GUILD, CHANNEL, without_archive(store)),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("lose", LOSSES.values(), ids=LOSSES)
async def test_it_goes_with_one_of_its_sources(
    store: Store, redis: Redis, settings: Settings, kind: str, lose: Loss
) -> None:
    first, second = message(1, ts=NOW - 7200), message(2, author_id=6, channel_id=CHANNEL + 1)
    await store.add([first, second])
    assert await make(store, kind, 100, [first.origin, second.origin])
    assert await is_shown(store, kind, 100)
    await lose(store)
    assert not await is_shown(store, kind, 100)
    await store.swept()
    assert not [key async for key in redis.scan_iter(f"{settings.key_prefix}:*made:*")]
    assert not [key async for key in redis.scan_iter(f"{settings.key_prefix}:*summar*:*")]
    if kind == ANSWER and await documents(redis, settings):
        assert not await redis.exists(store.buckets.keys(0).message(GUILD, CHANNEL, 100))
    assert not await make(store, kind, 101, [first.origin]), "and nothing can be made of it any more"


@pytest.mark.parametrize("kind", ENDING)
async def test_it_ends_no_later_than_the_first_of_its_sources(store: Store, redis: Redis, kind: str) -> None:
    old, new = message(1, ts=NOW - 6 * 86_400), message(2, ts=NOW)
    await store.add([old, new])
    assert await make(store, kind, 100, [new.origin, old.origin])
    keys = store.buckets.keys(0)
    made = keys.of("made", f"{kind}/{GUILD}c{CHANNEL}:{100:020d}")
    key = keys.message(GUILD, CHANNEL, 100) if kind == ANSWER else made
    assert 0 < await redis.pttl(key) <= 86_400_000


@pytest.mark.parametrize("kind", ENDING)
async def test_it_expires_with_its_source(redis: Redis, settings: Settings, kind: str) -> None:
    brief = settings.model_copy(update={"archive_days": 3 / 86_400, "max_age_minutes": 3 / 60})
    store = await open_store(redis, brief, wall_now)
    said = message(1, ts=wall_now())
    await store.add([said])
    assert await make(store, kind, 100, [said.origin])
    await until(lambda: is_gone(store, kind, 100))
    assert wall_now() > said.ts + 2.9
    await store.close()


async def is_gone(store: Store, kind: str, number: int) -> bool:
    return not await is_shown(store, kind, number)


@pytest.mark.parametrize("kind", ENDING)
async def test_a_source_that_outlives_its_channel_takes_it_along_by_any_clock(
    store: Store, clock: Clock, kind: str
) -> None:
    old = message(1, ts=NOW - 6 * 86_400)
    await store.add([old])
    assert await make(store, kind, 100, [old.origin])
    clock.now = NOW + 2 * 86_400
    await store.add([message(2, ts=clock())])
    assert not await is_shown(store, kind, 100)


# --- summaries ---


LATE_LOSSES = {name: lose for name, lose in LOSSES.items() if name != "archive switched off"}


@pytest.mark.parametrize("lose", LATE_LOSSES.values(), ids=LATE_LOSSES)
async def test_a_summary_outlives_messages_that_expire_and_still_goes_with_them(
    store: Store, clock: Clock, redis: Redis, settings: Settings, lose: Loss
) -> None:
    old, other = message(1, ts=NOW - 6 * 86_400), message(2, author_id=6, ts=NOW - 6 * 86_400)
    await store.add([old, other])
    assert await make(store, SUMMARY, 100, [old.origin, other.origin])
    clock.now = NOW + 2 * 86_400
    await store.add([message(3, author_id=7, ts=clock())])  # which takes the expired ones out of the order
    assert not await Search(store.buckets).get(GUILD, CHANNEL, [1, 2])
    await redis.unlink(store.buckets.keys(0).message(GUILD, CHANNEL, 1))
    assert await is_shown(store, SUMMARY, 100)
    await lose(store)
    assert not await is_shown(store, SUMMARY, 100)
    assert not [key async for key in redis.scan_iter(f"{settings.key_prefix}:*summar*:*")]


async def test_a_summary_goes_even_if_its_channel_holds_no_message_any_more(
    store: Store, redis: Redis, clock: Clock
) -> None:
    said = message(1, ts=NOW - 6 * 86_400)
    await store.add([said])
    assert await make(store, SUMMARY, 100, [said.origin])
    clock.now = NOW + 2 * 86_400
    keys = store.buckets.keys(0)
    await redis.unlink(keys.of("chan", f"{GUILD}c{CHANNEL}"), keys.of("people", f"{GUILD}c{CHANNEL}"))  # as they expire
    await store.add([message(number, channel_id=CHANNEL + number, ts=clock()) for number in range(2, 40)])
    assert await is_shown(store, SUMMARY, 100)
    await store.delete_guild(GUILD)
    assert not await is_shown(store, SUMMARY, 100)


async def test_an_expired_message_that_comes_again_unchanged_leaves_its_summary_alone(
    store: Store, clock: Clock
) -> None:
    said = message(1, ts=NOW - 6 * 86_400, revision=NOW - 5 * 86_400)
    await store.add([said])
    assert await make(store, SUMMARY, 100, [said.origin])
    clock.now = NOW + 2 * 86_400
    assert await store.add([said]) == [Outcome.IGNORED]
    assert await is_shown(store, SUMMARY, 100)
    assert await store.edit(replace(said, content="other words", revision=NOW)) is Outcome.IGNORED
    assert not await is_shown(store, SUMMARY, 100)


async def test_a_summary_ends_with_its_lifetime_by_any_clock(store: Store, redis: Redis, clock: Clock) -> None:
    said = message(1)
    await store.add([said])
    assert await make(store, SUMMARY, 100, [said.origin])
    keys = store.buckets.keys(0)
    for key in (f"summary:{GUILD}c{CHANNEL}:1-100-100", f"summaries:{GUILD}c{CHANNEL}", f"into:{GUILD}c{CHANNEL}"):
        assert 29 * 86_400_000 < await redis.pttl(keys.base + key) <= 30 * 86_400_000
    clock.now = NOW + 30 * 86_400 + 1
    assert not await is_shown(store, SUMMARY, 100)


async def test_nothing_is_committed_without_the_lock(store: Store) -> None:
    said, summaries = message(1), SummaryStore(store.buckets)
    await store.add([said])
    row = SummaryRow("1-1-1", NOW, "{}", origins=(said.origin,))
    assert await summaries.lock(GUILD, CHANNEL, "mine")
    assert not await summaries.lock(GUILD, CHANNEL, "another's")
    place, policy = (GUILD, CHANNEL, "another's"), store.buckets.policy
    assert await summaries.commit(*place, [], [row], policy) is Committed.LOST
    assert not await summaries.free(*place, None)
    assert await summaries.since(GUILD, CHANNEL, None, policy) == []


# --- answers ---


async def test_repeating_an_answer_does_not_launder_its_words(store: Store) -> None:
    said = message(1, "the password is swordfish")
    await store.add([said])
    assert await make(store, ANSWER, 100, [said.origin])
    for number in range(101, 104):
        assert await make(store, ANSWER, number, [Origin(CHANNEL, number - 1)])
    await store.delete(GUILD, CHANNEL, [1])
    for number in range(100, 104):
        assert not await is_shown(store, ANSWER, number)


async def test_a_later_revision_of_an_answer_keeps_its_sources(store: Store) -> None:
    first, second = message(1), message(2)
    await store.add([first, second])
    assert await make(store, ANSWER, 100, [first.origin])
    own = message(100, "longer", author_id=BOT, own=True, ts=NOW, revision=NOW + 1)
    assert await store.edit(own) is Outcome.STORED
    assert await store.edit(replace(own, revision=NOW + 2, derived_from=(second.origin,))) is Outcome.STORED
    await store.delete(GUILD, CHANNEL, [1])
    assert not await is_shown(store, ANSWER, 100)
    assert await store.edit(replace(own, revision=NOW + 3)) is Outcome.IGNORED


async def test_an_answer_that_arrives_after_its_source_was_deleted_is_not_stored(store: Store) -> None:
    said = message(1)
    await store.add([said])
    own = message(100, "a quote", author_id=BOT, own=True, ts=NOW, derived_from=(said.origin,))
    removed, stored = await asyncio.gather(store.delete(GUILD, CHANNEL, [1]), store.add([own]))
    assert (removed, stored) == (1, [Outcome.IGNORED])


async def test_answers_to_redact_are_those_of_the_last_day_that_lost_a_source(store: Store, clock: Clock) -> None:
    messages = [message(number, author_id=number) for number in range(1, 6)]
    await store.add(messages)
    for one in messages:
        assert await make(store, ANSWER, 100 + one.id, [one.origin])
    await store.delete(GUILD, CHANNEL, [1])
    await store.consent.forget(2)
    await store.consent.opt_out(3)
    await store.edit(replace(messages[3], content="new", revision=NOW))
    assert await store.derived.to_redact() == [(GUILD, CHANNEL, 101), (GUILD, CHANNEL, 102)]
    await store.derived.redacted(GUILD, CHANNEL, 101)
    assert await store.derived.to_redact() == [(GUILD, CHANNEL, 102)]
    clock.now += 86_400 + 1
    await store.delete(GUILD, CHANNEL, [5])
    assert await store.derived.to_redact() == []


async def test_many_answers_that_quote_one_person_go_at_once_and_are_unlinked_later(store: Store, redis: Redis) -> None:
    said = [message(number) for number in range(1, 13)]
    await store.add(said)
    for one in said:
        assert await make(store, ANSWER, 100 + one.id, [one.origin])
    await store.consent.opt_out(5)
    for one in said:
        assert not await is_shown(store, ANSWER, 100 + one.id)
    await store.swept()
    assert not await redis.exists(store.buckets.keys(0).message(GUILD, CHANNEL, 101))
