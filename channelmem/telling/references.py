"""Messages that a question points at. Enters: a question and a way to get messages. Leaves: those messages.

Explicit references are the message replied to and the message links in the question; links inside those are followed
breadth first. The reply chain leads up from the message replied to. Both look only into channels that the question may
see. Links inside ambient messages become a short quote, one level deep.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from channelmem.telling.quote import cut, flatten
from channelmem.types import Message, Question

Fetch = Callable[[int, Sequence[int]], Awaitable[Sequence[Message]]]
"""Gets messages of one channel by id, without those that cannot be fetched."""
FetchOne = Callable[[int, int], Awaitable[Message | None]]
"""Gets one message of a channel from the platform (`History.fetch_message`)."""

HISTORY_CALLS: Final = 5
"""The most single fetches from the platform for one answer: each is a slow, rate-limited call."""
_INLINE_CHARS: Final = 60
_LINK: Final = re.compile(
    r"<?https?://(?:(?:ptb|canary)\.)?discord(?:app)?\.com/channels/"
    r"(?P<guild>\d{1,20}|@me)/(?P<channel>\d{1,20})/(?P<message>\d{1,20})(?![\d/])/?>?",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Link:
    """A link to a message; `guild_id` is 0 for a private conversation."""

    guild_id: int
    channel_id: int
    message_id: int


def parse_links(text: str) -> list[Link]:
    """The message links in a text, in order, each once."""
    if "/channels/" not in text.lower():
        return []
    return list(dict.fromkeys(_link(found) for found in _LINK.finditer(text)))


async def collect(question: Question, fetch: Fetch, limit: int = 20) -> tuple[Message, ...]:
    """The message replied to, then what the question links to, then what those link to, and so on."""
    own = () if question.reply_to is None else (Link(question.guild_id, question.channel_id, question.reply_to),)
    wave = _visible((*own, *parse_links(question.text)), question)
    seen: set[Link] = set()
    found: list[Message] = []
    while wave and len(found) < limit:
        # A wave never fetches more than can still be shown: a text with a thousand links is one round of `limit`.
        wave = wave[: limit - len(found)]
        seen.update(wave)
        got = await _get(wave, fetch)
        found.extend(got)
        linked = (link for message in got for link in parse_links(message.content))
        wave = [link for link in _visible(linked, question) if link not in seen]
    return tuple(found)


async def reply_chain(question: Question, fetch: Fetch, limit: int = 20) -> tuple[Message, ...]:
    """The messages above the question, oldest first, each a reply to the one before."""
    chain: list[Message] = []
    above, seen = question.reply_to, {question.id}
    while above is not None and above not in seen and len(chain) < limit:
        seen.add(above)
        got = await _get([Link(question.guild_id, question.channel_id, above)], fetch)
        if not got:
            break
        chain.append(got[0])
        above = got[0].reply_to
    return tuple(reversed(chain))


async def linked(messages: Iterable[Message], question: Question, fetch: Fetch, limit: int = 10) -> dict[int, Message]:
    """What ambient messages link to, by id, for `inline`: one level deep, newest linking message first."""
    newest = sorted(messages, key=lambda message: message.ts, reverse=True)
    links = _visible((link for message in newest for link in parse_links(message.content)), question)
    return {message.id: message for message in await _get(links[:limit], fetch)}


def inline(
    text: str,
    targets: Mapping[int, Message],
    name_of: Callable[[Message], str],
    pointers: Mapping[int, str] | None = None,
) -> str:
    """The text with each known link as a short quote; links inside that quote stay unopened (depth 1).

    `pointers` map the ids of messages shown elsewhere to what to write instead.
    """
    if "/channels/" not in text.lower():
        return text
    told = pointers or {}
    return _LINK.sub(lambda found: told.get(int(found["message"])) or _inlined(found, targets, name_of), text)


def layered(known: Iterable[Message], stored: Fetch | None = None, history: FetchOne | None = None) -> Fetch:
    """A `Fetch` that looks in the messages already in hand, then in the store, then (a few times) on the platform."""
    in_hand = {(message.channel_id, message.id): message for message in known}
    calls = HISTORY_CALLS if history else 0

    async def fetch(channel_id: int, ids: Sequence[int]) -> Sequence[Message]:
        nonlocal calls
        found = {i: in_hand[channel_id, i] for i in ids if (channel_id, i) in in_hand}
        missing = [i for i in ids if i not in found]
        if missing and stored is not None:
            found |= {message.id: message for message in await stored(channel_id, missing)}
        missing = [i for i in missing if i not in found][:calls]
        if missing and history is not None:
            calls -= len(missing)
            got = await asyncio.gather(*(history(channel_id, i) for i in missing))
            found |= {message.id: message for message in got if message is not None}
        in_hand.update({(channel_id, i): message for i, message in found.items()})
        return [found[i] for i in ids if i in found]

    return fetch


def _link(found: re.Match[str]) -> Link:
    guild = found["guild"]
    return Link(0 if guild.startswith("@") else int(guild), int(found["channel"]), int(found["message"]))


def _visible(links: Iterable[Link], question: Question) -> list[Link]:
    channels = {question.channel_id, *question.readable_channel_ids}
    return [
        link
        for link in dict.fromkeys(links)
        if link.guild_id == question.guild_id and link.channel_id in channels and link.message_id != question.id
    ]


async def _get(links: Sequence[Link], fetch: Fetch) -> list[Message]:
    """The messages in the order of the links; one call per channel, and nothing that was not requested."""
    by_channel: dict[int, list[int]] = {}
    for link in links:
        by_channel.setdefault(link.channel_id, []).append(link.message_id)
    batches = await asyncio.gather(*(fetch(channel_id, ids) for channel_id, ids in by_channel.items()))
    found = {Link(m.guild_id, m.channel_id, m.id): m for batch in batches for m in batch}
    return [found[link] for link in links if link in found]


def _inlined(found: re.Match[str], targets: Mapping[int, Message], name_of: Callable[[Message], str]) -> str:
    link = _link(found)
    message = targets.get(link.message_id)
    if message is None or (message.guild_id, message.channel_id) != (link.guild_id, link.channel_id):
        return "(a message link)"
    words = cut(flatten(_LINK.sub("(a message link)", message.content)).replace('"', "'"), _INLINE_CHARS)
    return f'(link to {name_of(message)}: "{words}")'
