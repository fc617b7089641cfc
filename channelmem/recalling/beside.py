"""What lies around the messages of a pool: what they answer, what answers them, and what corrects them later.

Enters: the messages of a pool in channel order. Leaves: for a place in it, other places or messages.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

from channelmem.recalling.ranking.facts import CORRECTS
from channelmem.recalling.ranking.line import asking, read_message
from channelmem.store.documents import AnyMessage, whole
from channelmem.types import Message

BEFORE: Final = 50
SOON: Final = 8
AFTER: Final = 2
"""A hit comes with the message it answers, up to BEFORE messages back, and with the first AFTER answers to it within
the next SOON messages."""
LINK_MIN: Final = 0.5
"""From this probability on, a message counts as the answer to another."""

_VALUE: Final = re.compile(r"\d[\d:.,]*\d|\d")
_REJECTS: Final = re.compile(r"\b(?:not|instead of|rather than)\W+")


class Beside:
    """The messages around each message of a pool: built once, queried for every hit."""

    def __init__(self, messages: Sequence[AnyMessage]) -> None:
        self._messages = messages
        self._at = {message.id: place for place, message in enumerate(messages)}
        self._answers: dict[int, list[int]] = {}
        self._replies: dict[int, list[int]] = {}
        """By message: what was linked to it, and what explicitly replies to it."""
        for place, message in enumerate(messages):
            if message.reply_to is not None:
                self._replies.setdefault(message.reply_to, []).append(place)
            for parent, chance in message.parents:
                if chance >= LINK_MIN:
                    self._answers.setdefault(parent, []).append(place)

    def of(self, place: int) -> tuple[Message, ...]:
        """The message this one answers, and the next ones that answer it, oldest first."""
        message = self._messages[place]
        answered = [self._at.get(parent, -1) for parent, chance in message.parents if chance >= LINK_MIN]
        before = [at for at in answered if max(0, place - BEFORE) <= at < place]
        return tuple(whole(self._messages[at]) for at in (*sorted(before), *self._soon(place)[:AFTER]))

    def answers(self, place: int) -> list[int]:
        """The places of what answers a question: lines linked to it that are not questions themselves, else the next
        line by somebody else."""
        asked = self._messages[place]
        linked = [at for at in self._soon(place) if asking(self._messages[at].content) < 0.5]
        if linked:
            return linked
        for at in range(place + 1, min(place + 4, len(self._messages))):
            other = self._messages[at]
            if other.channel_id != asked.channel_id or other.own or other.addressed:
                break
            if other.author_id != asked.author_id and asking(other.content) < 0.5:
                return [at]
        return []

    def correction(self, place: int, *, by_links: bool) -> int | None:
        """The last later message that corrects this one: it replies to it or is by the same person and says so, or it
        names the old value as wrong ("72, not 60"). Without `by_links`, only explicit replies count as answers."""
        said = self._messages[place]
        saying_so = [at for at in self._following(place, by_links=by_links) if self._corrects(at, said)]
        return max((*saying_so, *self._rejecting(place)), default=None)

    def _following(self, place: int, *, by_links: bool) -> Iterator[int]:
        """The later lines that may be about this one."""
        said = self._messages[place]
        yield from self._replies.get(said.id, ())
        if by_links:
            yield from self._answers.get(said.id, ())
            for at in range(place + 1, min(place + SOON + 1, len(self._messages))):
                if self._messages[at].author_id == said.author_id:
                    yield at

    def _corrects(self, at: int, said: AnyMessage) -> bool:
        one = self._messages[at]
        later = one.channel_id == said.channel_id and at > self._at[said.id]
        return later and CORRECTS.search(one.content) is not None and _alike(one, said)

    def _rejecting(self, place: int) -> Iterator[int]:
        """The later lines that name a value of this one as wrong."""
        said = self._messages[place]
        values = tuple(_VALUE.findall(said.content))
        if not values:
            return
        for at in range(place + 1, len(self._messages)):
            one = self._messages[at]
            if one.channel_id != said.channel_id:
                break
            if _rejects(one.content, values):
                yield at

    def _soon(self, place: int) -> list[int]:
        return [at for at in self._answers.get(self._messages[place].id, ()) if place < at <= place + SOON]


def _rejects(text: str, values: tuple[str, ...]) -> bool:
    """Whether a value stands behind "not", as a whole: "not 72" does not name 7."""
    if not ("not" in text or "instead of" in text or "rather than" in text):
        return False  # most lines; looking for the pattern takes ten times as long
    for found in _REJECTS.finditer(text):
        for value in values:
            end = found.end() + len(value)
            if text.startswith(value, found.end()) and not (
                text[end : end + 1].isalnum() or text[end : end + 1] == "_"
            ):
                return True
    return False


def _alike(one: AnyMessage, other: AnyMessage) -> bool:
    """Whether two messages are about the same kind of thing: a number in both, or a word."""
    if _VALUE.search(one.content) and _VALUE.search(other.content):
        return True
    return not read_message(one).stems.isdisjoint(read_message(other).stems)
