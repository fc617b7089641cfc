"""Which of the candidates answer: the best ones, with what lies around them, and corrections before what they correct.

A place is the index of a message in its pool, which is in channel order.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from channelmem.recalling.answering import ClueReader, Clues, shipped
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
from channelmem.text import Lines, stems, tells, text_of
from channelmem.types import Evidence, Hit, Route, Source, Wants, Window

BEFORE: Final = 50
SOON: Final = 8
AFTER: Final = 2
"""A hit comes with the message it answers, up to BEFORE messages back, and with the first AFTER answers to it within
the next SOON messages."""
LINK_MIN: Final = 0.5
"""From this probability on, a message counts as the answer to another."""

_VALUE: Final = re.compile(r"\d[\d:.,]*\d|\d")
_REJECTS: Final = re.compile(r"\b(?:not|instead of|rather than)\W+")
_DENIES: Final = re.compile(r"\b(?:not|instead of|rather than)\W+\w*\d")


class Beside:
    """The messages around each message of a pool: built once, queried for every hit."""

    def __init__(self, messages: Sequence[AnyMessage]) -> None:
        self._messages = messages
        self._at = {message.id: place for place, message in enumerate(messages)}
        self._correcting = [at for at, one in enumerate(messages) if tells(one.content, CORRECTS)]
        self._denying = [at for at, one in enumerate(messages) if tells(one.content, _DENIES)]
        """The few lines that say of something that it is not so."""
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

    def corrections(self, *, by_links: bool) -> dict[int, int]:
        """For each line that a later one corrects, the last that does: it replies to it or is by the same person and
        says so, or it names the old value as wrong ("72, not 60"). Without `by_links`, only explicit replies count."""
        found: dict[int, int] = {}
        for at in self._correcting:
            found |= {place: at for place in self._before(at, by_links=by_links) if self._corrects(at, place)}
        for at in self._denying:
            for place in self._denied(at):
                found[place] = max(at, found.get(place, -1))
        return found

    def _before(self, at: int, *, by_links: bool) -> Iterator[int]:
        """The earlier lines that this one may be about."""
        one = self._messages[at]
        linked = [parent for parent, chance in one.parents if chance >= LINK_MIN] if by_links else []
        yield from (self._at[said] for said in (one.reply_to, *linked) if said in self._at)
        for place in range(max(0, at - SOON), at if by_links else 0):
            if self._messages[place].author_id == one.author_id:
                yield place

    def _corrects(self, at: int, place: int) -> bool:
        one, said = self._messages[at], self._messages[place]
        return one.channel_id == said.channel_id and place < at and _alike(one, said)

    def _denied(self, at: int) -> Iterator[int]:
        """The earlier lines with a value that this one names as wrong."""
        one = self._messages[at]
        for place in range(at):
            said = self._messages[place]
            if said.channel_id == one.channel_id and _rejects(one.content, _values_in(said.content)):
                yield place

    def _soon(self, place: int) -> list[int]:
        return [at for at in self._answers.get(self._messages[place].id, ()) if place < at <= place + SOON]


def _values_in(text: str) -> tuple[str, ...]:
    return tuple(_VALUE.findall(text))


def _rejects(text: str, values: tuple[str, ...]) -> bool:
    """Whether a value stands behind "not", as a whole: "not 72" does not name 7."""
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
"""The evidence is that of so many hits."""
FURTHER: Final = 0.45
"""A further line is part of the answer if the network gives it this share of its trust: hardly ever, since below that
half of such lines do not belong."""
FURTHER_OF_MANY: Final = 0.25
"""The same where the question asks for several: who, or what people said. In the scenes, seven of ten such lines
belong."""
MOST_SHOWN: Final = 4
RANK_OF_SOMEBODY: Final = 40.0
RANK_OF_FEW: Final = 10.0
RANK_OF_TWO: Final = 120.0
"""What the order by words and cosines counts, on the network's scale."""
FEW: Final = 16
LONG: Final = 100
GROUP: Final = 4
"""Fewer messages are few, a history of more is long, and so many people are a group."""
EVIDENT: Final = 0.2
"""A further line has this evidence of its own: a word of the topic, or in what it answers, or a close meaning."""
OF_PARTS: Final = 8
"""A question with so many words worth comparing probably has several parts."""
COVERING: Final = 12
BRINGS: Final = 12.0
"""What a line gains that brings all words of the question, on the network's scale."""
CLOSE: Final = 0.12
"""From this cosine on, a line without a word of the topic may still be about it."""
BESIDE_ANCHOR: Final = 6
"""How many messages after its anchor a follow-up looks first."""


@dataclass(frozen=True, slots=True)
class Candidates:
    """Everything the choice needs except the cosines."""

    pool: Pool
    ranking: Ranking
    allowed: Sequence[bool]
    beside: Beside
    reader: ClueReader | None
    """None for somebody's own words."""


@dataclass(frozen=True, slots=True)
class Choice:
    hits: tuple[Hit, ...] = ()
    evidence: Evidence | None = None
    sure: float | None = None
    """How likely the first hit answers; None if the evidence has to tell."""
    ours: float | None = None
    """How likely the question is about this conversation; None if only the wording tells."""


def read_candidates(pool: Pool, asked: Asked, weights: Weights) -> Candidates:
    ranking, question, route = read_pool(pool, asked.query, weights), asked.question, asked.route
    reader = None
    if not route.of_somebody:
        reader = ClueReader(pool, ranking, question.text, route, question.asker_id, question.ts)
    allowed = _only(pool.messages, wanted(pool.messages, asked), asked.route)
    return Candidates(pool, ranking, allowed, Beside(pool.messages), reader)


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


def clues_of(reader: ClueReader, candidates: Candidates, scores: Scores, asked: Asked) -> Clues:
    """What the network weighs."""
    return reader.clues(
        scores,
        candidates.allowed,
        _near_anchor(candidates.pool.messages, asked.route),
        asked.question.reply_to,
        candidates.beside.corrections(by_links=not asked.route.speakers),
    )


class _Weighed(NamedTuple):
    """Candidates in channel order, how well each answers, and what that says."""

    places: NDArray[np.int64]
    values: Floats
    sure: float | None = None
    ours: float | None = None

    def in_order(self) -> NDArray[np.int64]:
        """Best first, the newest first among equals."""
        return np.lexsort((-self.places, -self.values.round(6)))

    def trust(self) -> dict[int, float]:
        """The share of each candidate."""
        shares = np.exp(self.values - self.values.max())
        return dict(zip(self.places.tolist(), (shares / shares.sum()).tolist(), strict=True))


def choose(
    candidates: Candidates, cosines: Floats, asked: Asked, now: float, source: Source, sounds: float = 0.0
) -> Choice:
    """`sounds` is how much the question sounds like one about a conversation, by its vector."""
    scores = candidates.ranking.scores(cosines)
    weighed = _weighed(candidates, scores, asked, sounds)
    if not len(weighed.places):
        return Choice()
    kept = _kept(candidates, weighed, scores, asked)
    trust = weighed.trust()
    evident = [place for place in kept[1:] if scores.evidence[place] >= EVIDENT]
    shown = _shown(candidates, [kept[0], *evident], trust, asked.route)
    kept = [*shown, *(place for place in kept if place not in shown)]
    evidence = _LITERAL if asked.route.literal else _evidence(candidates, kept, cosines, asked.route.wants)
    hits = _hits(candidates, kept, shown, trust, scores, now, source)
    return Choice(hits, evidence, weighed.sure, weighed.ours)


def _weighed(candidates: Candidates, scores: Scores, asked: Asked, sounds: float) -> _Weighed:
    """Among somebody's own lines, what answers is a matter of words and links."""
    if candidates.reader is None:
        places = np.flatnonzero(candidates.allowed)
        return _Weighed(places, RANK_OF_SOMEBODY * scores.rank[places])
    clues = clues_of(candidates.reader, candidates, scores, asked)
    if not len(clues.places):
        return _Weighed(clues.places, np.zeros(0))
    values = shipped().values(clues) + _rank_counts(candidates, asked.route) * scores.rank[clues.places]
    return _Weighed(clues.places, values, *shipped().sure(clues, values, sounds))


def _rank_counts(candidates: Candidates, route: Route) -> float:
    """What words and cosines count beside the network, which knows some dozens of lines by several people."""
    messages = candidates.pool.messages
    total = max(candidates.pool.total, len(messages))
    if total <= LONG:
        return 0.0 if route.follows else RANK_OF_FEW * max(0.0, 1.0 - total / FEW)
    people = len({message.author_id for message in messages if not message.own})
    return RANK_OF_TWO * max(0.0, min(1.0, (GROUP - people) / 2)) * min(1.0, math.log(total / LONG))


def _kept(candidates: Candidates, weighed: _Weighed, scores: Scores, asked: Asked) -> list[int]:
    """The places of the hits. In steps that yield: a few are wanted, and hundreds of others cost nothing."""
    in_order = weighed.in_order()
    best = weighed.places[in_order].tolist()
    if len(candidates.ranking.share) >= OF_PARTS:
        best = covering(best, weighed.values[in_order], candidates.ranking)
    first = frozenset(best)
    rest = (place for place in order(candidates.pool, scores) if candidates.allowed[place] and place not in first)
    ordered: Iterable[int] = chain(best, rest)
    if asked.route.binds:
        ordered = _related(ordered, scores)
    return distinct(candidates.pool.messages, candidates.ranking.lines, ordered, asked.policy.recall_limit)


def _related(best: Iterable[int], scores: Scores) -> Iterator[int]:
    """For a question about words: the order without lines that have nothing to do with the topic, neither a word of it,
    nor of what they answer, nor a meaning close to it. (A fact may hide in any line, so there the order is enough.)"""
    own = scores.evidence - 0.5 * np.maximum(np.nan_to_num(scores.cosine), 0.0)
    for at, place in enumerate(best):
        if at == 0 or own[place] > 0.0 or scores.cosine[place] >= CLOSE:
            yield place


def covering(best: list[int], values: Floats, ranking: Ranking) -> list[int]:
    """For a long question of many parts: the best line first, and then lines that bring words the others lack."""
    places, kept = np.array(best), [0]
    present, left = ranking.present[places], values.copy()
    for _ in range(min(COVERING, len(best)) - 1):
        left[kept[-1]] = -np.inf
        lacking = np.maximum(present - present[kept].max(axis=0), 0.0)
        kept.append(int(np.argmax(left + BRINGS * (lacking @ ranking.share))))
    rest = [place for at, place in enumerate(best) if at not in kept]
    return [*places[kept].tolist(), *rest]


def _shown(candidates: Candidates, kept: Sequence[int], trust: Mapping[int, float], route: Route) -> list[int]:
    """The lines that are the answer: the best one, and further ones only on evidence of their own."""
    many = route.wants is Wants.WHO or (route.binds and route.wants is Wants.WORDS and not route.speakers)
    least = FURTHER_OF_MANY if many else FURTHER
    further = [place for place in kept[1:] if trust.get(place, 0.0) >= least]
    if route.wants is Wants.WHO:  # each person once
        by_author = {candidates.pool.messages[place].author_id: place for place in reversed([kept[0], *further])}
        further = [place for place in further if place in by_author.values()]
    return [kept[0], *further[: MOST_SHOWN - 1]]


def _hits(
    candidates: Candidates,
    kept: Sequence[int],
    shown: Sequence[int],
    trust: Mapping[int, float],
    scores: Scores,
    now: float,
    source: Source,
) -> tuple[Hit, ...]:
    """Only what is shown becomes whole messages."""
    beside = [candidates.beside.of(place) for place in kept]
    messages = {at: whole(candidates.pool.messages[at]) for at in {*kept, *chain(*beside)}}
    return tuple(
        Hit(
            messages[place],
            round(trust.get(place, 0.0), 4),
            None if math.isnan(scores.cosine[place]) else float(scores.cosine[place]),
            float(scores.coverage[place]),
            max(0.0, now - messages[place].ts),
            source,
            tuple(messages[at] for at in around),
            answers=place in shown,
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
