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


def line(number: int, text: str, **more: object) -> Message:
    return message(number, text, author_id=5 + number % 3, author=f"person{number % 3}", **more)


async def test_pages_that_are_fetched_afterwards_are_linked_among_themselves(store: Store, search: Search) -> None:
    talk = [line(number, f"person{(number + 1) % 3}: and what about part {number % 7}?") for number in range(1, 301)]
    channels = Channels(store, search, None)
    linked: dict[int, Message] = {}
    for first in (200, 100, 0):  # as a back-fill does: newest page first, each oldest first, in batches
        for at in range(first, first + 100, 32):
            batch = talk[at : min(at + 32, first + 100)]
            linked |= {one.id: one for one in await channels.link(batch)}
    without = [number for number, one in linked.items() if not one.parents]
    assert without == [201, 101, 1]
    whole = await Channels(store, search, None).link(talk)
    same = [one for one in whole if one.parents[:1] and linked[one.id].parents[:1]]
    agreed = sum(one.parents[0][0] == linked[one.id].parents[0][0] for one in same)
    assert agreed / len(same) > 0.9


async def test_what_is_dropped_leaves_the_older_pages_too(store: Store, search: Search) -> None:
    channels = Channels(store, search, None)
    await channels.link([line(number, "newer talk") for number in range(100, 200)])
    await channels.link([line(number, f"older talk {number}") for number in range(1, 30)])
    channels.drop(GUILD, CHANNEL, [29])
    channels.drop_author(5)
    (late,) = await channels.link([line(31, "older talk, indeed")])
    assert {parent % 3 for parent, _ in late.parents} <= {1, 2}
    assert 29 not in dict(late.parents)


async def test_guilds_with_the_same_channel_id_do_not_meet(store: Store, search: Search) -> None:
    channels = Channels(store, search, None)
    await channels.link([line(1, "person2: does the printer work?", guild_id=GUILD)])
    (other,) = await channels.link([line(2, "person1: yes, the printer works", guild_id=GUILD + 1)])
    assert other.parents == ()
    channels.drop_guild(GUILD + 1)
    (here,) = await channels.link([line(2, "person1: yes, the printer works", guild_id=GUILD)])
    assert [parent for parent, _ in here.parents] == [1]
