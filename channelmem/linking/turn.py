"""A message read on its own: its words, whom it addresses, and a few clues about what kind of line it is.

Enters: a message and the names of the people around. Leaves: a `Turn`, made once per message; `window` then compares it
with many others.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from math import log1p
from typing import Final

from channelmem.types import Message

TEXT_FEATURES: Final = (
    "question", "length", "addresses", "names", "unknown address", "greeting", "command", "opener", "short reply",
    "first here", "bot",
)  # fmt: skip

_STEM: Final = 6
"""Words are compared by their first letters: a stemmer takes more time than the whole linker."""
_WORD = re.compile(r"[^\W_][\w'.+-]*[\w+]|[^\W_]")
_UNKNOWN_ADDRESS = re.compile(r"\s*@?[^\s:,]{2,32}[:,](?:\s|$)")
_MISSPELT_ADDRESS = re.compile(r"\W*([^\s:,]{4,32})(?:[:,>]|\s*$)")
_NAME_CHARACTERS: Final = "_|-`[]{}^\\"


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_GREETING = _words("hi hello hey hiya greetings morning evening howdy yo sup")
_SHORT_REPLY = _words(
    "yes yeah yep yup no nope ok okay k kk thanks thank thx ty cheers lol haha hehe heh hmm hm ah oh right sure "
    "np exactly true correct indeed agreed nice cool great well"
)
_OPENER = _words(
    "anyone anybody someone somebody everyone everybody all guys folks is does do can could how what where which why "
    "who has have if i i'm im my when are"
)
_STOP = _words(
    "a about after all also am an and any anyone are as at be because been but by can can't cant could did do does "
    "doesn't don't dont for from get go got had has have he hello help hey hi how i i'd i'll i'm i've if im in into is "
    "isn't it it's its just know like lol me more my need no not now of off ok on one only or other our out please "
    "right same say see she should so some still such sure thank thanks that that's the them then there these they "
    "thing think this those to too try up use used using want was way we well were what what's when where which who "
    "why will with would yeah yes you you're your"
)


@dataclass(frozen=True, slots=True)
class Turn:
    """A message with everything that depends on its own text and on who was known when it came."""

    message: Message
    words: frozenset[str]
    addressed: frozenset[int]
    """People named at the beginning, mentioned by id, or explicitly replied to."""
    named: frozenset[int]
    """Everybody named anywhere in the text, including those addressed."""
    row: tuple[float, ...]
    """The values of TEXT_FEATURES."""


def read(message: Message, names: Mapping[str, int], replied: int | None, *, first_here: bool) -> Turn:
    """`names` are case-folded; `replied` is the author of the message that this one explicitly answers."""
    text = message.content.casefold()
    addressed, everybody = named(text, names)
    addressed.update(message.mentions)
    if replied is not None:
        addressed.add(replied)
    everybody |= addressed
    addressed.discard(message.author_id)
    everybody.discard(message.author_id)
    words = _WORD.findall(text)
    telling = [word[:_STEM] for word in words if len(word) > 1 and word not in _STOP and word not in names]
    row = (
        *_kind(text, words, addressed, everybody),
        float(first_here),
        float(message.own or "bot" in message.author.casefold()),
    )
    return Turn(message, frozenset(telling), frozenset(addressed), frozenset(everybody), row)


def _kind(text: str, words: Sequence[str], addressed: Collection[int], everybody: Collection[int]) -> tuple[float, ...]:
    head, first_two = words[:4], words[:2]
    return (
        float("?" in text),
        log1p(len(words)),
        float(bool(addressed)),
        float(bool(everybody)),
        float(not addressed and _UNKNOWN_ADDRESS.match(text) is not None),
        float(not _GREETING.isdisjoint(first_two)),
        float(text[:1] == "!"),
        float(not _OPENER.isdisjoint(head)),
        float(not _SHORT_REPLY.isdisjoint(first_two)),
    )


def named(text: str, names: Mapping[str, int]) -> tuple[set[int], set[int]]:
    """Who is addressed at the beginning, and who is named at all. Both arguments are case-folded."""
    start: set[int] = set()
    anywhere: set[int] = set()
    for name, person in names.items():
        if name in text and (at := _whole(text, name)) >= 0:
            leads = not text[:at].strip(" @<•*\"'")
            if leads:
                start.add(person)
            # One or two letters count as a name only where a name is expected.
            if leads or len(name) > 2 or text[at - 1] == "@":
                anywhere.add(person)
    if not start and (meant := _misspelt(text, names)) is not None:
        start.add(meant)
        anywhere.add(meant)
    return start, anywhere


def _whole(text: str, name: str) -> int:
    """Where the name occurs as a whole word; -1 if it does not."""
    at = text.find(name)
    while at >= 0 and (_inside(text, at - 1) or _inside(text, at + len(name))):
        at = text.find(name, at + 1)
    return at


def _inside(text: str, at: int) -> bool:
    """Whether the character there would make a name part of a longer word."""
    return 0 <= at < len(text) and (text[at].isalnum() or text[at] in _NAME_CHARACTERS)


def _misspelt(text: str, names: Mapping[str, int]) -> int | None:
    """Whom "actionparsnio:" means: the name with the longest common prefix, if that is most of it."""
    match = _MISSPELT_ADDRESS.match(text)
    if match is None:
        return None
    token = match[1]
    similar = [(_likeness(name, token), person) for name, person in names.items() if name[:4] == token[:4]]
    likeness, person = max(similar, default=(0.0, 0))
    return person if likeness >= 0.6 else None


def _likeness(one: str, other: str) -> float:
    """Their common prefix, as a share of the longer one."""
    same = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))
    return same / max(len(one), len(other))
