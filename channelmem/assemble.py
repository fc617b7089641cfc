"""The block of text that a language model reads. Enters what was found, leaves sections within a token budget.

From wide to near: ambient threads, hits, references, reply chain, question. Room is given from near to wide,
so a short budget costs ambient lines first. Each section says how many messages it left out. Whatever people
wrote stays inside one line that begins with a mark of ours and the genuine author; it cannot open a section,
a tag or another person's line.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, tzinfo
from itertools import pairwise
from typing import Final

from channelmem import tokens
from channelmem.durations import human_age
from channelmem.gaps import MINOR_S, ago, counted, marker
from channelmem.quote import cut, escape_xml, flatten, named
from channelmem.references import inline
from channelmem.threads import Forest, Names, label
from channelmem.types import Hit, Message, Mode, Person, Question, Route, Thread

AMBIENT: Final = "[recent channel context]"
HITS: Final = "[Recent Channel Activity]"
REFERENCES: Final = "<contextual_references>"
REFERENCES_END: Final = "</contextual_references>"
CHAIN: Final = "[reply chain]"
QUESTION: Final = "[question]"

THREAD_CHARS: Final = 200
REFERENCE_CHARS: Final = 300
CHAIN_CHARS: Final = 200
QUESTION_CHARS: Final = 300
_SHORTEST_CHARS: Final = 24
_MARKS_AROUND_A_TEXT: Final = 2

HIGHLY_RELEVANT: Final = 0.55
RELEVANT: Final = 0.30

# "<3" and "a < b" stay as they are; what could be read as a tag or a template mark does not.
_TAG: Final = re.compile(r"<(?=[A-Za-z/!?|<])")
_COLON: Final = re.compile("[:：﹕︓꞉∶]")  # noqa: RUF001  (all that pass for one)
_NAME_REACH: Final = 64


@dataclass(frozen=True, slots=True)
class Parts:
    """Everything a block may tell; all of it is optional but the moment and the bot."""

    now: float
    bot: Person
    question: Question | None = None
    route: Route | None = None
    hits: tuple[Hit, ...] = ()
    forest: Forest = field(default_factory=Forest)
    references: tuple[Message, ...] = ()
    chain: tuple[Message, ...] = ()
    """The reply chain, oldest first."""
    linked: Mapping[int, Message] = field(default_factory=dict)
    """Targets of links inside ambient messages (`references.linked`)."""
    people: Mapping[int, str] = field(default_factory=dict)
    channels: Mapping[int, str] = field(default_factory=dict)
    tz: tzinfo = UTC
    hit_chars: int = 100


@dataclass(frozen=True, slots=True)
class _Row:
    """One line: ours before and after, a person's words between."""

    start: str
    words: str
    end: str = ""

    def __str__(self) -> str:
        return f"{self.start}{self.words}{self.end}"

    def shorter(self, chars: int) -> _Row:
        return replace(self, words=cut(self.words, chars))


@dataclass(frozen=True, slots=True)
class _Section:
    """Rows in the order they are read, and in the order they are given up (last first)."""

    head: str
    rows: tuple[_Row, ...]
    priority: tuple[int, ...]
    """Positions in `rows`, the most important first."""
    counting: int
    """So many of the first in `priority` are messages to account for; the others are extra."""
    foot: str = ""
    more: int = 0
    """Messages left out before, by a cap."""
    more_first: bool = False


@dataclass(frozen=True, slots=True)
class _ThreadRows:
    head: str
    rows: tuple[_Row, ...]
    gaps: tuple[str, ...]
    """What stands before each row; empty for no pause."""
    end: str

    def lines(self, newest: int) -> list[str]:
        """The last `newest` messages; no pause is told before the first of them."""
        first = len(self.rows) - newest
        told = [line for at in range(first, len(self.rows)) for line in (self.gaps[at], str(self.rows[at]))]
        return [self.head, *(line for line in told[1:] if line), *([self.end] if self.end else [])]


@dataclass(frozen=True, slots=True)
class _Draft:
    """Everything that could be told, before the budget."""

    near: tuple[_Section, ...]
    """Nearest first."""
    ambient: tuple[_ThreadRows, ...]
    more_ambient: int

    def lines(self) -> list[str]:
        """All of it, with the lines that tell what was left out."""
        near = [
            line for section in self.near for line in (section.head, section.foot, _more(999), *map(str, section.rows))
        ]
        return [*near, AMBIENT, _more(999), *(line for t in self.ambient for line in t.lines(len(t.rows)))]


_Costs = Callable[[Sequence[str]], list[int]]


def assemble(parts: Parts, budget_tokens: int) -> str:
    """The block, or an empty text if there is nothing to tell (or no room to tell it)."""
    room = budget_tokens - _MARKS_AROUND_A_TEXT
    draft = _draft(parts)
    # Where even the bound fits, nothing is counted.
    costs: _Costs = _bounds if sum(_bounds(draft.lines())) <= room else tokens.counts
    if costs is tokens.counts and sum(costs(draft.lines())) > room:
        draft = _draft(_without_repetitions(parts))
    blocks: list[str] = []
    for section in draft.near:
        lines, cost = _fit(section, room, costs)
        room -= cost
        blocks.append("\n".join(lines))
    blocks.append(_fit_threads(draft, room, costs))
    return "\n\n".join(block for block in reversed(blocks) if block)


def relevance(hit: Hit) -> str:
    """ " [highly relevant]", " [relevant]" or nothing, by how near the topic is; a shared word counts too."""
    similarity = hit.similarity or 0.0
    shares_words = bool(hit.text_score)
    if similarity >= HIGHLY_RELEVANT or (shares_words and similarity >= RELEVANT):
        return " [highly relevant]"
    return " [relevant]" if shares_words or similarity >= RELEVANT else ""


class _Writer:
    """Writes the lines of one block: the same names and the same moment throughout."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._names = Names(parts.bot, _speakers(parts), parts.people)
        if parts.question is not None:
            self._names.person(parts.question.asker_id, parts.question.asker)
            for person in parts.question.mentions:
                self._names.person(person.id, person.name)

    def near_sections(self) -> Iterator[_Section | None]:
        """Nearest first."""
        yield self._question()
        yield self._chain()
        yield self._references()
        yield self._hits()

    def thread_rows(self, thread: Thread) -> _ThreadRows:
        messages = thread.messages
        alone = len(messages) == 1
        rows = tuple(self._bare(messages[0]) if alone else self._said(m) for m in messages)
        gaps = ["", *(marker(b.ts - a.ts) or "" for a, b in pairwise(messages))]
        age = self._parts.now - messages[-1].ts
        end = f"  --- that was {ago(age)} ---" if age >= MINOR_S else ""
        head = f"{label(thread, self._names.of)}:"
        return _ThreadRows(head, rows, tuple(f"  {gap}" if gap else "" for gap in gaps), end)

    def _question(self) -> _Section | None:
        question = self._parts.question
        if question is None or not (words := self._words(question.text, QUESTION_CHARS)):
            return None
        asker = self._names.person(question.asker_id, question.asker)
        return _plain(QUESTION, [_Row(f"- {asker} ({self._age(question.ts)}): ", words)])

    def _chain(self) -> _Section | None:
        numbers = {message.id: at for at, message in enumerate(self._parts.references, 1)}
        rows = [
            self._dated(message, "", f"(reference {numbers[message.id]})")
            if message.id in numbers
            else self._dated(message, "", self._words(message.content, CHAIN_CHARS))
            for message in self._parts.chain
        ]
        if not rows:
            return None
        newest_first = tuple(reversed(range(len(rows))))
        return replace(_plain(CHAIN, rows), priority=newest_first, more_first=True)

    def _references(self) -> _Section | None:
        rows = [self._reference(at, message) for at, message in enumerate(self._parts.references, 1)]
        return replace(_plain(REFERENCES, rows), foot=REFERENCES_END) if rows else None

    def _reference(self, number: int, message: Message) -> _Row:
        question = self._parts.question
        kind = "reply" if question is not None and question.reply_to == message.id else "link"
        start = (
            f'<reference id="{number}" kind="{kind}" author="{escape_xml(self._names.of(message))}"'
            f' time="{_iso(message.ts, self._parts.tz)}" location="{escape_xml(self._location(message))}">'
        )
        text = cut(self._flat(message.content), REFERENCE_CHARS)
        return _XmlRow(start, text, "</reference>")

    def _location(self, message: Message) -> str:
        name = self._parts.channels.get(message.channel_id)
        if name:
            return f"#{flatten(name)}"
        question = self._parts.question
        here = question is not None and question.channel_id == message.channel_id
        return "this channel" if here else f"channel {message.channel_id}"

    def _hits(self) -> _Section | None:
        if not self._parts.hits:
            return None
        topical = self._parts.route is None or self._parts.route.mode is Mode.TOPIC
        rows: list[_Row] = []
        main: list[int] = []
        shown = {hit.message.id for hit in self._parts.hits}
        for hit in self._parts.hits:
            around = [m for m in hit.around if m.id not in shown]
            shown.update(m.id for m in around)
            for message in sorted((*around, hit.message), key=lambda m: (m.ts, m.id)):
                is_hit = message is hit.message
                if is_hit:
                    main.append(len(rows))
                words = self._words(message.content, self._parts.hit_chars)
                rows.append(self._dated(message, relevance(hit) if is_hit and topical else "", words))
        extra = [at for at in range(len(rows)) if at not in set(main)]
        return _Section(HITS, tuple(rows), (*main, *extra), len(main))

    def _dated(self, message: Message, mark: str, words: str) -> _Row:
        return _Row(f"- {self._names.of(message)} ({self._age(message.ts)}){mark}: ", words)

    def _said(self, message: Message) -> _Row:
        return _Row(f"  {self._names.of(message)}: ", self._words(message.content, THREAD_CHARS))

    def _bare(self, message: Message) -> _Row:
        words = self._words(message.content, THREAD_CHARS)
        # A bare text must not begin like a line of ours ("bob: ..."); where it might, its author stands before it.
        bare = words[:1].isalnum() and not _COLON.search(words[:_NAME_REACH])
        return _Row("  ", words) if bare else self._said(message)

    def _words(self, text: str, chars: int) -> str:
        return _TAG.sub("&lt;", cut(self._flat(text), chars))

    def _flat(self, text: str) -> str:
        opened = inline(text, self._parts.linked, self._names.of)
        return flatten(named(opened, self._names.mapping(), self._parts.channels))

    def _age(self, ts: float) -> str:
        return human_age(self._parts.now - ts)


@dataclass(frozen=True, slots=True)
class _XmlRow(_Row):
    """A row whose words are escaped when it is written, so that a cut never splits an entity."""

    def __str__(self) -> str:
        return f"{self.start}{escape_xml(self.words)}{self.end}"


def _plain(head: str, rows: Sequence[_Row]) -> _Section:
    return _Section(head, tuple(rows), tuple(range(len(rows))), len(rows))


def _fit(section: _Section, room: int, costs: _Costs) -> tuple[list[str], int]:
    """The section's lines that fit, and what they cost; the most important row is shortened rather than lost."""
    total = section.counting + section.more
    frame, omission, *each = costs([f"{section.head} {section.foot}", _more(total), *map(str, section.rows)])
    rows = list(section.rows)
    kept: list[int] = []
    used = frame
    for at in section.priority:
        # What is left out must be said, so room for saying it is held back until the last row.
        reserve = omission if len(kept) + 1 < len(section.priority) or section.more else 0
        if not kept and used + each[at] + reserve > room:
            rows[at], each[at] = _squeezed(rows[at], room - used - reserve, costs)
        if used + each[at] + reserve > room:
            break
        kept.append(at)
        used += each[at]
    left = total - sum(1 for at in kept if at in section.priority[: section.counting])
    if left:
        used += omission
    if used > room:
        return [], 0
    more = [_more(left)] if left else []
    body = [str(rows[at]) for at in sorted(kept)]
    body = [*more, *body] if section.more_first else [*body, *more]
    return [section.head, *body, *([section.foot] if section.foot else [])], used


def _squeezed(row: _Row, room: int, costs: _Costs) -> tuple[_Row, int]:
    chars = len(row.words) // 2
    while chars >= _SHORTEST_CHARS:
        shorter = row.shorter(chars)
        cost = costs([str(shorter)])[0]
        if cost <= room:
            return shorter, cost
        chars //= 2
    return row, room + 1


def _fit_threads(draft: _Draft, room: int, costs: _Costs) -> str:
    left = sum(len(thread.rows) for thread in draft.ambient) + draft.more_ambient
    room -= sum(costs([AMBIENT, _more(left)]))
    if not left or room < 0:
        return ""
    blocks: list[str] = []
    for thread in draft.ambient:
        newest, cost = _newest_that_fit(thread, room, costs)
        if newest:
            blocks.append("\n".join(thread.lines(newest)))
            room, left = room - cost, left - newest
        if newest < len(thread.rows):
            break
    return "\n\n".join([AMBIENT, *blocks, *([_more(left)] if left else [])])


def _newest_that_fit(thread: _ThreadRows, room: int, costs: _Costs) -> tuple[int, int]:
    frame, *each = costs(
        [f"{thread.head} {thread.end}", *(f"{gap} {row}" for gap, row in zip(thread.gaps, thread.rows, strict=True))]
    )
    used, newest = frame, 0
    for cost in reversed(each):
        if used + cost > room:
            break
        used, newest = used + cost, newest + 1
    return (newest, used) if newest else (0, 0)


def _more(count: int) -> str:
    return f"... {counted(count, 'more message')}"


def _bounds(lines: Sequence[str]) -> list[int]:
    return [tokens.bound(line) for line in lines]


def _draft(parts: Parts) -> _Draft:
    writer = _Writer(parts)
    forest = _without(parts.forest, _shown_near(parts))
    near = tuple(section for section in writer.near_sections() if section is not None)
    return _Draft(near, tuple(map(writer.thread_rows, forest.threads)), forest.more_messages)


def _without_repetitions(parts: Parts) -> Parts:
    """When room is short, what stands in a nearer section is not told again in a wider one."""
    chain = {message.id for message in parts.chain}
    hits = {hit.message.id for hit in parts.hits}
    references = tuple(message for message in parts.references if message.id not in chain)
    return replace(parts, references=references, forest=_without(parts.forest, hits))


def _shown_near(parts: Parts) -> set[int]:
    asked = {parts.question.id} if parts.question is not None else set()
    return asked | {message.id for message in (*parts.references, *parts.chain)}


def _without(forest: Forest, ids: Collection[int]) -> Forest:
    kept = (tuple(m for m in thread.messages if m.id not in ids) for thread in forest.threads)
    return replace(forest, threads=tuple(Thread(messages) for messages in kept if messages))


def _speakers(parts: Parts) -> Iterator[Message]:
    yield from parts.chain
    yield from parts.references
    for hit in parts.hits:
        yield hit.message
        yield from hit.around
    yield from parts.forest.messages
    yield from parts.linked.values()


def _iso(ts: float, tz: tzinfo) -> str:
    return datetime.fromtimestamp(ts, tz).isoformat(timespec="seconds").replace("+00:00", "Z")
