"""The platform's history without people who opted out. In and out: the same as `History`.

An opt-out applies to fetched messages as well as stored ones. While Redis is unreachable no opt-out can be looked up;
people known to have opted out, or who did so through this process, stay hidden.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace

from channelmem.errors import RedisUnavailableError
from channelmem.policy import Policy
from channelmem.store.store import Store
from channelmem.types import LAST_TS, History, Message, Past, Question


class FilteredHistory(History):
    def __init__(self, history: History, store: Store, policy_of: Callable[[int, int], Policy]) -> None:
        self._history, self._store, self._policy_of = history, store, policy_of
        self._known: set[tuple[int | None, int]] = set()
        """Guild (None: everywhere) and author."""

    def hide(self, author_id: int, guild_id: int | None) -> None:
        self._known.add((guild_id, author_id))

    def show(self, author_id: int, guild_id: int | None) -> None:
        self._known.discard((guild_id, author_id))

    async def fetch(self, question: Question, limit: int, max_age_s: float) -> Past:
        past = await self._history.fetch(question, limit, max_age_s)
        valid = [one for one in past.messages if 0 <= one.ts <= LAST_TS]  # as for messages to remember
        hidden = await self._hidden(question.guild_id, {message.author_id for message in valid})
        shown = (self._cut(one) for one in valid if one.author_id not in hidden)
        return replace(past, messages=tuple(shown))

    async def fetch_message(self, channel_id: int, message_id: int) -> Message | None:
        message = await self._history.fetch_message(channel_id, message_id)
        if message is None or await self._hidden(message.guild_id, {message.author_id}):
            return None
        return self._cut(message)

    def _cut(self, message: Message) -> Message:
        chars = self._policy_of(message.guild_id, message.channel_id).history_content_chars
        return message if len(message.content) <= chars else replace(message, content=message.content[:chars])

    def jump_url(self, guild_id: int, channel_id: int, message_id: int) -> str:
        return self._history.jump_url(guild_id, channel_id, message_id)

    async def _hidden(self, guild_id: int, author_ids: Collection[int]) -> set[int]:
        try:
            hidden = await self._store.consent.hidden(guild_id, author_ids)
        except RedisUnavailableError:
            return {author for author in author_ids if self._is_known(guild_id, author)}
        self._known -= {(guild, author) for author in author_ids if author not in hidden for guild in (guild_id, None)}
        self._known |= {(guild_id, author) for author in hidden}
        return hidden

    def _is_known(self, guild_id: int, author: int) -> bool:
        decided = self._known | self._store.buckets.undelivered.decided
        return (guild_id, author) in decided or (None, author) in decided
