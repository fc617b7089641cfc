"""/context and /new in Discord: who may use them, what they say, and what a language model is given afterwards."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from clock import wall_now
from conftest import FakeEmbedder
from llm_server import LlmServer, llm_server, say
from loopback import PUBLIC_THREAD, Channel, Interaction, Json, Upload, User
from loopback.bots import running, unhurried
from loopback.scene import Scene

from bot.client import Bot
from bot.commands import MEMORY_UNREACHABLE
from bot.contexts import FILE_BYTES, MODERATORS_ONLY, NO_HISTORY, OUTGROWN, OWNER_TOO, SENT, SENT_TOO, TOO_LARGE
from bot.history import DiscordHistory
from channelmem.context_window import BEGUN, CANCELLED, FUTURE, MAX_AGE, NO_LIMIT, NOTHING_STORED, TOO_MUCH, UNREADABLE
from channelmem.errors import RedisUnavailableError
from channelmem.llm.opening import open_responder
from channelmem.memory import Memory
from channelmem.policy.cascade import OFF, Place
from channelmem.settings import Settings

pytest_plugins = ["loopback.fixtures"]

HOUR = 3_600.0
DRAGON = "The dragon had just appeared when we stopped."
FRODO = "---\nname: Frodo\n---\nYou are Frodo. Here is the conversation: {channel_context}\n"


@pytest.fixture
async def model() -> AsyncIterator[LlmServer]:
    async with llm_server() as server:
        yield server


@pytest.fixture
def spoken(settings: Settings, model: LlmServer, tmp_path: Path) -> Settings:
    """Two characters; the first is the built-in librarian."""
    (tmp_path / "frodo.md").write_text(FRODO)
    llm = {"llm_model": "openai:gpt-5-mini", "llm_base_url": model.openai_url, "llm_retries": 0, "backfill": False}
    characters = {"character": f"librarian,{tmp_path / 'frodo.md'}"}
    return unhurried(settings).model_copy(update=llm | characters)


@asynccontextmanager
async def started(scene: Scene, settings: Settings, embedder: FakeEmbedder) -> AsyncIterator[Bot]:
    history = DiscordHistory(settings)
    async with (
        Memory.open(settings, history=history, embedder=embedder) as memory,
        running(scene.server, settings, memory, history, open_responder(settings, memory)) as bot,
    ):
        yield bot


@dataclass
class Table:
    """A scene with a bot that speaks through a model. Mark moderates, Ann does not."""

    scene: Scene
    bot: Bot
    model: LlmServer

    async def run(self, path: str, by: User | None = None, where: Channel | None = None, **options: object) -> str:
        slash = await self.scene.server.slash(where or self.scene.general, by or self.scene.mark, path, **options)
        text = await self.scene.server.answered(slash)
        assert slash.ephemeral
        return text

    async def edit_file(self) -> str:
        slash = await self.scene.server.slash(self.scene.general, self.scene.mark, "context edit")
        assert await self.scene.server.answered(slash) in (SENT, SENT_TOO)
        assert slash.ephemeral
        return slash.files["context.txt"].decode()

    async def hand_back(self, text: str | bytes) -> str:
        data = text.encode() if isinstance(text, str) else text
        return await self.run("context edit", file=Upload("context.txt", data))

    async def given(self, text: str = "how are you today?") -> str:
        """What the model is given with a question."""
        self.model.will(say("Fine."))
        before = len(self.model.requests)
        await self.scene.server.ask(self.scene.general, self.scene.ann, text)
        return self.model.requests[before].user

    async def told(self, text: str, *, ago_h: float = 0.0, by: User | None = None) -> Json:
        at = wall_now() - ago_h * HOUR if ago_h else None
        return await self.scene.server.say(self.scene.general, by or self.scene.mark, text, at=at)


@pytest.fixture
async def table(scene: Scene, spoken: Settings, fake_embedder: FakeEmbedder, model: LlmServer) -> AsyncIterator[Table]:
    scene.server.world.grant(scene.guild, scene.mark, manage_messages=True)
    async with started(scene, spoken, fake_embedder) as bot:
        yield Table(scene, bot, model)


# --- how far back ---


async def test_everyone_sees_how_far_back_the_bot_looks(table: Table) -> None:
    shown = await table.run("context show", by=table.scene.ann)
    assert shown.startswith("Context window: 8h (default: 8h). This is the default.\nRight now: 0 summaries, 0 raw ")


async def test_moderators_set_add_subtract_and_reset(table: Table) -> None:
    assert await table.run("context set", duration="24h") == "Context window set to 24h."
    assert await table.run("context add", duration="8h") == "Context window set to 32h."
    assert await table.run("context sub", duration="4h") == "Context window set to 28h."
    assert await table.run("context add", duration="1 week") == f"Context window set to 168h. {TOO_MUCH}"
    shown = await table.run("context show", by=table.scene.ann)
    assert shown.startswith("Context window: 168h (default: 8h). This is set for Librarian in this server.")
    assert await table.run("context set", duration="tomorrow") == FUTURE
    assert await table.run("context set", duration="banana @everyone") == UNREADABLE
    assert await table.run("context reset") == "Context window reset to default (8h)."
    await table.bot.memory.policies.set(Place.everywhere(), MAX_AGE, OFF)
    assert await table.run("context add", duration="8h") == NO_LIMIT


async def test_the_model_is_given_what_is_inside_the_window(table: Table) -> None:
    await table.told(DRAGON, ago_h=20)
    assert DRAGON not in await table.given()
    await table.run("context set", duration="24h")
    assert DRAGON in await table.given()
    await table.run("context sub", duration="8h")
    assert DRAGON not in await table.given()


async def test_each_character_has_its_own_window_which_survives_a_restart(
    scene: Scene, spoken: Settings, fake_embedder: FakeEmbedder, model: LlmServer
) -> None:
    scene.server.world.grant(scene.guild, scene.mark, manage_messages=True)
    async with started(scene, spoken, fake_embedder) as bot:
        table = Table(scene, bot, model)
        await table.told(DRAGON, ago_h=20)
        assert await table.run("context set", duration="2 days", character="frodo") == "Context window set to 48h."
    async with started(scene, spoken, fake_embedder) as bot:
        table = Table(scene, bot, model)
        assert "48h (default: 8h). This is set for Frodo" in await table.run("context show", character="Frodo")
        assert "Context window: 8h" in await table.run("context show")
        assert DRAGON in await table.given("Frodo, how are you today?")
        assert DRAGON not in await table.given("how are you today?")
        assert DRAGON in await table.given("Frodo: and today?")


async def test_where_the_channel_caps_it_the_reply_says_so(table: Table) -> None:
    place = Place.channel(table.scene.guild.id, table.scene.general.id)
    await table.bot.memory.policies.set(place, MAX_AGE, 4 * HOUR)
    reply = await table.run("context set", duration="24h")
    assert reply == "Context window set to 24h. In this channel it is 4h: capped by the channel."
    thread = await table.scene.server.add_thread(table.scene.general, "side quest")
    assert (await table.run("context show", where=thread)).startswith("Context window: 4h")


async def test_durations_and_characters_are_completed(table: Table) -> None:
    server, where = table.scene.server, (table.scene.general, table.scene.mark)
    offered = await server.complete(*where, "context set", "duration", "2")
    assert [one["value"] for one in offered] == ["2h", "2 days", "2 weeks"]
    assert {"8h", "yesterday"} <= {one["value"] for one in await server.complete(*where, "context add", "duration", "")}
    offered = await server.complete(*where, "context sub", "character", "fr", duration="4h")
    assert [one["value"] for one in offered] == ["Frodo"]
    assert [one["value"] for one in await server.complete(*where, "context edit", "character", "")] == [
        "Librarian",
        "Frodo",
    ]
    sentence = "I don't know a character called Sauron. I know Librarian and Frodo."
    assert await table.run("context show", character="Sauron") == sentence


# --- who may ---


@pytest.mark.parametrize(
    ("path", "options"),
    [
        ("context set", {"duration": "24h"}),
        ("context add", {"duration": "24h"}),
        ("context sub", {"duration": "24h"}),
        ("context reset", {}),
        ("context edit", {}),
        ("context edit", {"file": Upload("context.txt", b"")}),
        ("new", {}),
    ],
)
async def test_only_moderators_change_the_context(
    scene: Scene, recording: Bot, path: str, options: dict[str, object]
) -> None:
    slash = await scene.server.slash(scene.general, scene.ann, path, **options)
    assert await scene.server.answered(slash) == MODERATORS_ONLY
    assert slash.ephemeral


async def test_in_a_thread_its_owner_may_start_anew_too(table: Table) -> None:
    others = await table.scene.server.add_thread(table.scene.general, "main quest")
    assert await table.run("new", where=others, by=table.scene.ann) == OWNER_TOO
    thread = table.scene.server.world.add_channel(
        table.scene.guild, "side quest", PUBLIC_THREAD, parent=table.scene.general
    )
    thread.owner_id = table.scene.ann.id
    assert await table.run("new", where=thread, by=table.scene.ann) == BEGUN
    assert await table.run("context reset", where=thread, by=table.scene.ann) == MODERATORS_ONLY
    policies, guild_id = table.bot.memory.policies, table.scene.guild.id
    assert policies.boundary(guild_id, thread.id) is not None
    assert policies.boundary(guild_id, table.scene.general.id) is None, "each thread has its own"


async def test_a_channel_may_let_everybody_start_anew(table: Table) -> None:
    scene, policies = table.scene, table.bot.memory.policies
    assert await table.run("new", by=scene.ann) == MODERATORS_ONLY
    assert "`/new`" not in await table.run("help", by=scene.ann)
    await policies.set(Place.channel(scene.guild.id, scene.general.id), "open_new", True)
    assert "`/new`" in await table.run("help", by=scene.ann)
    assert await table.run("new", by=scene.ann) == BEGUN
    thread = await scene.server.add_thread(scene.general, "main quest")
    assert await table.run("new", where=thread, by=scene.ann) == BEGUN, "a thread follows its channel"
    assert await table.run("context reset", by=scene.ann) == MODERATORS_ONLY
    await policies.set(Place.everywhere(), "open_new", True)
    await policies.set(Place.channel(scene.guild.id, scene.general.id), "open_new", False)
    assert await table.run("new", by=scene.ann) == MODERATORS_ONLY, "a channel's Off is final"


async def test_the_past_is_shown_only_to_those_who_may_read_it(table: Table) -> None:
    await table.told(DRAGON)
    table.scene.server.world.deny(table.scene.general, table.scene.mark, read_message_history=True)
    assert await table.run("context edit") == NO_HISTORY


async def test_without_redis_the_reply_is_a_sentence(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    async def unreachable(*_: object, **__: object) -> None:
        raise RedisUnavailableError("gone")

    monkeypatch.setattr(table.bot.memory.policies, "read", unreachable)
    monkeypatch.setattr(table.bot.memory.policies, "begin", unreachable)
    monkeypatch.setattr(table.bot.memory, "recent", unreachable)
    assert await table.run("context show") == MEMORY_UNREACHABLE
    assert await table.run("context set", duration="24h") == MEMORY_UNREACHABLE
    assert await table.run("context edit") == MEMORY_UNREACHABLE
    assert await table.run("new") == MEMORY_UNREACHABLE


# --- fresh starts ---


async def test_a_fresh_start_and_the_way_back(table: Table) -> None:
    dragon = await table.told(DRAGON)
    await table.told("I am hungry.", by=table.scene.ann)
    given = await table.given()
    assert DRAGON in given
    assert await table.run("new") == BEGUN
    await table.told("It is raining.")
    given = await table.given()
    assert "It is raining." in given
    assert DRAGON not in given
    assert "hungry" not in given

    text = await table.edit_file()
    lines = [line for line in text.split("\n") if line.startswith("[")]
    assert [line[22:] for line in lines[:2]] == [f"Mark: {DRAGON}", "Ann: I am hungry."]
    assert "What Librarian knows of this channel" in text
    reply = await table.hand_back("\n".join(lines[:1]))
    assert reply.startswith('[PRIOR_CONTEXT_PROVIDED] 1 message, "The dragon had just appeared')
    given = await table.given()
    assert "[PRIOR_CONTEXT_PROVIDED] 1 message" in given
    assert DRAGON in given
    assert "It is raining." not in given
    assert "hungry" not in given

    await table.scene.server.edit(dragon, "The wizard had just appeared.")
    given = await table.given("how is the weather?")
    assert "The wizard had just appeared." in given
    assert "dragon" not in given
    await table.run("memory opt-out")
    given = await table.given("how is your mother?")
    assert "wizard" not in given
    assert "[PRIOR_CONTEXT_PROVIDED]" not in given


async def test_questions_still_find_what_was_said_before_a_fresh_start(table: Table) -> None:
    await table.told(DRAGON)
    await table.run("new")
    assert "ask about it, and I still find it" in BEGUN
    assert DRAGON in await table.given("what did Mark say about the dragon?")


async def test_kept_messages_that_are_deleted_later_are_not_given(table: Table) -> None:
    dragon = await table.told(DRAGON)
    await table.told("I am hungry.", by=table.scene.ann)
    assert (await table.hand_back(await table.edit_file())).startswith("[PRIOR_CONTEXT_PROVIDED] 2 messages")
    assert DRAGON in await table.given()
    await table.scene.server.delete(table.scene.general, int(dragon["id"]))
    given = await table.given()
    assert '[PRIOR_CONTEXT_PROVIDED] 1 message, "I am hungry."' in given
    assert DRAGON not in given


async def test_where_it_fits_the_lines_can_be_edited_in_a_form(table: Table) -> None:
    server, scene = table.scene.server, table.scene
    await table.told(DRAGON)
    await table.told("I am hungry.", by=scene.ann)
    sent = await server.shown(await server.slash(scene.general, scene.mark, "context edit", character="Frodo"))
    form = await opened(table, await server.click(sent, scene.mark, "Edit here"))
    lines = form.modal["components"][0]["component"]["value"].split("\n")
    assert [line[22:] for line in lines] == [f"Mark: {DRAGON}", "Ann: I am hungry."]
    altered = await server.submit(form, lines="\n".join([lines[0], lines[1] + " Very."]))
    assert (await server.answered(altered)).startswith("Line 2 is not a line of my")
    assert await server.answered(await server.submit(form, lines="")) == CANCELLED
    kept = await server.submit(form, lines=lines[0])
    reply = await server.answered(kept)
    assert kept.ephemeral
    assert reply.startswith('[PRIOR_CONTEXT_PROVIDED] 1 message, "The dragon')
    assert "Frodo starts with these messages" in reply
    given = await table.given()
    assert DRAGON in given
    assert "hungry" not in given


async def test_a_form_asks_for_permission_again(table: Table) -> None:
    server, scene = table.scene.server, table.scene
    await table.told(DRAGON)
    sent = await server.shown(await server.slash(scene.general, scene.mark, "context edit"))
    form = await opened(table, await server.click(sent, scene.mark, "Edit here"))
    assert await server.answered(await server.click(sent, scene.ann, "Edit here")) == MODERATORS_ONLY
    scene.server.world.deny(scene.general, scene.mark, manage_messages=True)
    assert await server.answered(await server.submit(form, lines="")) == MODERATORS_ONLY


async def test_what_does_not_fit_into_a_form_is_a_file_only(table: Table) -> None:
    server, scene = table.scene.server, table.scene
    await table.told(DRAGON)
    sent = await server.shown(await server.slash(scene.general, scene.mark, "context edit"))
    for number in range(9):
        await table.told(f"{number} {'word ' * 90}")
    clicked = await server.click(sent, scene.mark, "Edit here")
    assert await server.answered(clicked) == OUTGROWN
    again = await server.shown(await server.slash(scene.general, scene.mark, "context edit"))
    assert again["components"] == []


async def opened(table: Table, clicked: Interaction) -> Interaction:
    await table.scene.server.until(lambda: clicked.callbacks)
    return clicked


async def test_a_file_that_is_no_shortened_copy_is_refused(table: Table) -> None:
    assert await table.run("context edit") == NOTHING_STORED
    await table.told(DRAGON)
    text = await table.edit_file()
    number = next(at for at, line in enumerate(text.split("\n"), 1) if DRAGON in line)
    assert (await table.hand_back(text.replace("dragon", "wizard"))).startswith(f"Line {number} is not a line of my")
    assert (await table.hand_back(f"{text}[2026-11-16 22:15:03] Ann: me too")).startswith(f"Line {number + 1} is not")
    assert "not UTF-8" in await table.hand_back(text.encode("utf-16"))
    assert await table.hand_back(b"x" * (FILE_BYTES + 1)) == TOO_LARGE
    assert await table.hand_back("# nothing\r\n") == CANCELLED
    assert table.bot.memory.policies.boundary(table.scene.guild.id, table.scene.general.id) is None
    assert (await table.hand_back(f"\ufeff{text}".replace("\n", "\r\n"))).startswith("[PRIOR_CONTEXT_PROVIDED]")
