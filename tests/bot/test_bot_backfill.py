"""What was missed is fetched: only that, newest first, within bounds; an interrupted gap is closed later."""

from __future__ import annotations

import gc
import itertools
from contextlib import AbstractAsyncContextManager

import pytest
from loopback import payloads
from loopback.bots import backfilled, running
from loopback.payloads import Channel
from loopback.recorder import Recorder
from loopback.scene import Scene

from bot import backfill
from bot.client import Bot
from bot.history import DiscordHistory
from channelmem.errors import RedisUnavailableError
from channelmem.settings import Settings
from channelmem.types import Gap, Message

pytest_plugins = ["loopback.fixtures"]


def start(scene: Scene, recorder: Recorder, budget: int = 200, *, on: bool = True) -> AbstractAsyncContextManager[Bot]:
    settings = Settings(cooldown_user_s=0, cooldown_channel_s=0, backfill=on, backfill_messages=budget)
    return running(scene.server, settings, recorder, DiscordHistory(settings))


async def closed(scene: Scene, recorder: Recorder, times: int = 1) -> None:
    await scene.server.until(lambda: len(recorder.named("close_gap")) >= times)


def lines(scene: Scene, first: int, last: int) -> list[int]:
    """Lines written while the bot was away, a second apart."""
    return [
        int(scene.server.wrote(scene.general, scene.mark, f"line {n}", ago_s=2000 - n)["id"])
        for n in range(first, last)
    ]


def stored(scene: Scene, id_: int) -> Message:
    return Message(scene.guild.id, scene.general.id, id_, scene.mark.id, "Mark", f"stored {id_}", 1.0)


async def test_a_first_start_fetches_the_newest_within_the_budget(scene: Scene, recorder: Recorder) -> None:
    lines(scene, 0, 300)
    async with start(scene, recorder, budget=150):
        await closed(scene, recorder)
    assert sorted(recorder.texts) == sorted(f"line {n}" for n in range(150, 300))
    assert recorder.texts[0] == "line 200"  # the newest page comes first, each page in its own order
    assert len(scene.server.calls("GET", r"/messages$")) == 2
    assert recorder.open_gaps == {}


async def test_only_what_is_missing_is_fetched(scene: Scene, recorder: Recorder) -> None:
    old = lines(scene, 0, 50)
    recorder.messages[old[-1]] = stored(scene, old[-1])
    lines(scene, 50, 60)
    async with start(scene, recorder):
        await closed(scene, recorder)
    assert recorder.texts[1:] == [f"line {n}" for n in range(50, 60)]


async def test_nothing_new_means_nothing_is_fetched_but_the_page_to_compare(scene: Scene, recorder: Recorder) -> None:
    old = lines(scene, 0, 5)
    recorder.messages[old[-1]] = stored(scene, old[-1])
    async with start(scene, recorder):
        await backfilled()
    assert len(scene.server.calls("GET", r"/messages$")) == 1
    assert recorder.named("note_gap") == []


async def test_a_silent_channel_of_which_nothing_is_stored_needs_no_request(scene: Scene, recorder: Recorder) -> None:
    async with start(scene, recorder):
        await backfilled()
    assert scene.server.calls("GET", r"/messages$") == []


async def test_switched_off_it_fetches_nothing(scene: Scene, recorder: Recorder) -> None:
    lines(scene, 0, 5)
    async with start(scene, recorder, on=False):
        await backfilled()
    assert scene.server.calls("GET", r"/messages$") == []


async def test_what_is_said_while_it_fetches_does_not_hide_the_gap(scene: Scene, recorder: Recorder) -> None:
    """A live message is newer than the gap; taking it for the last one seen would lose everything before it."""
    old = lines(scene, 0, 10)
    recorder.messages[old[-1]] = stored(scene, old[-1])
    lines(scene, 10, 20)
    page = scene.server.hold(r"/messages$")
    async with start(scene, recorder):
        await scene.server.until_held(r"/messages$")
        await scene.server.say(scene.general, scene.ann, "live")
        await scene.server.until(lambda: "live" in recorder.texts)
        page.set()
        await closed(scene, recorder)
    assert set(recorder.texts[1:]) == {"live", *(f"line {n}" for n in range(10, 20))}


async def test_after_a_lost_session_the_silence_is_filled(scene: Scene, recorder: Recorder) -> None:
    async with start(scene, recorder):
        await scene.server.say(scene.general, scene.mark, "before")
        await scene.server.until(lambda: "before" in recorder.texts)
        await scene.server.gateway.cut(resumable=False)
        await scene.server.say(scene.general, scene.mark, "missed")
        await scene.server.until(lambda: scene.server.gateway.connected)
        await scene.server.say(scene.general, scene.mark, "after")
        await scene.server.until(lambda: {"missed", "after"} <= set(recorder.texts))
    assert scene.server.gateway.resumed == 0


async def test_after_a_resume_nothing_is_fetched(scene: Scene, recorder: Recorder) -> None:
    async with start(scene, recorder):
        await scene.server.say(scene.general, scene.mark, "before")
        await scene.server.gateway.cut(resumable=True)
        await scene.server.say(scene.general, scene.mark, "meanwhile")
        await scene.server.until(lambda: "meanwhile" in recorder.texts)
    assert scene.server.gateway.resumed == 1
    assert scene.server.calls("GET", r"/messages$") == []


async def test_an_interrupted_gap_is_closed_by_the_next_start(
    scene: Scene, recorder: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(backfill, "ATTEMPTS_AFTER_S", (0.0,))
    ids = lines(scene, 0, 250)
    scene.server.fail("GET", r"/messages$", 503, spare=1)  # the first page arrives, the second does not
    async with start(scene, recorder, budget=300):
        await scene.server.until(lambda: [c.status for c in scene.server.calls("GET", r"/messages$")] == [200, 503])
    assert len(recorder.texts) == 100
    assert recorder.open_gaps == {scene.general.id: Gap(scene.general.id, ids[150], 0)}
    async with start(scene, recorder, budget=300):
        await closed(scene, recorder)
    assert len(recorder.named("remember")) == 250  # each of them once
    assert recorder.open_gaps == {}


async def test_a_gap_left_open_is_taken_up_where_it_ended(scene: Scene, recorder: Recorder) -> None:
    ids = lines(scene, 0, 40)
    recorder.messages[ids[-1]] = stored(scene, ids[-1])
    recorder.open_gaps[scene.general.id] = Gap(scene.general.id, newest_id=ids[30], oldest_id=ids[9])
    async with start(scene, recorder):
        await closed(scene, recorder)
    assert recorder.texts[1:] == [f"line {n}" for n in range(10, 30)]


async def test_a_failing_channel_keeps_its_gap_and_is_tried_again(
    scene: Scene, recorder: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(backfill, "ATTEMPTS_AFTER_S", (0.0, 0.0))
    lines(scene, 0, 5)
    scene.server.fail("GET", r"/messages$", 503)
    async with start(scene, recorder):
        await closed(scene, recorder)
    assert [c.status for c in scene.server.calls("GET", r"/messages$")] == [503, 200]
    assert len(recorder.texts) == 5


async def test_channels_that_are_hidden_or_blocked_are_not_touched(scene: Scene, recorder: Recorder) -> None:
    world = scene.server.world
    hidden, shut = world.add_channel(scene.guild, "hidden"), world.add_channel(scene.guild, "shut")
    for channel in (hidden, shut, scene.general):
        scene.server.wrote(channel, scene.mark, f"in {channel.name}", ago_s=5)
    world.hide(hidden, world.bot)
    world.deny(shut, world.bot, read_message_history=True)
    async with start(scene, recorder):
        await closed(scene, recorder)
    assert recorder.texts == ["in general"]


async def test_threads_and_a_joined_guild_are_fetched_too(scene: Scene, recorder: Recorder) -> None:
    world = scene.server.world
    guild = world.add_guild("New Location", scene.mark)
    lobby = world.add_channel(guild, "lobby")
    thread = world.add_channel(guild, "thread", 11, parent=lobby)
    guild.members.pop(world.bot.id)
    scene.server.wrote(lobby, scene.mark, "in the lobby", ago_s=9)
    scene.server.wrote(thread, scene.mark, "in the thread", ago_s=9)
    async with start(scene, recorder):
        await scene.server.invite_bot(guild)
        await closed(scene, recorder, times=2)
    assert {"in the lobby", "in the thread"} <= set(recorder.texts)


async def test_too_old_messages_are_not_fetched_again_and_again(scene: Scene, recorder: Recorder) -> None:
    scene.server.wrote(scene.general, scene.mark, "last month", ago_s=30 * 86_400)
    scene.server.wrote(scene.general, scene.mark, "today", ago_s=60)
    async with start(scene, recorder):
        await closed(scene, recorder)
    assert recorder.texts == ["today"]


def elsewhere(scene: Scene, count: int) -> list[Channel]:
    """Further channels, more than are fetched at the same time, each with something that was missed."""
    rooms = [scene.server.world.add_channel(scene.guild, f"room-{n}") for n in range(count)]
    for room in rooms:
        scene.server.wrote(room, scene.mark, f"missed in {room.name}", ago_s=60)
    return rooms


async def test_a_session_lost_before_a_channels_turn_loses_nothing_of_it(scene: Scene, recorder: Recorder) -> None:
    rooms = elsewhere(scene, 4)
    pages = scene.server.hold(r"/messages$")
    async with start(scene, recorder):
        for room in rooms:  # from here on the newest stored message says nothing about what was missed
            await scene.server.say(room, scene.ann, f"live in {room.name}")
        await scene.server.until(lambda: len(recorder.texts) == 4)
        await scene.server.gateway.cut(resumable=False)
        pages.set()
        await scene.server.until(lambda: len(recorder.named("close_gap")) >= 4)
    assert {text for text in recorder.texts if "missed" in text} == {f"missed in room-{n}" for n in range(4)}


async def test_what_is_heard_while_a_channel_waits_for_its_turn_takes_nothing_of_its_budget(
    scene: Scene, recorder: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(backfill, "PARALLEL_CHANNELS", 1)
    first, second = elsewhere(scene, 2)
    page = scene.server.hold(rf"/{first.id}/messages$")
    async with start(scene, recorder, budget=1):
        await scene.server.until_held(rf"/{first.id}/messages$")
        await scene.server.say(second, scene.ann, "live")
        await scene.server.until(lambda: "live" in recorder.texts)
        page.set()
        await closed(scene, recorder, times=2)
    assert set(recorder.texts) == {"missed in room-0", "missed in room-1", "live"}


async def test_a_bot_that_stops_leaves_no_work_behind_that_nobody_awaits(
    scene: Scene, recorder: Recorder, recwarn: pytest.WarningsRecorder
) -> None:
    elsewhere(scene, 4)
    scene.server.hold(r"/messages$")
    async with start(scene, recorder):
        await scene.server.until(lambda: recorder.named("note_gap"))
    gc.collect()
    assert not [warning for warning in recwarn if "never awaited" in str(warning.message)]


async def test_what_was_missed_while_a_guild_was_unavailable_is_fetched(scene: Scene, recorder: Recorder) -> None:
    dispatch, guild = scene.server.gateway.dispatch, scene.guild
    async with start(scene, recorder):
        await scene.server.say(scene.general, scene.mark, "before")
        await scene.server.until(lambda: recorder.texts == ["before"])
        await dispatch("GUILD_DELETE", {"id": str(guild.id), "unavailable": True}, guild.id)
        scene.server.wrote(scene.general, scene.mark, "missed")
        back = payloads.guild(guild, scene.server.world.bot.id) | {"unavailable": False}
        await dispatch("GUILD_CREATE", back, guild.id)
        await scene.server.until(lambda: recorder.texts == ["before", "missed"])


async def test_a_bot_that_is_invited_again_fetches_what_was_said_meanwhile(scene: Scene, recorder: Recorder) -> None:
    async with start(scene, recorder):
        await scene.server.say(scene.general, scene.mark, "before")
        await scene.server.until(lambda: recorder.texts == ["before"])
        await scene.server.remove_bot(scene.guild)
        await scene.server.until(lambda: recorder.named("delete_guild"))
        recorder.messages.clear()
        scene.server.wrote(scene.general, scene.mark, "missed")
        await scene.server.invite_bot(scene.guild)
        await scene.server.until(lambda: "missed" in recorder.texts)


async def test_threads_that_end_are_not_kept_in_mind(scene: Scene, recorder: Recorder) -> None:
    async with start(scene, recorder) as bot:
        archived, deleted, open_ = [await scene.server.add_thread(scene.general, f"thread {n}") for n in range(3)]
        for thread in (archived, deleted, open_):
            await scene.server.say(thread, scene.mark, "hello")
        await scene.server.until(lambda: len(recorder.texts) == 3)
        update = payloads.channel(archived)
        update["thread_metadata"]["archived"] = True
        await scene.server.gateway.dispatch("THREAD_UPDATE", update, scene.guild.id)
        await scene.server.remove_channel(deleted)
        await scene.server.until(lambda: recorder.named("delete_channel"))
        kept = {channel_id for _, channel_id in bot.gaps._starts}
    assert kept == {scene.general.id, open_.id}


async def test_a_guild_that_was_left_is_asked_nothing_more(
    scene: Scene, recorder: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(backfill, "ATTEMPTS_AFTER_S", (0.0, 0.0, 0.0))
    elsewhere(scene, 6)
    pages = scene.server.hold(r"/messages$")
    async with start(scene, recorder):
        await scene.server.until_held(r"/messages$", backfill.PARALLEL_CHANNELS)
        await scene.server.remove_bot(scene.guild)
        await scene.server.until(lambda: recorder.named("delete_guild"))
        pages.set()
        await backfilled()
    assert len(scene.server.calls("GET", r"/messages$")) <= backfill.PARALLEL_CHANNELS


async def test_an_absent_redis_takes_no_attempt_away(
    scene: Scene, recorder: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(backfill, "ATTEMPTS_AFTER_S", (0.0, 0.0))
    monkeypatch.setattr(backfill, "REDIS_RETRY_S", 0.01)
    asked = itertools.count()
    there = recorder.gaps

    async def gaps(guild_id: int) -> list[Gap]:
        if next(asked) < 10:
            raise RedisUnavailableError("Redis does not answer")
        return await there(guild_id)

    monkeypatch.setattr(recorder, "gaps", gaps)
    lines(scene, 0, 3)
    async with start(scene, recorder):
        await closed(scene, recorder)
    assert recorder.texts == ["line 0", "line 1", "line 2"]
