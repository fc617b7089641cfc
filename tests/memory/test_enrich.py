"""Enriching a stored message with what is in its attachments: found by it, quoted without it, gone with it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from conftest import CHANNEL, GUILD, NOW, Clock, FakeEmbedder, OwnServer, make_settings, message
from numpy.typing import NDArray
from redis.asyncio import Redis
from stored import ARCHIVE, BUFFER, commit, contents, documents, mentions_of
from waiting import LIMIT_S

from channelmem.embedding.embed import Embedder
from channelmem.errors import RedisUnavailableError
from channelmem.ingest.worker import Worker
from channelmem.memory import Memory
from channelmem.settings import Settings
from channelmem.store.search import Search
from channelmem.store.store import Store
from channelmem.tasks import cancel_all
from channelmem.types import Attachment, Message, Outcome, Person, Question

CAT, DOG = Attachment(2**63 + 7, name="a.png"), Attachment(8, name="b.png")
SAID = message(1, "look [image: a.png]", attachments=(CAT, DOG))
GREY = "a grey cat on a sofa"


async def enrich(store: Store, text: str = GREY, attachment: Attachment = CAT) -> bool:
    return await store.enrich(GUILD, CHANNEL, SAID.id, attachment.id, text)


async def the_message(search: Search) -> Message:
    (found,) = await search.newest(BUFFER)
    return found


async def vector_text(store: Store, redis: Redis, embedder: FakeEmbedder, *texts: str) -> list[str]:
    """Those of these texts whose vector the document carries."""
    blob: Any = await redis.hget(store.buckets.keys(0).message(GUILD, CHANNEL, SAID.id), "vec1")
    if blob is None:
        return []
    stored = np.frombuffer(blob, np.float16).astype(np.float32)
    return [text for text in texts if stored @ embedder.vector(text) > 0.99]


class HeldEmbedder(FakeEmbedder):
    """Tells which texts are in the model; their vectors leave it when the gate opens."""

    def __init__(self) -> None:
        super().__init__()
        self.gate.clear()
        self._inside: list[str] = []
        self._came = asyncio.Condition()

    async def embed_messages(self, texts: Sequence[str]) -> NDArray[np.float32]:
        async with self._came:
            self._inside += texts
            self._came.notify_all()
        return await super().embed_messages(texts)

    async def holds(self, text: str) -> None:
        async with asyncio.timeout(LIMIT_S), self._came:
            await self._came.wait_for(lambda: text in self._inside)


@pytest.fixture
async def held(store: Store) -> AsyncIterator[HeldEmbedder]:
    """The stored message's text is in the model, and its vector on its way."""
    embedder = HeldEmbedder()
    task = asyncio.create_task(Worker(store, embedder).run())
    await store.add([SAID])
    await embedder.holds(SAID.content)
    yield embedder
    await cancel_all([task])


# --- what it changes, and what not ---


async def test_an_enriched_message_reads_as_it_was_written(store: Store, search: Search) -> None:
    await store.add([SAID])
    assert await enrich(store)
    expected = replace(SAID, attachments=(replace(CAT, text=GREY), DOG))
    for query in (BUFFER, ARCHIVE):
        assert await search.newest(query) == [expected]
    assert [one async for one in store.consent.export(SAID.author_id)] == [expected]


async def test_redis_holds_the_text_that_the_message_says_is_searchable(
    store: Store, search: Search, redis: Redis
) -> None:
    said = replace(SAID, content="lóok 🐢", attachments=(replace(CAT, name=""), DOG), revision=3.25)
    await store.add([said])
    await enrich(store, "a 'grey' \"cat\" \\ / [sofa] ünd 🐢")
    await enrich(store, "second", DOG)
    text: Any = await redis.hget(store.buckets.keys(0).message(GUILD, CHANNEL, SAID.id), "text")
    assert text.decode() == (await the_message(search)).searchable
    assert text.decode().splitlines()[1:] == ["[attachment: a 'grey' \"cat\" \\ / [sofa] ünd 🐢]", "[b.png: second]"]


async def test_an_enriched_message_keeps_its_expiry_and_its_revision(store: Store, redis: Redis) -> None:
    await store.add([replace(SAID, revision=3.5)])
    key = store.buckets.keys(0).message(GUILD, CHANNEL, SAID.id)
    before = await redis.pexpiretime(key)
    assert await enrich(store)
    assert await redis.pexpiretime(key) == before
    assert await store.known(GUILD, CHANNEL, 5) == {1: 3.5}


async def test_the_same_text_again_changes_nothing(
    store: Store, redis: Redis, worker: Worker, fake_embedder: FakeEmbedder
) -> None:
    await store.add([SAID])
    assert await enrich(store)
    assert await store.flush(LIMIT_S)
    embedded = fake_embedder.embedded
    assert await enrich(store)
    assert await store.pending() == 0
    assert fake_embedder.embedded == embedded


async def test_a_later_text_replaces_the_one_before(store: Store, search: Search, worker: Worker) -> None:
    await store.add([SAID])
    await enrich(store, "a dog")
    await enrich(store)
    assert await store.flush(LIMIT_S)
    assert (await the_message(search)).attachments[0].text == GREY
    assert (await search.nearest(replace(ARCHIVE, words=("dog",)))).hits == ()


async def test_a_message_stored_again_keeps_what_is_known(store: Store, search: Search) -> None:
    await store.add([SAID])
    await enrich(store)
    assert await store.add([SAID]) == [Outcome.STORED]
    assert (await the_message(search)).attachments[0].text == GREY


async def test_a_message_may_come_with_a_description(store: Store, search: Search, worker: Worker) -> None:
    described = replace(SAID, attachments=(replace(CAT, text=GREY),))
    await store.add([described])
    assert await store.flush(LIMIT_S)
    assert await the_message(search) == described
    assert [hit.message for hit in (await search.nearest(replace(ARCHIVE, words=("sofa",)))).hits] == [described]


# --- found by it ---


async def test_an_enriched_message_is_found_by_text_and_by_vector(
    store: Store, search: Search, worker: Worker, redis: Redis, fake_embedder: FakeEmbedder
) -> None:
    await store.add([SAID])
    assert await store.flush(LIMIT_S)
    await enrich(store)
    assert await store.flush(LIMIT_S)
    by_text = await search.nearest(replace(ARCHIVE, words=("sofas",)))
    assert [hit.message.content for hit in by_text.hits] == [SAID.content]
    enriched = (await the_message(search)).searchable
    assert await vector_text(store, redis, fake_embedder, SAID.content, enriched) == [enriched]


async def test_an_embedded_message_waits_for_a_vector_of_the_new_text(
    store: Store, search: Search, fake_embedder: FakeEmbedder
) -> None:
    await store.add([SAID])
    assert await commit(store, [(SAID, fake_embedder.vector(SAID.content))]) == 1
    await enrich(store)
    enriched = await the_message(search)
    for query in (BUFFER, ARCHIVE):
        found = await search.nearest(replace(query, vector=fake_embedder.vector("cat")))
        assert found.pending == (enriched,)
    assert await commit(store, [(SAID, fake_embedder.vector(SAID.content))]) == 0
    assert await commit(store, [(enriched, fake_embedder.vector(enriched.searchable))]) == 1


@pytest.mark.parametrize("waits", [True, False])
async def test_an_answer_finds_by_the_description_and_quotes_only_what_was_written(
    settings: Settings, embedder: Embedder, clock: Clock, *, waits: bool
) -> None:
    """With its vector, and while it waits for it."""
    settings = settings.model_copy(update={"embed_in_process": not waits})
    async with Memory.open(settings, clock=clock, embedder=embedder) as memory:
        await memory.remember(message(2, "the deploy is green again", author_id=9, author="Bob"))
        await memory.remember(replace(SAID, content="this one again"))
        assert await memory.enrich(GUILD, CHANNEL, SAID.id, CAT.id, "a grey kitten\n asleep on a sofa")
        assert waits or await memory.flush(LIMIT_S)
        asked = Question(GUILD, CHANNEL, 50, 9, "Bob", "what did Ann say about the kitten?", NOW, bot=Person(99, "Bot"))
        answer = await memory.ask(asked)
        assert [hit.message.id for hit in answer.hits] == [SAID.id]
        assert answer.hits[0].message.attachments[0].text == "a grey kitten asleep on a sofa"
        assert "this one again" in answer.text
        context = (await memory.context(asked, answer)).text
        assert "sofa" not in answer.text
        assert "this one again [image: a.png: a grey kitten asleep on a sofa] [image: b.png]" in context


# --- not found, not brought back ---


async def test_nothing_is_added_to_an_unknown_message_or_attachment(store: Store) -> None:
    await store.add([SAID, message(2)])
    assert not await store.enrich(GUILD, CHANNEL, SAID.id, CAT.id + 1, GREY)
    assert not await store.enrich(GUILD, CHANNEL, 2, CAT.id, GREY)
    assert not await store.enrich(GUILD, CHANNEL, 3, CAT.id, GREY)
    assert not await store.enrich(GUILD, CHANNEL + 1, SAID.id, CAT.id, GREY)
    assert not await store.enrich(GUILD + 1, CHANNEL, SAID.id, CAT.id, GREY)


Removal = Callable[[Store], Awaitable[object]]
REMOVALS: dict[str, Removal] = {
    "deleted": lambda store: store.delete(GUILD, CHANNEL, [SAID.id]),
    "emptied": lambda store: store.edit(replace(SAID, content="", revision=9.0)),
    "cleared": lambda store: store.clear(GUILD, CHANNEL),
    "channel deleted": lambda store: store.delete_channel(GUILD, CHANNEL),
    "guild left": lambda store: store.delete_guild(GUILD),
    "forgotten": lambda store: store.consent.forget(SAID.author_id),
    "forgotten here": lambda store: store.consent.forget(SAID.author_id, GUILD),
}


@pytest.mark.parametrize("how", REMOVALS)
async def test_a_removed_message_is_not_brought_back(store: Store, search: Search, how: str) -> None:
    await store.add([SAID])
    await REMOVALS[how](store)
    assert not await enrich(store)
    assert await contents(search) == []
    await store.swept()
    assert not await enrich(store)


@pytest.mark.parametrize("how", REMOVALS)
async def test_a_removal_takes_the_description_along(
    store: Store, search: Search, worker: Worker, redis: Redis, settings: Settings, how: str
) -> None:
    await store.add([SAID])
    await enrich(store)
    assert await store.flush(LIMIT_S)
    assert len(await mentions_of(redis, settings, "sofa")) == 1
    await REMOVALS[how](store)
    assert (await search.nearest(replace(ARCHIVE, words=("sofa",)))).hits == ()
    await store.swept()
    assert await mentions_of(redis, settings, "sofa") == []
    assert await documents(redis, settings) == 0


async def test_an_opt_out_hides_and_refuses_descriptions(store: Store, search: Search) -> None:
    await store.add([SAID])
    await enrich(store)
    await store.consent.opt_out(SAID.author_id)
    assert (await search.nearest(replace(ARCHIVE, words=("sofa",)))).hits == ()
    assert not await enrich(store, "a dog")
    await store.consent.opt_in(SAID.author_id)
    assert (await the_message(search)).attachments[0].text == GREY


async def test_a_paused_channel_learns_nothing_until_it_is_resumed(store: Store) -> None:
    await store.add([SAID])
    await store.channels.pause(GUILD, CHANNEL)
    assert not await enrich(store)
    await store.channels.resume(GUILD, CHANNEL)
    assert await enrich(store)


async def test_a_message_past_its_lifetime_is_not_enriched(store: Store, clock: Clock, settings: Settings) -> None:
    await store.add([SAID])
    clock.now = SAID.ts + settings.archive_days * 86_400 + 1
    assert not await enrich(store)


# --- edits ---


async def test_an_edit_replaces_the_content_and_keeps_what_is_known_of_attachments_that_remain(
    store: Store, search: Search, worker: Worker, redis: Redis, fake_embedder: FakeEmbedder
) -> None:
    await store.add([SAID])
    await enrich(store)
    await enrich(store, "a brown dog", DOG)
    assert await store.edit(replace(SAID, content="never mind", attachments=(CAT,), revision=5.0)) is Outcome.STORED
    assert await store.flush(LIMIT_S)
    edited = await the_message(search)
    assert (edited.content, edited.revision) == ("never mind", 5.0)
    assert edited.attachments == (replace(CAT, text=GREY),)
    assert await vector_text(store, redis, fake_embedder, edited.searchable) == [edited.searchable]
    assert not await enrich(store, "a brown dog", DOG)
    assert (await search.nearest(replace(ARCHIVE, words=("brown",)))).hits == ()


async def test_an_edit_that_removes_all_attachments_removes_what_was_known(
    store: Store, redis: Redis, settings: Settings
) -> None:
    await store.add([SAID])
    await enrich(store)
    await store.edit(replace(SAID, attachments=(), revision=5.0))
    assert await mentions_of(redis, settings, "sofa") == []


async def test_an_older_edit_still_changes_nothing_after_a_description(store: Store, search: Search) -> None:
    await store.add([replace(SAID, revision=5.0)])
    await enrich(store)
    await store.edit(replace(SAID, content="older", revision=4.0))
    assert await contents(search) == [SAID.content]


async def test_a_cleared_message_that_comes_again_has_lost_its_description(
    store: Store, search: Search, clock: Clock
) -> None:
    """Its document may still wait to be unlinked: what that knew must not pass to the new one."""
    await store.add([SAID])
    await enrich(store)
    await store.clear(GUILD, CHANNEL)
    again = replace(SAID, ts=NOW + 1, revision=9.0)
    clock.now = NOW + 2
    assert await store.add([again]) == [Outcome.STORED]
    assert await the_message(search) == again


# --- while a vector is on its way ---


async def test_a_vector_of_the_text_before_the_description_is_not_committed(
    store: Store, search: Search, redis: Redis, held: HeldEmbedder
) -> None:
    assert await enrich(store)
    held.gate.set()
    assert await store.flush(LIMIT_S)
    enriched = (await the_message(search)).searchable
    assert await vector_text(store, redis, held, SAID.content, enriched) == [enriched]


async def test_a_vector_of_one_description_is_not_committed_for_the_next(
    store: Store, search: Search, redis: Redis, held: HeldEmbedder
) -> None:
    await enrich(store, "a dog in the garden")
    old = (await the_message(search)).searchable
    await held.holds(old)
    await enrich(store)
    held.gate.set()
    assert await store.flush(LIMIT_S)
    new = (await the_message(search)).searchable
    assert await vector_text(store, redis, held, old, new) == [new]


async def test_an_edit_wins_over_a_description_whose_vector_is_on_its_way(
    store: Store, search: Search, redis: Redis, held: HeldEmbedder
) -> None:
    await enrich(store)
    await held.holds((await the_message(search)).searchable)
    edit = replace(SAID, content="never mind", attachments=(), revision=5.0)
    await store.edit(edit)
    held.gate.set()
    assert await store.flush(LIMIT_S)
    assert await the_message(search) == edit
    assert await vector_text(store, redis, held, "never mind") == ["never mind"]


async def test_a_delete_wins_over_a_description_whose_vector_is_on_its_way(
    store: Store, search: Search, redis: Redis, settings: Settings, held: HeldEmbedder
) -> None:
    await enrich(store)
    await held.holds((await the_message(search)).searchable)
    await store.delete(GUILD, CHANNEL, [SAID.id])
    held.gate.set()
    assert await store.flush(LIMIT_S)
    assert await contents(search) == []
    assert await documents(redis, settings) == 0


async def test_edits_deletes_and_descriptions_at_the_same_time_leave_one_truth(
    store: Store, search: Search, worker: Worker, redis: Redis, settings: Settings, fake_embedder: FakeEmbedder
) -> None:
    await store.add([SAID])
    edits = [store.edit(replace(SAID, content=f"edit {n}", revision=float(n))) for n in range(1, 9)]
    await asyncio.gather(*edits, *[enrich(store, f"picture {n}") for n in range(8)])
    assert await store.flush(LIMIT_S)
    left = await the_message(search)
    assert (left.content, left.revision) == ("edit 8", 8.0)
    assert left.attachments[0].text.startswith("picture ")
    assert await vector_text(store, redis, fake_embedder, left.searchable) == [left.searchable]
    await asyncio.gather(store.delete(GUILD, CHANNEL, [SAID.id]), *[enrich(store, f"late {n}") for n in range(8)])
    assert await store.flush(LIMIT_S)
    assert await documents(redis, settings) == 0


# --- through Memory ---


@pytest.fixture
async def memory(settings: Settings, fake_embedder: FakeEmbedder, clock: Clock) -> AsyncIterator[Memory]:
    async with Memory.open(settings, clock=clock, embedder=fake_embedder) as opened:
        yield opened


async def test_a_description_is_one_clean_line_of_bounded_length(memory: Memory) -> None:
    await memory.remember(SAID)
    assert await memory.enrich(GUILD, CHANNEL, SAID.id, CAT.id, "a\x00 grey\n\x1f\x07 cat " + "x" * 5_000)
    (stored,) = [one async for one in memory.export(SAID.author_id)]
    assert stored.attachments[0].text.startswith("a grey cat xxx")
    assert len(stored.attachments[0].text) == 2_000


@pytest.mark.parametrize("text", ["", " \n", "\x00"])
async def test_an_empty_description_adds_nothing(memory: Memory, text: str) -> None:
    await memory.remember(SAID)
    assert not await memory.enrich(GUILD, CHANNEL, SAID.id, CAT.id, text)


async def test_without_redis_a_description_is_refused_with_the_reason(
    own_server: OwnServer, fake_embedder: FakeEmbedder, clock: Clock, tmp_path_factory: pytest.TempPathFactory
) -> None:
    settings = make_settings(own_server.url, tmp_path_factory.mktemp("data"), redis_timeout_s=0.3)
    async with Memory.open(settings, clock=clock, embedder=fake_embedder) as memory:
        await memory.remember(SAID)
        own_server.kill()
        with pytest.raises(RedisUnavailableError):
            await memory.enrich(GUILD, CHANNEL, SAID.id, CAT.id, GREY)
        own_server.start()


async def test_a_full_redis_refuses_a_description_before_anything_has_changed(
    own_server: OwnServer, fake_embedder: FakeEmbedder, clock: Clock, tmp_path_factory: pytest.TempPathFactory
) -> None:
    settings = make_settings(own_server.url, tmp_path_factory.mktemp("data"))
    async with (
        Memory.open(settings, clock=clock, embedder=fake_embedder) as memory,
        Redis.from_url(own_server.url) as redis,
    ):
        await memory.remember(SAID)
        assert await memory.flush(LIMIT_S)
        await redis.config_set("maxmemory", 1)
        with pytest.raises(RedisUnavailableError):
            await memory.enrich(GUILD, CHANNEL, SAID.id, CAT.id, GREY)
        await redis.config_set("maxmemory", 0)
        assert await memory.pending() == 0
        assert [one async for one in memory.export(SAID.author_id)] == [SAID]
        assert await memory.enrich(GUILD, CHANNEL, SAID.id, CAT.id, GREY)
