"""What /context, /new and /context edit do, whoever offers them. In: what somebody typed, and where. Out: a reply.

The time window belongs to a character in a server: it is its override of `max_age`. The fresh start belongs to a
channel or thread. Both apply to what a language model is given unasked; questions still find everything.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from cachetools import LRUCache

from channelmem.cascade.levels import Boundary, Level, Place
from channelmem.cascade.resolve import Effective
from channelmem.cascade.values import AUTO, Value
from channelmem.context_window.breakdown import in_one_line
from channelmem.context_window.edit_file import MOST, EditError, Sheet, write
from channelmem.context_window.reach import (
    ReachError,
    Step,
    amount_s,
    in_hours,
    limited,
    means_default,
    reach_s,
    stepped,
)
from channelmem.durations import human_age
from channelmem.memory import Memory
from channelmem.policy import Policy
from channelmem.telling.assemble import prior_head
from channelmem.types import Message, Question

MAX_AGE: Final = "max_age"
MOST_KEPT: Final = 100
"""As many as a language model is given."""
SHEETS: Final = 200
"""Files that may be out for editing at once; older ones can still be handed back if nothing was deleted since."""

EXAMPLES: Final = (
    "Try `/context set 24h`, `/context set yesterday`, `/context add 8h`, `/context sub 4h` or `/context reset`."
)
UNLIMITED: Final = "There is no limit to change: the context window is off. Use `/context set` to set one."
BEGUN: Final = (
    "Fresh start! From now on I begin without what was said here before. "
    "I haven't forgotten it: ask about it, and I still find it."
)
CANCELLED: Final = "The file has no lines, so nothing was changed."
ALL_GONE: Final = "None of these messages exist any more, so nothing was changed."
NOTHING_STORED: Final = "I don't have any messages of this channel."
MEMORY_OFF: Final = "Memory is off in this channel."
KEPT: Final = "{character} starts with these messages, followed by what was said since the file was made."
TOO_MANY: Final = f"I can keep {MOST_KEPT} messages, so I took the newest ones."
_SOURCES: Final = {
    Level.DEFAULT: "This is the default.",
    Level.GLOBAL: "This is set for all servers.",
    Level.CHANNEL: "This is set for this channel.",
    Level.CHARACTER: "This is set for {character} in this server.",
}


@dataclass(frozen=True, slots=True)
class Command:
    """Where, when, by whom and about whom a command was given."""

    guild_id: int
    channel_id: int
    by: int
    at: float
    """By the clock that dates the channel's messages."""
    character: str
    thread_of: int = 0
    """The channel of a thread, whose settings apply."""

    @property
    def place(self) -> Place:
        return Place.of_character(self.guild_id, self.character)


class ContextWindow:
    """Its methods may raise RedisUnavailableError; what people got wrong is a reply like any other."""

    def __init__(self, memory: Memory) -> None:
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
        return "\n".join(filter(None, [f"{window} {source}", await self._given(command), since, EXAMPLES]))

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
        try:
            return await self._change(step, text, command)
        except ReachError as refused:
            return str(refused)

    async def reset(self, command: Command) -> str:
        await self._memory.policies.set(command.place, MAX_AGE, AUTO, by=command.by)
        return f"Context window reset to default ({_shown(self._default(command).value)})."

    async def _change(self, step: Step, text: str, command: Command) -> str:
        if step is Step.SET and means_default(text):
            return await self.reset(command)
        now = await self._own(command)
        if step is Step.SET:
            wanted = reach_s(text, command.at, self._policy(command).tz.key)
        elif not isinstance(now, int | float):
            return UNLIMITED
        else:
            wanted = stepped(step, float(now), amount_s(text))
        seconds, warning = limited(wanted)
        await self._memory.policies.set(command.place, MAX_AGE, seconds, by=command.by)
        return " ".join(filter(None, [f"Context window set to {in_hours(seconds)}.", warning, self._cap(command)]))

    async def _own(self, command: Command) -> Value:
        """The character's window as it is stored, whatever a channel makes of it; the inherited one if it has none."""
        own = (await self._memory.policies.read(command.place)).values.get(MAX_AGE)
        return self._default(command).value if own is None else own

    def _cap(self, command: Command) -> str:
        now = self._effective(command)
        return f"In this channel it is {_shown(now.value)}: {now.why}." if now.why else ""

    def _effective(self, command: Command) -> Effective:
        where = (command.guild_id, command.channel_id, command.character, command.thread_of)
        return self._memory.policies.effective(*where)[MAX_AGE]

    def _default(self, command: Command) -> Effective:
        """What holds without the character's override."""
        return self._memory.policies.effective(command.guild_id, command.channel_id, thread_of=command.thread_of)[
            MAX_AGE
        ]

    def _policy(self, command: Command) -> Policy:
        return self._memory.policies.of(command.guild_id, command.channel_id, command.character, command.thread_of)

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
            return await self._keep(text, command)
        except EditError as refused:
            return str(refused)

    async def _keep(self, text: str, command: Command) -> str:
        # Twice as many as a file has, since more may have been said while it was edited.
        messages = await self._messages(command, 2 * MOST)
        sheet = self._sheets.get(_editor(command))
        sheet = sheet or Sheet.of(messages, self._policy(command).tz, command.at)
        wanted = sheet.read(text)
        if not wanted:
            return CANCELLED
        visible = {message.id: message for message in messages}
        found = [visible[one] for one in wanted if one in visible]
        if not found:
            return ALL_GONE
        kept = found[-MOST_KEPT:]
        await self._begin(command, Boundary(self._start(sheet, command), tuple(one.id for one in kept)))
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

    def _start(self, sheet: Sheet, command: Command) -> float:
        """Somebody may have begun anew while the file was edited: what that left out stays out."""
        begun = self._memory.policies.boundary(command.guild_id, command.channel_id)
        return max(sheet.at, begun.at) if begun else sheet.at

    async def _begin(self, command: Command, boundary: Boundary) -> None:
        await self._memory.policies.begin(command.guild_id, command.channel_id, boundary, by=command.by)


def _editor(command: Command) -> tuple[int, int, int]:
    return command.guild_id, command.channel_id, command.by


def _shown(value: Value) -> str:
    return in_hours(value) if isinstance(value, int | float) else "no limit"
