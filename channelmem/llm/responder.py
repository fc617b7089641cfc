"""The seam to a language model: what the ask cog hands over, and what it gets back.

In: the question, Memory's answer, the place. Out: growing text. Without a speaker the bot sends the quoting answer.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Protocol

from channelmem.types import Answer, Question


class SpeechError(Exception):
    """No (whole) answer could be had: time-out, refusal, spend cap. The bot then sends the quoting answer."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where the question was asked, in the words that people use."""

    guild: str = ""
    channel: str = ""


class Speaker(Protocol):
    """Puts Memory's answer into words of its own."""

    def reply(self, question: Question, answer: Answer, place: Place) -> AsyncIterator[str]:
        """Yields the whole text so far, longer each time; raises SpeechError when it cannot go on."""

    async def close(self) -> None:
        """Called once, after the last answer."""
