"""/history load: what people want of a channel's past is stored or summarised, in order, once, and across restarts."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from typing import cast

import pytest
from clock import wall_now
from loopback.bots import running
from loopback.payloads import Channel
from loopback.recorder import Recorder
from loopback.scene import Scene

from bot import past
from bot.client import Bot
from bot.history import DiscordHistory
from channelmem.settings import Settings
from channelmem.types import Load, Message

pytest_plugins = ["loopback.fixtures"]

DAY_S = 86_400
WEEK = 7 * DAY_S


def start(scene: Scene, recorder: Recorder, **changes: object) -> AbstractAsyncContextManager[Bot]:
    values = {"cooldown_user_s": 0, "cooldown_channel_s": 0, "backfill": False, **changes}
    settings = Settings(**values)  # type: ignore[arg-type]
    scene.server.world.grant(scene.guild, scene.mark, manage_messages=True)
    return running(scene.server, settings, recorder, DiscordHistory(settings))


def old_lines(scene: Scene, count: int, *, days: float, every_s: float = 60.0) -> list[str]:
    """Lines written from so many days ago on."""
    texts_ = [f"line {n}" for n in range(count)]
    for n, text in enumerate(texts_):
        scene.server.wrote(scene.general, scene.mark, text, ago_s=days * DAY_S - n * every_s)
    return texts_


async def loaded(scene: Scene, recorder: Recorder) -> None:
    await scene.server.until(lambda: recorder.named("end_load"))


async def load(scene: Scene, days: int | None = None, channel: Channel | None = None) -> str:
    options = {} if days is None else {"days": days}
    used = await scene.server.slash(channel or scene.general, scene.mark, "history load", **options)
    said = await scene.server.answered(used)
    assert used.ephemeral
    return str(said)


async def test_what_the_archive_keeps_is_stored_and_what_is_older_is_summarised(
    scene: Scene, recorder: Recorder
) -> None:
    older = old_lines(scene, 230, days=20)
    scene.server.wrote(scene.general, scene.ann, "three days ago", ago_s=3 * DAY_S)
    async with start(scene, recorder):
        assert "since" in await load(scene, 30)
        await loaded(scene, recorder)
    assert [one.content for one in recorder.absorbed] == older  # each once, in order, over the ends of pages
    assert recorder.texts == ["three days ago"]
    assert len(scene.server.calls("GET", r"/messages$")) == 3


async def test_what_is_stored_already_is_not_stored_again(scene: Scene, recorder: Recorder) -> None:
    known = scene.server.wrote(scene.general, scene.mark, "known", ago_s=DAY_S)
    scene.server.wrote(scene.general, scene.mark, "new", ago_s=DAY_S - 60)
    id_ = int(known["id"])
    recorder.messages[id_] = Message(scene.guild.id, scene.general.id, id_, 1, "Mark", "known", wall_now() - DAY_S)
    async with start(scene, recorder):
        await load(scene, 7)
        await loaded(scene, recorder)
    assert [cast("Message", one[0]).content for one in recorder.named("remember")] == ["new"]


async def test_no_more_is_loaded_than_may_be_kept(scene: Scene, recorder: Recorder) -> None:
    old_lines(scene, 3, days=20)
    async with start(scene, recorder, summaries=False):
        assert "longer than 7 days" in await load(scene, 30)
        await loaded(scene, recorder)
    assert (recorder.absorbed, recorder.texts) == ([], [])


async def test_progress_and_the_end_are_shown(
    scene: Scene, recorder: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(past, "TOLD_EVERY_S", 0.0)
    old_lines(scene, 230, days=20)
    page = scene.server.hold(r"/messages$")
    async with start(scene, recorder):
        used = await scene.server.slash(scene.general, scene.mark, "history load", days=30)
        await scene.server.until(lambda: "0% done" in used.text)
        page.set()
        await scene.server.until(lambda: used.text.startswith("I loaded"))
    assert "230 older ones went into summaries" in used.text


async def test_a_load_goes_on_after_a_restart(
    scene: Scene, recorder: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(past, "ATTEMPTS_AFTER_S", (0.0,))
    older = old_lines(scene, 250, days=20)
    scene.server.fail("GET", r"/messages$", 503, spare=1)
    async with start(scene, recorder):
        await load(scene, 30)
        await scene.server.until(lambda: [c.status for c in scene.server.calls("GET", r"/messages$")] == [200, 503])
    assert 0 < len(recorder.absorbed) < 100
    assert recorder.named("end_load") == []
    async with start(scene, recorder):
        await loaded(scene, recorder)
    assert [one.content for one in recorder.absorbed] == older


async def test_a_second_load_joins_the_one_in_progress(scene: Scene, recorder: Recorder) -> None:
    old_lines(scene, 5, days=3)
    page = scene.server.hold(r"/messages$")
    async with start(scene, recorder):
        await load(scene, 7)
        assert "0% done" in await load(scene, 30)
        page.set()
        await loaded(scene, recorder)
    assert len(recorder.texts) == 5
    assert len(recorder.named("end_load")) == 1


async def test_a_clear_ends_the_load(scene: Scene, recorder: Recorder) -> None:
    old_lines(scene, 250, days=20)
    page = scene.server.hold(r"/messages$")
    async with start(scene, recorder):
        await load(scene, 30)
        await scene.server.until_held(r"/messages$")
        recorder.open_loads.clear()  # as apply.lua does
        page.set()
        await scene.server.until(lambda: recorder.named("advance"))
    assert len(scene.server.calls("GET", r"/messages$")) == 1


async def test_the_bots_own_words_and_commands_stay_out(scene: Scene, recorder: Recorder) -> None:
    scene.server.wrote(scene.general, scene.server.world.bot, "You said: x", ago_s=20 * DAY_S)
    scene.server.wrote(scene.general, scene.mark, "/play some song", ago_s=20 * DAY_S - 60)
    scene.server.wrote(scene.general, scene.mark, "kept", ago_s=20 * DAY_S - 120)
    async with start(scene, recorder):
        await load(scene, 30)
        await loaded(scene, recorder)
    assert [one.content for one in recorder.absorbed] == ["kept"]


async def test_where_nothing_may_be_stored_nothing_is_loaded(scene: Scene, recorder: Recorder) -> None:
    old_lines(scene, 3, days=2)
    async with start(scene, recorder, channels_block=str(scene.general.id)):
        assert await load(scene) == past.NOT_REMEMBERED
    recorder.paused = True
    async with start(scene, recorder):
        assert await load(scene) == past.PAUSED
    assert scene.server.calls("GET", r"/messages$") == []


async def test_only_people_who_manage_messages_may_load(scene: Scene, recorder: Recorder) -> None:
    async with start(scene, recorder):
        used = await scene.server.slash(scene.general, scene.ann, "history load")
        assert "manage messages" in await scene.server.answered(used)
    assert recorder.named("begin_load") == []


async def test_a_first_start_goes_back_a_week_at_most(scene: Scene, recorder: Recorder) -> None:
    scene.server.wrote(scene.general, scene.mark, "too old", ago_s=8 * DAY_S)
    scene.server.wrote(scene.general, scene.mark, "in time", ago_s=6 * DAY_S)
    async with start(scene, recorder, backfill=True, archive_days=30):
        await scene.server.until(lambda: recorder.named("close_gap"))
    assert recorder.texts == ["in time"]


def test_how_much_is_done_is_a_matter_of_time() -> None:
    assert Load(1, 100, 150, 200).share == 0.5
    assert Load(1, 100, 200, 200).share == 1.0
    assert Load(1, 100, 100, 100).share == 0.0
