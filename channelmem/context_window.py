"""How far back a language model looks: the arithmetic of /context, and /new and /context edit, for any adapter.

Amounts are read by `durations`, named times by the grammar that also reads questions; only dates with a year are left
to dateutil. The window slides: "yesterday" becomes as many hours as have passed since yesterday began.

The file of /context edit has one line per message, and what comes back are the ids of those kept. The lines are other
people's words, so deleting them is all that an editor can do; reading yields ids and never words, so that not even a
forged line could put words into anybody's mouth.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, tzinfo
from enum import StrEnum
from hashlib import blake2b
from typing import Final

from cachetools import LRUCache
from dateutil import parser as dates

from channelmem import durations
from channelmem.display import counted, flatten, line, listed, plain_name
from channelmem.durations import HOUR_S, human_age
from channelmem.interface import ChannelMemory
from channelmem.policy.cascade import AUTO, Boundary, Effective, Level, Place, Value
from channelmem.policy.policy import Policy
from channelmem.summaries.reader import Breakdown
from channelmem.telling.block import prior_head
from channelmem.times.spans import Clue, Moment, zone
from channelmem.times.when import TimeMatch, find
from channelmem.types import MEMORY_OFF, Message, Question

LEAST_S: Final = HOUR_S
MOST_S: Final = 168 * HOUR_S

EXAMPLES: Final = ("24h", "2 days", "2h 30m", "yesterday", "last monday", "this morning")
TOO_LITTLE: Final = "That is less than the minimum, so I used 1h."
TOO_MUCH: Final = "That is more than the maximum, so I used 168h (7 days)."
UNREADABLE: Final = "I can't read that as a time. Try `24h`, `2 days`, `2h 30m`, `yesterday` or `last monday`."
NO_AMOUNT: Final = "I can't read that as an amount of time. Try `4h`, `2h 30m` or `1 day`."
FUTURE: Final = "That is in the future. Say how far back I should look, such as `24h` or `yesterday`."
UNLIMITED: Final = (
    "`/context` goes up to 168h (7 days). To remove the limit, set the character's Context Max Age to `off`."
)

_DEFAULT: Final = frozenset({"default", "reset", "auto"})
_NO_LIMIT: Final = frozenset({"off", "none", "no limit", "unlimited", "forever", "infinite", "all", "everything"})
_LONGEST_TEXT: Final = 64
_EDGES: Final = " \t\r\n.,;:!?\"'`"
_YEAR: Final = re.compile(r"\b\d{4}\b")
_HOURS: Final = (1, 2, 4, 8, 12, 24, 48, 72, 168)

NO_ARCHIVE = "There are no summaries here: the archive is off, so nothing outlives the rolling buffer."
NO_SUMMARIES = "Summaries are off in this channel. `/channel settings` turns them on."

MAX_AGE: Final = "context_max_age"
MOST_KEPT: Final = 100  # as many as a language model is given
SHEETS: Final = 200
"""Files that may be out for editing at once; older ones can still be handed back if nothing was deleted since."""

EDIT_EXAMPLES: Final = (
    "Try `/context set 24h`, `/context set yesterday`, `/context add 8h`, `/context sub 4h` or `/context reset`."
)
NO_LIMIT: Final = "There is no limit to change: the context window is off. Use `/context set` to set one."
BEGUN: Final = (
    "Fresh start! From now on I begin without what was said here before. "
    "I haven't forgotten it: ask about it, and I still find it."
)
CANCELLED: Final = "The file has no lines, so nothing was changed."
ALL_GONE: Final = "None of these messages exist any more, so nothing was changed."
NOTHING_STORED: Final = "I don't have any messages of this channel."
KEPT: Final = "{character} starts with these messages, followed by what was said since the file was made."
TOO_MANY: Final = f"I can keep {MOST_KEPT} messages, so I took the newest ones."
_SOURCES: Final = {
    Level.DEFAULT: "This is the default.",
    Level.GLOBAL: "This is set for all servers.",
    Level.CHANNEL: "This is set for this channel.",
    Level.CHARACTER: "This is set for {character} in this server.",
}


class Step(StrEnum):
    SET = "set"
    ADD = "add"
    SUB = "sub"


class ReachError(ValueError):
    """The text is no time, or none to look back to; the sentence is for the person who typed it."""


def means_default(text: str) -> bool:
    return _plain(text) in _DEFAULT


def reach_s(text: str, now: float, tz: str) -> float:
    """Seconds from now back to what the text names, not yet limited; ReachError if it names nothing in the past."""
    plain = _plain(text)
    if plain in _NO_LIMIT:
        raise ReachError(UNLIMITED)
    if not plain or len(plain) > _LONGEST_TEXT:
        raise ReachError(UNREADABLE)
    moment = Moment(now, tz)
    found = _named(plain, moment) or _amount(plain)
    # "noon" and "a couple of days" are times only with the word that people leave out in a command.
    found = found or _named(f"since {plain}", moment) or _named(f"the last {plain}", moment) or _dated(plain, moment)
    if not found:
        raise ReachError(UNREADABLE)
    return found


def amount_s(text: str) -> float:
    """Seconds of an amount to add or subtract; a named time such as "yesterday" is none."""
    plain = _plain(text)
    names_a_time = plain[:1].isalpha() and _only(find(plain.split(), Moment(0.0)), plain)
    found = None if names_a_time else _amount(plain)
    if found is None:
        raise ReachError(NO_AMOUNT)
    return found


def stepped(step: Step, now_s: float, by_s: float) -> float:
    """The new window, not yet limited."""
    return {Step.SET: by_s, Step.ADD: now_s + by_s, Step.SUB: now_s - by_s}[step]


def limited(seconds: float) -> tuple[float, str]:
    """The window within 1 h and 168 h, and a warning if it had to change."""
    if seconds < LEAST_S:
        return LEAST_S, TOO_LITTLE
    return (MOST_S, TOO_MUCH) if seconds > MOST_S else (seconds, "")


def in_hours(seconds: float) -> str:
    """ "24h", "2h 30m", "45m": days stay hours, since that is what people set."""
    return durations.format_duration(seconds, "hms")


def suggestions(typed: str) -> list[str]:
    """What autocomplete offers for a half-typed duration, at most 25."""
    plain = _plain(typed)
    if plain.isascii() and plain.isdigit() and len(plain) <= 3:
        return [f"{plain}h", f"{plain} days", f"{plain} weeks"] if int(plain) else []
    offered = (*(f"{hours}h" for hours in _HOURS), *EXAMPLES[1:])
    return [one for one in dict.fromkeys(offered) if one.startswith(plain)]


def _plain(text: str) -> str:
    return " ".join(text.casefold().split()).strip(_EDGES)


def _amount(plain: str) -> float | None:
    try:
        return durations.parse(plain)
    except ValueError:
        return None


def _named(plain: str, moment: Moment) -> float | None:
    """Seconds back to a named time; None if the text is no such time."""
    found = find(plain.split(), moment)
    if any(one.span.clue is Clue.FUTURE for one in found):
        raise ReachError(FUTURE)
    whole = _only(found, plain)
    if whole is None or whole.span.clue is not Clue.EXPLICIT:
        return None
    start = whole.span.start if whole.span.nominal is None else whole.span.nominal  # "yesterday" is all of it
    return None if start is None else _full_hours(moment.now - start)


def _dated(plain: str, moment: Moment) -> float | None:
    """Seconds back to a date in one of the many ways to write one. Without a year, dateutil would take any number."""
    if not _YEAR.search(plain):
        return None
    try:
        at = dates.parse(plain, default=datetime(moment.today.year, 1, 1, tzinfo=zone(moment.tz))).timestamp()
    except (ValueError, OverflowError):
        return None
    if at > moment.now:
        raise ReachError(FUTURE)
    return _full_hours(moment.now - at)


def _full_hours(seconds: float) -> float:
    """Rounded up, so that what was said at the beginning is inside."""
    return math.ceil(seconds / HOUR_S) * HOUR_S


def _only(found: list[TimeMatch], plain: str) -> TimeMatch | None:
    """The time expression that is the whole text; with more words around it, it may mean something else."""
    match found:
        case [TimeMatch(first=0, last=last) as one] if last == len(plain.split()):
            return one
    return None


def in_one_line(breakdown: Breakdown) -> str:
    """ "3 summaries, 24 raw messages"."""
    return f"{_summaries(len(breakdown.summaries))}, {counted(breakdown.raw, 'raw message')}"


async def status_of(memory: ChannelMemory, question: Question) -> str:
    """What a model would be given if somebody asked now; why there are no summaries, where there are none."""
    policy = memory.policies.of_question(question)
    if not policy.enabled:
        return MEMORY_OFF
    if not policy.limits.archive:
        return NO_ARCHIVE
    if not policy.summaries:
        return NO_SUMMARIES
    shown = await memory.summaries.breakdown(question)
    stored = await memory.summaries.of(question.guild_id, question.channel_id)
    levels = [f"{count} of level {level}" for level, count in shown.levels.items()]
    by_level = f" ({listed(levels)})" if levels else ""
    lines = [
        f"A language model would be given {in_one_line(shown)}: {shown.chars:,} of {shown.limit:,} characters.",
        f"Stored: {_summaries(len(stored))}. Shown: {_summaries(len(shown.summaries))}{by_level}.",
    ]
    left_out = [
        *([_summaries(len(shown.dropped))] if shown.dropped else []),
        *([counted(shown.dropped_raw, "raw message")] if shown.dropped_raw else []),
    ]
    lines.append(f"Left out for lack of room: {listed(left_out)}." if left_out else "Nothing had to be left out.")
    return "\n".join(lines)


def _summaries(count: int) -> str:
    return counted(count, "summary", "summaries")


@dataclass(frozen=True, slots=True)
class Command:
    """Where, when, by whom and about whom a command was given."""

    guild_id: int
    channel_id: int
    by: int
    at: float  # by the clock that dates the channel's messages
    character: str
    thread_of: int = 0  # the channel of a thread, whose settings apply

    @property
    def place(self) -> Place:
        return Place.of_character(self.guild_id, self.character)

    @property
    def conversation(self) -> tuple[int, int, str, int]:
        return self.guild_id, self.channel_id, self.character, self.thread_of


class ContextWindow:
    """Its methods may raise RedisUnavailableError; what people got wrong is a reply like any other."""

    def __init__(self, memory: ChannelMemory) -> None:
        self._memory = memory
        self._sheets: LRUCache[tuple[int, int, int], Sheet] = LRUCache(SHEETS)
        """The files that are out for editing, by guild, channel and person."""

    # --- /context show, set, add, sub, reset ---

    async def show(self, command: Command) -> str:
        await self._own(command)  # if Redis is down, the values known here may be old
        now, default = self._effective(command), self._default(command)
        source = f"It is {now.why}." if now.why else _SOURCES[now.source].format(character=command.character)
        begun = self._memory.policies.boundary(command.guild_id, command.channel_id)
        since = f"The last fresh start here was {human_age(command.at - begun.at)}." if begun else ""
        window = f"Context window: {_shown(now.value)} (default: {_shown(default.value)})."
        return "\n".join(filter(None, [f"{window} {source}", await self._given(command), since, EDIT_EXAMPLES]))

    async def _given(self, command: Command) -> str:
        """ "Right now: 3 summaries, 24 raw messages." """
        if not self._policy(command).enabled:
            return MEMORY_OFF
        place = (command.guild_id, command.channel_id)
        now = Question(
            *place, 0, command.by, "", "", command.at, character=command.character, thread_of=command.thread_of
        )
        return f"Right now: {in_one_line(await self._memory.summaries.breakdown(now))}."

    async def change(self, step: Step, text: str, command: Command) -> str:
        if step is Step.SET and means_default(text):
            return await self.reset(command)
        now = await self._own(command)
        if step is not Step.SET and not isinstance(now, int | float):
            return NO_LIMIT
        now_s = float(now) if isinstance(now, int | float) else 0.0
        try:
            by_s = reach_s(text, command.at, self._policy(command).tz.key) if step is Step.SET else amount_s(text)
        except ReachError as refused:
            return str(refused)
        seconds, warning = limited(stepped(step, now_s, by_s))
        await self._memory.policies.set(command.place, MAX_AGE, seconds, by=command.by)
        capped = self._effective(command)
        cap = f"In this channel it is {_shown(capped.value)}: {capped.why}." if capped.why else ""
        return " ".join(filter(None, [f"Context window set to {in_hours(seconds)}.", warning, cap]))

    async def reset(self, command: Command) -> str:
        await self._memory.policies.set(command.place, MAX_AGE, AUTO, by=command.by)
        return f"Context window reset to default ({_shown(self._default(command).value)})."

    async def _own(self, command: Command) -> Value:
        """The character's window as it is stored, whatever a channel makes of it; the inherited one if it has none."""
        own = (await self._memory.policies.read(command.place)).values.get(MAX_AGE)
        return self._default(command).value if own is None else own

    def _effective(self, command: Command) -> Effective:
        return self._memory.policies.effective(*command.conversation)[MAX_AGE]

    def _default(self, command: Command) -> Effective:
        """What holds without the character's override."""
        return self._effective(replace(command, character=""))

    def _policy(self, command: Command) -> Policy:
        return self._memory.policies.of(*command.conversation)

    # --- /new and /context edit ---

    async def begin(self, command: Command) -> str:
        """A fresh start; removes nothing."""
        await self._begin(command, Boundary(command.at))
        return BEGUN

    async def edit_file(self, command: Command, close: str) -> str:
        """The file to edit; `close` says in it how to hand it back. EditError if there is nothing to edit."""
        messages = await self._messages(command, MOST + 1)
        tz = self._policy(command).tz
        self._sheets[_editor(command)] = Sheet.of(messages, tz, command.at)
        return write(messages, tz, command.at, character=command.character, close=close)

    async def keep(self, text: str, command: Command) -> str:
        """Takes the edited file back: a fresh start at the moment it was made, with the messages that are left."""
        try:
            # Twice as many as a file has, since more may have been said while it was edited.
            messages = await self._messages(command, 2 * MOST)
            sheet = self._sheets.get(_editor(command))
            sheet = sheet or Sheet.of(messages, self._policy(command).tz, command.at)
            wanted = sheet.read(text)
        except EditError as refused:
            return str(refused)
        if not wanted:
            return CANCELLED
        visible = {message.id: message for message in messages}
        found = [visible[one] for one in wanted if one in visible]
        if not found:
            return ALL_GONE
        kept = found[-MOST_KEPT:]
        # Somebody may have used /new while the file was edited: what that left out stays out.
        begun = self._memory.policies.boundary(command.guild_id, command.channel_id)
        start = max(sheet.at, begun.at) if begun else sheet.at
        await self._begin(command, Boundary(start, tuple(one.id for one in kept)))
        self._sheets.pop(_editor(command), None)
        more = TOO_MANY if len(found) > len(kept) else ""
        return "\n".join(filter(None, [prior_head(kept), KEPT.format(character=command.character), more]))

    async def _messages(self, command: Command, limit: int) -> Sequence[Message]:
        """All that is stored of the channel, whatever window or fresh start applies."""
        if not self._policy(command).enabled:
            raise EditError(MEMORY_OFF)
        messages = await self._memory.recent(command.guild_id, command.channel_id, limit)
        if not messages:
            raise EditError(NOTHING_STORED)
        return messages

    async def _begin(self, command: Command, boundary: Boundary) -> None:
        await self._memory.policies.begin(command.guild_id, command.channel_id, boundary, by=command.by)


def _editor(command: Command) -> tuple[int, int, int]:
    return command.guild_id, command.channel_id, command.by


def _shown(value: Value) -> str:
    return in_hours(value) if isinstance(value, int | float) else "no limit"


MOST: Final = 2_000  # messages in one file; a model is given far fewer
WORDS: Final = 500  # characters of one message: enough to recognise it, and the file stays small
COMMENT: Final = "#"
RULE: Final = "---"
CHANGED: Final = (
    "Line {number} is not a line of my file. You can delete lines, but not change or add any, because they are other "
    "people's words. Nothing was changed."
)
MOVED: Final = (
    "Line {number} is there twice or in the wrong place. You can delete lines, but not copy or move them. "
    "Nothing was changed."
)

_HEADER: Final = """\
# What {character} knows of this channel
#
# These are the messages I have of this channel, oldest first. {close}
#   1. {character} starts fresh at the moment this file was made.
#   2. The messages that are still in this file stay in {character}'s context.
#
# Delete the lines you want to leave out. You can't change, add or move lines.
# To cancel, delete everything.
"""
_CUT: Final = f"# There is more: these are the newest {MOST:,} messages.\n"


class EditError(ValueError):
    """The file is not a shortened copy; the sentence names the line."""


@dataclass(frozen=True, slots=True)
class Sheet:
    """What a file was made of: ids and digests. People's words must not stay here while somebody edits."""

    at: float  # when it was made: what is said later is not in it, and not left out either
    lines: tuple[tuple[int, bytes], ...]

    @classmethod
    def of(cls, messages: Iterable[Message], tz: tzinfo, at: float) -> Sheet:
        chosen = _chosen(messages, at)
        digests = map(_digest, _lines(chosen, tz))
        return cls(at, tuple(zip((one.id for one in chosen), digests, strict=True)))

    def read(self, text: str) -> tuple[int, ...]:
        """The ids of the messages whose lines are left, none if the file is empty; EditError if it is no shortened
        copy. Equal lines are told apart by their order alone, so any of them may stand for any other."""
        kept: list[int] = []
        at = 0
        for number, left in _numbered(text):
            digest = _digest(left)
            found = next((place for place in range(at, len(self.lines)) if self.lines[place][1] == digest), None)
            if found is None:
                is_ours = any(digest == known for _, known in self.lines)
                raise EditError((MOVED if is_ours else CHANGED).format(number=number))
            kept.append(self.lines[found][0])
            at = found + 1
        return tuple(kept)


def write(messages: Sequence[Message], tz: tzinfo, at: float, *, character: str, close: str) -> str:
    """The whole file; `close` says how to hand it back."""
    chosen = _chosen(messages, at)
    header = _HEADER.format(character=flatten(character), close=close)
    more = _CUT if len(chosen) < sum(one.ts <= at for one in messages) else ""
    return "\n".join([f"{header}{more}", RULE, "", *_lines(chosen, tz), ""])


def lines_of(text: str) -> str:
    """The lines of a file without its header."""
    return text.split(f"\n{RULE}\n", 1)[1].strip("\n")


def decode(data: bytes) -> str:
    """The text of a file as editors save it, with or without a byte order mark."""
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise EditError("That file is not UTF-8 text. Save it as UTF-8 and send it again.") from error


def _chosen(messages: Iterable[Message], at: float) -> list[Message]:
    return sorted((one for one in messages if one.ts <= at), key=lambda one: (one.ts, one.id))[-MOST:]


def _lines(messages: Sequence[Message], tz: tzinfo) -> list[str]:
    people = {one.author_id: plain_name(one.author) for one in messages}
    times = [f"{datetime.fromtimestamp(one.ts, tz):%Y-%m-%d %H:%M:%S}" for one in messages]
    return [
        f"[{time}] {plain_name(one.author)}: {line(one.content, WORDS, people)}"
        for time, one in zip(times, messages, strict=True)
    ]


def _numbered(text: str) -> Iterable[tuple[int, str]]:
    """The lines of messages, numbered as an editor numbers them."""
    plain = text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")
    for number, one in enumerate(plain.split("\n"), 1):
        bare = one.strip()
        if bare and bare != RULE and not bare.startswith(COMMENT):
            yield number, one


def _digest(one: str) -> bytes:
    return blake2b(one.strip().encode("utf-8", "surrogatepass"), digest_size=12).digest()
