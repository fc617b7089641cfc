"""Extra evidence for a line when the question asks for somebody's own words ("what did Ann say about grub?").

Enters: what `rank` knows about the pool. Leaves: a number per message to add to its score. The formula in `rank`
measures how much of the topic a line covers. But people answer without repeating the topic, and questions use words
from all over the exchange, so the rest of the thread counts here too, and so do words that single out one of the
speaker's lines.

The weights are fitted by scripts/train_rank.py to questions made from #ubuntu and four other IRC channels (Kummerfeld
et al., ACL 2019; Gouravajhala et al., ALTA 2023; CC BY 4.0). None is negative: no feature is evidence against a line.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from channelmem.recalling.ranking.lines import Lines
from channelmem.recalling.ranking.reply_graph import Replies

Floats = NDArray[np.float64]

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


def columns(words: TopicWords, scene: PoolFeatures) -> Floats:
    """One row per field of `SpeakerWeights`, one column per message."""
    share = words.rarity / max(float(words.rarity.sum()), 1e-9)
    alone = share * (words.present[scene.mine].sum(axis=0) == 1)
    company = 1.0 - min(1.0, 2.0 / max(1, scene.people))
    rarest = (words.present * words.rarity).max(axis=1, initial=0.0) / words.rarity.max(initial=1e-9)
    found = np.empty((len(_FIELDS), len(scene.lines)))
    found[0] = words.literal @ share
    found[1] = words.present @ alone
    found[2] = rarest * rarest
    found[3] = company * (((1.0 - words.present) * scene.replies.around(words.present)) @ share)
    found[4] = scene.replies.above(scene.cosine)
    found[5] = np.maximum(np.minimum(1.0, scene.lines.length / LONG), words.present @ share)
    found[6] = np.maximum(np.arange(1 - len(scene.lines), 1), -OLD) / OLD
    return found


def worth(weights: SpeakerWeights, seen: Floats) -> Floats:
    value: Floats = np.array([getattr(weights, name) for name in _FIELDS]) @ seen
    return value


_FIELDS: Final = tuple(field.name for field in fields(SpeakerWeights))
THREAD: Final = _FIELDS.index("thread")
