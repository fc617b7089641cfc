"""Messages that a question points at."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from channelmem.telling.references import (
    HISTORY_CALLS,
    Link,
    collect,
    inline,
    layered,
    linked,
    parse_links,
    reply_chain,
)
from channelmem.types import Message, Question

GUILD, HERE, OPEN, SECRET = 10, 20, 21, 66


def url(message_id: int, channel: int = HERE, guild: int = GUILD) -> str:
    return f"https://discord.com/channels/{guild}/{channel}/{message_id}"


def said(message_id: int, text: str = "", *, channel: int = HERE, to: int | None = None) -> Message:
    return Message(GUILD, channel, message_id, 1, "Ann", text or f"text {message_id}", float(message_id), to)


def asked(text: str = "", *, to: int | None = None) -> Question:
    return Question(GUILD, HERE, 999, 2, "Bob", text, 1_000.0, to, readable_channel_ids=(OPEN,))


class Shelf:
    """A fetch over these messages that remembers what it was asked for."""

    def __init__(self, *messages: Message) -> None:
        self._messages = messages
        self.calls: list[tuple[int, tuple[int, ...]]] = []

    async def __call__(self, channel_id: int, ids: Sequence[int]) -> Sequence[Message]:
        self.calls.append((channel_id, tuple(ids)))
        return [m for m in self._messages if m.channel_id == channel_id and m.id in ids]


def ids(messages: Sequence[Message]) -> list[int]:
    return [message.id for message in messages]


@pytest.mark.parametrize("host", ["discord.com", "ptb.discord.com", "canary.discord.com", "discordapp.com"])
def test_links_of_every_client_are_read(host: str) -> None:
    assert parse_links(f"look (<https://{host}/channels/1/2/3>)!") == [Link(1, 2, 3)]


def test_links_come_in_order_and_once() -> None:
    assert parse_links(f"{url(5)} {url(4)}, {url(5)}") == [Link(GUILD, HERE, 5), Link(GUILD, HERE, 4)]


@pytest.mark.parametrize(
    "text",
    [
        "https://discord.com/channels/1/2",
        "https://evil.com/channels/1/2/3",
        "https://notdiscord.com/channels/1/2/3",
        "https://discord.com.evil.com/channels/1/2/3",
        "https://discord.com/channels/1/2/123456789012345678901234",
    ],
)
def test_what_is_no_message_link_is_not_read(text: str) -> None:
    assert parse_links(text) == []


async def test_the_message_replied_to_comes_first_then_links_breadth_first() -> None:
    shelf = Shelf(said(1), said(2, f"see {url(4)}"), said(3, f"{url(5)}"), said(4, f"{url(6)}"), said(5), said(6))
    found = await collect(asked(f"{url(2)} and {url(3)}", to=1), shelf)
    assert ids(found) == [1, 2, 3, 4, 5, 6]


async def test_references_end_at_the_limit_and_ask_for_no_more() -> None:
    shelf = Shelf(*(said(i) for i in range(1, 50)))
    found = await collect(asked(" ".join(map(url, range(1, 50)))), shelf, limit=3)
    assert ids(found) == [1, 2, 3]
    assert sum(len(wanted) for _, wanted in shelf.calls) == 3


async def test_messages_that_link_to_each_other_end() -> None:
    shelf = Shelf(said(1, url(2)), said(2, f"{url(1)} {url(999)}"))
    assert ids(await collect(asked(url(1)), shelf)) == [1, 2]


async def test_only_channels_that_the_question_may_see_are_asked() -> None:
    shelf = Shelf(said(1, channel=OPEN, text=url(3, SECRET)), said(2, channel=SECRET), said(3, channel=SECRET))
    found = await collect(asked(f"{url(1, OPEN)} {url(2, SECRET)} {url(1, OPEN, guild=11)}"), shelf)
    assert ids(found) == [1]
    assert {channel for channel, _ in shelf.calls} == {OPEN}


async def test_a_fetch_that_returns_something_else_is_not_believed() -> None:
    async def careless(channel_id: int, ids: Sequence[int]) -> Sequence[Message]:
        return [said(7, channel=SECRET), said(8)]

    assert await collect(asked(url(7)), careless) == ()
    assert await reply_chain(asked(to=7), careless) == ()


async def test_the_reply_chain_is_told_oldest_first() -> None:
    shelf = Shelf(said(1), said(2, to=1), said(3, to=2))
    assert ids(await reply_chain(asked(to=3), shelf)) == [1, 2, 3]


async def test_the_reply_chain_ends_at_its_limit_a_hole_or_a_circle() -> None:
    shelf = Shelf(said(2, to=1), said(3, to=2), said(4, to=3), said(5, to=6), said(6, to=5))
    assert ids(await reply_chain(asked(to=4), shelf)) == [2, 3, 4]
    assert ids(await reply_chain(asked(to=4), shelf, limit=2)) == [3, 4]
    assert ids(await reply_chain(asked(to=5), shelf)) == [6, 5]


async def test_a_question_without_references_asks_for_nothing() -> None:
    shelf = Shelf()
    assert await collect(asked("hello"), shelf) == ()
    assert await reply_chain(asked("hello"), shelf) == ()
    assert shelf.calls == []


async def test_the_store_is_asked_for_what_is_not_in_hand_and_the_platform_for_the_rest() -> None:
    stored = Shelf(said(2, to=1))
    single: list[int] = []

    async def history(channel_id: int, message_id: int) -> Message | None:
        single.append(message_id)
        return said(1)

    fetch = layered([said(3, to=2)], stored, history)
    assert ids(await reply_chain(asked(to=3), fetch)) == [1, 2, 3]
    assert [wanted for _, wanted in stored.calls] == [(2,), (1,)]
    assert single == [1]
    assert ids(await collect(asked(to=1), fetch)) == [1]
    assert single == [1]


async def test_the_platform_is_asked_only_a_few_times() -> None:
    single: list[int] = []

    async def history(channel_id: int, message_id: int) -> Message | None:
        single.append(message_id)
        return None

    await collect(asked(" ".join(map(url, range(1, 20)))), layered((), None, history))
    assert len(single) == HISTORY_CALLS


async def test_a_link_in_an_ambient_message_becomes_a_short_quote_one_level_deep() -> None:
    far = said(1, f"as I said in {url(5)}: use the blue one, it has never failed anybody that I know of, ever")
    ambient = said(2, f"see {url(1)} please")
    targets = await linked([ambient], asked(), Shelf(far, said(5)))
    shown = inline(ambient.content, targets, lambda message: message.author)
    assert shown == 'see (link to Ann: "as I said in (a message link): use the blue one, it has nev…") please'


def test_a_link_to_what_is_told_elsewhere_is_a_pointer() -> None:
    shown = inline(f"see {url(1)}", {1: said(1)}, lambda message: message.author, {1: "(reference 1)"})
    assert shown == "see (reference 1)"


def test_an_unknown_link_is_still_called_a_link() -> None:
    assert inline(f"see {url(1)}", {}, lambda message: message.author) == "see (a message link)"


def test_a_link_to_another_channel_with_the_same_id_is_not_opened() -> None:
    secret = {1: said(1, "the password", channel=SECRET)}
    assert "password" not in inline(url(1), secret, lambda message: message.author)


async def test_ambient_links_into_unseen_channels_are_not_fetched() -> None:
    shelf = Shelf(said(1, channel=SECRET))
    assert await linked([said(2, url(1, SECRET))], asked(), shelf) == {}
    assert shelf.calls == []


@given(st.text(st.characters(), max_size=200))
def test_any_text_can_be_read_for_links(text: str) -> None:
    assert isinstance(parse_links(f"{text}/channels/{text}"), list)
    assert isinstance(inline(f"{text}/channels/{text}", {}, lambda message: message.author), str)
