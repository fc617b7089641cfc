"""Discord's own history, the last resort of `ask`. In: a question. Out: the newest words, or a plain sentence.

What is fetched lives here for a few seconds, so that ten questions make one request, and is never stored. While it
lives, new messages, edits and deletes are applied to it: a cache must not know better than the channel.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace

import aiohttp
import discord

from bot.messages.convert import is_command, to_message
from bot.messages.members import nick_names
from bot.messages.permissions import ROOMS, Room, may_read
from channelmem.settings import Settings
from channelmem.types import Message, Past, Question

PAGE = 100
KEEP_S = 5.0
WAIT_S = 6.0

NO_CHANNEL = "I cannot see this channel on Discord."
FORBIDDEN = "I may not read this channel's history on Discord (my Read Message History permission is missing here)."
GONE = "Discord says that this channel no longer exists."
SLOW_DOWN = "Discord asked me to slow down, so I could not look at its history just now."
TROUBLE = "Discord has trouble at the moment, so I could not look at its history."
NO_ANSWER = "Discord did not answer in time, so I could not look at its history."


@dataclass(slots=True)
class _Window:
    """One channel's fetched past, kept in step with what happens meanwhile."""

    messages: dict[int, Message] = field(default_factory=dict)
    gone: set[int] = field(default_factory=set)
    problem: str = ""
    until: float = float("inf")
    """Endless while the fetch is under way."""
    flight: asyncio.Task[None] | None = None

    def alive(self) -> list[Message]:
        return [message for id_, message in self.messages.items() if id_ not in self.gone]


class DiscordHistory:
    """Implements channelmem.types.History over a discord.py client."""

    def __init__(self, settings: Settings, clock: Callable[[], float] = time.monotonic) -> None:
        self._settings = settings
        self._clock = clock
        self._client: discord.Client | None = None
        self._windows: dict[int, _Window] = {}

    def attach(self, client: discord.Client) -> None:
        """The client exists only after Memory is open, and Memory wants its history first."""
        self._client = client

    async def fetch(self, question: Question, limit: int, max_age_s: float) -> Past:
        window = await self._window(question.channel_id)
        if window.problem:
            return Past(problem=window.problem)
        oldest = question.ts - max_age_s
        kept = sorted((m for m in window.alive() if m.id < question.id and m.ts >= oldest), key=lambda m: m.id)
        return Past(tuple(kept[-limit:]))

    async def fetch_message(self, channel_id: int, message_id: int) -> Message | None:
        room = self._room(channel_id)
        if room is None or not may_read(room, room.guild.me):
            return None
        try:
            async with asyncio.timeout(WAIT_S):
                found = await room.fetch_message(message_id)
        except (discord.HTTPException, aiohttp.ClientError, OSError):
            return None
        value = to_message(found, self._me())
        return self._cut(value) if value else None

    def jump_url(self, guild_id: int, channel_id: int, message_id: int) -> str:
        return f"https://discord.com/channels/{guild_id or '@me'}/{channel_id}/{message_id}"

    # --- what happens while a window lives ---

    def note(self, message: Message) -> None:
        """Somebody wrote or edited; an older revision than the one that is here changes nothing."""
        window = self._windows.get(message.channel_id)
        if window is None or not self._wanted(message):
            return
        known = window.messages.get(message.id)
        if known is None or known.revision <= message.revision:
            window.messages[message.id] = self._cut(message)

    def drop(self, channel_id: int, ids: Iterable[int]) -> None:
        window = self._windows.get(channel_id)
        if window is not None:
            window.gone.update(ids)

    def drop_author(self, author_id: int) -> None:
        """Somebody wants to be forgotten: what was fetched goes too."""
        for window in self._windows.values():
            window.gone.update(m.id for m in window.messages.values() if m.author_id == author_id)

    # --- fetching ---

    async def _window(self, channel_id: int) -> _Window:
        now = self._clock()
        self._windows = {id_: w for id_, w in self._windows.items() if w.until > now}
        window = self._windows.get(channel_id)
        if window is None:
            window = self._windows[channel_id] = _Window()
            window.flight = asyncio.create_task(self._fill(channel_id, window))
        if window.flight is not None:
            await asyncio.shield(window.flight)  # one who gives up must not take the others' answer away
        return window

    async def _fill(self, channel_id: int, window: _Window) -> None:
        room = self._room(channel_id)
        try:
            if room is None:
                window.problem = NO_CHANNEL
            elif not may_read(room, room.guild.me):
                window.problem = FORBIDDEN  # Discord would answer with an empty page, not with an error
            else:
                window.problem = await self._request(room, window)
        finally:
            window.until = self._clock() + KEEP_S
            # Also where nobody asks again: a window that stays would hold these words, and all that is said after.
            asyncio.get_running_loop().call_later(KEEP_S, self._end, channel_id, window)

    def _end(self, channel_id: int, window: _Window) -> None:
        if self._windows.get(channel_id) is window:
            del self._windows[channel_id]

    async def _request(self, room: Room, window: _Window) -> str:
        try:
            async with asyncio.timeout(WAIT_S):
                page = [message async for message in room.history(limit=PAGE)]
        except discord.HTTPException as error:
            return sentence(error)
        except discord.RateLimited:
            return SLOW_DOWN
        except TimeoutError:
            return NO_ANSWER
        except (aiohttp.ClientError, OSError):
            return TROUBLE
        names = await nick_names(room.guild, (m.author.id for m in page if not m.author.bot))
        for message in page:
            value = to_message(message, self._me(), names)
            if value is not None and self._wanted(value):
                window.messages.setdefault(value.id, self._cut(value))  # an edit that came meanwhile is newer
        return ""

    def _wanted(self, message: Message) -> bool:
        return not message.own and not is_command(message.content, self._settings.command_prefixes)

    def _cut(self, message: Message) -> Message:
        return replace(message, content=message.content[: self._settings.history_content_chars])

    def _room(self, channel_id: int) -> Room | None:
        found = self._client.get_channel(channel_id) if self._client else None
        return found if isinstance(found, ROOMS) else None

    def _me(self) -> discord.ClientUser:
        if self._client is None or self._client.user is None:
            raise RuntimeError("a room is only found after log-in")
        return self._client.user


def sentence(error: discord.HTTPException) -> str:
    """What people are told when Discord refuses."""
    if isinstance(error, discord.Forbidden):
        return FORBIDDEN
    if isinstance(error, discord.NotFound):
        return GONE
    return SLOW_DOWN if error.status == 429 else TROUBLE
