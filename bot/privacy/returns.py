"""Exports of a person's messages as a file that fits, and the progress of an opt-in."""

from __future__ import annotations

import asyncio
import gzip
import json
from collections.abc import Sequence
from datetime import UTC, datetime

import aiohttp
import discord
import structlog

from channelmem.errors import RedisUnavailableError
from channelmem.interface import ChannelMemory
from channelmem.types import Message

from . import texts

PLAIN = "my-messages.jsonl"
PACKED = "my-messages.jsonl.gz"
TRUNCATED = " The file holds only the newest ones; the rest doesn't fit in an upload."


def to_line(message: Message) -> str:
    """One JSON line; ids are strings because JSON readers round large numbers."""
    fields: dict[str, object] = {
        "guild_id": str(message.guild_id),
        "channel_id": str(message.channel_id),
        "id": str(message.id),
        "time": datetime.fromtimestamp(message.ts, UTC).isoformat(),
        "content": message.content,
    }
    if message.attachments:
        fields["attachments"] = [{"name": one.name, "alt": one.alt, "text": one.text} for one in message.attachments]
    return json.dumps(fields, ensure_ascii=False)


def fit(lines: Sequence[str], limit: int, name: str = PLAIN) -> tuple[str, bytes, str]:
    """File name, content and a remark: plain if it fits, else gzipped, else only the newest part."""
    data = "\n".join(lines).encode()
    if len(data) <= limit:
        return name, data, ""
    packed = gzip.compress(data)
    if len(packed) <= limit:
        return f"{name}.gz", packed, ""
    newest = data[-limit:].split(b"\n", 1)[-1]
    return name, newest, TRUNCATED


# --- returns ---


EVERY_S = 3.0
LONGEST_S = 14 * 60.0
"""Discord lets a reply be edited for 15 minutes. The opt-in itself does not depend on this."""

log = structlog.get_logger(__name__)


class Returns:
    """One task per person who waits."""

    def __init__(self, memory: ChannelMemory) -> None:
        self._memory = memory
        self._watching: dict[int, asyncio.Task[None]] = {}

    def watch(self, user_id: int, reply: discord.WebhookMessage) -> None:
        self.stop(user_id)
        task = self._watching[user_id] = asyncio.create_task(self._watch(user_id, reply))
        task.add_done_callback(lambda done: self._end(user_id, done))

    def stop(self, user_id: int) -> None:
        """They changed their mind, so the reply must not say that they are back."""
        if task := self._watching.pop(user_id, None):
            task.cancel()

    async def stop_all(self) -> None:
        tasks = list(self._watching.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _end(self, user_id: int, task: asyncio.Task[None]) -> None:
        if self._watching.get(user_id) is task:
            del self._watching[user_id]

    async def _watch(self, user_id: int, reply: discord.WebhookMessage) -> None:
        try:
            async with asyncio.timeout(LONGEST_S):
                while await self._show(user_id, reply):  # noqa: ASYNC110  (Redis does not tell)
                    await asyncio.sleep(EVERY_S)
        except (discord.HTTPException, aiohttp.ClientError, OSError) as error:
            log.info("progress of an opt-in no longer shown", problem=type(error).__name__)

    async def _show(self, user_id: int, reply: discord.WebhookMessage) -> bool:
        """Edits the reply if there is news; returns whether to look again."""
        try:
            left = await self._memory.returning(user_id)
        except RedisUnavailableError:
            return True  # the removal waits as well
        text = texts.OPTED_IN if left is None else texts.returning(left)
        if text != reply.content:
            reply.content = text
            await reply.edit(content=text)
        return left is not None
