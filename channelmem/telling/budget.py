"""How many tokens a text costs. Enters: text. Leaves: a count by a real tokenizer (MiniLM's WordPiece).

An upper bound that needs no tokenizer comes first (`fits`). Beyond it, words are counted one by one and remembered:
WordPiece never joins characters across white space, so a text costs exactly the sum of its words, and people repeat
their words. This needs neither torch nor the model: the vocabulary is read from the installed package.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Final

from tokenizers import Tokenizer

from channelmem.display import counted, cut, escape_xml
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


# --- budget ---


MARKS_AROUND_A_TEXT: Final = 2
"""A model's tokenizer adds one before the text and one after it."""
_SHORTEST_CHARS: Final = 24
_MANY: Final = 9_999
_BREAK: Final = 2
"""Characters between two lines at most: sections and threads are an empty line apart."""

_Costs = Callable[[Sequence[str]], list[int]]


@dataclass(frozen=True, slots=True)
class BudgetRow:
    """One line: our own text before and after, a person's words between."""

    start: str
    words: str
    end: str = ""
    xml: bool = False
    """Whether to escape the words; done only when written, so that a cut never splits an entity."""

    def __str__(self) -> str:
        return f"{self.start}{escape_xml(self.words) if self.xml else self.words}{self.end}"

    def shorter(self, chars: int) -> BudgetRow:
        return replace(self, words=cut(self.words, chars))


@dataclass(frozen=True, slots=True)
class Section:
    """Rows in the order they are read, and in the order they matter."""

    head: str
    rows: tuple[BudgetRow, ...]
    priority: tuple[int, ...]
    """Positions in `rows`, the most important first."""
    counting: int
    """How many of the first in `priority` are messages to account for; the others are extra."""
    foot: str = ""
    more_first: bool = False
    """Whether to say before the rows what was left out (a chain loses its oldest)."""

    @property
    def frame(self) -> str:
        return f"{self.head} {self.foot}"


@dataclass(frozen=True, slots=True)
class Block:
    """A thread: its newest messages matter most, and come last."""

    head: str
    rows: tuple[BudgetRow, ...]
    gaps: tuple[str, ...]
    """The pause marker before each row; empty for no pause."""
    foot: str = ""

    def lines(self, newest: int) -> list[str]:
        """The last `newest` messages, without a pause marker before the first of them."""
        first = len(self.rows) - newest
        told = [line for at in range(first, len(self.rows)) for line in (self.gaps[at], str(self.rows[at]))]
        return [line for line in (self.head, *told[1:], self.foot) if line]


@dataclass(frozen=True, slots=True)
class Draft:
    """Everything that could be shown."""

    near: tuple[Section, ...]
    """Nearest first."""
    ambient_head: str
    ambient: tuple[Block, ...]
    ambient_more: int
    """How many ambient messages a cap has already left out."""
    prior: Section | None = None
    """What was kept of earlier talks; more important than ambient lines, and read before them."""

    def lines(self) -> list[str]:
        """All of it, with the lines that say what was left out."""
        sections = (*self.near, *([self.prior] if self.prior else ()))
        near = [line for part in sections for line in (part.frame, more(_MANY), *map(str, part.rows))]
        return [*near, self.ambient_head, more(_MANY), *self.ambient_lines()]

    def ambient_lines(self) -> list[str]:
        return [line for block in self.ambient for line in block.lines(len(block.rows))]


def overflows(draft: Draft, budget_tokens: int) -> bool:
    """Whether something must be left out."""
    lines = draft.lines()
    room = budget_tokens - MARKS_AROUND_A_TEXT
    return sum(map(bound, lines)) > room and sum(counts(lines)) > room


def fit(draft: Draft, budget_tokens: int) -> str:
    """The sections from wide to near, within the budget."""
    room = budget_tokens - MARKS_AROUND_A_TEXT
    # If even the upper bound fits, there is no need to count.
    return _fit(draft, room, _bounds if sum(_bounds(draft.lines())) <= room else counts)[0]


def fit_chars(draft: Draft, limit: int) -> tuple[str, int]:
    """The same within a number of characters, and how many ambient messages that shows."""
    return _fit(draft, limit, _chars)


def _chars(lines: Sequence[str]) -> list[int]:
    return [len(line) + _BREAK for line in lines]


def _fit(draft: Draft, room: int, costs: _Costs) -> tuple[str, int]:
    told: list[str] = []
    prior = ""
    for section in (*draft.near, *([draft.prior] if draft.prior else ())):
        lines, cost = _fit_section(section, room, costs)
        room -= cost
        if section is draft.prior:
            prior = "\n".join(lines)
        else:
            told.append("\n".join(lines))
    ambient, shown = _fit_ambient(draft, room, costs)
    told += [ambient, prior]
    return "\n\n".join(text for text in reversed(told) if text), shown


def more(count: int) -> str:
    return f"... {counted(count, 'more message')}"


def _fit_section(section: Section, room: int, costs: _Costs) -> tuple[list[str], int]:
    """The lines that fit, and what they cost."""
    frame, omission = costs([section.frame, more(section.counting)])
    rows, used = _fit_rows(section, room - frame, omission, costs)
    main = set(section.priority[: section.counting])
    left = section.counting - len(main & rows.keys())
    used += frame + (omission if left else 0)
    if used > room:
        return [], 0
    body = [str(rows[at]) for at in sorted(rows)]
    body = [*([more(left)] if left and section.more_first else []), *body]
    body += [more(left)] if left and not section.more_first else []
    return [line for line in (section.head, *body, section.foot) if line], used


def _fit_rows(section: Section, room: int, omission: int, costs: _Costs) -> tuple[dict[int, BudgetRow], int]:
    each = costs([str(row) for row in section.rows])
    kept: dict[int, BudgetRow] = {}
    used = 0
    for place, at in enumerate(section.priority, 1):
        row, cost = section.rows[at], each[at]
        # The section must say what it left out, so it holds back room for that until the last message.
        spare = room - used - (omission if place < section.counting else 0)
        if cost > spare and not kept:
            row, cost = _squeezed(row, spare, costs)
        if cost > spare:
            break
        kept[at] = row
        used += cost
    return kept, used


def _squeezed(row: BudgetRow, room: int, costs: _Costs) -> tuple[BudgetRow, int]:
    chars = len(row.words) // 2
    while chars >= _SHORTEST_CHARS:
        shorter = row.shorter(chars)
        cost = costs([str(shorter)])[0]
        if cost <= room:
            return shorter, cost
        chars //= 2
    return row, room + 1


def _fit_ambient(draft: Draft, room: int, costs: _Costs) -> tuple[str, int]:
    """The text, and how many messages it shows."""
    left = everything = sum(len(block.rows) for block in draft.ambient) + draft.ambient_more
    head, omission, *lines = costs([draft.ambient_head, more(left), *draft.ambient_lines()])
    # Hold back room to say what was left out, unless all of it fits.
    room -= head if not draft.ambient_more and head + sum(lines) <= room else head + omission
    if not left or room < 0:
        return "", 0
    told: list[str] = []
    for block in draft.ambient:
        newest, cost = _newest_that_fit(block, room, costs)
        if newest:
            told.append("\n".join(block.lines(newest)))
            room, left = room - cost, left - newest
        if newest < len(block.rows):
            break
    return "\n\n".join([draft.ambient_head, *told, *([more(left)] if left else [])]), everything - left


def _newest_that_fit(block: Block, room: int, costs: _Costs) -> tuple[int, int]:
    paused = (f"{gap} {row}" for gap, row in zip(block.gaps, block.rows, strict=True))
    used, *each = costs([f"{block.head} {block.foot}", *paused])
    newest = 0
    for cost in reversed(each):
        if used + cost > room:
            break
        used, newest = used + cost, newest + 1
    return newest, used


def _bounds(lines: Sequence[str]) -> list[int]:
    return [bound(line) for line in lines]
