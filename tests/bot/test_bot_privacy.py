"""/memory and /memory-channel: everybody decides about their own words, managers about their channel; the notice."""

from __future__ import annotations

import json
import threading

import discord
import pytest
from loopback.bots import running
from loopback.recorder import Recorder
from loopback.scene import Scene

from bot import privacy
from bot.client import Bot
from bot.commands import SERVER_ONLY
from bot.history import DiscordHistory
from bot.privacy import (
    EXCLUDED,
    FORGOTTEN,
    MANAGERS_ONLY,
    NOTHING_STORED,
    OPTED_IN,
    OPTED_OUT,
    PAUSED,
    RESUMED,
    describe,
    returning,
)
from channelmem.errors import RedisUnavailableError
from channelmem.settings import Settings
from channelmem.types import ChannelStatus, Message

pytest_plugins = ["loopback.fixtures"]

IN_A_SERVER = 0
"""Discord's number for this context of a command."""


@pytest.mark.parametrize(
    ("command", "called", "text"),
    [
        ("memory forget me", "forget", FORGOTTEN),
        ("memory opt-out", "opt_out", OPTED_OUT),
        ("memory opt-in", "opt_in", OPTED_IN),
    ],
)
async def test_anyone_decides_about_their_own_words(
    scene: Scene, recording: Bot, recorder: Recorder, command: str, called: str, text: str
) -> None:
    slash = await scene.server.slash(scene.general, scene.mark, command)
    assert await scene.server.answered(slash) == text
    assert slash.ephemeral
    assert recorder.named(called) == [(scene.mark.id,)]


async def test_these_work_in_a_direct_message_too(scene: Scene, recording: Bot, recorder: Recorder) -> None:
    dm = scene.server.world.add_dm(scene.mark)
    assert await scene.server.answered(await scene.server.slash(dm, scene.mark, "memory opt-out")) == OPTED_OUT


async def test_export_hands_over_ones_own_words_as_a_file(scene: Scene, recording: Bot, recorder: Recorder) -> None:
    empty = await scene.server.slash(scene.general, scene.mark, "memory export me")
    assert await scene.server.answered(empty) == NOTHING_STORED
    await scene.server.say(scene.general, scene.mark, "Schildkröten 🐢")
    await scene.server.say(scene.general, scene.ann, "not mine")
    await scene.server.until(lambda: len(recorder.messages) == 2)
    slash = await scene.server.slash(scene.general, scene.mark, "memory export me")
    assert await scene.server.answered(slash) == "Here is 1 message you wrote."
    assert slash.ephemeral
    [line] = slash.files["my-messages.jsonl"].decode().splitlines()
    assert json.loads(line)["content"] == "Schildkröten 🐢"


async def test_packing_a_large_export_leaves_the_event_loop_free(
    scene: Scene, recording: Bot, recorder: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    packed_by: list[threading.Thread] = []

    def pack(data: bytes) -> bytes:
        packed_by.append(threading.current_thread())
        return b"packed"

    monkeypatch.setattr("bot.privacy.gzip.compress", pack)
    said = Message(scene.guild.id, scene.general.id, 1, scene.mark.id, "Mark", "turtles " * 2_000_000, 0.0)
    recorder.messages[1] = said
    slash = await scene.server.slash(scene.general, scene.mark, "memory export me")
    await scene.server.answered(slash)
    assert slash.files == {"my-messages.jsonl.gz": b"packed"}
    assert packed_by != [threading.main_thread()]


async def test_an_export_can_be_had_once_in_a_while(scene: Scene, recorder: Recorder) -> None:
    slow = Settings(cooldown_user_s=0, cooldown_export_s=60)
    async with running(scene.server, slow, recorder, DiscordHistory(slow)):
        first = await scene.server.slash(scene.general, scene.mark, "memory export me")
        assert await scene.server.answered(first) == NOTHING_STORED
        second = await scene.server.slash(scene.general, scene.mark, "memory export me")
        assert await scene.server.answered(second) == "You just used this command. Try again in 60 s."
        assert second.ephemeral
        others = await scene.server.slash(scene.general, scene.ann, "memory export me")
        assert await scene.server.answered(others) == NOTHING_STORED


@pytest.mark.parametrize("command", ["memory forget me", "memory opt-out", "memory opt-in", "memory-channel status"])
async def test_every_command_has_a_cool_down_of_its_own(scene: Scene, recorder: Recorder, command: str) -> None:
    slow = Settings(cooldown_user_s=60)
    async with running(scene.server, slow, recorder, DiscordHistory(slow)):
        owner = scene.server.world.owner
        await scene.server.answered(await scene.server.slash(scene.general, owner, command))
        again = await scene.server.slash(scene.general, owner, command)
        assert "Try again in 60 s" in await scene.server.answered(again)
        pause = await scene.server.slash(scene.general, owner, "memory-channel pause")
        assert await scene.server.answered(pause) == PAUSED


@pytest.fixture
def frequent_progress(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bot.privacy.SHOWN_EVERY_S", 0.01)


@pytest.mark.usefixtures("frequent_progress")
async def test_an_opt_in_that_waits_for_a_removal_shows_its_progress(
    scene: Scene, recording: Bot, recorder: Recorder
) -> None:
    recorder.left = 20_000
    slash = await scene.server.slash(scene.general, scene.mark, "memory opt-in")
    assert await scene.server.answered(slash) == returning(20_000)
    recorder.left = 100
    await scene.server.until(lambda: slash.text == returning(100))
    recorder.left = None
    await scene.server.until(lambda: slash.text == OPTED_IN)
    assert len(slash.messages) == 1


@pytest.mark.usefixtures("frequent_progress")
@pytest.mark.parametrize("command", ["memory opt-out", "memory forget me"])
async def test_who_opts_out_again_is_not_told_that_they_are_back(
    scene: Scene, recording: Bot, recorder: Recorder, command: str
) -> None:
    recorder.left = 20_000
    slash = await scene.server.slash(scene.general, scene.mark, "memory opt-in")
    await scene.server.answered(slash)
    await scene.server.answered(await scene.server.slash(scene.general, scene.mark, command))
    recorder.left = None
    await scene.server.answered(await scene.server.slash(scene.general, scene.mark, "memory export me"))
    assert slash.text == returning(20_000)


@pytest.mark.usefixtures("frequent_progress")
async def test_progress_waits_for_redis_and_ends_with_the_bot(
    scene: Scene, quick: Settings, recorder: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks = 0

    async def away(author_id: int) -> int | None:
        nonlocal looks
        looks += 1
        raise RedisUnavailableError("Redis does not answer")

    async with running(scene.server, quick, recorder, DiscordHistory(quick)):
        monkeypatch.setattr(recorder, "returning", away)
        recorder.left = 5
        await scene.server.answered(await scene.server.slash(scene.general, scene.mark, "memory opt-in"))
        await scene.server.until(lambda: looks > 1)


@pytest.mark.parametrize(
    ("command", "called", "text"),
    [
        ("memory-channel pause", "pause", PAUSED),
        ("memory-channel resume", "resume", RESUMED),
        ("memory-channel clear", "clear", "I forgot this channel (0 messages)."),
        ("memory-channel status", "", "I remember this channel (with archive): 0 messages."),
    ],
)
async def test_only_managers_decide_about_the_channel(
    scene: Scene, recording: Bot, recorder: Recorder, command: str, called: str, text: str
) -> None:
    refused = await scene.server.slash(scene.general, scene.mark, command)
    assert await scene.server.answered(refused) == MANAGERS_ONLY
    assert refused.ephemeral
    assert recorder.named(called) == []
    scene.server.world.allow(scene.general, scene.mark, manage_channels=True)
    allowed = await scene.server.slash(scene.general, scene.mark, command)
    assert await scene.server.answered(allowed) == text
    assert recorder.named(called) == ([(scene.guild.id, scene.general.id)] if called else [])


async def test_channel_commands_are_offered_only_in_servers_and_to_those_who_may_use_them(
    scene: Scene, recording: Bot
) -> None:
    offered = {command["name"]: command for command in scene.server.world.commands}
    channel = offered["memory-channel"]
    assert {one["name"] for one in channel["options"]} == {"pause", "resume", "clear", "status"}
    assert channel["default_member_permissions"] == str(discord.Permissions(manage_channels=True).value)
    assert channel["contexts"] == [IN_A_SERVER]
    mine = offered["memory"]
    assert {one["name"] for one in mine["options"]} == {"forget", "opt-out", "opt-in", "export"}
    assert (mine["default_member_permissions"], mine["contexts"]) == (None, None)


async def test_a_channel_command_in_a_direct_message_is_explained(
    scene: Scene, recording: Bot, recorder: Recorder
) -> None:
    dm = scene.server.world.add_dm(scene.mark)  # a client that has not heard of the new command list
    slash = await scene.server.slash(dm, scene.mark, "memory-channel pause")
    assert await scene.server.answered(slash) == SERVER_ONLY


async def test_when_redis_is_away_nothing_is_promised(
    scene: Scene, recording: Bot, recorder: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def away(author_id: int) -> None:
        raise RedisUnavailableError("Redis does not answer")

    monkeypatch.setattr(recorder, "forget", away)
    slash = await scene.server.slash(scene.general, scene.mark, "memory forget me")
    assert "nothing was changed" in await scene.server.answered(slash)


async def test_a_failure_of_ours_names_a_request_and_no_detail(
    scene: Scene, recording: Bot, recorder: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def broken(author_id: int) -> None:
        raise ZeroDivisionError("inner detail")

    monkeypatch.setattr(recorder, "forget", broken)
    slash = await scene.server.slash(scene.general, scene.mark, "memory forget me")
    text = await scene.server.answered(slash)
    assert "Something went wrong on my side (request `" in text
    assert "inner detail" not in text


async def test_the_join_notice_goes_where_the_bot_may_write(scene: Scene, recording: Bot, recorder: Recorder) -> None:
    world = scene.server.world
    guild = world.add_guild("New Location", scene.mark)
    closed, opened = world.add_channel(guild, "closed"), world.add_channel(guild, "opened")
    world.deny(closed, world.bot, send_messages=True)
    guild.system_channel_id = closed.id
    await scene.server.invite_bot(guild)
    await scene.server.until(lambda: scene.server.sent(opened))
    [notice] = scene.server.sent(opened)
    assert "kept for 7 days, summaries of them for 30 days." in notice["content"]
    assert "language model" not in notice["content"]
    assert "/memory opt-out" in notice["content"]
    assert "/memory-channel pause" in notice["content"]
    assert scene.server.sent(closed) == []


def test_the_notice_says_how_long_words_are_kept_and_to_whom_they_are_sent() -> None:
    day_s = 86_400.0
    assert "kept for 1 day, summaries of them for 2.5 days." in privacy.notice(day_s, 2.5 * day_s)
    assert "kept for 30 minutes." in privacy.notice(1_800.0)
    assert "provider" not in privacy.notice(1_800.0)
    assert "all of it is sent to its provider" in privacy.notice(day_s, day_s, sent=True)
    assert len(privacy.notice(day_s, day_s, sent=True)) <= 2000


async def test_the_notice_can_be_switched_off(scene: Scene, recorder: Recorder) -> None:
    quiet = Settings(join_notice=False, cooldown_user_s=0)
    async with running(scene.server, quiet, recorder, DiscordHistory(quiet)):
        guild = scene.server.world.add_guild("New Location", scene.mark)
        lobby = scene.server.world.add_channel(guild, "lobby")
        await scene.server.invite_bot(guild)
        await scene.server.ask(lobby, scene.mark, "hello?")
        assert len(scene.server.sent(lobby)) == 1


def test_status_is_said_in_words() -> None:
    held = ChannelStatus(messages=3, pending=1, oldest_ts=60, newest_ts=120, paused=True, archive=False)
    assert describe(held, included=True) == (
        "I'm paused in this channel (without archive): 3 messages, from <t:60:f> to <t:120:f>. "
        "Still waiting for an embedding: 1."
    )
    assert describe(held, included=False) == EXCLUDED
