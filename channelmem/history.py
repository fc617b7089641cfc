"""The platform's history as far as it may be shown. In and out: the same as `History`.

What people and managers decided applies to fetched messages as well as stored ones: nothing by people who opted out,
nothing from before a clear or since a pause, and nothing at all of a channel whose memory is off. If these decisions
can't be looked up, nothing is shown. Nor are the bot's own answers: they may quote what is gone by now, and only stored
ones say what they were made of.
"""

from __future__ import annotations

from dataclasses import replace

from channelmem.errors import RedisUnavailableError
from channelmem.policy.policies import Policies
from channelmem.store.decisions import Decisions
from channelmem.types import LAST_TS, History, Message, Past, Person, Question

UNDECIDED = "I can't check who opted out right now, so I don't quote this channel's history."
UNKNOWN = "I can't check this channel's settings right now, so I don't quote its history."


class FilteredHistory(History):
    def __init__(self, history: History, decisions: Decisions, policies: Policies) -> None:
        self._history, self._decisions, self._policies = history, decisions, policies

    async def fetch(self, question: Question, limit: int, max_age_s: float) -> Past:
        if not self._policies.of_question(question).enabled:
            return Past()
        past = await self._history.fetch(question, limit, max_age_s)
        if past.messages and not self._policies.known:
            return Past(problem=UNKNOWN)
        others = [one for one in past.messages if 0 <= one.ts <= LAST_TS and not one.own]  # as for messages to remember
        try:
            shown = await self._decisions.allowed(question.guild_id, question.channel_id, others)
        except RedisUnavailableError:
            return Past(problem=UNDECIDED)
        return replace(past, messages=tuple(map(self._cut, shown)))

    async def fetch_message(self, channel_id: int, message_id: int) -> Message | None:
        message = await self._history.fetch_message(channel_id, message_id)
        if message is None or message.own or not self._may_show(message):
            return None
        try:
            shown = await self._decisions.allowed(message.guild_id, channel_id, [message])
        except RedisUnavailableError:
            return None
        return self._cut(message) if shown else None

    def _may_show(self, message: Message) -> bool:
        return self._policies.known and self._policies.of_message(message).enabled

    def _cut(self, message: Message) -> Message:
        chars = self._policies.of_message(message).history_content_chars
        return message if len(message.content) <= chars else replace(message, content=message.content[:chars])

    def jump_url(self, guild_id: int, channel_id: int, message_id: int) -> str:
        return self._history.jump_url(guild_id, channel_id, message_id)

    def link(self, message: Message) -> str:
        return self.jump_url(message.guild_id, message.channel_id, message.id)

    async def find_members(self, guild_id: int, prefix: str) -> tuple[Person, ...]:
        find = getattr(self._history, "find_members", None)  # an adapter may have no such method
        found: tuple[Person, ...] = await find(guild_id, prefix) if find else ()
        try:
            hidden = await self._decisions.hidden(guild_id, {person.id for person in found})
        except RedisUnavailableError:
            return ()
        return tuple(person for person in found if person.id not in hidden)
