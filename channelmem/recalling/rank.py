"""How well each candidate fits a question, before and after its cosine is known.

Words reach a message along the soft links of `Message.parents` and from its neighbours. Somebody's own words are
compared with their other lines (`SpeakerWeights`), facts by the kind of thing that is asked for (`FactWeights`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from itertools import pairwise
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from channelmem.routing.words import written_out
from channelmem.store.documents import AnyMessage
from channelmem.text import Lines, emoji_of, read_lines, stem, stems, tells, text_of
from channelmem.types import Question, Route, Wants, Window

Floats = NDArray[np.float64]
Places = NDArray[np.int64]

STEPS: Final = 3
"""How many links up and down a thread to follow; the probabilities have thinned out by then."""
LEAST: Final = 0.01
"""Links with a lower probability are not worth the time."""


class Replies(NamedTuple):
    """The links within a pool, as parallel arrays: a message has at most three, so a matrix would be mostly empty."""

    answering: Places
    answered: Places
    chances: Floats

    @classmethod
    def among(cls, messages: Sequence[AnyMessage]) -> Replies:
        place = {message.id: row for row, message in enumerate(messages)}
        rows, parents, chances = [], [], []
        for row, message in enumerate(messages):
            for parent, chance in message.parents:
                if chance >= LEAST and parent in place:
                    rows.append(row)
                    parents.append(place[parent])
                    chances.append(chance)
        return cls(np.array(rows, np.int64), np.array(parents, np.int64), np.array(chances, float))

    def above(self, values: Floats) -> Floats:
        """For each message, the values of what it answers, times the probability; each row of `values` is a message."""
        return self._flow(values, self.answered, self.answering)

    def around(self, values: Floats) -> Floats:
        """For each message, what its thread has, at most 1: values flow up to what was answered, and down again."""
        gathered = self._flowed(values, self.answering, self.answered)
        return self._flowed(gathered, self.answered, self.answering)

    def _flowed(self, values: Floats, source: Places, target: Places) -> Floats:
        total = flow = values
        for _ in range(STEPS):
            flow = self._flow(flow, source, target)
            total = total + flow
        return np.minimum(total, 1.0)

    def _flow(self, values: Floats, source: Places, target: Places) -> Floats:
        if values.ndim == 1:
            flow = np.bincount(target, self.chances * values[source], minlength=len(values))
            return flow.astype(float, copy=False)  # already float, but its stub does not say so
        count, width = values.shape
        cells = (target[:, None] * width + np.arange(width)).ravel()
        spread = (self.chances[:, None] * values[source]).ravel()
        return np.bincount(cells, spread, minlength=count * width).astype(float, copy=False).reshape(count, width)


# --- speaker ---


LONG: Final = 8
"""A line with this many words is as good as a longer one."""
OLD: Final = 50


@dataclass(frozen=True, slots=True)
class SpeakerWeights:
    """What each feature is worth, relative to a fully covered topic, which is 1."""

    literal: float = 0.31
    """The topic's word exactly as it was typed: a question about "connection" does not mean "I can connect"."""
    unique: float = 0.16
    """A word that no other line by the speaker has."""
    rarest: float = 0.30
    """The rarest word of the topic rather than many common ones."""
    thread: float = 0.79
    """Words missing here, but said in the same thread. Counts only in company: a talk of two is all one thread."""
    parent_cosine: float = 0.45
    """The message it answers is close to the topic."""
    length: float = 0.30
    """A few words say little, unless they are the topic's."""
    age: float = 0.20
    """Subtracted once the message is OLD messages old, and in proportion before that."""


class TopicWords(NamedTuple):
    """A topic's words and where they are."""

    present: Floats
    """Message by word: 1 if the message has the word."""
    literal: Floats
    rarity: Floats


class PoolFeatures(NamedTuple):
    """The rest of what the features need to know about the pool."""

    lines: Lines
    mine: NDArray[np.bool_]
    """Which lines the speaker wrote."""
    replies: Replies
    cosine: Floats
    people: int


def speaker_columns(words: TopicWords, scene: PoolFeatures) -> Floats:
    """One row per field of `SpeakerWeights`, one column per message."""
    share = words.rarity / max(float(words.rarity.sum()), 1e-9)
    alone = share * (words.present[scene.mine].sum(axis=0) == 1)
    company = 1.0 - min(1.0, 2.0 / max(1, scene.people))
    rarest = (words.present * words.rarity).max(axis=1, initial=0.0) / words.rarity.max(initial=1e-9)
    found = np.empty((len(_SPEAKER_FIELDS), len(scene.mine)))
    found[0] = words.literal @ share
    found[1] = words.present @ alone
    found[2] = rarest * rarest
    found[3] = company * (((1.0 - words.present) * scene.replies.around(words.present)) @ share)
    found[4] = scene.replies.above(scene.cosine)
    found[5] = np.maximum(np.minimum(1.0, scene.lines.length / LONG), words.present @ share)
    found[6] = np.maximum(np.arange(1 - len(scene.mine), 1), -OLD) / OLD
    return found


def speaker_worth(weights: SpeakerWeights, seen: Floats) -> Floats:
    value: Floats = np.array([getattr(weights, name) for name in _SPEAKER_FIELDS]) @ seen
    return value


_SPEAKER_FIELDS: Final = tuple(field.name for field in fields(SpeakerWeights))
THREAD: Final = _SPEAKER_FIELDS.index("thread")


# --- facts ---


"""A line with this many words is as good as a longer one."""
FRESH_S: Final = 12 * 3_600.0
"""How old a message is when its freshness has fallen to a third."""
AFTER_QUESTION: Final = (1.0, 0.7, 0.5)
"""How likely the 1st, 2nd, 3rd line after a question answers it, if somebody else wrote it."""
SESSION_S: Final = 3_600.0

_DAYS = "(?:mon|tue|tues|wed|weds|wednes|thu|thur|thurs|fri|sat|satur|sun)(?:day)?s?"
_MONTHS = "january|february|march|april|may|june|july|august|september|october|november|december"
_SAYS: Final = {
    Wants.WHEN: re.compile(
        rf"\b(?:\d{{1,2}}(?::\d\d|h\d{{0,2}}\b|\s?[ap]m\b|st\b|nd\b|rd\b|th\b)|{_DAYS}\b|{_MONTHS}|today|tomorrow|tonight"
        r"|tmrw|noon|midnight|morning|evening|afternoon|weeks?|yesterday|last|next|ago|weekend|months?|years?|recently"
        r"|\d{4})\b",
        re.IGNORECASE,
    ),
    Wants.AMOUNT: re.compile(
        r"\d|\b(?:one|two|three|four|five|six|seven|eight|nine|ten|dozen|half|both|none|couple|once|twice|several)\b",
        re.IGNORECASE,
    ),
    Wants.WHERE: re.compile(
        r"\b(?:at|in|on|behind|under|next to|by|near|inside|from|shelf|room|drawer|street|hall)\b|https?://",
        re.IGNORECASE,
    ),
    Wants.WHY: re.compile(r"\b(?:because|cos|cuz|bc|since|due to|so that|reason)\b", re.IGNORECASE),
    Wants.WHO: re.compile(r"\b(?:i|i'm|im|i'll|ill|i've|ive|me|my|mine|we)\b", re.IGNORECASE),
    Wants.LINK: re.compile(r"https?://", re.IGNORECASE),
}
KINDS: Final = frozenset(_SAYS)
"""What a question may want that a line visibly has or has not."""
_CORRECTING: Final = r"correction|actually|scratch that|instead|changed|moved|postponed|no longer|not anymore"
CORRECTS: Final = re.compile(rf"\b(?:{_CORRECTING})\b|^\*", re.IGNORECASE)
"""What people write when something is not as they wrote before."""
_SETTLES: Final = re.compile(
    r"\b(?:settled|decided|booked|confirmed|done|deal|agreed|final|going with|it is|locked|update|edit"
    rf"|{_CORRECTING})\b",
    re.IGNORECASE,
)
"""The same, and what they write when something is decided."""


@dataclass(frozen=True, slots=True)
class FactWeights:
    """What each feature is worth, relative to a fully covered topic, which is 1."""

    cosine: float = 0.2
    question: float = -0.24
    """It is a question itself."""
    after_question: float = 0.28
    """It comes right after somebody else's question about the topic."""
    kind: float = 0.37
    """It has a time, a number, a place, a reason, a link, somebody: whatever is asked for."""
    settles: float = 0.3
    """It decides or corrects something of the topic."""
    length: float = 0.31
    """A few words say little."""
    fresh: float = 0.62


def fact_columns(
    messages: Sequence[AnyMessage],
    lines: Lines,
    covered: Floats,
    replies: Replies,
    wants: Wants,
    now: float | None,
) -> Floats:
    """One row per field of `FactWeights` except the cosine's, which comes later; one column per message."""
    above = np.minimum(replies.above(covered), 1.0)
    after = _after_question(messages, lines, covered)
    reached = np.maximum(covered, np.maximum(0.85 * above, 0.8 * after))
    return np.stack(
        [
            np.zeros(len(messages)),
            lines.asking,
            after,
            _fitting(messages, wants),
            reached * _settling(messages, reached),
            np.minimum(1.0, lines.length / LONG),
            _fresh(messages, now),
        ]
    )


def fits(message: AnyMessage, wants: Wants) -> bool:
    """Whether a message has the kind of thing that is asked for."""
    says = _SAYS.get(wants)
    return says is not None and tells(message.content, says)


def _fitting(messages: Sequence[AnyMessage], wants: Wants) -> Floats:
    return np.array([fits(one, wants) for one in messages], float) if wants in KINDS else np.zeros(len(messages))


def _settling(messages: Sequence[AnyMessage], reached: Floats) -> Floats:
    """1 where a line decides or corrects something; only lines that the topic reaches are read for that."""
    found = np.zeros(len(messages))
    for place in np.flatnonzero(reached > 0.0).tolist():
        found[place] = tells(messages[place].content, _SETTLES)
    return found


def _fresh(messages: Sequence[AnyMessage], now: float | None) -> Floats:
    """How recent each message is. `now` is None if the question is about a person, who may have done it long ago."""
    if now is None:
        return np.zeros(len(messages))
    fresh: Floats = np.exp(-np.maximum(0.0, now - np.array([one.ts for one in messages])) / FRESH_S)
    return fresh


def _after_question(messages: Sequence[AnyMessage], lines: Lines, covered: Floats) -> Floats:
    """Per message, how much of the topic a question just before it covers, if somebody else asked it."""
    found = np.zeros(len(messages))
    for place in np.flatnonzero((lines.asking > 0.5) & (covered > 0.0)).tolist():
        for step, share in enumerate(AFTER_QUESTION, start=1):
            at = place + step
            if at >= len(messages) or messages[at].ts - messages[place].ts > SESSION_S:
                break
            if messages[at].author_id != messages[place].author_id and lines.asking[at] <= 0.5:
                found[at] = max(found[at], share * covered[place])
    return found


def fact_worth(weights: FactWeights, seen: Floats) -> Floats:
    value: Floats = np.array([getattr(weights, name) for name in _FACT_FIELDS]) @ seen
    return value


_FACT_FIELDS: Final = tuple(field.name for field in fields(FactWeights))


# --- rank ---


_MONTH_NAMES: Final = "january february march april may june july august september october november december"
_MONTH_STEMS: Final = tuple(map(stem, _MONTH_NAMES.split()))
"""A longer silence ends a stretch of talk: messages before it are not neighbours."""
THREAD_EVIDENCE: Final = 0.5
"""Somebody who takes part in a thread probably talks about its subject, though less surely than by answering it."""


@dataclass(frozen=True, slots=True)
class Weights:
    """How much each ingredient counts. Set by hand while watching the IRC and LoCoMo figures, so both are development
    data for them; docs/notes/recall.md says how many settings were compared and what each ingredient gains."""

    words: float = 1.0
    """Coverage of the topic's words, however they reach the message."""
    parent: float = 0.85
    """A word in the message this one answers, times the probability that it does."""
    near: tuple[float, ...] = (0.7, 0.4, 0.2, 0.1)
    """A word in the 1st, 2nd ... neighbour on either side."""
    near_alone: float = 0.9
    near_crowd: float = 0.4
    """Share of `near` when two people talk, and when many do (their talks interleave)."""
    cosine: float = 0.15
    cosine_word: float = 0.2
    cosine_most: float = 0.9
    """The cosine counts more the more words the topic has: one word alone embeds poorly."""
    cosine_near: float = 0.25
    """The better cosine of the messages before and after, shared like their words."""
    speaker: float = 0.4
    window: float = 0.2
    date: float = 0.6
    """A month or year in the topic that matches the date of the message."""
    question: float = 0.1
    question_for_fact: float = 0.2
    """Penalties for a message that is only a question: the asker needs the answer after it, even more so for a fact.
    Where a speaker is asked for, their questions are as good as their other lines."""
    fragment: float = 0.2
    """A message of fewer than three words makes a poor quote."""
    relative: float = 0.3
    """To what degree coverage is measured against the best candidate instead of the whole topic."""
    said: SpeakerWeights | None = SpeakerWeights()
    """What is added if the question asks for somebody's own words."""
    facts: FactWeights | None = FactWeights()
    """What is added otherwise."""


SHIPPED: Final = Weights()


@dataclass(frozen=True, slots=True)
class RankingQuery:
    """What ranking needs to know about a question."""

    topic: str
    speakers: frozenset[int] = frozenset()
    window: Window = Window()  # noqa: RUF009  (frozen)
    wants_fact: bool = False
    """Whether it asks for what somebody's words say, rather than for the words themselves."""
    wants: Wants = Wants.WORDS
    now: float = 0.0
    """When it is asked."""


def ranking_query(question: Question, route: Route) -> RankingQuery:
    """What ranking needs to know about a question."""
    return RankingQuery(
        route.topic if route.binds else _asked_fact(question, route) or route.topic,
        frozenset(person.id for person in route.speakers),
        route.window,
        wants_fact=not route.binds,
        wants=route.wants,
        now=question.ts,
    )


def _asked_fact(question: Question, route: Route) -> str:
    """A question for a fact compares best as it is; a follow-up needs the topic it inherits as well."""
    text = written_out(without_names(question.text, route))
    return f"{text} {route.topic}" if route.follows else text


def without_names(text: str, route: Route) -> str:
    """A question for a fact compares best as it is ("When did ... go to the museum?"), but without names: a name is
    close to every message by that person, and messages do not say their author's name."""
    names = [name for person in route.speakers for name in (person.name, *person.aliases) if name.strip()]
    for name in sorted(names, key=len, reverse=True):
        text = re.sub(rf"(?<!\w)@?{re.escape(name)}(?:['’]s)?(?!\w)", " ", text, flags=re.IGNORECASE)  # noqa: RUF001
    return " ".join(text.split())


@dataclass(frozen=True, slots=True)
class Pool:
    """Messages in channel order, and their cosines to the topic (NaN without a vector)."""

    messages: Sequence[AnyMessage]
    cosines: Floats
    counts: Mapping[str, int] | None = None
    """How many messages have each stem, if the pool is only part of what was searched."""
    total: int = 0


@dataclass(frozen=True, slots=True)
class Scores:
    """Per message of the pool."""

    rank: Floats
    evidence: Floats
    """The coverage, or half of what the speaker's thread covers, plus half the cosine: comparable between questions."""
    coverage: Floats
    """The share of the topic in the message and in what it answers. Neighbours affect the order, but are not evidence:
    the line after a mention is not a mention."""
    cosine: Floats
    """As given."""


@dataclass(frozen=True, slots=True)
class Ranking:
    """What is known about a pool before any vector is compared: embedding the question takes longer than this."""

    lines: Lines
    score: Floats
    coverage: Floats
    evidence: Floats
    near: _Near
    replies: Replies
    cosine: float
    """How much the cosine counts for this topic."""
    weights: Weights
    said: SpeakerWeights | None
    present: Floats
    """Message by word of the topic: 1 if the message has the word."""
    share: Floats
    """What each word is worth; the sum is 1."""
    rarity: Floats
    """The same, comparable between questions."""
    of_emoji: bool
    """Whether the topic is emoji only. The model sees each of them as the same unknown word."""

    def scores(self, cosines: Floats) -> Scores:
        """The final scores; a message without a vector has a cosine of NaN."""
        cosine = np.fmax(cosines, 0.0)
        score = self.score + self.cosine * (cosine + self.weights.cosine_near * self.near.cosine(cosine))
        if self.said is not None:
            score += self.said.parent_cosine * self.replies.above(cosine)
        return Scores(score, self.evidence + 0.5 * cosine, self.coverage, cosines)


def rank(pool: Pool, ask: RankingQuery, weights: Weights = SHIPPED) -> Scores:
    """Score every message of the pool."""
    return read_pool(pool, ask, weights).scores(pool.cosines)


def read_pool(pool: Pool, ask: RankingQuery, weights: Weights = SHIPPED) -> Ranking:
    """Everything but the cosines, which may still be on their way."""
    topic, emoji = tuple(dict.fromkeys(stems(ask.topic))), emoji_of(ask.topic)
    lines = read_lines(list(map(text_of, pool.messages)))
    present, literal = lines.having(ask.topic, forgiving=ask.wants_fact)
    if emoji:
        topic, present = emoji, _shown(pool.messages, emoji)
        literal = present
    found = TopicWords(present, literal, _rarity(pool, topic, present))
    share = found.rarity / found.rarity.sum() if topic else found.rarity
    replies = Replies.among(pool.messages)
    own = _own(pool.messages, topic, present, weights.parent * np.minimum(replies.above(present), 1.0), weights)
    people = len({message.author_id for message in pool.messages})
    near = _Near(stretches(pool.messages), _near_share(people, weights))
    wide = (1.0 - (1.0 - own) * (1.0 - near.words(present, weights))) @ share
    score = weights.words * wide / (weights.relative * wide.max(initial=0.0) + 1.0 - weights.relative + 1e-9)
    score += _situation(pool.messages, lines, ask, weights)
    coverage = evidence = own @ share
    said = weights.said if _wants_words(ask) else None
    if said is not None:
        mine = np.array([message.author_id in ask.speakers for message in pool.messages], dtype=bool)
        seen = speaker_columns(found, PoolFeatures(lines, mine, replies, np.zeros(len(pool.messages)), people))
        score += speaker_worth(said, seen)
        evidence = np.maximum(coverage, THREAD_EVIDENCE * seen[THREAD])
    elif weights.facts is not None:
        covered = present @ share if topic else np.zeros(len(pool.messages))
        now = None if ask.speakers else ask.now
        score += fact_worth(weights.facts, fact_columns(pool.messages, lines, covered, replies, ask.wants, now))
    counts = min(weights.cosine_most, weights.cosine + weights.cosine_word * max(0, len(topic) - 1))
    if said is None and weights.facts is not None:
        counts += weights.facts.cosine
    return Ranking(
        lines,
        score,
        coverage,
        evidence,
        near,
        replies,
        counts,
        weights,
        said,
        present,
        share,
        found.rarity,
        bool(emoji),
    )


def _wants_words(ask: RankingQuery) -> bool:
    """Whether the comparison is between lines by the same speakers."""
    return bool(ask.speakers) and not ask.wants_fact


def order(pool: Pool, scores: Scores) -> list[int]:
    """Indexes, best first; the newest first among equals."""
    times = np.array([message.ts for message in pool.messages])
    best: list[int] = np.lexsort((-times, -scores.rank.round(6))).tolist()
    return best


def _shown(messages: Sequence[AnyMessage], topic: Sequence[str]) -> Floats:
    """1 where a message has an emoji of the topic, which is not a word."""
    shown = [sign in message.content for message in messages for sign in topic]
    return np.array(shown, float).reshape(len(messages), len(topic))


def _own(
    messages: Sequence[AnyMessage], topic: Sequence[str], present: Floats, above: Floats, weights: Weights
) -> Floats:
    """Per message and word of the topic: the chance that the message, what it answers or its date matches the word."""
    covered = 1.0 - (1.0 - present) * (1.0 - above)
    dated = _dated(messages, topic)
    return covered if dated is None else np.maximum(covered, weights.date * dated)


def _near_share(people: int, weights: Weights) -> float:
    crowd = min(1.0, 2.0 / max(1, people))
    return weights.near_crowd + (weights.near_alone - weights.near_crowd) * crowd


class _Near(NamedTuple):
    """What the neighbours in the same stretch of talk contribute."""

    stretch: NDArray[np.int64]
    share: float

    def words(self, present: Floats, weights: Weights) -> Floats:
        near = np.zeros_like(present)
        for distance, weight in enumerate(weights.near, start=1):
            if distance >= len(present):
                break
            same = (self.stretch[distance:] == self.stretch[:-distance])[:, None] * weight
            near[distance:] += same * present[:-distance]
            near[:-distance] += same * present[distance:]
        return self.share * np.minimum(near, 1.0)

    def cosine(self, cosine: Floats) -> Floats:
        same = self.stretch[1:] == self.stretch[:-1]
        best = np.zeros_like(cosine)
        best[1:] = same * cosine[:-1]
        best[:-1] = np.maximum(best[:-1], same * cosine[1:])
        return self.share * best


def stretches(messages: Sequence[AnyMessage]) -> NDArray[np.int64]:
    """The number of each message's stretch."""
    times, channels = np.array([message.ts for message in messages]), [message.channel_id for message in messages]
    breaks = np.abs(np.diff(times)) > SESSION_S
    if len(set(channels)) > 1:
        breaks |= np.array([after != before for before, after in pairwise(channels)], bool)
    return np.concatenate(([0], np.cumsum(breaks)))


def _rarity(pool: Pool, topic: Sequence[str], present: Floats) -> Floats:
    """How much each word of the topic counts: inverse document frequencies as in BM25."""
    frequency = present.sum(axis=0)
    total = max(pool.total, len(pool.messages))
    if pool.counts is not None:
        counted = np.array([pool.counts.get(word, 0) for word in topic], dtype=float)
        frequency = np.minimum(np.maximum(frequency, counted), total)
    rarity: Floats = np.log1p((total - frequency + 0.5) / (frequency + 0.5))
    return rarity


def _dated(messages: Sequence[AnyMessage], topic: Sequence[str]) -> Floats | None:
    """1 where a month or year in the topic matches the message's date; None if the topic has neither."""
    months = {column: _MONTH_STEMS.index(word) + 1 for column, word in enumerate(topic) if word in _MONTH_STEMS}
    years = {column: int(word) for column, word in enumerate(topic) if word.isdecimal() and len(word) == 4}
    if not months and not years:
        return None
    dates = [datetime.fromtimestamp(message.ts, UTC) for message in messages]
    dated = np.zeros((len(messages), len(topic)))
    for column, month in months.items():
        dated[:, column] = [date.month == month for date in dates]
    for column, year in years.items():
        dated[:, column] = [date.year == year for date in dates]
    return dated


def _situation(messages: Sequence[AnyMessage], lines: Lines, ask: RankingQuery, weights: Weights) -> Floats:
    """Evidence for a message apart from its words: who wrote it, when, and what kind of line it is."""
    question = weights.question_for_fact if ask.wants_fact else 0.0 if ask.speakers else weights.question
    score: Floats = -question * lines.asking - weights.fragment * lines.is_fragment
    if len(ask.speakers) == 1:
        score += [weights.speaker if message.author_id in ask.speakers else 0.0 for message in messages]
    if ask.window != Window():
        score += [weights.window if ask.window.contains(message.ts) else 0.0 for message in messages]
    return score
