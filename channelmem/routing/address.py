"""What surrounds a question: address and greeting before it, the material of a task behind it.

Enters: tokens. Leaves: the tokens after "@bot hey,", and whether they are a task like "translate this: ...".
"""

from __future__ import annotations

from functools import lru_cache

from channelmem.routing.lexicon import CODES, word_set
from channelmem.routing.people import fold
from channelmem.routing.reading import Token
from channelmem.types import Person

_MARKS = frozenset(",.@!:;-~?\u2026")


def without(tokens: list[Token], bot: Person) -> list[Token]:
    """The tokens without address and greeting at their beginning and marks at their end."""
    idle = _idle(bot)
    start, end = 0, len(tokens)
    while start < end and tokens[start].word in idle:
        start += 1
    while end > start and tokens[end - 1].word in _MARKS:
        end -= 1
    return tokens[start:end]


@lru_cache(maxsize=256)
def _idle(bot: Person) -> frozenset[str]:
    """What may stand before a question without being part of it: the bot's names, fillers, marks."""
    names = {fold(name) for name in (bot.name, *bot.aliases)} | {f"<@{bot.id}>", f"<@!{bot.id}>", "bot"}
    return _MARKS | names | {word for word, code in CODES.items() if code == "l"}


_TASKS = word_set(
    """translate summarize summarise rewrite rephrase paraphrase explain correct fix proofread format convert
    define write answer solve debug sum draft improve review classify parse check spell complete continue
    make turn say repeat"""
)


def has_payload(tokens: list[Token]) -> bool:
    """A task with its material is no question of ours: "summarize this article: people said ..."."""
    colon = next((i for i, token in enumerate(tokens[:-1]) if i and token.word == ":"), 0)
    if not colon:
        return False
    return tokens[0].word in _TASKS or (colon > 1 and tokens[colon - 2].word in {"this", "following", "my"})
