"""What a language model was given because of a question, until its answer is stored. In: messages and summaries as they
are put into its context. Out: the same, to be looked up again.

Ids only: texts must not stay in this process.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Final

from cachetools import LRUCache

from channelmem.summarising.pyramid import Summary
from channelmem.types import Message, Origin, Question

QUESTIONS: Final = 500
"""Whose messages are noted; the least recently used go first."""

Place = tuple[int, int, int]
"""Guild, channel and question."""


class GivenMessages:
    def __init__(self) -> None:
        self._shown: LRUCache[Place, frozenset[Origin]] = LRUCache(QUESTIONS)
        self._nearby: LRUCache[Place, frozenset[Origin]] = LRUCache(QUESTIONS)
        self._summaries: LRUCache[Place, Mapping[str, float]] = LRUCache(QUESTIONS)

    def show(self, question: Question, *groups: Iterable[Message]) -> None:
        """Notes what is shown because of the question."""
        place = _place(question)
        self._shown[place] = self.shown(place) | {message.origin for group in groups for message in group}

    def surround(self, question: Question, nearby: Iterable[Message], summaries: Iterable[Summary]) -> None:
        """Notes what is shown besides: ambient messages and summaries."""
        self._nearby[_place(question)] = frozenset(message.origin for message in nearby)
        self._summaries[_place(question)] = {one.id: one.created for one in summaries}

    def shown(self, place: Place) -> frozenset[Origin]:
        return self._shown.get(place, frozenset())

    def messages(self, question: Question) -> frozenset[Origin]:
        """All of them, ambient ones included."""
        return self.shown(_place(question)) | self._nearby.get(_place(question), frozenset())

    def summaries(self, question: Question) -> Mapping[str, float]:
        """Ids, and when they were made."""
        return self._summaries.get(_place(question), {})


def same_summaries(
    question: Question, given: Mapping[str, float], found: Iterable[Summary], channel_id: int = 0
) -> frozenset[Origin]:
    """Those that are still the same, of the question's channel or of another one. A summary counts as one source, under
    a number that no message has: its messages may have expired."""
    same = (one for one in found if one.created == given.get(one.id))
    return frozenset(summary_origin(channel_id or question.channel_id, one) for one in same)


def summary_origin(channel_id: int, summary: Summary) -> Origin:
    return Origin(channel_id, -(math.floor(summary.start * 1000) * 100 + summary.level), summary.created)


def _place(question: Question) -> Place:
    return question.guild_id, question.channel_id, question.id
