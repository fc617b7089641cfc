"""The dashboards, end to end: discord.py, Redis and a language model over real sockets, on loopback."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest
from clock import wall_now
from conftest import OwnServer, make_settings
from dashboards import LINES, Desk, buttons, looks, make_desk
from llm_server import LlmServer, llm_server
from loopback.scene import Scene

from bot import board as texts
from channelmem.policy.cascade import SETTINGS, Number, Place
from channelmem.settings import Settings

pytest_plugins = ["loopback.fixtures"]

DOCS = Path(__file__).resolve().parents[2] / "docs" / "configuration.md"
BAD_NUMBERS = ["abc", "", "0", "101", "1e9", "-3"]
BAD_DURATIONS = ["-5m", "abc", "", "0", "0s", "10 years"]


@pytest.fixture
async def model() -> AsyncIterator[LlmServer]:
    async with llm_server() as server:
        yield server


@pytest.fixture
def stopped(scene: Scene, settings: Settings, model: LlmServer, tmp_path: Path) -> Desk:
    """Nobody has started the bot yet. Mark manages the channel and the server; Ann does not."""
    scene.server.world.grant(scene.guild, scene.mark, manage_channels=True, manage_guild=True)
    return make_desk(scene, settings, model, tmp_path)


@pytest.fixture
async def desk(stopped: Desk) -> AsyncIterator[Desk]:
    async with stopped.started():
        yield stopped


async def test_a_channels_dashboard_from_opening_to_closing(desk: Desk, scene: Scene) -> None:
    board = await desk.open(scene.mark, "channel settings")
    assert "Context Messages: Auto (default: 20)" in looks(board)
    assert "Last changes\nNone yet" in looks(board)
    assert board["flags"] & 64
    said = await desk.type(board, scene.mark, "Context Messages", "2")
    assert said == "✅ Context Messages updated: Auto → 2"
    assert "Context Messages: **2** ← channel override" in looks(board)
    assert "Context Messages: 2 (channel)" in looks(board)
    assert f":R> <@{scene.mark.id}>: Context Messages Auto → 2" in looks(board)
    await desk.talk()
    assert await desk.ambient() == LINES[-2:]

    await desk.click(board, scene.mark, "Reset to Auto")
    assert board["content"] == texts.CONFIRM_RESET
    await desk.click(board, scene.mark, "Back")
    assert "**2** ← channel override" in looks(board)
    await desk.click(board, scene.mark, "Reset to Auto")
    await desk.click(board, scene.mark, "Yes, reset")
    assert board["content"] == "✅ Reset to Auto: Context Messages"
    assert "Context Messages: Auto (default: 20)" in looks(board)
    assert ": Context Messages 2 → Auto" in looks(board)
    await desk.talk()
    assert await desk.ambient() == LINES
    await desk.click(board, scene.mark, "Close")
    assert board["_deleted"]


async def test_a_channel_that_is_off_gives_the_model_the_question_alone(desk: Desk, scene: Scene) -> None:
    board = await desk.open(scene.mark, "channel settings")
    await desk.talk()
    assert await desk.switch(board, scene.mark, "Memory", "Off") == "✅ Memory updated: Auto → Off"
    assert "Memory: **Off** ← channel override" in looks(board)
    assert await desk.given("tell me a joke") == "<question>\ntell me a joke\n</question>"
    assert await desk.switch(board, scene.mark, "Memory", "Auto") == "✅ Memory updated: Off → Auto"
    assert await desk.ambient() == LINES


async def test_a_duration_is_typed_and_off_means_no_limit(desk: Desk, scene: Scene) -> None:
    board = await desk.open(scene.mark, "channel settings")
    for ago_h, text in ((20, LINES[0]), (3, LINES[1]), (1, LINES[2])):
        await scene.server.say(scene.general, scene.ann, text, at=wall_now() - ago_h * 3600)
    assert (
        await desk.type(board, scene.mark, "Context Max Age", "2h 30m") == "✅ Context Max Age updated: Auto → 2h 30m"
    )
    assert await desk.ambient() == LINES[2:3]
    again = await desk.form(board, scene.mark, "Context Max Age")
    assert again.modal["components"][0]["component"]["value"] == "2h 30m"
    await desk.click(board, scene.mark, "Back")
    assert await desk.type(board, scene.mark, "Context Max Age", "off") == "✅ Context Max Age updated: 2h 30m → Off"
    assert "Context Max Age: **Off** ← channel override" in looks(board)
    assert await desk.ambient() == LINES[:3]
    assert await desk.type(board, scene.mark, "Context Max Age", " AUTO ") == "✅ Context Max Age updated: Off → Auto"
    assert await desk.ambient() == LINES[1:3]
    assert await desk.type(board, scene.mark, "Context Max Age", "auto") == "Context Max Age is already Auto."


async def test_absent_off_and_cleared_are_three_things_for_every_setting(desk: Desk, scene: Scene) -> None:
    board = await desk.open(scene.mark, "channel settings")
    for setting in SETTINGS:
        label, value = setting.label, "7" if isinstance(setting.kind, Number) else "Off"
        change = desk.switch if setting.choices else desk.type
        assert f"{label}: Auto (default: " in looks(board)
        assert await change(board, scene.mark, label, value) == f"✅ {label} updated: Auto → {value}"
        assert f"{label}: **{value}** ← channel override" in looks(board)
        assert await change(board, scene.mark, label, "Auto") == f"✅ {label} updated: {value} → Auto"
        assert f"{label}: Auto (default: " in looks(board)


async def test_bad_input_is_answered_with_what_is_allowed_and_changes_nothing(desk: Desk, scene: Scene) -> None:
    server, board = scene.server, await desk.open(scene.mark, "channel settings")
    await desk.type(board, scene.mark, "Context Messages", "3")
    for label, bad, allowed in (
        ("Context Messages", BAD_NUMBERS, "from 1 to 100"),
        ("Context Max Age", BAD_DURATIONS, 'such as "24h"'),
    ):
        opened = await desk.form(board, scene.mark, label)
        for text in bad:
            sent = await server.submit(opened, value=text)
            said = await server.answered(sent)
            assert said.startswith(f"{label} must be")
            assert allowed in said
            assert sent.ephemeral
        await desk.click(board, scene.mark, "Back")
    assert "Context Messages: **3** ← channel override" in looks(board)
    assert looks(board).count(":R>") == 1
    await desk.talk()
    assert await desk.ambient() == LINES[-3:]


async def test_a_dashboard_outlives_a_restart_of_the_bot_even_with_a_form_open(stopped: Desk, scene: Scene) -> None:
    async with stopped.started():
        board = await stopped.open(scene.mark, "channel settings")
        form = await stopped.form(board, scene.mark, "Context Messages")
    async with stopped.started():
        await scene.server.submit(form, value="4")
        await scene.server.until(lambda: board["content"] == "✅ Context Messages updated: Auto → 4")
        await stopped.talk()
        assert await stopped.ambient() == LINES[-4:]
    async with stopped.started():
        again = await stopped.form(board, scene.mark, "Context Messages")
        assert again.modal["components"][0]["component"]["value"] == "4"
        await stopped.click(board, scene.mark, "Close")


async def test_a_form_that_was_open_before_settings_were_renamed_is_saved(desk: Desk, scene: Scene) -> None:
    board = await desk.open(scene.mark, "channel settings")
    form = await desk.form(board, scene.mark, "Context Messages")
    form.modal["custom_id"] = form.modal["custom_id"].replace("context_messages", "max_messages")
    await scene.server.submit(form, value="4")
    await scene.server.until(lambda: board["content"] == "✅ Context Messages updated: Auto → 4")


async def test_of_two_people_the_last_one_wins_and_both_see_it(desk: Desk, scene: Scene) -> None:
    scene.server.world.grant(scene.guild, scene.ann, manage_channels=True)
    marks, anns = await desk.open(scene.mark, "channel settings"), await desk.open(scene.ann, "channel settings")
    form = await desk.form(marks, scene.mark, "Context Messages")
    assert await desk.type(anns, scene.ann, "Context Messages", "5") == "✅ Context Messages updated: Auto → 5"
    await scene.server.submit(form, value="1")
    assert await desk.home(marks) == "✅ Context Messages updated: 5 → 1"
    await desk.configure(anns, scene.ann)
    for board in (marks, anns):
        assert "Context Messages: **1** ← channel override" in looks(board)
        assert f"<@{scene.mark.id}>: Context Messages 5 → 1" in looks(board)
        assert f"<@{scene.ann.id}>: Context Messages Auto → 5" in looks(board)
    await desk.talk()
    assert await desk.ambient() == LINES[-1:]


async def test_only_the_last_five_changes_are_shown(desk: Desk, scene: Scene) -> None:
    board = await desk.open(scene.mark, "channel settings")
    for number in range(1, 8):
        await desk.type(board, scene.mark, "Context Messages", str(number))
    assert looks(board).count(":R>") == 5
    assert ": Context Messages 6 → 7" in looks(board)
    assert ": Context Messages 1 → 2" not in looks(board)


async def test_a_thread_shows_and_changes_the_settings_of_its_channel(desk: Desk, scene: Scene) -> None:
    thread = await scene.server.add_thread(scene.general, "side talk")
    board = await desk.open(scene.mark, "channel settings", thread)
    assert texts.THREAD in looks(board)
    assert f"<#{scene.general.id}>" in looks(board)
    await desk.type(board, scene.mark, "Context Messages", "2")
    assert "**2** ← channel override" in looks(await desk.open(scene.mark, "channel settings"))
    await desk.talk(thread)
    assert await desk.ambient(channel=thread) == LINES[-2:]


async def test_the_global_dashboard_changes_every_channel_that_says_nothing_else(desk: Desk, scene: Scene) -> None:
    owner = scene.server.world.owner
    board = await desk.open(owner, "admin settings")
    assert "Global settings\nAll servers" in looks(board)
    assert await desk.type(board, owner, "Context Messages", "3") == "✅ Context Messages updated: Auto → 3"
    assert "Context Messages: **3** ← global override" in looks(board)
    assert "Context Messages: Auto (global: 3)" in looks(await desk.open(scene.mark, "channel settings"))
    await desk.talk()
    assert await desk.ambient() == LINES[-3:]
    await desk.click(board, owner, "Reset to Auto")
    await desk.click(board, owner, "Yes, reset")
    assert "Context Messages: Auto (default: 20)" in looks(board)
    await desk.talk()
    assert await desk.ambient() == LINES
    await desk.click(board, owner, "Close")


async def test_an_owner_opens_the_global_dashboard_in_a_direct_message(desk: Desk, scene: Scene) -> None:
    owner = scene.server.world.owner
    board = await desk.open(owner, "admin settings", scene.server.world.add_dm(owner))
    await desk.type(board, owner, "Context Messages", "1")
    await desk.talk()
    assert await desk.ambient() == LINES[-1:]


async def test_a_character_has_settings_of_its_own_within_those_of_the_channel(desk: Desk, scene: Scene) -> None:
    offered = await scene.server.complete(scene.general, scene.mark, "character settings", "character", "fro")
    assert offered == [{"name": "Frodo", "value": "Frodo"}]
    board = await desk.open(scene.mark, "character settings", character="Frodo")
    assert "Settings of Frodo" in looks(board)
    assert "Archive" not in looks(board)
    assert await desk.type(board, scene.mark, "Context Messages", "4") == "✅ Context Messages updated: Auto → 4"
    await desk.talk()
    assert await desk.ambient("Frodo, tell me a joke") == LINES[-4:]
    await desk.talk()
    assert await desk.ambient("tell me a joke") == LINES

    channel = await desk.open(scene.mark, "channel settings")
    await desk.type(channel, scene.mark, "Context Messages", "2")
    await desk.configure(board, scene.mark)
    assert "Context Messages: **4** ← character override" in looks(board)
    assert "Context Messages: 2 (channel, capped by the channel)" in looks(board)
    await desk.talk()
    assert await desk.ambient("Frodo, tell me a joke") == LINES[-2:]


async def test_a_character_follows_the_channel_it_was_opened_in(desk: Desk, scene: Scene) -> None:
    other = scene.server.world.add_channel(scene.guild, "other")
    await desk.type(await desk.open(scene.mark, "channel settings"), scene.mark, "Context Messages", "7")
    assert "Context Messages: Auto (channel: 7)" in looks(await desk.open(scene.mark, "character settings"))
    assert "Context Messages: Auto (default: 20)" in looks(await desk.open(scene.mark, "character settings", other))
    refused = await desk.refused(scene.mark, "character settings", character="Sauron")
    assert refused == "I don't know a character called Sauron. I know Librarian and Frodo."


async def test_a_long_name_of_a_character_still_works(
    scene: Scene, settings: Settings, model: LlmServer, tmp_path: Path
) -> None:
    name, file = "Ä" * 80, tmp_path / "long.md"
    file.write_text(f"---\nname: {name}\n---\nYou are long. {{channel_context}}")
    scene.server.world.grant(scene.guild, scene.mark, manage_guild=True)
    desk = make_desk(scene, settings, model, tmp_path, character=str(file))
    async with desk.started():
        board = await desk.open(scene.mark, "character settings")
        await desk.type(board, scene.mark, "Context Messages", "1")
        assert f"Settings of {name}" in looks(board)
        await desk.talk()
        assert await desk.ambient() == LINES[-1:]


async def test_the_pictures_in_the_docs_are_what_the_bot_shows(desk: Desk, scene: Scene) -> None:
    mark, owner = scene.mark, scene.server.world.owner
    everywhere = await desk.open(owner, "admin settings")
    await desk.type(everywhere, owner, "Context Max Age", "24h")
    channel = await desk.open(mark, "channel settings")
    await desk.type(channel, mark, "Context Messages", "50")
    frodo = await desk.open(mark, "character settings", character="Frodo")
    await desk.type(frodo, mark, "Context Messages", "80")
    names = {f"<#{scene.general.id}>": "#general", f"<@{mark.id}>": "@Mark", f"<@{owner.id}>": "@Owner"}
    page = DOCS.read_text()
    for board in (everywhere, channel, frodo):
        seen = re.sub(r"<t:\d+:R>", "just now", looks(board))
        for id_, name in names.items():
            seen = seen.replace(id_, name)
        assert f"```\n{seen}\n```" in page


async def test_one_more_declared_setting_is_in_the_dashboard(stopped: Desk, scene: Scene) -> None:
    """No line of the dashboards knows a setting; and many of them stay within Discord's limits."""
    about = SETTINGS[1]
    more = [replace(about, name=f"extra_{n}", label=f"Extra {n}", default=lambda _: 1) for n in range(60)]
    many = [replace(one, help="help " * 50, apply=lambda policy, _: policy) for one in more]
    stopped.declared = (*SETTINGS, *many)
    async with stopped.started() as bot:
        board = await stopped.open(scene.mark, "channel settings")
        assert "Extra 0: Auto (default: 1)" in looks(board)
        said = await stopped.type(board, scene.mark, "Extra 59", "7")
        assert said == "✅ Extra 59 updated: Auto → 7"
        stored = await bot.memory.policies.read(Place.channel(scene.guild.id, scene.general.id))
        assert stored.values == {"extra_59": 7}


async def test_without_redis_the_dashboard_says_so_and_shows_no_defaults(
    scene: Scene, model: LlmServer, own_server: OwnServer, tmp_path: Path
) -> None:
    scene.server.world.grant(scene.guild, scene.mark, manage_channels=True)
    settings = make_settings(own_server.url, tmp_path, redis_timeout_s=0.3)
    desk = make_desk(scene, settings, model, tmp_path)
    async with desk.started():
        board = await desk.open(scene.mark, "channel settings")
        await desk.type(board, scene.mark, "Context Messages", "2")
        form = await desk.form(board, scene.mark, "Context Messages")
        before = looks(board)
        own_server.freeze()
        saving = await scene.server.submit(form, value="50")
        assert await scene.server.answered(saving) == texts.UNSURE
        assert looks(board) == before
        opened = await scene.server.slash(scene.general, scene.mark, "channel settings")
        assert await scene.server.answered(opened) == texts.UNREADABLE
        assert opened.messages[0]["embeds"] == []
        typed = await desk.acknowledged(await scene.server.choose(board, scene.mark, "Context Messages"))
        assert typed.modal["components"][0]["component"]["value"] == "2"
        own_server.thaw()


async def test_a_click_is_acknowledged_before_redis_is_read(
    scene: Scene, model: LlmServer, own_server: OwnServer, tmp_path: Path
) -> None:
    scene.server.world.grant(scene.guild, scene.mark, manage_channels=True)
    desk = make_desk(scene, make_settings(own_server.url, tmp_path), model, tmp_path)
    async with desk.started():
        board = await desk.open(scene.mark, "channel settings")
        own_server.freeze()
        waiting = [
            await scene.server.slash(scene.general, scene.mark, "channel settings"),
            *[await scene.server.click(board, scene.mark, label) for label in ("Configure", "Reset to Auto")],
        ]
        for one in waiting:
            await desk.acknowledged(one)
        assert "Back" not in buttons(board)
        own_server.thaw()
        await scene.server.until(lambda: "Back" in buttons(board))
        await scene.server.shown(waiting[0])


async def test_what_takes_messages_away_asks_first(desk: Desk, scene: Scene) -> None:
    await scene.server.say(scene.general, scene.ann, "the old plan", at=wall_now() - 7200)
    board = await desk.open(scene.mark, "channel settings")

    async def wanted(choice: str) -> None:
        await desk.configure(board, scene.mark)
        await scene.server.choose(board, scene.mark, "Archive")
        await scene.server.until(lambda: "Archive" in board["content"])
        await scene.server.choose(board, scene.mark, choice)

    await wanted("Off")
    await scene.server.until(lambda: "Yes, hide them" in buttons(board))
    assert board["content"].startswith("⚠️ Archive Off hides 1 message, all but the newest 50 of the last 30m.")
    await desk.click(board, scene.mark, "Back")
    assert "Archive: Auto (default: On)" in looks(board)
    await wanted("Off")
    await scene.server.until(lambda: "Yes, hide them" in buttons(board))
    await desk.click(board, scene.mark, "Yes, hide them")
    assert board["content"] == "✅ Archive updated: Auto → Off"
    assert await desk.switch(board, scene.mark, "Archive", "Auto") == "✅ Archive updated: Off → Auto"
