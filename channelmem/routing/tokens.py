"""From a question's text to tokens: the first stage of the router.

Enters: raw text. Leaves: `Token`s with the text as written and its folded form. Code blocks, quoted lines and links are
removed, quoted phrases become single opaque tokens, contractions and chat slang become plain words. `unaddressed`
removes what surrounds the question, such as "@bot hey,"; `has_payload` recognises a task such as "translate this: ..."
by the material that comes with it.
"""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache
from itertools import chain, repeat
from typing import NamedTuple

from channelmem.routing.lexicon import CODES, word_set
from channelmem.routing.slang import EXPAND
from channelmem.types import Person

# A question is short; in a pasted text, only the beginning or the end can be one.
HEAD_CHARS, TAIL_CHARS = 600, 200
HEAD_TOKENS, TAIL_TOKENS = 70, 30
QUOTED = "\x00"

_FENCE = re.compile(r"```.*?(?:```|\Z)|`[^`\n]+`", re.DOTALL)
# A call with a string argument, or with none: print('what did bob say'), recap()
_CALL = re.compile(r"[\w.]+\(\s*(?:[\"'][^()\n]{0,300})?\)")
_QUOTED_LINE = re.compile(r"^[ \t]*>.*$", re.MULTILINE)
_PLAIN_MARKS = str.maketrans("\u2019\u2018\u02bc\u00b4\u2026", "''''.")
_QUOTE_MARKS = frozenset('"\u201c\u201e\u00ab')
_MARKUP = frozenset("`(>'\x00") | _QUOTE_MARKS
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


_FULL_STOP = Token(".", ".")


def fold(text: str) -> str:
    """Lower case without accents, so that 'Zoë' and 'zoe' are the same name."""
    if text.isascii():
        return text.lower()
    spread = unicodedata.normalize("NFKD", text.casefold())
    return "".join(char for char in spread if not unicodedata.combining(char)).casefold()


def fold_word(piece: str) -> str:
    """One word, folded and still a single word: some marks decompose into a space with an accent."""
    word = fold(piece)
    return word if " " not in word else word.replace(" ", "") or piece


def read(text: str, names: frozenset[str] = frozenset()) -> list[Token]:
    """The tokens of the part of the text that is worth reading; `names` are never taken for slang."""
    if len(text) > HEAD_CHARS + TAIL_CHARS:
        text = f"{text[:HEAD_CHARS]} {text[-TAIL_CHARS:]}"
    if not text.isascii():
        text = text.translate(_PLAIN_MARKS)
    quotes: list[str] = []
    if not _MARKUP.isdisjoint(text):
        text, quotes = _without_quotes(_without_code(text))
    chunks = text.split() if len(text) <= HEAD_TOKENS + TAIL_TOKENS else _ends(text, quotes)
    # The cache looks up one argument twice as fast as two, and hardly any name is slang.
    cut = map(_tokens, chunks, repeat(names)) if names else map(_tokens, chunks)
    tokens = list(chain.from_iterable(cut))
    if quotes:
        texts = iter(quotes)
        tokens = [Token(next(texts), QUOTED) if token.word == QUOTED else token for token in tokens]
    return _without_title_marks(tokens) if "." in text else tokens


def _ends(text: str, quotes: list[str]) -> list[str]:
    """The pieces of a long text without its middle and the quotes in it."""
    pieces = _TOKEN.findall(text)
    if len(pieces) <= HEAD_TOKENS + TAIL_TOKENS:
        return pieces
    head, tail = pieces[:HEAD_TOKENS], pieces[-TAIL_TOKENS:]
    del quotes[head.count(QUOTED) : len(quotes) - tail.count(QUOTED)]
    return head + tail


def _without_title_marks(tokens: list[Token]) -> list[Token]:
    """ "Mr. Bob" does not end a sentence."""
    kept: list[Token] = []
    for token in tokens:
        if token != _FULL_STOP or not kept or kept[-1].word not in _TITLES:
            kept.append(token)
    return kept


def _without_code(text: str) -> str:
    if "`" in text:
        text = _FENCE.sub(" ", text)
    if "(" in text:
        text = _CALL.sub(" ", text)
    if ">" in text:
        text = _QUOTED_LINE.sub(" ", text)
    return text.replace(QUOTED, " ")


def _without_quotes(text: str) -> tuple[str, list[str]]:
    """The text with a placeholder for every quoted phrase, and the phrases."""
    if text.count("'") < 2 and _QUOTE_MARKS.isdisjoint(text):
        return text, []
    quotes = [next(filter(None, match.groups())) for match in _QUOTE.finditer(text)]
    return _QUOTE.sub(f" {QUOTED} ", text), quotes


@lru_cache(maxsize=16_384)
def _tokens(chunk: str, names: frozenset[str] = frozenset()) -> tuple[Token, ...]:
    """The tokens of the text between two spaces. Cached, because the same chunks come again and again."""
    return tuple(
        token
        for piece in _TOKEN.findall(chunk)
        if piece not in _NOISE and not piece.startswith("http")
        for token in _plain(piece, names)
    )


def _plain(piece: str, names: frozenset[str]) -> list[Token]:
    word = fold_word(piece)
    plain = None if word in names else EXPAND.get(word)
    if plain is None and "'" in word and word not in names:
        plain = _contraction(word)
    if plain is None:
        owner = word.removesuffix("'s")
        return [Token(piece, owner, owner is not word)]
    return [Token(piece, plain[0]), *(Token("", more) for more in plain[1:])]


def _contraction(word: str) -> tuple[str, ...] | None:
    """The words of a contraction such as "what's". Not "bob's" yet: what follows decides whether it means "is"."""
    cut = word.rfind("'")
    stem, ending = word[:cut], _ENDINGS.get(word[cut:])
    if word.endswith("n't"):
        return (_NEGATED.get(word, word[:-3]),)
    if ending == "did" and CODES.get(stem, "x") in "iyeWgts":
        ending = "would"
    if ending is None or (ending == "is" and CODES.get(stem, "x") not in _TAKES_IS):
        return None
    return (*EXPAND.get(stem, (stem,)), ending)


_EDGE_MARKS = frozenset(",.@!:;-~?\u2026")


def unaddressed(tokens: list[Token], bot: Person) -> list[Token]:
    """The tokens without the address and greeting at the beginning and punctuation at the end."""
    idle = _idle(bot)
    start, end = 0, len(tokens)
    while start < end and tokens[start].word in idle:
        start += 1
    while end > start and tokens[end - 1].word in _EDGE_MARKS:
        end -= 1
    return tokens[start:end]


@lru_cache(maxsize=256)
def _idle(bot: Person) -> frozenset[str]:
    """What may come before a question without being part of it: the bot's names, fillers, punctuation."""
    names = {fold(name) for name in (bot.name, *bot.aliases)} | {f"<@{bot.id}>", f"<@!{bot.id}>", "bot"}
    return _EDGE_MARKS | names | {word for word, code in CODES.items() if code == "l"}


_TASKS = word_set(
    """translate summarize summarise rewrite rephrase paraphrase explain correct fix proofread format convert
    define write answer solve debug sum draft improve review classify parse check spell complete continue
    make turn say repeat"""
)


def has_payload(tokens: list[Token]) -> bool:
    """Whether it is a task that brings its own material, so not for us: "summarize this article: people said ..."."""
    colon = next((i for i, token in enumerate(tokens[:-1]) if i and token.word == ":"), 0)
    if not colon:
        return False
    return tokens[0].word in _TASKS or (colon > 1 and tokens[colon - 2].word in {"this", "following", "my"})
