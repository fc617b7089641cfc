"""The bot with a language model and its dashboards, for tests: people open, click and type, and ask the model."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from conftest import FakeEmbedder
from llm_server import LlmServer
from loopback import Channel, Interaction, Json, User
from loopback.bots import running, unhurried
from loopback.scene import Scene

from bot.client import Bot
from bot.history import DiscordHistory
from channelmem.llm.opening import open_responder
from channelmem.memory import Memory
from channelmem.policy.cascade import SETTINGS, Setting
from channelmem.settings import Settings

LINES = [f"line {number} about kayaks" for number in range(1, 7)]
FRODO = "---\nname: Frodo\n---\nYou are Frodo. Ring around you: {channel_context}"


@dataclass
class Desk:
    """A scene with everything that a dashboard needs; `started` may be left and entered again."""

    scene: Scene
    settings: Settings
    model: LlmServer
    embedder: FakeEmbedder = field(default_factory=FakeEmbedder)
    declared: tuple[Setting, ...] = SETTINGS

    @asynccontextmanager
    async def started(self) -> AsyncIterator[Bot]:
        history = DiscordHistory(self.settings)
        async with Memory.open(self.settings, history=history, embedder=self.embedder) as memory:
            memory.policies.declared = self.declared
            responder = open_responder(self.settings, memory)
            async with running(self.scene.server, self.settings, memory, history, responder) as bot:
                yield bot

    # --- people ---

    async def open(self, person: User, path: str, channel: Channel | None = None, **options: str) -> Json:
        opened = await self.scene.server.slash(channel or self.scene.general, person, path, **options)
        return await self.scene.server.shown(opened)

    async def refused(self, person: User, path: str, channel: Channel | None = None, **options: str) -> str:
        opened = await self.scene.server.slash(channel or self.scene.general, person, path, **options)
        return await self.scene.server.answered(opened)

    async def click(self, board: Json, person: User, label: str) -> None:
        """Until the board has changed."""
        before = looks(board)
        await self.scene.server.click(board, person, label)
        await self.scene.server.until(lambda: looks(board) != before or board.get("_deleted"))

    async def form(self, board: Json, person: User, label: str) -> Interaction:
        """The form of a setting that is typed."""
        await self.configure(board, person)
        return await self.acknowledged(await self.scene.server.choose(board, person, label))

    async def acknowledged(self, interaction: Interaction) -> Interaction:
        await self.scene.server.until(lambda: interaction.callbacks)
        return interaction

    async def configure(self, board: Json, person: User) -> None:
        await self.scene.server.click(board, person, "Configure")
        await self.scene.server.until(lambda: "Back" in buttons(board))

    async def type(self, board: Json, person: User, label: str, text: str) -> str:
        """Sets a number or a duration; returns what the refreshed board says."""
        await self.scene.server.submit(await self.form(board, person, label), value=text)
        return await self.home(board)

    async def switch(self, board: Json, person: User, label: str, choice: str) -> str:
        await self.configure(board, person)
        await self.scene.server.choose(board, person, label)
        await self.scene.server.until(lambda: label in board["content"])
        await self.scene.server.choose(board, person, choice)
        return await self.home(board)

    async def home(self, board: Json) -> str:
        await self.scene.server.until(lambda: "Configure" in buttons(board))
        return str(board["content"])

    # --- the model ---

    async def talk(self, channel: Channel | None = None) -> None:
        for number, text in enumerate(LINES):
            author = (self.scene.mark, self.scene.ann)[number % 2]
            await self.scene.server.say(channel or self.scene.general, author, text)

    async def given(self, text: str = "tell me a joke", channel: Channel | None = None) -> str:
        """What the model is sent for the next question."""
        before = len(self.model.requests)
        await self.scene.server.ask(channel or self.scene.general, self.scene.mark, text)
        return self.model.requests[before].user

    async def ambient(self, text: str = "tell me a joke", channel: Channel | None = None) -> list[str]:
        """Which of the lines it is sent."""
        prompt = await self.given(text, channel)
        return [line for line in LINES if line in prompt]


def make_desk(scene: Scene, settings: Settings, model: LlmServer, folder: Path, **changes: object) -> Desk:
    (folder / "frodo.md").write_text(FRODO)
    llm = {"llm_model": "openai:gpt-5-mini", "llm_base_url": model.openai_url, "llm_retries": 0, "backfill": False}
    spoken = {**llm, "character": f"librarian,{folder / 'frodo.md'}", **changes}
    return Desk(scene, unhurried(settings).model_copy(update=spoken), model)


def buttons(board: Json) -> list[str]:
    return [one["label"] for row in board["components"] for one in row["components"] if one["type"] == 2]


def looks(board: Json) -> str:
    """The board as people see it."""
    if not board["embeds"]:
        return str(board["content"])
    embed = board["embeds"][0]
    fields = [part for one in embed["fields"] for part in (one["name"], one["value"])]
    footer = [embed["footer"]["text"], " ".join(f"[{label}]" for label in buttons(board))]
    return "\n".join([board["content"], embed["title"], embed["description"], *fields, *footer])
