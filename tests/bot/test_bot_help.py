"""/help lists what is open to whoever asks, made from the command tree."""

from __future__ import annotations

from loopback import Channel, User
from loopback.scene import Scene

from bot.client import Bot
from bot.privacy import notice

pytest_plugins = ["loopback.fixtures"]


async def listed(scene: Scene, person: User, channel: Channel | None = None) -> dict[str, str]:
    """The lines by the command that they are about."""
    asked = await scene.server.slash(channel or scene.general, person, "help")
    text = await scene.server.answered(asked)
    assert asked.ephemeral
    return {line.split("`")[1]: line for line in text.splitlines()[1:]}


async def test_everybody_is_shown_what_everybody_may_use(scene: Scene, recording: Bot) -> None:
    lines = await listed(scene, scene.ann)
    assert lines["/ask"] == "`/ask` Ask what was said in this channel"
    assert "`forget me`" in lines["/memory"]
    assert "/help" in lines
    assert not {"/admin", "/channel", "/character", "/memory-channel"} & set(lines)


async def test_managers_are_shown_more_and_owners_everything(scene: Scene, recording: Bot) -> None:
    scene.server.world.grant(scene.guild, scene.mark, manage_channels=True)
    manager = await listed(scene, scene.mark)
    assert {"/channel", "/memory-channel"} <= set(manager)
    assert not {"/admin", "/character"} & set(manager)
    assert manager["/channel"] == "`/channel` Settings of this channel: `settings`"
    everything = {f"/{command.name}" for command in recording.tree.get_commands()}
    assert set(await listed(scene, scene.server.world.owner)) == everything


async def test_in_a_direct_message_only_what_works_there_is_shown(scene: Scene, recording: Bot) -> None:
    lines = await listed(scene, scene.ann, scene.server.world.add_dm(scene.ann))
    assert "/memory" in lines
    assert not {"/channel", "/character", "/memory-channel"} & set(lines)


async def test_looking_at_the_help_starts_no_cooldown(scene: Scene, recording: Bot) -> None:
    recording.settings = recording.settings.model_copy(update={"cooldown_user_s": 60.0})
    await listed(scene, scene.ann)
    used = await scene.server.slash(scene.general, scene.ann, "memory opt-out")
    assert "won't remember" in await scene.server.answered(used)


def test_the_join_notice_points_to_the_help() -> None:
    assert "`/help`" in notice(86_400)
