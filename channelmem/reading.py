"""From a question's text to tokens: the first stage of the router.

Enters: raw text. Leaves: `Token`s with what was written and its folded form; code blocks, quoted lines and links are
gone, quoted phrases are single opaque tokens, contractions and chat slang are plain words.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from channelmem.lexicon import CODES, EXPAND
from channelmem.people import fold

HEAD_CHARS, TAIL_CHARS = 600, 200
QUOTED = "\x00"

_CODE = re.compile(r"```.*?(?:```|\Z)|`[^`\n]*`|^\s*>.*$", re.DOTALL | re.MULTILINE)
_CODE_LINE = re.compile(r"^[ \t]*>.*$", re.MULTILINE)
_FENCE = re.compile(r"```.*?(?:```|\Z)|`[^`\n]+`", re.DOTALL)
_QUOTE = re.compile(
    r"\"([^\"\n]{1,300})\"|“([^”\n]{1,300})”|«([^»\n]{1,300})»|(?<!\w)['‘]([^'’\n]{1,300}(?:['’]\w[^'’\n]{0,300})?)['’](?!\w)"
)
_TOKEN = re.compile(
    r"<[@#:a][^<>\s]{1,60}>|https?://\S+|\x00|\d+(?:[:/.\-]\d+)+(?:[ap]m)?|tl[;:/ ]dr|@|\w+(?:['’.\-]\w+)*|[^\w\s]",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Token:
    text: str
    """As written; empty for the second half of a contraction."""
    word: str
    """Folded; a possessive without its ending."""
    possessive: bool = False


def read(text: str) -> list[Token]:
    """The tokens of the part of the text that is worth looking at."""
    if len(text) > HEAD_CHARS + TAIL_CHARS:
        text = f"{text[:HEAD_CHARS]} {text[-TAIL_CHARS:]}"
    quotes: list[str] = []
    if "`" in text:
        text = _FENCE.sub(" ", text)
    if ">" in text:
        text = _CODE_LINE.sub(" ", text)

    def keep(match: re.Match[str]) -> str:
        quotes.append(next(group for group in match.groups() if group is not None))
        return f" {QUOTED} "

    if not _NO_QUOTE.isdisjoint(text):
        text = _QUOTE.sub(keep, text.replace(QUOTED, " "))
    tokens: list[Token] = []
    for piece in _TOKEN.findall(text):
        if piece == QUOTED:
            tokens.append(Token(quotes.pop(0) if quotes else "", QUOTED))
        elif not piece.startswith("http"):
            _append(tokens, piece)
    return tokens


_NO_QUOTE = frozenset("\"“«'‘\x00")


def _append(tokens: list[Token], piece: str) -> None:
    word = fold(piece).replace("’", "'")
    plain = EXPAND.get(word)
    if plain is None and "'" in word:
        plain = _contraction(word)
    if plain is None:
        owner = word.removesuffix("'s")
        tokens.append(Token(piece, owner, owner is not word))
        return
    tokens.append(Token(piece, plain[0]))
    tokens += [Token("", more) for more in plain[1:]]


_ENDINGS = {"'s": "is", "'re": "are", "'ve": "have", "'d": "did", "'ll": "will", "'m": "am"}


def _contraction(word: str) -> tuple[str, ...] | None:
    """ "what's" is two words; "bob's" is not, for now: whether it means "is" is decided by what follows."""
    cut = word.rfind("'")
    stem, ending = word[:cut], _ENDINGS.get(word[cut:])
    if ending is None:
        return ("will",) if word == "won't" else (word[:-3],) if word.endswith("n't") and word[:-3] in CODES else None
    if ending == "is" and CODES.get(stem) not in {"q", "h", "o", "i", "y", "e", "W", "g", "t", "s"}:
        return None
    return stem, ending
