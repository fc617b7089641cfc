"""Who may open the dashboards, and who may click: checked by the bot, whatever Discord offers to whom."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from dashboards import LINES, Desk, looks, make_desk
from llm_server import LlmServer, llm_server
from loopback import Channel
from loopback.scene import Scene

from bot import board as texts
from channelmem.settings import Settings

pytest_plugins = ["loopback.fixtures"]


@pytest.fixture
async def model() -> AsyncIterator[LlmServer]:
    async with llm_server() as server:
        yield server


@pytest.fixture
def stopped(scene: Scene, settings: Settings, model: LlmServer, tmp_path: Path) -> Desk:
    return make_desk(scene, settings, model, tmp_path)


@pytest.fixture
async def desk(stopped: Desk) -> AsyncIterator[Desk]:
    async with stopped.started():
        yield stopped


REFUSED = {
    "admin settings": texts.OWNERS_ONLY,
    "channel settings": texts.CHANNEL_MANAGERS_ONLY,
    "character settings": texts.SERVER_MANAGERS_ONLY,
}


async def test_each_dashboard_asks_for_its_own_permission(desk: Desk, scene: Scene) -> None:
    """The loopback offers every command to everybody, as a server's admins can do."""
    world = scene.server.world
    for path, refusal in REFUSED.items():
        assert await desk.refused(scene.ann, path) == refusal
    world.allow(scene.general, scene.ann, manage_channels=True)
    other = world.add_channel(scene.guild, "other")
    assert "Channel settings" in looks(await desk.open(scene.ann, "channel settings"))
    assert await desk.refused(scene.ann, "channel settings", other) == texts.CHANNEL_MANAGERS_ONLY
    assert await desk.refused(scene.ann, "character settings") == texts.SERVER_MANAGERS_ONLY
    world.grant(scene.guild, scene.ann, manage_guild=True)
    assert "Settings of" in looks(await desk.open(scene.ann, "character settings"))
    assert await desk.refused(scene.ann, "admin settings") == texts.OWNERS_ONLY
    world.grant(scene.guild, scene.ann, administrator=True)
    assert await desk.refused(scene.ann, "admin settings") == texts.OWNERS_ONLY


async def test_a_manager_of_threads_does_not_change_the_channel(desk: Desk, scene: Scene) -> None:
    thread = await scene.server.add_thread(scene.general, "side talk")
    scene.server.world.grant(scene.guild, scene.ann, manage_threads=True)
    assert await desk.refused(scene.ann, "channel settings", thread) == texts.CHANNEL_MANAGERS_ONLY


async def test_a_team_owns_the_bot_and_its_developers_open_all_three(stopped: Desk, scene: Scene) -> None:
    team = scene.server.world.found_team(scene.mark)
    team.members.append((scene.ann, "read_only"))
    async with stopped.started():
        for path in REFUSED:
            assert "In force" in looks(await stopped.open(scene.mark, path))
        assert await stopped.refused(scene.ann, "admin settings") == texts.OWNERS_ONLY


async def test_owners_who_leave_the_team_are_refused_after_the_next_look(stopped: Desk, scene: Scene) -> None:
    team = scene.server.world.found_team(scene.mark)
    async with stopped.started() as bot:
        board = await stopped.open(scene.mark, "admin settings")
        team.members.pop()
        cog = bot.get_cog("Dashboards")
        await cog.learn_owners()  # type: ignore[union-attr]
        refused = await scene.server.click(board, scene.mark, "Configure")
        assert await scene.server.answered(refused) == texts.OWNERS_ONLY


async def test_a_permission_taken_away_closes_every_button_and_form(desk: Desk, scene: Scene) -> None:
    server, world = scene.server, scene.server.world
    role = world.grant(scene.guild, scene.ann, manage_channels=True, manage_guild=True)
    for path in ("channel settings", "character settings"):
        board = await desk.open(scene.ann, path)
        form = await desk.form(board, scene.ann, "Context Messages")
        before = looks(board)
        world.revoke(scene.guild, scene.ann, role)
        for refused in (
            await server.submit(form, value="1"),
            await server.choose(board, scene.ann, "Context Messages"),
            await server.choose(board, scene.ann, "Memory"),
            await server.click(board, scene.ann, "Back"),
            await server.click(board, scene.ann, "Close"),
        ):
            assert await server.answered(refused) == REFUSED[path]
            assert refused.ephemeral
        assert looks(board) == before
        role = world.grant(scene.guild, scene.ann, manage_channels=True, manage_guild=True)
    await desk.talk()
    assert await desk.ambient() == LINES


@pytest.fixture
def elsewhere(scene: Scene) -> list[Channel]:
    """A channel of another server, and another channel of this one; Mark manages them all."""
    world = scene.server.world
    other = world.add_guild("Elsewhere", scene.mark)
    for guild in (scene.guild, other):
        world.grant(guild, scene.mark, manage_channels=True, manage_guild=True)
    return [world.add_channel(other, "away"), world.add_channel(scene.guild, "other")]


async def test_a_custom_id_of_another_place_is_refused(elsewhere: list[Channel], desk: Desk, scene: Scene) -> None:
    server = scene.server
    for path in ("channel settings", "character settings"):
        here = await desk.open(scene.mark, path)
        for place in elsewhere:
            there = await desk.open(scene.mark, path, place)
            for one in there["components"][0]["components"]:
                refused = await server.press(here, scene.mark, one["custom_id"])
                assert await server.answered(refused) == texts.ELSEWHERE
            forged = there["components"][0]["components"][0]["custom_id"].replace(":configure:", ":switch:")
            refused = await server.press(here, scene.mark, f"{forged}enabled", ["off"])
            assert await server.answered(refused) == texts.ELSEWHERE
            assert "override" not in looks(await desk.open(scene.mark, path, place))


@pytest.mark.parametrize(
    ("action", "setting", "given"), [("choose", "0", "nonsense"), ("switch", "nonsense", "off"), ("switch", "", "on")]
)
async def test_a_setting_that_no_longer_exists_is_refused(
    desk: Desk, scene: Scene, action: str, setting: str, given: str
) -> None:
    board = await desk.open(scene.server.world.owner, "channel settings")
    known = board["components"][0]["components"][0]["custom_id"]
    forged = known.replace(":configure:", f":{action}:") + setting
    refused = await scene.server.press(board, scene.server.world.owner, forged, [given])
    assert await scene.server.answered(refused) == texts.SETTING_GONE


async def test_a_character_that_is_no_longer_configured_is_refused(stopped: Desk, scene: Scene) -> None:
    owner = scene.server.world.owner
    async with stopped.started():
        board = await stopped.open(owner, "character settings", character="Frodo")
    stopped.settings = stopped.settings.model_copy(update={"character": "librarian"})
    async with stopped.started():
        refused = await scene.server.click(board, owner, "Configure")
        assert await scene.server.answered(refused) == texts.CHARACTER_GONE
