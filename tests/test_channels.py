"""What the process keeps of its channels: bounded, and never a reason to change the order of events."""

import asyncio

from conftest import CHANNEL, GUILD, FakeEmbedder, message

from channelmem.channels import Channels, Recent
from channelmem.store.search import Search
from channelmem.store.store import Store
from channelmem.types import Message, Question


def test_a_recent_keeps_what_was_used_last() -> None:
    kept: Recent[str, int] = Recent(2)
    kept.put("a", 1)
    kept.put("b", 2)
    assert kept.use("a") == 1
    kept.put("c", 3)
    assert list(kept) == ["a", "c"]
    assert kept.use("b") is None


async def test_nobody_overtakes_those_who_wait_for_a_channel_to_be_loaded(store: Store, search: Search) -> None:
    channels = Channels(store, search, None)
    order: list[int] = []

    async def link(one: Message) -> None:
        order.extend(linked.id for linked in await channels.link([one]))

    first = [asyncio.create_task(link(message(number))) for number in range(1, 4)]
    # Until the moment in which the first one got through and the others are only woken; an event comes too late.
    while not order:  # noqa: ASYNC110
        await asyncio.sleep(0)
    await link(message(4))
    await asyncio.gather(*first)
    assert order == [1, 2, 3, 4]


async def test_people_are_known_by_what_was_stored_before(
    store: Store, search: Search, fake_embedder: FakeEmbedder
) -> None:
    await store.add([message(1, author_id=5, author="Ann"), message(2, author_id=6, author="Bob")])
    channels = Channels(store, search, None)
    question = Question(GUILD, CHANNEL, 9, 5, "Ann", "who?", store.buckets.clock())
    scene = await channels.scene(question)
    assert {person.name for person in scene.roster.people} == {"Ann", "Bob"}
    assert scene.last_spoke_ts == message(1).ts
    assert not channels.is_unknown(question)
