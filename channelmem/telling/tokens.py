"""How many tokens a text costs. Enters: text. Leaves: a count by a real tokenizer (MiniLM's WordPiece).

An upper bound that needs no tokenizer comes first (`fits`). Beyond it, words are counted one by one and remembered:
WordPiece never joins characters across white space, so a text costs exactly the sum of its words, and people repeat
their words. This needs neither torch nor the model: the vocabulary is read from the installed package.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Final

from tokenizers import Tokenizer

from channelmem.embedding import weights

_UNKNOWN: Final = "[UNK]"
_MOST_WORDS: Final = 50_000


def bound(text: str) -> int:
    """An upper bound for `count`: a token stands for at least one byte."""
    return len(text) if text.isascii() else len(_encodable(text).encode())


def fits(text: str, budget: int) -> bool:
    """Whether the text costs at most `budget`; short texts need no tokenizer."""
    return bound(text) <= budget or count(text) <= budget


def count(text: str) -> int:
    """The text's tokens, without the two marks that a model puts around it."""
    return counts((text,))[0]


def counts(texts: Sequence[str]) -> list[int]:
    """`count` of each; words not seen before go to the tokenizer in one call."""
    return _words.counts([text.split() for text in texts])


def warm() -> None:
    """Load the tokenizer now (a tenth of a second), rather than with the first long context."""
    _tokenizer()


class _Words:
    """What words cost, remembered up to a limit."""

    def __init__(self) -> None:
        self._costs: dict[str, int] = {}

    def counts(self, texts: Sequence[Sequence[str]]) -> list[int]:
        if len(self._costs) > _MOST_WORDS:
            self._costs = {}
        # Keep this dictionary: a thread that starts over meanwhile must not take these entries away.
        costs = self._costs
        unknown = list(dict.fromkeys(word for words in texts for word in words if word not in costs))
        if unknown:
            costs.update(zip(unknown, _costs(unknown), strict=True))
        return [sum(costs[word] for word in words) for words in texts]


_words: Final = _Words()


def _costs(words: Sequence[str]) -> list[int]:
    encoded = _tokenizer().encode([_encodable(word) for word in words], is_pretokenized=True, add_special_tokens=False)
    costs = [0] * len(words)
    for at, token, (start, end) in zip(encoded.word_ids, encoded.tokens, encoded.offsets, strict=True):
        if at is not None:
            costs[at] += _unknown_cost(words[at][start:end]) if token == _UNKNOWN else 1
    return costs


def _unknown_cost(span: str) -> int:
    # WordPiece treats a run of emoji or a word of 500 letters as one unknown token; a language model does not, and
    # nobody should be able to fill a context for the price of one. Such runs cost about half their bytes.
    return max(1, bound(span) // 2)


def _encodable(text: str) -> str:
    # The tokenizer cannot encode half of a surrogate pair, which broken clients send.
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


@cache
def _tokenizer() -> Tokenizer:
    tokenizer = Tokenizer.from_buffer(weights.read("tokenizer.json"))
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer
