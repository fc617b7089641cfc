"""Ranking: which of these messages does the question mean? Pure functions over what a search returned.

Enters: a `Pool` (messages of one or more channels in order, including the candidates' neighbours, with their cosine to
the topic) and a `RankingQuery` (what the question is about). Leaves: two scores. One orders the messages; the other,
the `evidence`, can be compared with a threshold because nothing in it depends on the other candidates.

People speak in fragments, so a word of the topic counts for a message if the message has it, else with the chance that
the message it answers has it (the soft parents stored with it), else, more weakly, if a neighbour in the same stretch
of talk has it. These chances are combined per word as independent reasons (1 - product of misses) and weighted by how
rare the word is; then the cosine is added. The same formula ranks the buffer of a busy channel and the long archive of
two people.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import pairwise
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from channelmem.recalling.ranking import facts
from channelmem.recalling.ranking.facts import FactWeights
from channelmem.recalling.ranking.line import emoji_of, read, read_message, stem, stems, text_of
from channelmem.recalling.ranking.lines import Lines, read_lines
from channelmem.recalling.ranking.reply_graph import Replies
from channelmem.recalling.ranking.speaker import THREAD, PoolFeatures, SpeakerWeights, TopicWords, columns, worth
from channelmem.store.documents import AnyMessage
from channelmem.types import Wants, Window

Floats = NDArray[np.float64]

_MONTH_NAMES: Final = "january february march april may june july august september october november december"
_MONTHS: Final = tuple(map(stem, _MONTH_NAMES.split()))
SESSION_S: Final = 3_600.0
"""A longer silence ends a stretch of talk: messages before it are not neighbours."""
THREAD_EVIDENCE: Final = 0.5
"""Somebody who takes part in a thread probably talks about its subject, though less surely than by answering it."""


@dataclass(frozen=True, slots=True)
class Weights:
    """How much each ingredient counts. Set by hand while watching the IRC and LoCoMo figures, so both are development
    data for them; docs/recall.md says how many settings were compared and what each ingredient gains."""

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
    said: SpeakerWeights | None = SpeakerWeights()  # noqa: RUF009  (frozen)
    """What is added if the question asks for somebody's own words."""
    facts: FactWeights | None = FactWeights()  # noqa: RUF009  (frozen)
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


@dataclass(frozen=True, slots=True)
class Reading:
    """What is known about a pool before any vector is compared: embedding the question takes longer than this."""

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

    def scores(self, cosines: Floats) -> Scores:
        """The final scores; a message without a vector has a cosine of NaN."""
        cosine = np.fmax(cosines, 0.0)
        score = self.score + self.cosine * (cosine + self.weights.cosine_near * self.near.cosine(cosine))
        if self.said is not None:
            score += self.said.parent_cosine * self.replies.above(cosine)
        return Scores(score, self.evidence + 0.5 * cosine, self.coverage)


def rank(pool: Pool, ask: RankingQuery, weights: Weights = SHIPPED) -> Scores:
    """Score every message of the pool."""
    return read_pool(pool, ask, weights).scores(pool.cosines)


def read_pool(pool: Pool, ask: RankingQuery, weights: Weights = SHIPPED) -> Reading:
    """Everything but the cosines, which may still be on their way."""
    asked, topic, emoji = read(ask.topic), tuple(dict.fromkeys(stems(ask.topic))), emoji_of(ask.topic)
    lines = read_lines(list(map(text_of, pool.messages)))
    present, literal = lines.having(asked, topic)
    if emoji:
        topic, present = emoji, _shown(pool.messages, emoji)
        literal = present
    found = TopicWords(present, literal, _rarity(pool, topic, present))
    share = found.rarity / found.rarity.sum() if topic else found.rarity
    replies = Replies.among(pool.messages)
    own = _own(pool.messages, topic, present, weights.parent * np.minimum(replies.above(present), 1.0), weights)
    people = len({message.author_id for message in pool.messages})
    near = _Near(_stretches(pool.messages), _near_share(people, weights))
    wide = (1.0 - (1.0 - own) * (1.0 - near.words(present, weights))) @ share
    score = weights.words * wide / (weights.relative * wide.max(initial=0.0) + 1.0 - weights.relative + 1e-9)
    score += _situation(pool.messages, lines, ask, weights)
    coverage = evidence = own @ share
    said = weights.said if _wants_words(ask) else None
    if said is not None:
        mine = np.array([message.author_id in ask.speakers for message in pool.messages], dtype=bool)
        seen = columns(found, PoolFeatures(lines, mine, replies, np.zeros(len(lines)), people))
        score += worth(said, seen)
        evidence = np.maximum(coverage, THREAD_EVIDENCE * seen[THREAD])
    elif weights.facts is not None:
        covered = present @ share if topic else np.zeros(len(lines))
        now = None if ask.speakers else ask.now
        score += facts.worth(weights.facts, facts.columns(pool.messages, lines, covered, replies, ask.wants, now))
    counts = min(weights.cosine_most, weights.cosine + weights.cosine_word * max(0, len(topic) - 1))
    if said is None and weights.facts is not None:
        counts += weights.facts.cosine
    return Reading(score, coverage, evidence, near, replies, counts, weights, said, present, share)


def _wants_words(ask: RankingQuery) -> bool:
    """Whether the comparison is between lines by the same speakers."""
    return bool(ask.speakers) and not ask.wants_fact


def order(pool: Pool, scores: Scores) -> list[int]:
    """Indexes, best first; the newest first among equals."""
    times = np.array([message.ts for message in pool.messages])
    best: list[int] = np.lexsort((-times, -scores.rank.round(6))).tolist()
    return best


def distinct(messages: Sequence[AnyMessage], indexes: Iterable[int], limit: int) -> list[int]:
    """The first `limit` messages, skipping repeats: the same author saying the same words again."""
    seen: set[tuple[int, frozenset[str] | str]] = set()
    kept: list[int] = []
    for index in indexes:
        message = messages[index]
        key = (message.author_id, read_message(message).stems or message.content)
        if key not in seen:
            seen.add(key)
            kept.append(index)
        if len(kept) == limit:
            break
    return kept


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


def _stretches(messages: Sequence[AnyMessage]) -> NDArray[np.int64]:
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
    months = {column: _MONTHS.index(word) + 1 for column, word in enumerate(topic) if word in _MONTHS}
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
