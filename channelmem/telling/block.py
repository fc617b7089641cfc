"""Which messages belong together. Enters: a channel's messages in any order. Leaves: threads, newest first.

A message belongs to the one it replies to, or, without an explicit reply, to the one it probably answers
(`Message.parents`). If that parent is not among the messages, the message is a root. So a thread is one tree of the
forest, in order of time.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, tzinfo
from itertools import pairwise
from typing import Final

from channelmem.display import MINOR_S, ago, counted, cut, escape_xml, flatten, hit_label, marker, named, plain_name
from channelmem.durations import human_age
from channelmem.media.kinds import MediaKey
from channelmem.telling.budget import Block, BudgetRow, Draft, Section, fit, fit_chars, overflows
from channelmem.telling.references import (
    AMBIENT_CHARS,
    POINTED_CHARS,
    bare,
    inline,
    note,
    notes,
    question_files,
    with_seen,
)
from channelmem.types import Hit, Message, Mode, Person, Question, Route, Thread

IMPLICIT_MIN: Final = 0.2
"""A guessed parent counts from this probability on, if the message is not more likely to start something new.

On annotated IRC this rule pairs 84 % of the messages with the right thread; "more likely than not" (0.5) pairs only
61 %, because it tears threads apart wherever two parents compete.
"""
_MOST_NAMES: Final = 6


@dataclass(frozen=True, slots=True)
class Forest:
    """Threads, the one with the newest last message first, and how much the caps left out."""

    threads: tuple[Thread, ...] = ()
    more_threads: int = 0
    """How many threads are left out entirely."""
    more_messages: int = 0
    """How many messages are left out, including those cut from the threads that are kept."""

    @property
    def messages(self) -> tuple[Message, ...]:
        return tuple(message for thread in self.threads for message in thread.messages)


def build(
    messages: Sequence[Message], *, exclude: Collection[int] = (), max_threads: int = 5, max_messages: int = 20
) -> Forest:
    """The forest of these messages within the caps; `exclude` has the ids shown elsewhere, such as the reply chain."""
    known = _newest_revisions(messages)
    left_out = frozenset(exclude)
    # An excluded message still holds its answers together: they are one conversation, partly shown elsewhere.
    trees = [[message for message in tree if message.id not in left_out] for tree in _trees(known)]
    trees = sorted(filter(None, trees), key=lambda tree: _order(tree[-1]), reverse=True)
    return _capped(trees, max_threads, max_messages)


def label(thread: Thread, name_of: Callable[[Message], str]) -> str:
    """ "thread (ann, bob)" by first appearance; "standalone (carol)" for a single message."""
    names = list(dict.fromkeys(name_of(message) for message in thread.messages))
    shown = ", ".join(names[:_MOST_NAMES]) + (f" and {len(names) - _MOST_NAMES} more" if names[_MOST_NAMES:] else "")
    return f"{'thread' if len(thread.messages) > 1 else 'standalone'} ({shown})"


class Names:
    """What each author is called in a block of context: one name per person, and no name for two people.

    The bot has its own name; anybody else with that name, or with the name of an earlier speaker, is distinguished by
    the end of their id, so that no line can pass for another person's.
    """

    def __init__(self, bot: Person, messages: Iterable[Message], people: Mapping[int, str] | None = None) -> None:
        self._names: dict[int, str] = {}
        self._taken: set[str] = set()
        self._own = plain_name(bot.name)
        self._taken.add(self._own.casefold())
        # 0 means nobody: a bot with an unknown id must not lend its name to an author without one.
        if bot.id:
            self._names[bot.id] = self._own
        for message in messages:
            self.of(message)
        for person_id, shown in (people or {}).items():
            self.person(person_id, shown)

    def of(self, message: Message) -> str:
        return self._own if message.own else self.person(message.author_id, message.author)

    def person(self, person_id: int, shown: str) -> str:
        return self._names.get(person_id) or self._claim(person_id, shown)

    def mapping(self) -> Mapping[int, str]:
        """By id, for mentions inside texts."""
        return self._names

    def _claim(self, person_id: int, shown: str) -> str:
        called = plain_name(shown)
        if called.casefold() in self._taken:
            called = f"{called}#{person_id % 10_000:04}"
        if called.casefold() in self._taken:
            called = f"{called}#{person_id}"
        self._taken.add(called.casefold())
        self._names[person_id] = called
        return called


def _newest_revisions(messages: Sequence[Message]) -> list[Message]:
    newest: dict[int, Message] = {}
    for message in messages:
        other = newest.get(message.id)
        if other is None or message.revision >= other.revision:
            newest[message.id] = message
    return sorted(newest.values(), key=_order)


def _trees(messages: Sequence[Message]) -> list[list[Message]]:
    """Groups connected by parents, each in order of time; a cycle of replies is simply one group."""
    root = {message.id: message.id for message in messages}

    def find(node: int) -> int:
        while root[node] != node:
            root[node] = root[root[node]]
            node = root[node]
        return node

    for message in messages:
        parent = _parent(message, root)
        if parent is not None:
            root[find(message.id)] = find(parent)
    trees: dict[int, list[Message]] = {}
    for message in messages:
        trees.setdefault(find(message.id), []).append(message)
    return list(trees.values())


def _parent(message: Message, known: Collection[int]) -> int | None:
    if message.reply_to is not None:
        return message.reply_to if message.reply_to in known else None
    parent, chance = max(message.parents, key=lambda guess: guess[1], default=(message.id, 0.0))
    # The remaining probability is the chance that it answers nothing here.
    starts_anew = 1 - sum(share for _, share in message.parents)
    return parent if parent in known and chance >= max(starts_anew, IMPLICIT_MIN) else None


def _capped(trees: Sequence[Sequence[Message]], max_threads: int, max_messages: int) -> Forest:
    """Newest threads first; the one that no longer fits keeps its newest messages."""
    threads: list[Thread] = []
    room = max_messages
    for tree in trees[:max_threads]:
        if room <= 0:
            break
        threads.append(Thread(tuple(tree[-room:])))
        room -= len(threads[-1].messages)
    shown = sum(len(thread.messages) for thread in threads)
    return Forest(tuple(threads), len(trees) - len(threads), sum(map(len, trees)) - shown)


def _order(message: Message) -> tuple[float, int]:
    return message.ts, message.id


# --- assemble ---


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
    """What somebody chose to keep at /new, oldest first."""
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
            rows.append(self._dated(hit.message, words, hit_label(hit) if topical else ""))
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
