"""Summaries of related channels, for a language model. In: a question, and the context it has so far. Out: the same
with the newest high-level summaries of the channels that the adapter allows.

Which channels are related is the policy of the question's channel; whether everybody who can read the answer may read
them is for the adapter to decide (`Question.related_channels`). What was given is looked up again before an answer
counts, as for the channel itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from cachetools import LRUCache

from channelmem.errors import RedisUnavailableError
from channelmem.given_messages import QUESTIONS, Place, same_summaries
from channelmem.policies import Policies
from channelmem.summarising.past import past
from channelmem.summarising.pyramid import Summary, roots
from channelmem.summarising.reader import SummaryReader
from channelmem.telling.quote import plain_name
from channelmem.types import Origin, Question, RelatedChannel

MOST_CHARS: Final = 2_000
"""Of all related channels together: the channel itself comes first."""
LEAST_CHARS: Final = 200

_GAP: Final = "\n\n"


class RelatedSummaries:
    def __init__(self, summaries: SummaryReader, policies: Policies) -> None:
        self._summaries, self._policies = summaries, policies
        self._given: LRUCache[Place, Mapping[int, Mapping[str, float]]] = LRUCache(QUESTIONS)
        """By channel: ids of summaries, and when they were made."""

    async def beside(self, question: Question, text: str) -> str:
        """The context with the related channels in front, within the same limit."""
        policy = self._policies.of_question(question)
        allowed = [one for one in question.related_channels if one.id in policy.related_channels]
        if not allowed or not policy.enabled:
            return text
        room = min(MOST_CHARS, policy.context_char_limit - len(text))
        blocks, given = [], dict[int, Mapping[str, float]]()
        for channel in allowed:
            share = room // len(allowed) - len(_GAP)
            block, shown = await self._block(question, channel, share) if share >= LEAST_CHARS else ("", ())
            if block:
                blocks.append(block)
                given[channel.id] = {one.id: one.created for one in shown}
        self._given[_place(question)] = given
        return _GAP.join(filter(None, (*blocks, text)))

    async def standing(self, question: Question) -> frozenset[Origin]:
        """What of them is still the same; may raise RedisUnavailableError."""
        found: frozenset[Origin] = frozenset()
        for channel_id, given in self._given.get(_place(question), {}).items():
            policy = self._policies.of(question.guild_id, channel_id)
            same = await self._summaries.standing(question.guild_id, channel_id, given, policy)
            found |= same_summaries(question, given, same.values(), channel_id)
        return found

    async def _block(self, question: Question, channel: RelatedChannel, limit: int) -> tuple[str, tuple[Summary, ...]]:
        policy = self._policies.of(question.guild_id, channel.id, question.character)
        header = f"[related channel: #{plain_name(channel.name)}]"
        try:
            read = await self._summaries.read(question.guild_id, channel.id, policy, self._since(question, channel.id))
        except RedisUnavailableError:
            return "", ()
        room = limit - len(header) - 1
        start = self._since(question, channel.id)
        told = past(roots(read), (), start=start, now=question.ts, tz=policy.tz, limit=room)
        return (f"{header}\n{told.text}", told.summaries) if told.text else ("", ())

    def _since(self, question: Question, channel_id: int) -> float | None:
        """As far back as context reaches here, and not beyond a fresh start there."""
        age_s = self._policies.of_question(question).context_max_age_s
        begun = self._policies.boundary(question.guild_id, channel_id)
        starts = [*([] if age_s is None else [question.ts - age_s]), *([begun.at] if begun else [])]
        return max(starts, default=None)


def _place(question: Question) -> Place:
    return question.guild_id, question.channel_id, question.id
