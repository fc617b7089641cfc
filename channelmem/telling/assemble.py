"""The block of text that a language model reads. Enters: what was found. Leaves: sections within a token budget.

From wide to near: what was kept of earlier talks, ambient threads, hits, references, reply chain, question. Whatever
people wrote stays inside one line that begins with our own mark and the real author; it cannot open a section, a tag
or another person's line.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, tzinfo
from itertools import pairwise
from typing import Final

from channelmem.durations import human_age
from channelmem.media_kinds import MediaKey
from channelmem.telling.budget import Block, BudgetRow, Draft, Section, fit, fit_chars, overflows
from channelmem.telling.media_notes import AMBIENT_CHARS, POINTED_CHARS, bare, note, notes, question_files, with_seen
from channelmem.telling.quote import MINOR_S, ago, counted, cut, escape_xml, flatten, marker, named, relevance
from channelmem.telling.references import inline
from channelmem.telling.threads import Forest, Names, label
from channelmem.types import Hit, Message, Mode, Person, Question, Route, Thread

PRIOR: Final = "[PRIOR_CONTEXT_PROVIDED]"
AMBIENT: Final = "[recent channel context]"
HITS: Final = "[Recent Channel Activity]"
REFERENCES: Final = "<contextual_references>"
REFERENCES_END: Final = "</contextual_references>"
CHAIN: Final = "[reply chain]"
QUESTION: Final = "[question]"

THREAD_CHARS: Final = 200
PRIOR_CHARS: Final = 200
PREVIEW_CHARS: Final = 40
REFERENCE_CHARS: Final = 300
CHAIN_CHARS: Final = 200
QUESTION_CHARS: Final = 300

# "<3" and "a < b" stay as they are; anything that could be read as a tag or a template mark does not.
_TAG: Final = re.compile(r"<(?=[A-Za-z/!?|<])")
_COLON: Final = re.compile("[:：﹕︓︰꞉∶ː˸։׃܃܄᛬⁚⁝⦂ꓽ᠃᠄]")  # noqa: RUF001  (all characters that look like one)
_NAME_REACH: Final = 64


@dataclass(frozen=True, slots=True)
class Parts:
    """Everything a block may show; all of it is optional except the moment and the bot."""

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
    prior: tuple[Message, ...] = ()
    """What somebody kept when the channel began anew, oldest first."""
    seen: Mapping[MediaKey, str] = field(default_factory=dict)
    """What was read of attachments for this answer, beyond what their messages carry."""


def assemble(parts: Parts, budget_tokens: int) -> str:
    """The block, or an empty text if there is nothing to show (or no room to show it)."""
    names = _names(parts)
    draft = _draft(parts, names)
    if overflows(draft, budget_tokens):
        # Messages that a nearer section shows are the cheapest to leave out of a wider one.
        parts = replace(parts, forest=_without(parts.forest, {hit.message.id for hit in parts.hits}))
        draft = _draft(parts, names)
    return fit(_squeezed(parts, names, draft, budget_tokens), budget_tokens)


def _squeezed(parts: Parts, names: Names, draft: Draft, budget_tokens: int) -> Draft:
    """The draft as it is if all that the asker pointed at has room. Otherwise a reference may have to go, so nothing
    may point at one."""
    if not overflows(_focus(draft), budget_tokens):
        return draft
    chain = {message.id for message in parts.chain}
    references = tuple(message for message in parts.references if message.id not in chain)
    return _draft(replace(parts, references=references), names, pointing=False)


def assemble_within(parts: Parts, budget_tokens: int, char_limit: int) -> tuple[str, int]:
    """The block within a number of characters, and how many ambient messages it shows. The tokens bound only what is
    near: hits, references, reply chain and question."""
    names = _names(parts)
    draft = _squeezed(parts, names, _draft(parts, names), budget_tokens)
    near = replace(draft, ambient=(), ambient_more=0, prior=None)
    text = fit(near, budget_tokens)
    text = text if len(text) <= char_limit else fit_chars(near, char_limit)[0]
    wide, shown = fit_chars(replace(draft, near=()), char_limit - len(text) - 2)
    return "\n\n".join(filter(None, (wide, text))), shown


def plain_words(text: str) -> str:
    """A line of people's words: nothing in it can be read as a tag, or breaks the line."""
    return _TAG.sub("&lt;", flatten(text))


class _Writer:
    """Writes the lines of one block, with the same names and the same moment throughout."""

    def __init__(self, parts: Parts, names: Names, *, pointing: bool) -> None:
        self._parts, self._names = parts, names
        told = parts.references if pointing else ()
        # Messages shown in full among the references are only pointed at elsewhere.
        self._pointers = {message.id: f"(reference {at})" for at, message in enumerate(told, 1)}

    def near(self) -> Iterator[Section]:
        """The sections that have something to show, nearest first."""
        if self._parts.question is not None:
            yield from self._question(self._parts.question)
        if self._parts.chain:
            yield self._chain()
        if self._parts.references:
            rows = [self._reference(at, message) for at, message in enumerate(self._parts.references, 1)]
            yield replace(_section(REFERENCES, rows), foot=REFERENCES_END)
        if self._parts.hits:
            yield self._hits()

    def prior(self) -> Section | None:
        messages = self._parts.prior
        if not messages:
            return None
        rows = [self._dated(message, self._shown(message, PRIOR_CHARS)) for message in messages]
        newest_first = tuple(reversed(range(len(rows))))
        return replace(_section(prior_head(messages), rows), priority=newest_first, more_first=True)

    def thread(self, thread: Thread) -> Block:
        messages = thread.messages
        rows = tuple(map(self._said, messages)) if len(messages) > 1 else (self._standalone(messages[0]),)
        pauses = [marker(later.ts - earlier.ts) for earlier, later in pairwise(messages)]
        age_s = self._parts.now - messages[-1].ts
        foot = f"  --- that was {ago(age_s)} ---" if age_s >= MINOR_S else ""
        gaps = ("", *(f"  {pause}" if pause else "" for pause in pauses))
        return Block(f"{label(thread, self._names.of)}:", rows, gaps, foot)

    def _question(self, question: Question) -> Iterator[Section]:
        files = [_TAG.sub("&lt;", note(one, POINTED_CHARS)) for one in question_files(question, self._parts.seen)]
        words = " ".join(filter(None, (self._words(question.text, QUESTION_CHARS), *files)))
        asker = self._names.person(question.asker_id, question.asker)
        if words:
            yield _section(QUESTION, [BudgetRow(f"- {asker} ({self._age(question.ts)}): ", words)])

    def _chain(self) -> Section:
        rows = [
            self._dated(message, self._pointers.get(message.id) or self._shown(message, CHAIN_CHARS))
            for message in self._parts.chain
        ]
        newest_first = tuple(reversed(range(len(rows))))
        return replace(_section(CHAIN, rows), priority=newest_first, more_first=True)

    def _reference(self, number: int, message: Message) -> BudgetRow:
        question = self._parts.question
        kind = "reply" if question is not None and question.reply_to == message.id else "link"
        start = (
            f'<reference id="{number}" kind="{kind}" author="{escape_xml(self._names.of(message))}"'
            f' time="{_iso(message.ts, self._parts.tz)}" location="{escape_xml(self._location(message))}">'
        )
        words = self._with_notes(message, REFERENCE_CHARS, POINTED_CHARS)
        return BudgetRow(start, words, "</reference>", xml=True)

    def _location(self, message: Message) -> str:
        channel = flatten(self._parts.channels.get(message.channel_id, ""))
        if channel:
            return f"#{channel}"
        question = self._parts.question
        here = question is not None and question.channel_id == message.channel_id
        return "this channel" if here else f"channel {message.channel_id}"

    def _hits(self) -> Section:
        """Hits by rank, each with its neighbours in order of time."""
        topical = self._parts.route is None or self._parts.route.mode is Mode.TOPIC
        rows: list[BudgetRow] = []
        main: list[int] = []
        shown = {hit.message.id for hit in self._parts.hits}
        for hit in self._parts.hits:
            around = [message for message in hit.around if message.id not in shown]
            shown.update(message.id for message in around)
            before = [message for message in around if message.ts < hit.message.ts]
            after = [message for message in around if message.ts >= hit.message.ts]
            rows += map(self._neighbour, before)
            main.append(len(rows))
            words = self._shown(hit.message, self._parts.hit_chars)
            rows.append(self._dated(hit.message, words, relevance(hit) if topical else ""))
            rows += map(self._neighbour, after)
        extra = sorted(set(range(len(rows))) - set(main))
        return Section(HITS, tuple(rows), (*main, *extra), len(main))

    def _neighbour(self, message: Message) -> BudgetRow:
        return self._dated(message, self._shown(message, self._parts.hit_chars))

    def _dated(self, message: Message, words: str, mark: str = "") -> BudgetRow:
        return BudgetRow(f"- {self._names.of(message)} ({self._age(message.ts)}){mark and f' {mark}'}: ", words)

    def _said(self, message: Message) -> BudgetRow:
        return BudgetRow(f"  {self._names.of(message)}: ", self._shown(message, THREAD_CHARS))

    def _standalone(self, message: Message) -> BudgetRow:
        words = self._shown(message, THREAD_CHARS)
        # A bare text must not begin like one of our lines ("bob: ..."); if it might, its author comes before it.
        bare = words[:1].isalnum() and not _COLON.search(words[:_NAME_REACH])
        return BudgetRow("  ", words) if bare else self._said(message)

    def _shown(self, message: Message, chars: int) -> str:
        return _TAG.sub("&lt;", self._with_notes(message, chars, AMBIENT_CHARS))

    def _with_notes(self, message: Message, chars: int, note_chars: int) -> str:
        """The words, cut, and then a note per attachment, which the cut must not take."""
        if not message.attachments:
            return cut(self._flat(message.content), chars)
        message = with_seen(message, self._parts.seen)
        words = cut(self._flat(bare(message)), chars)
        return " ".join(filter(None, (words, notes(message, note_chars))))

    def _words(self, text: str, chars: int) -> str:
        return _TAG.sub("&lt;", cut(self._flat(text), chars))

    def _flat(self, text: str) -> str:
        opened = inline(text, self._parts.linked, self._names.of, self._pointers)
        return flatten(named(opened, self._names.mapping(), self._parts.channels))

    def _age(self, ts: float) -> str:
        return human_age(self._parts.now - ts)


def prior_head(messages: Sequence[Message]) -> str:
    """The marker above what was kept: how much that is, and how it begins."""
    begins = _TAG.sub("&lt;", cut(flatten(messages[0].content), PREVIEW_CHARS)).replace('"', "'")
    return f'{PRIOR} {counted(len(messages), "message")}, "{begins}"'


def _section(head: str, rows: list[BudgetRow]) -> Section:
    return Section(head, tuple(rows), tuple(range(len(rows))), len(rows))


def _draft(parts: Parts, names: Names, *, pointing: bool = True) -> Draft:
    writer = _Writer(parts, names, pointing=pointing)
    asked = {parts.question.id} if parts.question is not None else set()
    forest = _without(parts.forest, asked | {message.id for message in (*parts.references, *parts.chain)})
    threads = tuple(map(writer.thread, forest.threads))
    return Draft(tuple(writer.near()), AMBIENT, threads, forest.more_messages, writer.prior())


def _focus(draft: Draft) -> Draft:
    """What the asker pointed at: everything except hits and ambient threads."""
    near = tuple(section for section in draft.near if section.head != HITS)
    return replace(draft, near=near, ambient=(), ambient_more=0, prior=None)


def _without(forest: Forest, ids: Collection[int]) -> Forest:
    kept = (tuple(message for message in thread.messages if message.id not in ids) for thread in forest.threads)
    return replace(forest, threads=tuple(Thread(messages) for messages in kept if messages))


def _speakers(parts: Parts) -> Iterator[Message]:
    yield from parts.chain
    yield from parts.references
    for hit in parts.hits:
        yield hit.message
        yield from hit.around
    yield from parts.prior
    yield from parts.forest.messages
    yield from parts.linked.values()


def _names(parts: Parts) -> Names:
    """Everybody who speaks or may be mentioned."""
    known = dict(parts.people)
    if parts.question is not None:
        known |= {person.id: person.name for person in parts.question.mentions}
        known[parts.question.asker_id] = parts.question.asker
    return Names(parts.bot, _speakers(parts), known)


def _iso(ts: float, tz: tzinfo) -> str:
    return datetime.fromtimestamp(ts, tz).isoformat(timespec="seconds").replace("+00:00", "Z")
