"""From a question's text to tokens: the first stage of the router.

Enters: raw text. Leaves: `Token`s with what was written and its folded form; code blocks, quoted lines and links are
gone, quoted phrases are single opaque tokens, contractions and chat slang are plain words.
"""

from __future__ import annotations

import re
from collections.abc import Container
from typing import NamedTuple

from channelmem.routing.lexicon import CODES, word_set
from channelmem.routing.people import fold
from channelmem.routing.slang import EXPAND

# A question is short; of a pasted text only its ends can be one.
HEAD_CHARS, TAIL_CHARS = 600, 200
HEAD_TOKENS, TAIL_TOKENS = 70, 30
QUOTED = "\x00"

_FENCE = re.compile(r"```.*?(?:```|\Z)|`[^`\n]+`", re.DOTALL)
# A call with a string in it: print('what did bob say')
_CALL = re.compile(r"[\w.]+\(\s*[\"'][^()\n]{0,300}\)")
_QUOTED_LINE = re.compile(r"^[ \t]*>.*$", re.MULTILINE)
_PLAIN_MARKS = str.maketrans("\u2019\u2018\u02bc\u00b4\u2026", "''''.")
_QUOTE_MARKS = frozenset("\"'\u201c\u201e\u00ab")
_QUOTE = re.compile(
    '"([^"\n]{1,300})"|[\u201c\u201e]([^\u201d\u201c\n]{1,300})[\u201d\u201c]|\u00ab([^\u00bb\n]{1,300})\u00bb'
    r"|(?<!\w)'([^'\n]{1,300}(?:'\w[^'\n]{0,300}){0,2})'(?!\w)"
)
_TOKEN = re.compile(
    r"<[@#:a][^<>\s]{1,60}>|https?://\S+|\x00|\d+(?:[:/.\-]\d+)+(?:[ap]m)?|tl[;:/]dr|\w+(?:['.\-]\w+)*|[^\w\s]",
    re.IGNORECASE,
)
_NOISE = frozenset("`*_~|^\\#=<>[]{}\"'%")
_TITLES = word_set("mr mrs ms dr st jr sr prof")
_ENDINGS = {"'s": "is", "'re": "are", "'ve": "have", "'d": "did", "'ll": "will", "'m": "am"}
_NEGATED = {"won't": "will", "can't": "can", "shan't": "shall", "ain't": "is"}
_TAKES_IS = frozenset("qhoiyeWgtsk")


class Token(NamedTuple):
    """`text` as written (empty for the second half of a contraction), `word` folded and without a possessive ending."""

    text: str
    word: str
    possessive: bool = False


def read(text: str, names: Container[str] = ()) -> list[Token]:
    """The tokens of the part of the text that is worth looking at; `names` are never taken for slang."""
    if len(text) > HEAD_CHARS + TAIL_CHARS:
        text = f"{text[:HEAD_CHARS]} {text[-TAIL_CHARS:]}"
    text, quotes = _without_quotes(text if text.isascii() else text.translate(_PLAIN_MARKS))
    pieces = _TOKEN.findall(text)
    middle = range(HEAD_TOKENS, len(pieces) - TAIL_TOKENS)
    tokens: list[Token] = []
    for i, piece in enumerate(pieces):
        if piece == QUOTED:
            quoted = Token(quotes.pop(0), QUOTED)
            tokens += [] if i in middle else [quoted]
        elif i in middle or piece in _NOISE or piece.startswith("http") or (piece == "." and _after_title(tokens)):
            continue
        else:
            _append(tokens, piece, names)
    return tokens


def _after_title(tokens: list[Token]) -> bool:
    return bool(tokens) and tokens[-1].word in _TITLES


def _without_quotes(text: str) -> tuple[str, list[str]]:
    quotes: list[str] = []

    def keep(match: re.Match[str]) -> str:
        quotes.append(next(group for group in match.groups() if group is not None))
        return f" {QUOTED} "

    if "`" in text:
        text = _FENCE.sub(" ", text)
    if "(" in text:
        text = _CALL.sub(" ", text)
    if ">" in text:
        text = _QUOTED_LINE.sub(" ", text)
    text = text.replace(QUOTED, " ")
    return (text if _QUOTE_MARKS.isdisjoint(text) else _QUOTE.sub(keep, text)), quotes


def _append(tokens: list[Token], piece: str, names: Container[str]) -> None:
    word = fold(piece)
    plain = None if word in names else EXPAND.get(word)
    if plain is None and "'" in word and word not in names:
        plain = _contraction(word)
    if plain is None:
        owner = word.removesuffix("'s")
        tokens.append(Token(piece, owner, owner is not word))
        return
    tokens.append(Token(piece, plain[0]))
    tokens += [Token("", more) for more in plain[1:]]


def _contraction(word: str) -> tuple[str, ...] | None:
    """What's is two words; bob's is not, for now: whether it means "is" is decided by what follows."""
    cut = word.rfind("'")
    stem, ending = word[:cut], _ENDINGS.get(word[cut:])
    if word.endswith("n't"):
        return (_NEGATED.get(word, word[:-3]),)
    if ending == "did" and CODES.get(stem, "x") in "iyeWgts":
        ending = "would"
    if ending is None or (ending == "is" and CODES.get(stem, "x") not in _TAKES_IS):
        return None
    return (*EXPAND.get(stem, (stem,)), ending)
