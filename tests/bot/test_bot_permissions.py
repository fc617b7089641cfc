"""Who may read what: a public answer tells nobody what they cannot read themselves, and unknown places are closed."""

from __future__ import annotations

import discord
import pytest
from loopback import PUBLIC_THREAD, Channel
from loopback.bots import running
from loopback.payloads import Overwrite, Role
from loopback.recorder import Recorder
from loopback.scene import Scene

from bot.asking import ASKER_CANT_READ, BOT_CANT_SEE
from bot.client import Bot
from bot.history import DiscordHistory
from channelmem.settings import Settings

pytest_plugins = ["loopback.fixtures"]

WIDE = Settings(cross_channel=True, cooldown_user_s=0, cooldown_channel_s=0)
VIEW = discord.Permissions(view_channel=True).value
PAST = discord.Permissions(read_message_history=True).value
ALL = VIEW | PAST


def add_role(scene: Scene, name: str, permissions: int = 0) -> Role:
    role = Role(scene.server.world.snowflake(), name, permissions)
    scene.guild.roles.append(role)
    return role


def overwrite(channel: Channel, id_: int, *, allow: int = 0, deny: int = 0, member: bool = False) -> None:
    channel.overwrites.append(Overwrite(id_, int(member), allow=allow, deny=deny))


async def is_searched(scene: Scene, recorder: Recorder, other: Channel, *, private: bool = False) -> bool:
    """Whether Mark's question in #general may search the other channel."""
    async with running(scene.server, WIDE, recorder, DiscordHistory(WIDE)):
        slash = await scene.server.slash(scene.general, scene.mark, "ask", question="well?", private=private)
        assert await scene.server.answered(slash) == recorder.answer
    return other.id in recorder.questions[0].readable_channel_ids


@pytest.fixture
def club(scene: Scene) -> Channel:
    return scene.server.world.add_channel(scene.guild, "club")


@pytest.mark.parametrize("denied", [VIEW, PAST])
@pytest.mark.parametrize("private", [False, True])
async def test_a_channel_that_is_closed_to_a_role_is_only_searched_in_private(
    scene: Scene, recorder: Recorder, club: Channel, denied: int, private: bool
) -> None:
    overwrite(club, add_role(scene, "newcomers").id, deny=denied)
    assert await is_searched(scene, recorder, club, private=private) is private


@pytest.mark.parametrize("private", [False, True])
async def test_a_channel_that_is_closed_to_one_person_is_only_searched_in_private(
    scene: Scene, recorder: Recorder, club: Channel, private: bool
) -> None:
    scene.server.world.hide(club, scene.ann)
    assert await is_searched(scene, recorder, club, private=private) is private


async def test_a_role_that_cannot_read_the_answer_closes_nothing(
    scene: Scene, recorder: Recorder, club: Channel
) -> None:
    newcomers = add_role(scene, "newcomers")
    for room in (scene.general, club):
        overwrite(room, newcomers.id, deny=VIEW)
    assert await is_searched(scene, recorder, club)


async def test_a_role_that_another_role_lets_in_may_read_the_answer(
    scene: Scene, recorder: Recorder, club: Channel
) -> None:
    newcomers, helpers = add_role(scene, "newcomers"), add_role(scene, "helpers")
    for room in (scene.general, club):
        overwrite(room, newcomers.id, deny=VIEW)
    overwrite(scene.general, helpers.id, allow=VIEW)
    assert not await is_searched(scene, recorder, club)


async def test_who_is_let_into_both_channels_reads_nothing_new(scene: Scene, recorder: Recorder, club: Channel) -> None:
    newcomers, helpers = add_role(scene, "newcomers"), add_role(scene, "helpers")
    for room in (scene.general, club):
        overwrite(room, newcomers.id, deny=VIEW)
        overwrite(room, helpers.id, allow=VIEW)
    assert await is_searched(scene, recorder, club)


async def test_a_person_who_cannot_read_the_answer_closes_nothing(
    scene: Scene, recorder: Recorder, club: Channel
) -> None:
    for room in (scene.general, club):
        scene.server.world.hide(room, scene.ann)
    assert await is_searched(scene, recorder, club)


async def test_nobody_can_close_a_channel_to_administrators_and_the_owner(
    scene: Scene, recorder: Recorder, club: Channel
) -> None:
    administrators = add_role(scene, "administrators", discord.Permissions(administrator=True).value)
    overwrite(club, administrators.id, deny=ALL)
    overwrite(club, scene.server.world.owner.id, deny=ALL, member=True)
    assert await is_searched(scene, recorder, club)


async def test_in_a_room_for_one_role_only_that_role_counts(scene: Scene, recorder: Recorder, club: Channel) -> None:
    staff, newcomers = add_role(scene, "staff"), add_role(scene, "newcomers")
    scene.server.world.hide_from_everyone(scene.general)
    for id_ in (scene.mark.id, scene.server.world.bot.id):
        overwrite(scene.general, id_, allow=ALL, member=True)
    overwrite(scene.general, staff.id, allow=ALL)
    overwrite(club, newcomers.id, deny=VIEW)
    overwrite(club, staff.id, allow=ALL)  # wins over what any other role denies
    assert await is_searched(scene, recorder, club)


async def test_the_threads_of_a_closed_channel_are_closed_too(scene: Scene, recorder: Recorder, club: Channel) -> None:
    overwrite(club, add_role(scene, "newcomers").id, deny=VIEW)
    thread = scene.server.world.add_channel(scene.guild, "a thread", PUBLIC_THREAD, parent=club)
    assert not await is_searched(scene, recorder, thread)


@pytest.fixture
def unannounced(scene: Scene, recording: Bot) -> Channel:
    """A thread that was archived when the bot came: its first message arrives before the news that it is open."""
    return scene.server.world.add_channel(scene.guild, "a thread", PUBLIC_THREAD, parent=scene.general)


async def test_a_question_in_an_unknown_thread_is_answered_after_a_look_at_it(
    scene: Scene, recorder: Recorder, unannounced: Channel
) -> None:
    assert await scene.server.ask(unannounced, scene.mark, "what was said?") == recorder.answer
    assert len(scene.server.calls("GET", rf"/channels/{unannounced.id}$")) == 1


async def test_a_thread_that_cannot_be_looked_at_is_not_told_of(
    scene: Scene, recorder: Recorder, unannounced: Channel
) -> None:
    scene.server.fail("GET", rf"/channels/{unannounced.id}$", 404)
    assert await scene.server.ask(unannounced, scene.mark, "what was said?") == BOT_CANT_SEE
    assert recorder.questions == []


async def test_who_may_not_read_the_past_is_not_told_it_in_an_unknown_thread(scene: Scene, recorder: Recorder) -> None:
    scene.server.world.deny(scene.general, scene.mark, read_message_history=True)
    async with running(scene.server, WIDE, recorder, DiscordHistory(WIDE)):
        thread = scene.server.world.add_channel(scene.guild, "a thread", PUBLIC_THREAD, parent=scene.general)
        assert await scene.server.ask(thread, scene.mark, "what was said?") == ASKER_CANT_READ
    assert recorder.questions == []


async def test_a_thread_of_a_channel_that_the_bot_does_not_know_is_closed(scene: Scene, recorder: Recorder) -> None:
    async with running(scene.server, WIDE, recorder, DiscordHistory(WIDE)):
        later = scene.server.world.add_channel(scene.guild, "later")  # the bot was not told
        thread = scene.server.world.add_channel(scene.guild, "a thread", PUBLIC_THREAD, parent=later)
        assert await scene.server.ask(thread, scene.mark, "what was said?") == BOT_CANT_SEE
        slash = await scene.server.slash(thread, scene.mark, "ask", question="what was said?", private=True)
        assert await scene.server.answered(slash) == BOT_CANT_SEE
    assert recorder.questions == []
