"""How an answer reaches people: split into messages that Discord accepts, sent at once or as it grows.

Preferred boundaries, in order: paragraph, line, sentence, word, anywhere; never inside a link. A code block that must
be cut is closed and reopened.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import time
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import TypeVar

import aiohttp
import discord

from ..commands import NO_PINGS

LIMIT = 2000
MOST_MESSAGES = 4
CUT = "… (The rest is cut: it is too long.)"
LINK = re.compile(r"\[[^\]\n]*\]\([^)\s]*\)|<?https?://\S+")
FENCE = re.compile(r"^```(\w*)", re.MULTILINE)
OPENING = re.compile(r"```\w*\n")
BOUNDARIES = ("\n\n", "\n", ". ", "? ", "! ", " ")
MIN_FILL = 0.5
"""A preferred boundary counts only if the piece stays at least this full."""
MAX_LANGUAGE_SHARE = 0.02
"""A longer word after a fence is not a language, and is not repeated."""


def split(text: str, limit: int = LIMIT) -> list[str]:
    pieces: list[str] = []
    rest = text.strip()
    while len(rest) > limit:
        room = limit - len("\n```")
        cut = _boundary(rest, room)
        piece, rest = rest[:cut].rstrip(), rest[cut:].lstrip()
        fence = _open_fence(piece, limit)
        if fence is not None:
            piece, rest = f"{piece}\n```", f"```{fence}\n{rest}"
        pieces.append(piece)
    return [*pieces, rest] if rest else pieces


def messages_of(text: str) -> list[str]:
    """The messages of an answer; of one that is too long the first, with a note."""
    pieces = split(text[: MOST_MESSAGES * LIMIT + 1])
    if len(pieces) <= MOST_MESSAGES:
        return pieces
    kept = pieces[:MOST_MESSAGES]
    kept[-1] = f"{split(kept[-1], LIMIT - len(CUT) - 1)[0]}\n{CUT}"
    return kept


def _boundary(text: str, room: int) -> int:
    links = [found.span() for found in LINK.finditer(text[: room * 2])]
    # After the line that reopens a block: a piece of nothing but that line would make no progress.
    opening = OPENING.match(text, 0, room)
    start_at = opening.end() + 1 if opening else 1
    for least in (max(int(room * MIN_FILL), start_at), start_at):
        for boundary in BOUNDARIES:
            cut = _last(text, boundary, least, room, links)
            if cut:
                return cut
    return next((start for start, end in links if start_at <= start < room < end), room)


def _last(text: str, boundary: str, least: int, room: int, links: list[tuple[int, int]]) -> int:
    """The end of the last such boundary within the room; 0 if there is none outside a link."""
    end = room
    while (at := text.rfind(boundary, 0, end)) >= 0:
        cut = at + len(boundary)
        if cut < least:
            return 0
        if not any(start < cut < stop for start, stop in links):
            return cut
        end = at + len(boundary) - 1
    return 0


def _open_fence(piece: str, limit: int) -> str | None:
    """The language of the code block that the piece leaves open; None if it leaves none open."""
    fences = FENCE.findall(piece)
    if len(fences) % 2 == 0:
        return None
    return fences[-1] if len(fences[-1]) <= limit * MAX_LANGUAGE_SHARE else ""


# --- delivery ---


T = TypeVar("T")

TYPING_AFTER_S = 0.7
TYPING_EVERY_S = 8.0
EDIT_EVERY_S = 1.0
"""Between two edits of a growing answer: Discord allows about five in five seconds."""


class Delivery(ABC):
    """The first message is sent once and then edited; the rest of a long answer follows at the end."""

    def __init__(self) -> None:
        self.on_sent: Callable[[int], None] = lambda message_id: None
        """Told the id of every new message."""
        self._started = False
        self._shown = ""
        self._edited_at = float("-inf")

    @abstractmethod
    async def _send_first(self, text: str) -> int: ...

    @abstractmethod
    async def _edit_first(self, text: str) -> None: ...

    @abstractmethod
    async def _send_more(self, text: str) -> int: ...

    async def while_thinking(self, work: Coroutine[None, None, T]) -> T:
        """Runs the work and shows that it is in progress if it takes long."""
        return await work

    async def send(self, text: str) -> None:
        """Sends a finished text; it replaces anything streamed before."""
        first, *others = messages_of(text) or ["…"]
        await self._show(first)
        for other in others:
            self.on_sent(await self._send_more(other))

    async def stream(self, growing: AsyncIterator[str]) -> None:
        """Sends a growing text: first what there is, then edits at a polite rate."""
        said = ""
        text = await self.while_thinking(_next(growing))
        while text is not None:
            said = text
            if said.strip() and time.monotonic() - self._edited_at >= EDIT_EVERY_S:
                await self._show(said if len(said) <= LIMIT else said[: LIMIT - 2] + " …")
            text = await _next(growing)
        await self.send(said)

    async def _show(self, text: str) -> None:
        if not self._started:
            self.on_sent(await self._send_first(text))
            self._started = True
        elif text != self._shown:
            await self._edit_first(text)
        self._shown, self._edited_at = text, time.monotonic()


async def _next(growing: AsyncIterator[str]) -> str | None:
    return await anext(growing, None)


class ReplyDelivery(Delivery):
    """Answers a message with a reply."""

    def __init__(self, question: discord.Message) -> None:
        super().__init__()
        self._question = question
        self._reply: discord.Message | None = None

    async def while_thinking(self, work: Coroutine[None, None, T]) -> T:
        # In parallel: discord.py retries a refused request for up to half a minute, and the answer must not wait.
        typing = asyncio.create_task(self._show_typing())
        try:
            return await work
        finally:
            typing.cancel()

    async def _show_typing(self) -> None:
        await asyncio.sleep(TYPING_AFTER_S)
        # A courtesy; if Discord fails here, the answer itself will report it.
        with contextlib.suppress(discord.HTTPException, aiohttp.ClientError, OSError):
            while True:
                await self._question.channel.typing()
                await asyncio.sleep(TYPING_EVERY_S)

    async def _send_first(self, text: str) -> int:
        # The question may have been deleted meanwhile; then the answer stands alone.
        reference = self._question.to_reference(fail_if_not_exists=False)
        self._reply = await self._question.channel.send(
            text, reference=reference, allowed_mentions=NO_PINGS, suppress_embeds=True
        )
        return self._reply.id

    async def _edit_first(self, text: str) -> None:
        if self._reply is not None:
            # An edit without `suppress` would bring the previews back.
            await self._reply.edit(content=text, suppress=True, allowed_mentions=NO_PINGS)

    async def _send_more(self, text: str) -> int:
        return (await self._question.channel.send(text, allowed_mentions=NO_PINGS, suppress_embeds=True)).id


class InteractionDelivery(Delivery):
    """Answers a deferred slash command; Discord itself shows that the bot is thinking."""

    def __init__(self, interaction: discord.Interaction, *, private: bool) -> None:
        super().__init__()
        self._interaction = interaction
        self._private = private

    async def _send_first(self, text: str) -> int:
        return (await self._interaction.edit_original_response(content=text, allowed_mentions=NO_PINGS)).id

    async def _edit_first(self, text: str) -> None:
        await self._interaction.edit_original_response(content=text, allowed_mentions=NO_PINGS)

    async def _send_more(self, text: str) -> int:
        sent = await self._interaction.followup.send(
            text, ephemeral=self._private, allowed_mentions=NO_PINGS, suppress_embeds=True, wait=True
        )
        return sent.id
