"""Words for the full-text index. In: a word as people write it. Out: what RediSearch made of it when it indexed it."""

from __future__ import annotations

import re

from channelmem.store.documents import clean

_STOP_WORDS = (
    "a is the an and are as at be but by for if in into it no not of on or such that their then there these they "
    "this to was will with"
)
STOP_WORDS = frozenset(_STOP_WORDS.split())
# What RediSearch splits text at; the underscore is a letter to it.
_SEPARATORS = re.compile(r"[\s,.<>{}\[\]\"':;!@#$%^&*()\-+=~|/\\?`\u0000-\u001f]+")


def tokens(word: str) -> list[str]:
    """A word as RediSearch indexed it: split at its separators, with everything escaped that it could read as syntax.

    Leaves out stop words: no index holds them, and a clause of nothing else would match every message.
    """
    parts = [part for part in _SEPARATORS.split(clean(word)) if part and part.lower() not in STOP_WORDS]
    return [re.sub(r"(\W)", r"\\\1", part, flags=re.ASCII) if part.isascii() else part for part in parts]
