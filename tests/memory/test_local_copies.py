"""Two processes on one Redis: what is removed in one is gone from the copies of the other with the next question."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from conftest import Clock, FakeEmbedder, OwnServer, count_commands, count_pipelines, make_settings
from test_memory import ANN, CHANNEL, GUILD, MARK, Talk
from waiting import LIMIT_S, until_true

from channelmem import ContextRequest, Memory, Person, Settings
from channelmem.policy.cascade import Place
from channelmem.store import buckets, decisions
from channelmem.store.levels import Levels
from channelmem.store.redis import command, connect

QUUX = Person(6, "Bobadilla Quux")

Removal = Callable[[Memory], Awaitable[object]]

REMOVALS: dict[str, Removal] = {
    "forgotten": lambda memory: memory.forget(QUUX.id),
    "forgotten in this guild": lambda memory: memory.forget(QUUX.id, GUILD),
    "opted out": lambda memory: memory.opt_out(QUUX.id),
    "opted out in this guild": lambda memory: memory.opt_out(QUUX.id, GUILD),
    "channel cleared": lambda memory: memory.clear(GUILD, CHANNEL),
    "channel deleted": lambda memory: memory.delete_channel(GUILD, CHANNEL),
    "guild left": lambda memory: memory.delete_guild(GUILD),
    "memory switched off": lambda memory: memory.policies.set(Place.channel(GUILD, CHANNEL), "enabled", False),
}


@asynccontextmanager
async def processes(settings: Settings, clock: Clock, tmp_path: Path) -> AsyncIterator[tuple[Talk, Memory]]:
    """Two of them; the first one knows Quux from a question and its answer."""
    elsewhere = settings.model_copy(update={"data_dir": tmp_path / "elsewhere"})
    async with (
        Memory.open(settings, clock=clock, embedder=FakeEmbedder()) as memory,
        Memory.open(elsewhere, clock=clock, embedder=FakeEmbedder()) as other,
    ):
        talk = Talk(memory, clock)
        await talk.say(QUUX, "turtles are slow")
        await talk.say(ANN, "so are snails")
        assert QUUX in (await talk.ask(MARK, "what did bobadilla say about turtles?")).route.speakers
        assert QUUX in (await talk.ask(MARK, "what about yesterday?")).route.speakers
        yield talk, other


async def asked(talk: Talk, text: str) -> str:
    """The answer with the explanation of its route."""
    return repr(await talk.ask(MARK, text))


async def looked(talk: Talk) -> str:
    return (await talk.memory.look(ContextRequest(talk.question(MARK, "hm"), speaker="bobadilla"))).text


WAYS: dict[str, Callable[[Talk], Awaitable[str]]] = {
    "a question that names them": lambda talk: asked(talk, "what did bobadilla say about turtles?"),
    "a follow-up": lambda talk: asked(talk, "what about yesterday?"),
    "a question that looks nothing up": lambda talk: asked(talk, "write a limerick about bobadilla and tickets"),
    "the tool of a language model": looked,
}


@pytest.fixture
def deaf(monkeypatch: pytest.MonkeyPatch) -> None:
    """Announcements get lost."""

    async def never(_levels: Levels) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr(Levels, "follow", never)


@pytest.mark.usefixtures("deaf")
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("removed", REMOVALS)
async def test_the_next_question_to_another_process_names_nobody_who_was_removed(
    settings: Settings, clock: Clock, tmp_path: Path, removed: str, way: str
) -> None:
    async with processes(settings, clock, tmp_path) as (talk, other):
        assert "Quux" in await WAYS[way](talk)
        await REMOVALS[removed](other)
        assert "Quux" not in await WAYS[way](talk)


def copies_of(memory: Memory) -> str:
    """Everything of people and messages that a process keeps."""
    slots = memory._linkers._slots.values()
    heard = [linker._messages() for slot in slots for linker in slot.linkers()]
    known = [people.seen for people in memory._rosters._channels.values()]
    return repr((list(map(list, heard)), known, list(memory._follow_ups._asked.values())))


@pytest.mark.parametrize("removed", [one for one in REMOVALS if one != "memory switched off"])
async def test_an_announcement_reaches_the_copies_of_another_process_without_a_question(
    settings: Settings, clock: Clock, tmp_path: Path, removed: str
) -> None:
    async with processes(settings, clock, tmp_path) as (talk, other):
        assert "Quux" in copies_of(talk.memory)
        await REMOVALS[removed](other)
        await until_true(lambda: "Quux" not in copies_of(talk.memory))


async def test_a_deleted_message_leaves_the_copies_of_another_process(
    settings: Settings, clock: Clock, tmp_path: Path
) -> None:
    async with processes(settings, clock, tmp_path) as (talk, other):
        secret = await talk.say(ANN, "my password is swordfish")
        assert "swordfish" in copies_of(talk.memory)
        await other.delete(GUILD, CHANNEL, [secret.id])
        await until_true(lambda: "swordfish" not in copies_of(talk.memory))
        assert "Quux" in copies_of(talk.memory), "nothing else goes with it"


@pytest.mark.usefixtures("deaf")
async def test_a_process_that_missed_too_many_changes_lets_go_of_everything(
    settings: Settings, clock: Clock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with processes(settings, clock, tmp_path) as (talk, other):
        monkeypatch.setattr(buckets, "KEPT", 3)
        for number in range(3):
            await other.delete(GUILD, CHANNEL, [number + 1])
        await talk.ask(MARK, "what did ann say about snails?")
        assert copies_of(talk.memory).count("Quux") == 1  # the roster, as it was read again


@pytest.mark.usefixtures("deaf")
async def test_a_process_whose_last_change_is_gone_lets_go_of_everything(
    settings: Settings, clock: Clock, tmp_path: Path
) -> None:
    async with processes(settings, clock, tmp_path) as (talk, other):
        await other.delete(GUILD, CHANNEL, [1])
        await talk.ask(MARK, "what did ann say about snails?")
        buckets = other._store.buckets
        await buckets.redis.delete(buckets.keys(0).one("changes"))
        await other.forget(QUUX.id)
        assert "Quux" not in await asked(talk, "what did bobadilla say about turtles?")
        assert "Quux" not in copies_of(talk.memory)


@pytest.mark.process
async def test_a_process_that_cannot_read_what_changed_lets_go_of_everything(
    own_server: OwnServer, tmp_path: Path, clock: Clock
) -> None:
    settings = make_settings(own_server.url, tmp_path, redis_timeout_s=LIMIT_S)
    async with processes(settings, clock, tmp_path) as (talk, _):
        talk.memory._changes.saw(talk.memory._store.buckets.bucket(GUILD), b"1-1")
        own_server.kill()
        assert await talk.memory._changes.catch_up(talk.memory._store.buckets.bucket(GUILD))
        assert "Quux" not in copies_of(talk.memory)


@pytest.mark.process
async def test_a_redis_user_who_may_not_announce_can_still_forget(
    own_server: OwnServer, tmp_path: Path, clock: Clock
) -> None:
    settings = make_settings(own_server.url, tmp_path, redis_timeout_s=LIMIT_S)
    admin = connect(own_server.url, settings)
    await command(admin, "ACL", "SETUSER", "mute", "on", ">pass", "~cm:*", "resetchannels", "+@all")
    await admin.aclose()
    mute = make_settings(own_server.url.replace(":own@", "mute:pass@"), tmp_path, redis_timeout_s=LIMIT_S)
    async with processes(mute, clock, tmp_path) as (talk, other):
        await other.forget(QUUX.id)
        assert "Quux" not in await asked(talk, "what did bobadilla say about turtles?")


@pytest.mark.usefixtures("deaf")
async def test_a_question_costs_no_further_round_trip(
    settings: Settings, clock: Clock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(decisions, "SYNC_S", LIMIT_S * 60)  # nothing else speaks to Redis meanwhile
    async with processes(settings, clock, tmp_path) as (talk, _):
        assert await talk.memory.flush()
    quiet = settings.model_copy(update={"embed_in_process": False})
    async with Memory.open(quiet, clock=clock, embedder=FakeEmbedder()) as memory:
        talk, redis = Talk(memory, clock), memory._store.buckets.redis
        assert "Quux" in await asked(talk, "what did bobadilla say about turtles?")
        sent, pipelines = count_commands(redis, monkeypatch), count_pipelines(redis, monkeypatch)
        assert "Quux" in await asked(talk, "what did bobadilla say about turtles?")
        assert len(sent) + len(pipelines) == 1
