"""/context and /new in `channelmem chat`. In: a line that begins with one of them. Out: what to print."""

from __future__ import annotations

import time
from functools import cached_property
from typing import TYPE_CHECKING, Final

from channelmem.context_window.edit_file import decode
from channelmem.context_window.reach import Step
from channelmem.context_window.window import Command, ContextWindow
from channelmem.extras import load
from channelmem.memory import Memory
from channelmem.settings import Settings

if TYPE_CHECKING:
    from channelmem.llm.characters import Character

CONTEXT: Final = "/context"
NEW: Final = "/new"
EDIT: Final = "edit"
HAND_BACK: Final = "When you save and close it:"


def is_edit(line: str) -> bool:
    return line.split() == [CONTEXT, EDIT]


class ChatContext:
    def __init__(self, memory: Memory, settings: Settings, guild_id: int, channel_id: int) -> None:
        self._window, self._settings = ContextWindow(memory), settings
        self._guild_id, self._channel_id = guild_id, channel_id

    def takes(self, line: str) -> bool:
        return line.split()[:1] in ([CONTEXT], [NEW])

    async def take(self, line: str) -> str:
        """Anything but `/context edit`, which needs the terminal."""
        first, *words = line.split()
        if first == NEW:
            return await self._window.begin(self._command(""))
        command, text = self._command(self.character("")), " ".join(words)
        if text in {"", "show"}:
            return await self._window.show(command)
        if text == "reset":
            return await self._window.reset(command)
        if words[0] in set(Step):
            return await self._window.change(Step(words[0]), " ".join(words[1:]), command)
        return await self._window.change(Step.SET, text, command)

    async def edit_file(self) -> str:
        """EditError if there is nothing to edit."""
        return await self._window.edit_file(self._command(self.character("")), HAND_BACK)

    async def keep(self, data: bytes) -> str:
        """EditError if it is not a text."""
        return await self._window.keep(decode(data), self._command(self.character("")))

    def character(self, text: str) -> str:
        """Who answers a question."""
        chosen = load("channelmem.llm.characters", "llm", CONTEXT).choose_character
        return str(chosen(text, self._characters).name) if self._characters else "bot"

    @cached_property
    def _characters(self) -> tuple[Character, ...]:
        known: tuple[Character, ...] = load("channelmem.llm.characters", "llm", CONTEXT).known_characters(
            self._settings
        )
        return known

    def _command(self, character: str) -> Command:
        return Command(self._guild_id, self._channel_id, by=0, at=time.time(), character=character)
