"""What a stretch of conversation is about, in a few words. Enters: messages, or topics below. Leaves: a short list.

Offline and by counting: words and pairs of words that come up in several messages, without what any chat is full of
and without the names of those who speak. Where nothing comes up twice, names and long words stand for the rest.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Final

from channelmem.recalling.ranking.line import stem
from channelmem.summarising.light_words import LIGHT

MOST_TOPICS: Final = 4
TOPIC_CHARS: Final = 32
_WORD: Final = re.compile(r"[^\W\d_][\w'’.+#-]*[\w+#]")  # noqa: RUF001  (people type this apostrophe)
_LINK: Final = re.compile(r"https?://\S+|www\.\S+")
_SHORTEST: Final = 3
_LONG: Final = 5
# What people did, wanted or felt is rarely what they talked about.
_OTHER_WORDS: Final = """
back come came start started find found give gave put work working use used using last next today yesterday tomorrow
monday tuesday wednesday thursday friday saturday sunday week month year weekend ago always never maybe first one two
people someone guys guy everyone others around still even already soon later long little big old right left wait
remember forget believe guess seem happen learn share show spend meet met important special perfect hard easy tough
better real life moment experience idea place end turn run made let call ask getting part set kind able recently
morning evening night tonight minute hour together currently
"""
_NO_TOPIC: Final = frozenset(stem(word) for word in _OTHER_WORDS.split())


@dataclass(slots=True)
class _Term:
    """A word or two that may be a topic."""

    messages: set[int] = field(default_factory=set)
    forms: Counter[str] = field(default_factory=Counter)
    names: int = 0
    """How often it was capitalised inside a sentence."""

    def worth(self, words: int) -> float:
        """Pairs of words say more than words, names more than nouns, long words more than short ones."""
        spread = len(self.messages)
        named = 1.5 if 2 * self.names > self.forms.total() else 1.0
        length = 1.0 if max(map(len, self.forms)) > _LONG else 0.8
        # A pair that was said once is chance, unless it is a name.
        paired = 1.0 if words == 1 else 2.0 if spread > 1 or named > 1 else 0.4
        return spread * named * length * paired

    def shown(self) -> str:
        """As most people wrote it."""
        return min(self.forms.items(), key=lambda form: (-form[1], form[0]))[0]


def topics(texts: Sequence[str], speakers: Collection[str] = (), most: int = MOST_TOPICS) -> tuple[str, ...]:
    """What these messages are about; `speakers` has the stems of names that are no topic."""
    terms: dict[tuple[str, ...], _Term] = {}
    for at, text in enumerate(texts):
        _count(terms, at, _LINK.sub(" ", text), speakers)
    ranked = sorted(terms, key=lambda key: (-terms[key].worth(len(key)), min(terms[key].messages), key))
    chosen: list[tuple[str, ...]] = []
    for key in ranked:
        if len(chosen) == most:
            break
        shown = terms[key].shown()
        # "support group" and "group" are one topic.
        if len(shown) <= TOPIC_CHARS and not any(set(key) & set(other) for other in chosen):
            chosen.append(key)
    return tuple(terms[key].shown() for key in chosen)


def common_topics(older: Sequence[str], newer: Sequence[str], text: str, most: int = MOST_TOPICS) -> tuple[str, ...]:
    """The topics of two neighbours as one list: what both have, then what the text still speaks of, by rank."""
    told = text.lower()
    place = {topic: at for some in (newer, older) for at, topic in enumerate(some)}
    both = {topic.lower() for topic in older} & {topic.lower() for topic in newer}
    ranked = sorted(
        dict.fromkeys((*older, *newer)), key=lambda one: (one.lower() not in both, one.lower() not in told, place[one])
    )
    distinct = {topic.lower(): topic for topic in reversed(ranked)}
    return tuple(reversed(distinct.values()))[:most]


def _count(terms: dict[tuple[str, ...], _Term], at: int, text: str, speakers: Collection[str]) -> None:
    before: tuple[str, str, bool, int] | None = None
    for found in _WORD.finditer(text):
        word, base = found[0], _topical(found[0], speakers)
        if not base:
            before = None
            continue
        inside = word[0].isupper() and bool(
            re.search(r"[\w,;:'\"(&-]\s$", text[max(0, found.start() - 2) : found.start()])
        )
        shown = word if inside or word.isupper() else word.lower()
        _note(terms, (base,), at, shown, named=inside)
        if before is not None and text[before[3] : found.start()].isspace():
            _note(terms, (before[0], base), at, f"{before[1]} {shown}", named=inside and before[2])
        before = (base, shown, inside, found.end())


def _note(terms: dict[tuple[str, ...], _Term], key: tuple[str, ...], at: int, shown: str, *, named: bool) -> None:
    term = terms.setdefault(key, _Term())
    term.messages.add(at)
    term.forms[shown] += 1
    term.names += named


def _topical(word: str, speakers: Collection[str]) -> str:
    """The word's stem; empty if it cannot be part of a topic."""
    base = stem(word.lower())
    useless = base in LIGHT or base in _NO_TOPIC or base in speakers or len(word) < _SHORTEST
    return "" if useless else base
