"""Which of the candidates answer: the best ones, with what lies around them, and corrections before what they correct.

A place is the index of a message in its pool, which is in channel order.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from typing import Final

import numpy as np
from numpy.typing import NDArray

from channelmem.recalling.candidates import Asked
from channelmem.recalling.rank import (
    CORRECTS,
    KINDS,
    Floats,
    Pool,
    Ranking,
    Scores,
    Weights,
    fits,
    order,
    read_pool,
)
from channelmem.store.documents import AnyMessage, whole
from channelmem.text import Lines, asking, stems, text_of
from channelmem.types import Evidence, Hit, Message, Route, Source, Wants, Window

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

    def of(self, place: int) -> tuple[int, ...]:
        """The places of the message this one answers, and of the next ones that answer it, oldest first."""
        message = self._messages[place]
        answered = [self._at.get(parent, -1) for parent, chance in message.parents if chance >= LINK_MIN]
        before = [at for at in answered if max(0, place - BEFORE) <= at < place]
        return (*sorted(before), *self._soon(place)[:AFTER])

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
    return not set(stems(text_of(one))).isdisjoint(stems(text_of(other)))


# --- choosing ---


SHOWN: Final = 3
"""How many hits an answer shows first; the evidence is theirs."""
CLOSE: Final = 0.12
"""From this cosine on, a line without a word of the topic may still be about it."""
ANSWERS: Final = 2
"""A hit that is a question is shown behind at most this many answers to it."""
BESIDE_ANCHOR: Final = 6
"""How many messages after its anchor a follow-up looks first."""


@dataclass(frozen=True, slots=True)
class Candidates:
    """Everything the choice needs except the cosines."""

    pool: Pool
    ranking: Ranking
    allowed: Sequence[bool]
    beside: Beside


@dataclass(frozen=True, slots=True)
class Choice:
    hits: tuple[Hit, ...] = ()
    evidence: Evidence | None = None

    @property
    def threads(self) -> tuple[Message, ...]:
        """For the recap of a topic: the first hits and what surrounds them, in order of time."""
        some = {one.id: one for hit in self.hits[: 2 * SHOWN] for one in (hit.message, *hit.around)}
        return tuple(sorted(some.values(), key=lambda one: (one.ts, one.id)))


def read_candidates(pool: Pool, asked: Asked, weights: Weights) -> Candidates:
    allowed = _only(pool.messages, wanted(pool.messages, asked), asked.route)
    return Candidates(pool, read_pool(pool, asked.query, weights), allowed, Beside(pool.messages))


def wanted(messages: Sequence[AnyMessage], asked: Asked) -> list[bool]:
    """Which messages may be hits: by the speakers (anybody if none is named) and within the window if the route binds;
    never the question itself, and messages to the bot only if the question is about them."""
    route, to_bot, question_id = asked.route, asked.route.to_bot, asked.question.id
    speakers = {person.id for person in route.speakers} if route.binds else ()
    window = route.window if route.binds else Window()
    always = window == Window()
    return [
        (to_bot or not (one.own or one.addressed))
        and one.id != question_id
        and (not speakers or one.author_id in speakers)
        and (always or window.contains(one.ts))
        for one in messages
    ]


def _only(messages: Sequence[AnyMessage], allowed: list[bool], route: Route) -> list[bool]:
    """Of these, only messages with the very words, a link or a file, where the question asks for that."""
    if route.literal:
        return [ok and _has_words(one.content, route.literal) for ok, one in zip(allowed, messages, strict=True)]
    shows = SHOWS.get(route.wants)
    some = [ok and shows(one) for ok, one in zip(allowed, messages, strict=True)] if shows else []
    return some if any(some) else allowed


SHOWS: Final[dict[Wants, Callable[[AnyMessage], bool]]] = {
    Wants.LINK: lambda message: "://" in message.content,
    Wants.FILE: lambda message: bool(message.attachments),
}


def _has_words(text: str, words: Sequence[str]) -> bool:
    folded = " ".join(text.casefold().split())
    return all(re.search(rf"(?<!\w){re.escape(' '.join(one.casefold().split()))}(?!\w)", folded) for one in words)


def choose(candidates: Candidates, cosines: Floats, asked: Asked, now: float, source: Source) -> Choice:
    pool, scores, route = candidates.pool, candidates.ranking.scores(cosines), asked.route
    best = [i for i in order(pool, scores) if candidates.allowed[i]]
    if not best:
        return Choice()
    near = _near_anchor(pool.messages, route)
    if near is not None:
        best = _anchored(best, scores, near)
    # In steps that yield: an answer shows a few, so nothing is decided about the hundreds behind them.
    ordered = iter(best)
    if not (route.binds and route.speakers) and not route.of_questions:
        ordered = _answers_first(candidates, ordered)
    first = list(islice(ordered, SHOWN))
    corrections = _corrections(candidates, first, by_links=not route.speakers)
    ordered = _corrected(chain(first, ordered), corrections)
    if route.binds:
        ordered = _related(ordered, scores, cosines)
    kept = distinct(pool.messages, candidates.ranking.lines, ordered, asked.policy.recall_limit)
    evidence = _LITERAL if route.literal else _evidence(candidates, kept, cosines, route.wants)
    return Choice(_hits(candidates, kept, scores, corrections, now, source), evidence)


def _hits(
    candidates: Candidates,
    kept: Sequence[int],
    scores: Scores,
    corrections: Mapping[int, int],
    now: float,
    source: Source,
) -> tuple[Hit, ...]:
    """Only what is shown becomes whole messages."""
    beside = [candidates.beside.of(place) for place in kept]
    messages = {at: whole(candidates.pool.messages[at]) for at in {*kept, *chain(*beside)}}
    return tuple(
        Hit(
            messages[place],
            round(float(scores.rank[place]), 4),
            None if math.isnan(scores.cosine[place]) else float(scores.cosine[place]),
            float(scores.coverage[place]),
            max(0.0, now - messages[place].ts),
            source,
            tuple(messages[at] for at in around),
            replaced=place in corrections,
        )
        for place, around in zip(kept, beside, strict=True)
    )


def distinct(messages: Sequence[AnyMessage], lines: Lines, places: Iterable[int], limit: int) -> list[int]:
    """The first `limit` places, skipping repeats: the same author saying the same words again."""
    seen: set[tuple[int, frozenset[str] | str]] = set()
    kept: list[int] = []
    for place in places:
        message = messages[place]
        said = frozenset([stem for chunk in lines.chunks[place] for stem in lines.known[chunk].stems])
        key = (message.author_id, said or message.content)
        if key not in seen:
            seen.add(key)
            kept.append(place)
        if len(kept) == limit:
            break
    return kept


def _evidence(candidates: Candidates, kept: Sequence[int], cosines: Floats, wants: Wants) -> Evidence:
    allowed, first = np.asarray(candidates.allowed, bool), list(kept[:SHOWN])
    present, share = candidates.ranking.present, candidates.ranking.share
    return Evidence(
        coverage=float(present[first].max(axis=0, initial=0.0) @ share),
        thread=float(candidates.ranking.evidence[first].max()),
        similarity=float(np.nan_to_num(cosines[first], nan=0.0).max()),
        missing=float(share[~present[allowed].any(axis=0)].sum()) if len(share) else 1.0,
        compared=int(allowed.sum()),
        fits=wants in KINDS and fits(candidates.pool.messages[kept[0]], wants),
    )


_LITERAL: Final = Evidence(coverage=1.0, thread=1.0, similarity=1.0)
"""A message that has the very words that are asked for needs no comparison."""


def _near_anchor(messages: Sequence[AnyMessage], route: Route) -> Floats | None:
    """Per message, how close it is to what a follow-up refers to: its answers and the lines right after it."""
    at = {one.id: place for place, one in enumerate(messages) if not one.own}
    place = next((at[anchor] for anchor in route.anchors if anchor in at), None)
    if place is None:
        return None
    near: NDArray[np.float64] = np.zeros(len(messages))
    for step in range(1, BESIDE_ANCHOR + 1):
        for other, share in ((place + step, 1.0), (place - step, 0.5)):
            if 0 <= other < len(messages) and messages[other].channel_id == messages[place].channel_id:
                near[other] = share * (1.0 - (step - 1) / BESIDE_ANCHOR)
    for other, message in enumerate(messages):
        if message.reply_to == messages[place].id or any(
            parent == messages[place].id and chance >= LINK_MIN for parent, chance in message.parents
        ):
            near[other] = 1.0
    near[place] = 0.3
    return near


def _anchored(best: list[int], scores: Scores, near: Floats) -> list[int]:
    """The order with what is close to the anchor moved up."""
    return sorted(best, key=lambda place: -(scores.rank[place] + ANCHOR * near[place]))


ANCHOR: Final = 0.5


def _answers_first(candidates: Candidates, best: Iterable[int]) -> Iterator[int]:
    """The order with answers before the questions they answer: who asks when the match is wants the time, not the
    question that somebody else asked before."""
    messages, allowed = candidates.pool.messages, candidates.allowed
    found: set[int] = set()
    for place in best:
        if place in found:
            continue
        if asking(messages[place].content) > 0.5:
            answers = [one for one in candidates.beside.answers(place) if allowed[one] and one not in found]
            answers = [one for one in answers if _says_something(messages[one])][:ANSWERS]
            found.update(answers)
            yield from answers
        found.add(place)
        yield place


def _related(best: Iterable[int], scores: Scores, cosines: Floats) -> Iterator[int]:
    """For a question about words: the order without lines that have nothing to do with the topic, neither a word of it,
    nor of what they answer, nor a meaning close to it. (A fact may hide in any line, so there the order is enough.)"""
    own = scores.evidence - 0.5 * np.maximum(np.nan_to_num(cosines), 0.0)
    for at, place in enumerate(best):
        if at == 0 or own[place] > 0.0 or cosines[place] >= CLOSE:
            yield place


def _corrections(candidates: Candidates, first: Sequence[int], *, by_links: bool) -> dict[int, int]:
    """What corrects the first hits. Where the question is about somebody, guessed links (`by_links`) do not count:
    "actually" begins many of anybody's lines."""
    later = {place: candidates.beside.correction(place, by_links=by_links) for place in first}
    return {place: at for place, at in later.items() if at is not None and candidates.allowed[at]}


def _corrected(best: Iterable[int], corrections: Mapping[int, int]) -> Iterator[int]:
    """The order with corrections before what they correct."""
    found: set[int] = set()
    for place in best:
        for one in (corrections.get(place, place), place):
            if one not in found:
                found.add(one)
                yield one


def _says_something(message: AnyMessage) -> bool:
    """Whether a line can be an answer: "oh" and "lol" cannot, "me" and "yes" can."""
    return len(message.content.split()) > 1 or _SHORT_ANSWER.search(message.content) is not None


_SHORT_ANSWER: Final = re.compile(
    r"\d|https?://|^(?:yes|yep|yeah|yup|no|nope|me|both|neither|none|done)\b", re.IGNORECASE
)
