"""The language model of `channelmem chat`.

`chat` loads this module only if a model is configured: the packages are an extra and take a second to import.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

from channelmem.interface import ChannelMemory
from channelmem.llm import Location, Responder, ResponderError
from channelmem.llm.opening import open_responder
from channelmem.settings import Settings
from channelmem.types import Answer, Origin, Question


@dataclass(frozen=True, slots=True)
class Spoken:
    text: str
    problem: str = ""
    """Why there is no text: spend cap, timeout, refusal ..."""
    shown: frozenset[Origin] = frozenset()
    """What the model was shown of the channel."""


Speak = Callable[[Question, Answer], Awaitable[Spoken]]


@asynccontextmanager
async def open_model(settings: Settings, memory: ChannelMemory, channel: str) -> AsyncIterator[Speak | None]:
    """None if no model is configured; raises ConfigError, with the fix, if the model can't be used."""
    responder = open_responder(settings, memory)
    if responder is None:
        yield None
        return
    try:
        yield _speaker(responder, Location(channel=channel))
    finally:
        await responder.close()


def _speaker(responder: Responder, location: Location) -> Speak:
    async def speak(question: Question, answer: Answer) -> Spoken:
        text, shown = "", set[Origin]()
        try:
            async for grown in responder.respond(question, answer, location, shown):
                text = grown
        except ResponderError as error:
            return Spoken("", str(error), frozenset(shown))
        return Spoken(text, shown=frozenset(shown))

    return speak
