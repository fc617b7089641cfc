"""Delivers an answer. In: a text, or a text that grows. Out: one or more Discord messages.

Deliveries ping nobody, suppress link previews, split long answers at sensible boundaries into a few messages at most,
and show typing only when the answer takes a while.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import TypeVar

import aiohttp
import discord

from .split import LIMIT, messages_of

T = TypeVar("T")

TYPING_AFTER_S = 0.7
TYPING_EVERY_S = 8.0
EDIT_EVERY_S = 1.0
"""Between two edits of a growing answer: Discord allows about five in five seconds."""
NO_PINGS = discord.AllowedMentions.none()


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
