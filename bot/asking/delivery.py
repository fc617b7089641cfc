"""How an answer reaches people. In: a text, or text that grows. Out: one or more Discord messages and their ids.

Nobody is ever pinged, links are not unfurled, long answers are cut at sensible borders, and typing is shown only
when thinking takes a while.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Coroutine
from typing import Protocol, TypeVar

import aiohttp
import discord

from bot.asking.split import LIMIT, split

T = TypeVar("T")

SLOW_S = 0.7
TYPING_S = 8.0
EDIT_S = 1.0
"""Between two edits of a growing answer: Discord allows about five in five seconds."""
NOBODY = discord.AllowedMentions.none()


class Delivery(Protocol):
    async def while_thinking(self, work: Coroutine[None, None, T]) -> T:
        """Runs the work and shows that it is under way if that takes long."""

    async def send(self, text: str) -> list[int]:
        """Sends a finished text, in place of anything that was streamed before."""

    async def stream(self, growing: AsyncIterator[str]) -> list[int]:
        """Sends a growing text: first what there is, then edits at a polite rate."""


class _Growing(ABC):
    """Shared by both ways: the first piece exists once and is edited; the others are added at the end."""

    def __init__(self) -> None:
        self._ids: list[int] = []
        self._shown = ""
        self._edited_at = 0.0

    @abstractmethod
    async def _first(self, text: str) -> int: ...

    @abstractmethod
    async def _change(self, text: str) -> None: ...

    @abstractmethod
    async def _more(self, text: str) -> int: ...

    async def send(self, text: str) -> list[int]:
        first, *others = split(text) or ["…"]
        await self._show(first)
        for other in others:
            self._ids.append(await self._more(other))
        return self._ids

    async def while_thinking(self, work: Coroutine[None, None, T]) -> T:
        return await work

    async def stream(self, growing: AsyncIterator[str]) -> list[int]:
        said = ""
        text = await self.while_thinking(_next(growing))
        while text is not None:
            said = text
            if said.strip() and time.monotonic() - self._edited_at >= EDIT_S:
                await self._show(said if len(said) <= LIMIT else said[: LIMIT - 2] + " …")
            text = await _next(growing)
        return await self.send(said)

    async def _show(self, text: str) -> None:
        if not self._ids:
            self._ids.append(await self._first(text))
        elif text != self._shown:
            await self._change(text)
        self._shown, self._edited_at = text, time.monotonic()


async def _next(growing: AsyncIterator[str]) -> str | None:
    return await anext(growing, None)


class ReplyDelivery(_Growing):
    """Answers a message with a reply."""

    def __init__(self, question: discord.Message) -> None:
        super().__init__()
        self._question = question
        self._reply: discord.Message | None = None

    async def while_thinking(self, work: Coroutine[None, None, T]) -> T:
        # Beside the work: a refusal of Discord is tried again for up to half a minute, and no answer waits for that.
        typing = asyncio.create_task(self._typing())
        try:
            return await work
        finally:
            typing.cancel()

    async def _typing(self) -> None:
        await asyncio.sleep(SLOW_S)
        # A courtesy; the answer itself will show what is wrong.
        with contextlib.suppress(discord.HTTPException, aiohttp.ClientError, OSError):
            while True:
                await self._question.channel.typing()
                await asyncio.sleep(TYPING_S)

    async def _first(self, text: str) -> int:
        # The question may have been deleted meanwhile; the answer then stands alone.
        to = self._question.to_reference(fail_if_not_exists=False)
        self._reply = await self._question.channel.send(
            text, reference=to, allowed_mentions=NOBODY, suppress_embeds=True
        )
        return self._reply.id

    async def _change(self, text: str) -> None:
        if self._reply is not None:
            # An edit that does not say so again brings the previews back.
            await self._reply.edit(content=text, suppress=True, allowed_mentions=NOBODY)

    async def _more(self, text: str) -> int:
        return (await self._question.channel.send(text, allowed_mentions=NOBODY, suppress_embeds=True)).id


class InteractionDelivery(_Growing):
    """Answers a deferred slash command; Discord itself shows that the bot is thinking."""

    def __init__(self, interaction: discord.Interaction, *, private: bool) -> None:
        super().__init__()
        self._interaction = interaction
        self._private = private

    async def _first(self, text: str) -> int:
        return (await self._interaction.edit_original_response(content=text, allowed_mentions=NOBODY)).id

    async def _change(self, text: str) -> None:
        await self._interaction.edit_original_response(content=text, allowed_mentions=NOBODY)

    async def _more(self, text: str) -> int:
        sent = await self._interaction.followup.send(
            text, ephemeral=self._private, allowed_mentions=NOBODY, suppress_embeds=True, wait=True
        )
        return sent.id
