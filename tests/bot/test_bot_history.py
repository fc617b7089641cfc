"""Discord's own history, the last resort: one request for many questions, never staler than the channel."""

from __future__ import annotations

import asyncio

import pytest
from clock import wall_now
from loopback.payloads import Member
from loopback.recorder import Recorder
from loopback.scene import Scene
from loopback.server import PATIENCE_S

from bot import history
from bot.client import Bot
from bot.history import DELETED_CHANNEL, DISCORD_DOWN, FORBIDDEN, RATE_LIMITED, UNKNOWN_CHANNEL, DiscordHistory
from channelmem.types import Message, Person, Question

pytest_plugins = ["loopback.fixtures"]


@pytest.fixture(autouse=True)
def cached_for_the_whole_test(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(history, "CACHE_S", PATIENCE_S)


def question(scene: Scene, channel_id: int | None = None) -> Question:
    return Question(
        guild_id=scene.guild.id,
        channel_id=channel_id or scene.general.id,
        id=scene.server.world.snowflake(wall_now() + 60),
        asker_id=scene.mark.id,
        asker="Mark",
        text="what was said?",
        ts=wall_now(),
    )


async def fetched(scene: Scene, bot: Bot, limit: int = 20, max_age_s: float = 1800) -> list[str]:
    past = await bot.history.fetch(question(scene), limit, max_age_s)
    assert past.problem == ""
    return [message.content for message in past.messages]


async def test_it_gives_peoples_newest_words_oldest_first(scene: Scene, recording: Bot) -> None:
    other_bot = scene.server.world.add_user("dyno", bot=True)
    for n in range(30):
        scene.server.wrote(scene.general, scene.mark, f"line {n}", ago_s=100 - n)
        scene.server.wrote(scene.general, other_bot, "beep", ago_s=100 - n)
    scene.server.wrote(scene.general, scene.mark, "!play", ago_s=1)
    assert await fetched(scene, recording, limit=20) == [f"line {n}" for n in range(10, 30)]


async def test_it_looks_back_no_further_than_asked(scene: Scene, recording: Bot) -> None:
    scene.server.wrote(scene.general, scene.mark, "too old", ago_s=1900)
    scene.server.wrote(scene.general, scene.mark, "recent enough", ago_s=100)
    assert await fetched(scene, recording) == ["recent enough"]


async def test_fetched_authors_keep_their_nick_names(scene: Scene, recording: Bot) -> None:
    scene.guild.members[scene.ann.id].nick = "Annie"
    scene.server.wrote(scene.general, scene.ann, "hello", ago_s=5)
    [message] = (await recording.history.fetch(question(scene), 20, 1800)).messages
    assert (message.author, message.aliases) == ("Annie", ("Ann", "ann"))


async def test_nothing_of_it_stays_when_nobody_asks_again(
    scene: Scene, recording: Bot, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(history, "CACHE_S", 0.0)
    scene.server.wrote(scene.general, scene.mark, "fetched", ago_s=5)
    assert await fetched(scene, recording) == ["fetched"]
    await scene.server.until(lambda: not recording.history._cache)


async def test_ten_questions_make_one_request(scene: Scene, recording: Bot) -> None:
    scene.server.wrote(scene.general, scene.mark, "once", ago_s=5)
    gate = scene.server.hold(r"/messages$")
    asking = [asyncio.create_task(fetched(scene, recording)) for _ in range(9)]
    await scene.server.until_held(r"/messages$")
    gate.set()
    results = await asyncio.gather(*asking)
    results.append(await fetched(scene, recording))
    assert results == [["once"]] * 10
    assert len(scene.server.calls("GET", r"/messages$")) == 1


async def test_the_cache_follows_what_happens_in_the_channel(scene: Scene, recording: Bot, recorder: Recorder) -> None:
    server = scene.server
    kept = server.wrote(scene.general, scene.mark, "kept", ago_s=30)
    edited = server.wrote(scene.general, scene.mark, "before", ago_s=20)
    deleted = server.wrote(scene.general, scene.mark, "deleted", ago_s=10)
    assert await fetched(scene, recording) == ["kept", "before", "deleted"]
    await server.delete(scene.general, int(deleted["id"]))
    await server.edit(edited, "after")
    await server.say(scene.general, scene.ann, "new")
    await server.until(lambda: "new" in recorder.texts)
    assert await fetched(scene, recording) == ["kept", "after", "new"]
    await server.answered(await server.slash(scene.general, scene.mark, "memory forget me"))
    assert await fetched(scene, recording) == ["new"]
    assert len(server.calls("GET", r"/messages$")) == 1
    assert kept["content"] == "kept"


@pytest.mark.parametrize(
    ("status", "sentence"), [(403, FORBIDDEN), (404, DELETED_CHANNEL), (429, RATE_LIMITED), (503, DISCORD_DOWN)]
)
async def test_every_refusal_is_a_plain_sentence(scene: Scene, recording: Bot, status: int, sentence: str) -> None:
    # Without the Via header discord.py does not wait for a 429 to pass, as behind a firewall of Discord's.
    scene.server.fail("GET", r"/messages$", status, times=1, via=False)
    past = await recording.history.fetch(question(scene), 20, 1800)
    assert (past.problem, past.messages) == (sentence, ())


async def test_a_passing_rate_limit_and_a_passing_error_are_waited_for(scene: Scene, recording: Bot) -> None:
    scene.server.wrote(scene.general, scene.mark, "there", ago_s=5)
    scene.server.fail("GET", r"/messages$", 429)
    scene.server.fail("GET", r"/messages$", 502)
    assert await fetched(scene, recording) == ["there"]
    assert [c.status for c in scene.server.calls("GET", r"/messages$")] == [429, 502, 200]


async def test_without_the_permission_no_request_is_made(scene: Scene, recording: Bot) -> None:
    hidden = scene.server.world.add_channel(scene.guild, "hidden")
    scene.server.world.deny(hidden, scene.server.world.bot, read_message_history=True)
    await scene.server.invite_bot(scene.guild)
    await scene.server.until(lambda: recording.get_channel(hidden.id))
    past = await recording.history.fetch(question(scene, hidden.id), 20, 1800)
    assert past.problem == FORBIDDEN
    assert scene.server.calls("GET", rf"/{hidden.id}/messages$") == []


async def test_an_unknown_channel_is_said_to_be_unknown(scene: Scene, recording: Bot) -> None:
    assert (await recording.history.fetch(question(scene, 12345), 20, 1800)).problem == UNKNOWN_CHANNEL


async def test_an_older_revision_does_not_replace_a_newer_one(scene: Scene, recording: Bot) -> None:
    said = scene.server.wrote(scene.general, scene.mark, "the password is swordfish", ago_s=10)
    assert await fetched(scene, recording) == ["the password is swordfish"]
    place = (scene.guild.id, scene.general.id, int(said["id"]), scene.mark.id, "Mark")
    now = wall_now()
    recording.history.update(Message(*place, "good morning", now - 10, revision=now))
    recording.history.update(Message(*place, "swordfish, I said", now - 10, revision=now - 5))
    assert await fetched(scene, recording) == ["good morning"]


async def test_one_message_is_fetched_for_a_reply_chain(scene: Scene, recording: Bot) -> None:
    written = scene.server.wrote(scene.general, scene.ann, "the start", ago_s=5000)
    found = await recording.history.fetch_message(scene.general.id, int(written["id"]))
    assert found is not None
    assert (found.content, found.author_id) == ("the start", scene.ann.id)
    assert await recording.history.fetch_message(scene.general.id, 1) is None
    assert await recording.history.fetch_message(999, 1) is None


def test_links_open_the_message(recording: Bot) -> None:
    assert recording.history.jump_url(1, 2, 3) == "https://discord.com/channels/1/2/3"


# --- members by name ---


def requests(scene: Scene) -> list[str]:
    return [request["query"] for request in scene.server.gateway.member_requests if request.get("query")]


async def test_members_are_found_by_the_beginning_of_any_of_their_names(scene: Scene, recording: Bot) -> None:
    scene.guild.members[scene.ann.id].nick = "Queen of Turtles"
    for beginning in ("queen", "An", "Queen of"):
        [found] = await recording.history.find_members(scene.guild.id, beginning)
        assert found == Person(scene.ann.id, "Queen of Turtles", ("Ann", "ann"))
    assert await recording.history.find_members(scene.guild.id, "zoe") == ()


async def test_only_people_are_found_and_only_a_few(scene: Scene, recording: Bot) -> None:
    world = scene.server.world
    for number in range(10):
        person = world.add_user(f"bob_{number}", bot=number == 0)
        scene.guild.members[person.id] = Member(person)
    found = await recording.history.find_members(scene.guild.id, "bob")
    assert 0 < len(found) <= 5
    assert "bob_0" not in [person.name for person in found]


async def test_the_same_beginning_is_asked_for_once_a_minute(scene: Scene, recording: Bot) -> None:
    for beginning in ("ann", "Ann", " ann ", "mark"):
        assert len(await recording.history.find_members(scene.guild.id, beginning)) == 1
    assert requests(scene) == ["ann", "mark"]


async def test_found_members_are_dropped_after_a_minute_and_with_who_is_forgotten(
    scene: Scene, recording: Bot, monkeypatch: pytest.MonkeyPatch
) -> None:
    await recording.history.find_members(scene.guild.id, "ann")
    await scene.server.answered(await scene.server.slash(scene.general, scene.ann, "memory forget me"))
    monkeypatch.setattr("bot.messages.CACHE_S", 0.0)
    await recording.history.find_members(scene.guild.id, "ann")
    await scene.server.until(lambda: not recording.history.members.held)
    assert requests(scene) == ["ann", "ann"]


@pytest.mark.parametrize("beginning", ["", "  ", "x" * 5000])
async def test_what_is_no_name_is_not_asked_for(scene: Scene, recording: Bot, beginning: str) -> None:
    assert await recording.history.find_members(scene.guild.id, beginning) == ()
    assert requests(scene) == []


async def test_a_search_for_members_never_raises(scene: Scene, recording: Bot, monkeypatch: pytest.MonkeyPatch) -> None:
    assert await recording.history.find_members(12345, "ann") == ()
    assert await DiscordHistory(recording.settings).find_members(scene.guild.id, "ann") == ()
    scene.server.gateway.mute_members = True
    monkeypatch.setattr("bot.messages.MEMBERS_TIMEOUT_S", 0.05)
    assert await recording.history.find_members(scene.guild.id, "ann") == ()
    scene.server.gateway.mute_members = False
    monkeypatch.setattr("bot.messages.MEMBERS_TIMEOUT_S", PATIENCE_S)
    assert len(await recording.history.find_members(scene.guild.id, "ann")) == 1  # a failure is not kept
