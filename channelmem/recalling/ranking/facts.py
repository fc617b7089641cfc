"""Extra evidence for a line when the question asks for a fact ("when is the match?"), whoever wrote it.

Enters: what `rank` knows about the pool. Leaves: a number per message to add to its score. The formula in `rank`
measures how much of the topic a line covers; but the line that covers it best is often somebody's question, or a plan
that was changed since. So what answers such a question counts here, whether a line has the kind of thing that is asked
for, and how recent it is.

The weights are fitted by scripts/train_facts.py to the scenes in tests/data, and measured with whole scenes left out.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Final

import numpy as np
from numpy.typing import NDArray

from channelmem.recalling.ranking.line import tells
from channelmem.recalling.ranking.lines import Lines
from channelmem.recalling.ranking.reply_graph import Replies
from channelmem.store.documents import AnyMessage
from channelmem.types import Wants

Floats = NDArray[np.float64]

LONG: Final = 8
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


def columns(
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
            np.zeros(len(lines)),
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


def worth(weights: FactWeights, seen: Floats) -> Floats:
    value: Floats = np.array([getattr(weights, name) for name in _FIELDS]) @ seen
    return value


_FIELDS: Final = tuple(field.name for field in fields(FactWeights))
