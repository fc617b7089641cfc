"""Answers in a language model's words: models, prompts, characters and a daily spend cap. Independent of any chat
platform; `opening.open_responder` is the way in. Without a responder, callers show the quoting answer instead."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Final, Protocol

from channelmem.types import Answer, Origin, Question

MOST_CHARS: Final = 6_000  # of an answer. Nobody reads more in a chat, and a model may write without end.
CUT: Final = "… (The answer is cut here: it is too long.)"


class ResponderError(Exception):
    """The model gave no complete answer: timeout, refusal, spend cap. The caller then shows the quoting answer."""


@dataclass(frozen=True, slots=True)
class Location:
    """Where the question was asked, by the names people see."""

    guild: str = ""
    channel: str = ""


class Responder(Protocol):
    """Puts Memory's answer into its own words."""

    def respond(
        self, question: Question, answer: Answer, location: Location, quoted: set[Origin]
    ) -> AsyncIterator[str]:
        """Yields the whole text so far, longer each time; raises ResponderError if it can't go on. Of a text beyond
        MOST_CHARS it yields the beginning, and a note that the rest is missing.

        A caller must not leave standing what was yielded before a ResponderError. `quoted` gets what the model is shown
        of the channel, as it is shown it: the answer must go with any of it."""

    async def close(self) -> None:
        """Called once, after the last answer."""
