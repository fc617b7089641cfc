"""The linkers of the channels that a process hears: loaded once, bounded, in the order of events."""

import asyncio

from conftest import CHANNEL, GUILD, message

from channelmem.linking.linker import ChannelLinkers
from channelmem.types import Message


async def nothing(_guild_id: int, _channel_id: int) -> list[Message]:
    await asyncio.sleep(0)  # as if Redis were asked
    return []


async def test_nobody_overtakes_those_who_wait_for_a_channel_to_be_loaded() -> None:
    linkers = ChannelLinkers(nothing)
    order: list[int] = []

    async def link(one: Message) -> None:
        order.extend(linked.id for linked in await linkers.link([one]))

    first = [asyncio.create_task(link(message(number))) for number in range(1, 4)]
    # Until the moment in which the first one got through and the others are only woken; an event comes too late.
    while not order:  # noqa: ASYNC110
        await asyncio.sleep(0)
    await link(message(4))
    await asyncio.gather(*first)
    assert order == [1, 2, 3, 4]


def line(number: int, text: str, **more: object) -> Message:
    return message(number, text, author_id=5 + number % 3, author=f"person{number % 3}", **more)


async def test_pages_that_are_fetched_afterwards_are_linked_among_themselves() -> None:
    talk = [line(number, f"person{(number + 1) % 3}: and what about part {number % 7}?") for number in range(1, 301)]
    linkers = ChannelLinkers(nothing)
    linked: dict[int, Message] = {}
    for first in (200, 100, 0):  # as a back-fill does: newest page first, each oldest first, in batches
        for at in range(first, first + 100, 32):
            batch = talk[at : min(at + 32, first + 100)]
            linked |= {one.id: one for one in await linkers.link(batch)}
    without = [number for number, one in linked.items() if not one.parents]
    assert without == [201, 101, 1]
    whole = await ChannelLinkers(nothing).link(talk)
    same = [one for one in whole if one.parents[:1] and linked[one.id].parents[:1]]
    agreed = sum(one.parents[0][0] == linked[one.id].parents[0][0] for one in same)
    assert agreed / len(same) > 0.9


async def test_what_is_dropped_leaves_the_older_pages_too() -> None:
    linkers = ChannelLinkers(nothing)
    await linkers.link([line(number, "newer talk") for number in range(100, 200)])
    await linkers.link([line(number, f"older talk {number}") for number in range(1, 30)])
    linkers.drop(GUILD, CHANNEL, [29])
    linkers.drop_author(5)
    (late,) = await linkers.link([line(31, "older talk, indeed")])
    assert {parent % 3 for parent, _ in late.parents} <= {1, 2}
    assert 29 not in dict(late.parents)


async def test_guilds_with_the_same_channel_id_do_not_meet() -> None:
    linkers = ChannelLinkers(nothing)
    await linkers.link([line(1, "person2: does the printer work?", guild_id=GUILD)])
    (other,) = await linkers.link([line(2, "person1: yes, the printer works", guild_id=GUILD + 1)])
    assert other.parents == ()
    linkers.drop_guild(GUILD + 1)
    (here,) = await linkers.link([line(2, "person1: yes, the printer works", guild_id=GUILD)])
    assert [parent for parent, _ in here.parents] == [1]
