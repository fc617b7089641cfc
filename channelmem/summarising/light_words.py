"""Words that any chat is full of: praise, thanks and cheer, and verbs and nouns that say little on their own.

Leaves: `LIGHT`, their stems, which count less in a summary and are no topic; and the ways to address somebody
(`name_forms`), which every line has anyway.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from channelmem.recalling.ranking.line import stem

_COURTESY: Final = """
amazing awesome great good nice cool glad happy love thanks thank wow sound wonderful fantastic incredible sure
definitely totally absolutely hope proud excited exciting fun best luck congrats congratulations keep feel sorry hear
interesting inspiring bet super kinda lot bit way stuff thing pretty yay haha beautiful lovely enjoy wish appreciate
hey agree
"""
_EMPTY: Final = "know think look want make mean see time take tell lately check chat talk day new need help try"

LIGHT: Final = frozenset(stem(word) for word in (_COURTESY + _EMPTY).split())
_SHORTEST_NAME: Final = 3


def name_forms(names: Iterable[str]) -> frozenset[str]:
    """The words of these names in lower case, their stems, and short forms: "mel" for Melanie."""
    words = {word for name in set(names) for word in name.lower().split()}
    short = {word[:end] for word in words for end in range(_SHORTEST_NAME, len(word))}
    return frozenset(words | short | {stem(word) for word in words})
