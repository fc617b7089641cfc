"""Pictures in a conversation: described when somebody points at them or a policy says so, once, and shown as text."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest
from conftest import CHANNEL, GUILD, NOW, count_commands
from llm_server import Reply, say, status
from media_server import picture
from picturing import GREY, MODEL, Studio, again, idle, post, question, studio
from redis.asyncio import Redis
from stored import ARCHIVE
from waiting import until, until_true

from channelmem.embedding.embed import Embedder
from channelmem.policy.cascade import Place
from channelmem.settings import Settings
from channelmem.store.search import Search
from channelmem.types import Attachment, Kind, Message, Past, Person, Question, Unread

pytestmark = pytest.mark.process  # files are decoded in a process of their own

HERE = Place.channel(GUILD, CHANNEL)
WHAT = "what's in this picture?"


@pytest.fixture
async def room(settings: Settings) -> AsyncIterator[Studio]:
    async with studio(settings) as one:
        one.model.will(say(GREY))
        yield one


def cat(room: Studio, id_: int = 71, name: str = "cat.png", **changes: Any) -> Attachment:
    return replace(room.cdn.serves(id_, name, picture()), **changes)


def replies(*texts: str, **changes: Any) -> list[Reply]:
    return [say(text, **changes) for text in texts]


async def stored(room: Studio, id_: int = 1) -> Message:
    (found,) = await Search(room.memory._store.buckets).get(GUILD, CHANNEL, [id_])
    return found


# --- the three scenarios ---


async def test_with_none_wanted_pictures_are_names_until_somebody_points_at_one(room: Studio) -> None:
    files = [cat(room, 70 + n, f"{n}.png") for n in range(5)]
    await room.memory.remember_many([post(n + 1, one) for n, one in enumerate(files)])
    _, before = await room.ask("what is going on here?")
    assert room.described == 0
    assert all(f"[image: {n}.png]" in before for n in range(5))
    await room.ask(WHAT, 5_001, reply_to=3)
    _, after = await room.ask("what is going on here?", 5_002)
    assert room.described == 1
    assert f"[image: 2.png: {GREY}]" in after
    assert all(f"[image: {n}.png]" in after for n in (0, 1, 3, 4))


async def test_the_newest_so_many_are_described_and_the_others_only_if_they_are_known(room: Studio) -> None:
    await room.memory.policies.set(HERE, "max_images", 3)
    files = [cat(room, 70 + n, f"{n}.png") for n in range(5)]
    await room.memory.remember_many([post(n + 1, one) for n, one in enumerate(files)])
    await room.memory.media.pointed(question(WHAT, reply_to=1), room.memory.policy(GUILD, CHANNEL))
    assert room.described == 1
    _, context = await room.ask("what is going on here?", 5_001)
    assert room.described == 4
    assert all(f"[image: {n}.png: {GREY}]" in context for n in (0, 2, 3, 4))
    assert "[image: 1.png]" in context


async def test_a_channel_has_its_own_number(room: Studio) -> None:
    await room.memory.policies.set(Place.everywhere(), "max_images", 3)
    await room.memory.policies.set(HERE, "max_images", 0)
    other = CHANNEL + 1
    await room.memory.remember_many([post(1, cat(room)), post(2, cat(room, 72, "dog.png"), channel_id=other)])
    _, memes = await room.ask("what is going on here?")
    _, elsewhere = await room.ask("what is going on here?", 5_001, channel_id=other)
    assert "[image: cat.png]" in memes
    assert f"[image: dog.png: {GREY}]" in elsewhere


# --- pointing at one ---


async def test_a_reply_is_answered_with_what_the_picture_shows(room: Studio) -> None:
    await room.memory.remember(post(1, cat(room), text="look"))
    answer, context = await room.ask(WHAT, reply_to=1)
    assert answer.text == f"The picture cat.png (Ann, 9 minutes ago) shows: {GREY}."
    assert f"look [image: cat.png: {GREY}]</reference>" in context
    assert answer.origins == (post(1).origin,), "the answer goes when the picture goes"
    assert room.described == 1, "asking and telling are one question"


@pytest.mark.parametrize("text", ["what is this?", "describe this", "is that a cat?", "translate this", "who is that?"])
async def test_any_question_in_a_reply_is_about_the_picture(room: Studio, text: str) -> None:
    await room.memory.remember(post(1, cat(room)))
    answer, _ = await room.ask(text, reply_to=1)
    assert GREY in answer.text


async def test_a_link_to_a_message_points_at_its_picture(room: Studio) -> None:
    await room.memory.remember(post(1, cat(room)))
    text = f"what does https://discord.com/channels/{GUILD}/{CHANNEL}/1 show?"
    answer, context = await room.ask(text)
    assert GREY in answer.text
    assert f"[image: cat.png: {GREY}]</reference>" in context


async def test_the_picture_in_the_question_itself_is_described(room: Studio) -> None:
    own = cat(room)
    await room.memory.remember(post(5_000, own, author_id=9, author="Bob", addressed=True))
    answer, context = await room.ask(WHAT, attachments=(own,))
    assert answer.text == f"Your picture cat.png shows: {GREY}."
    assert f"what's in this picture? [image: cat.png: {GREY}]" in context
    assert (await stored(room, 5_000)).attachments[0].text == GREY


async def test_a_question_that_is_not_stored_has_its_picture_described_and_nothing_kept(
    room: Studio, redis: Redis
) -> None:
    answer, _ = await room.ask(WHAT, attachments=(cat(room),), channel_id=CHANNEL + 7)
    assert GREY in answer.text
    kept = [key async for key in redis.scan_iter(f"{room.settings.key_prefix}:*made:*")]
    assert kept == []


async def test_a_sure_answer_comes_before_the_picture_that_came_along(room: Studio) -> None:
    await room.memory.remember(Message(GUILD, CHANNEL, 1, 5, "Ann", "the turtles are slow today", NOW - 60))
    own = cat(room)
    answer, _ = await room.ask("what did Ann say about the turtles?", attachments=(own,))
    first, *_, last = answer.text.splitlines()
    assert "the turtles are slow today" in first
    assert last == f"Your picture cat.png shows: {GREY}."


async def test_a_model_is_asked_even_if_there_is_alt_text_but_only_when_somebody_points(room: Studio) -> None:
    await room.memory.policies.set(HERE, "max_images", 3)
    await room.memory.remember(post(1, cat(room, alt="Minka")))
    _, context = await room.ask("what is going on here?")
    assert room.described == 0
    assert "[image: cat.png: Minka]" in context
    _, context = await room.ask(WHAT, 5_001, reply_to=1)
    assert f"[image: cat.png: Minka; {GREY}]" in context


async def test_a_question_in_isolation_looks_at_nothing(room: Studio) -> None:
    await room.memory.remember(post(1, cat(room)))
    answer, _ = await room.ask(WHAT, reply_to=1, kind=Kind.NONE)
    assert GREY not in answer.text
    assert await room.memory.media.pointed(question("catch me up"), room.memory.policy(GUILD, CHANNEL)) == ()


async def test_a_recap_in_a_reply_to_a_picture_is_still_a_recap(room: Studio) -> None:
    await room.memory.remember_many([post(1, cat(room)), post(2, text="the deploy is green again")])
    answer, _ = await room.ask("catch me up", reply_to=1)
    assert "the deploy is green again" in answer.text
    assert GREY in answer.text.splitlines()[-1]


# --- described once ---


async def test_ten_known_pictures_cost_no_request_and_no_round_trip_more(
    room: Studio, monkeypatch: pytest.MonkeyPatch
) -> None:
    await room.memory.policies.set(HERE, "max_images", 10)
    await room.memory.remember_many([post(n + 1, cat(room, 70 + n, f"{n}.png")) for n in range(10)])
    plain = CHANNEL + 1
    await room.memory.remember_many([post(n + 1, text="look", channel_id=plain) for n in range(10)])
    await room.ask("what is going on here?")
    assert room.described == 10
    await room.memory.flush()
    redis = room.memory._store.buckets.redis
    asked = [question("what is going on here?", 5_001), question("what is going on here?", 5_002, channel_id=plain)]
    answers = [await room.memory.ask(one) for one in asked]
    counts = []
    for one, answer in zip(asked, answers, strict=True):
        sent = count_commands(redis, monkeypatch)
        context = (await room.memory.context(one, answer)).text
        counts.append(len(sent))
        monkeypatch.undo()
    assert counts[0] <= counts[1] + 1
    assert "sofa" not in context
    assert room.described == 10
    assert sum(room.cdn.fetched.values()) == 10
    assert room.counts["image", "cached"] == 10


async def test_the_second_question_finds_everything_after_new_signatures_and_a_restart(room: Studio) -> None:
    await room.memory.policies.set(HERE, "max_images", 10)
    files = [cat(room, 70 + n, f"{n}.png") for n in range(4)]
    await room.memory.remember_many([post(n + 1, one) for n, one in enumerate(files)])
    await room.ask("what is going on here?")
    async with again(room) as later:
        signed = [replace(one, url=f"{one.url}?ex=ffffffff&hm=new") for one in files]
        await later.memory.edit(post(1, signed[0], text="edited", revision=NOW))
        await later.memory.remember_many([post(n + 2, one) for n, one in enumerate(signed[1:])])
        _, context = await later.ask("what is going on here?", 5_001)
        for n in range(4):
            await later.ask(WHAT, 5_002 + n, reply_to=n + 1)
    assert context.count(GREY) == 4
    assert room.described == 4


async def test_an_edit_does_not_have_its_pictures_read_again(room: Studio) -> None:
    await room.memory.policies.set(HERE, "read_media", True)
    one = cat(room)
    await room.memory.remember(post(1, one))
    await idle(room.memory)
    for n in range(3):
        await room.memory.edit(post(1, one, text=f"edit {n}", revision=NOW + n))
        await idle(room.memory)
    assert room.described == 1
    assert (await stored(room)).attachments[0].text == GREY


async def test_two_questions_at_once_describe_a_picture_once(room: Studio) -> None:
    await room.memory.remember(post(1, cat(room)))
    gate = asyncio.Event()
    room.model.will(say(GREY, gate=gate))
    asked = [asyncio.create_task(room.ask(WHAT, 5_000 + n, reply_to=1)) for n in range(3)]
    await until_true(lambda: room.model.requests)
    gate.set()
    assert all(GREY in answer.text for answer, _ in await asyncio.gather(*asked))
    assert room.described == 1


async def test_two_processes_at_once_describe_a_picture_once(room: Studio) -> None:
    await room.memory.remember(post(1, cat(room)))
    gate = asyncio.Event()
    room.model.will(say(GREY, gate=gate))
    async with again(room) as other:
        first = asyncio.create_task(room.ask(WHAT, reply_to=1))
        await until_true(lambda: room.model.requests)
        second = asyncio.create_task(other.ask(WHAT, 5_001, reply_to=1))
        await until_true(lambda: other.memory.media._reader and other.memory.media._reader._tasks)
        gate.set()
        assert all(GREY in answer.text for answer, _ in (await first, await second))
    assert room.described == 1


async def test_four_pictures_take_as_long_as_the_slowest(room: Studio) -> None:
    """All four are at the model before the first answer comes."""
    await room.memory.policies.set(HERE, "max_images", 4)
    await room.memory.remember_many([post(n + 1, cat(room, 70 + n, f"{n}.png")) for n in range(4)])
    gate = asyncio.Event()
    room.model.will(say(GREY, gate=gate))
    asked = asyncio.create_task(room.ask("what is going on here?"))
    await until_true(lambda: room.described == 4)
    gate.set()
    _, context = await asked
    assert context.count(GREY) == 4


async def test_no_more_than_four_are_described_at_a_time(room: Studio) -> None:
    await room.memory.policies.set(HERE, "max_images", 6)
    await room.memory.remember_many([post(n + 1, cat(room, 70 + n, f"{n}.png")) for n in range(6)])
    gate = asyncio.Event()
    room.model.will(say(GREY, gate=gate))
    asked = asyncio.create_task(room.ask("what is going on here?"))
    await until_true(lambda: room.described == 4)
    reader: Any = room.memory.media._reader
    assert len(reader._tasks) == 6
    assert sum(room.cdn.fetched.values()) == 4
    gate.set()
    await asked
    assert room.described == 6


async def test_a_slow_one_stays_a_name_and_is_there_next_time(settings: Settings) -> None:
    async with studio(settings, vision_wait_s=0.05) as room:
        gate = asyncio.Event()
        room.model.will(say(GREY, gate=gate))
        await room.memory.remember(post(1, cat(room)))
        answer, context = await room.ask(WHAT, reply_to=1)
        assert answer.text == "I could not make out what the picture cat.png (Ann, 9 minutes ago) shows."
        assert "[image: cat.png]</reference>" in context
        gate.set()
        await until(lambda: known(room))
        answer, _ = await room.ask(WHAT, 5_001, reply_to=1)
        assert GREY in answer.text
        assert room.described == 1


async def known(room: Studio, id_: int = 1) -> bool:
    return bool((await stored(room, id_)).attachments[0].text)


# --- failures ---


async def test_what_fails_for_good_is_left_alone_unless_somebody_points_at_it(room: Studio, redis: Redis) -> None:
    await room.memory.policies.set(HERE, "max_images", 3)
    html = room.cdn.serves(71, "cat.png", b"<html>not a cat</html>")
    await room.memory.remember(post(1, html))
    for n in range(3):
        _, context = await room.ask("what is going on here?", 5_000 + n)
        assert "[image: cat.png]" in context
    assert room.cdn.fetched["/71/cat.png"] == 1
    (key,) = [key async for key in redis.scan_iter(f"{room.settings.key_prefix}:*unread:*")]
    assert key.endswith(MODEL.encode())
    assert 500_000 < await redis.pttl(key) <= 600_000
    await room.ask(WHAT, 5_010, reply_to=1)
    assert room.cdn.fetched["/71/cat.png"] == 2
    assert room.described == 0


@pytest.mark.parametrize("code", [429, 500, 503])
async def test_what_passes_holds_back_for_a_minute_only_what_nobody_asked_for(
    room: Studio, redis: Redis, code: int
) -> None:
    await room.memory.policies.set(HERE, "max_images", 3)
    await room.memory.remember(post(1, cat(room)))
    room.model.will(status(code), say(GREY))
    for n in range(2):
        _, context = await room.ask("what is going on here?", 5_000 + n)
        assert "[image: cat.png]" in context
    assert room.described == 1
    (key,) = [key async for key in redis.scan_iter(f"{room.settings.key_prefix}:*unread:*")]
    assert 0 < await redis.pttl(key) <= 60_000
    answer, _ = await room.ask(WHAT, 5_010, reply_to=1)
    assert GREY in answer.text
    assert [key async for key in redis.scan_iter(f"{room.settings.key_prefix}:*unread:*")] == []


async def test_another_model_is_not_held_back_by_a_failure(room: Studio) -> None:
    await room.memory.policies.set(HERE, "max_images", 3)
    await room.memory.remember(post(1, cat(room)))
    room.model.will(status(400), say(GREY))
    await room.ask("what is going on here?")
    async with again(room, vision_model="openai:other") as other:
        _, context = await other.ask("what is going on here?", 5_001)
    assert GREY in context


async def test_a_failure_shows_nothing_of_what_servers_said(room: Studio, caplog: pytest.LogCaptureFixture) -> None:
    room.cdn.statuses["/71/cat.png"] = 500
    await room.memory.remember(post(1, cat(room)))
    answer, context = await room.ask(WHAT, reply_to=1)
    assert "secret" not in answer.text + context + caplog.text


async def test_the_spending_cap_leaves_a_name(settings: Settings) -> None:
    async with studio(settings, llm_daily_usd=0.0) as room:
        await room.memory.remember(post(1, cat(room)))
        answer, _ = await room.ask(WHAT, reply_to=1)
        assert "could not make out" in answer.text
        assert room.described == 0
        (use,) = room.memory.media.uses(GUILD, CHANNEL, 5_000)
        assert use.how == "not read: today's spending cap is reached"


# --- expired links ---


class Platform:
    """Signs links anew, like the platform's own history."""

    def __init__(self) -> None:
        self.messages: dict[int, Message] = {}
        self.asked: list[int] = []

    async def fetch(self, question: Question, limit: int, max_age_s: float) -> Past:
        return Past()

    async def fetch_message(self, channel_id: int, message_id: int) -> Message | None:
        self.asked.append(message_id)
        return self.messages.get(message_id)

    def jump_url(self, guild_id: int, channel_id: int, message_id: int) -> str:
        return ""

    async def find_members(self, guild_id: int, prefix: str) -> tuple[Person, ...]:
        return ()


async def test_an_expired_link_is_signed_anew_by_the_platform(settings: Settings) -> None:
    platform = Platform()
    async with studio(settings, platform) as room:
        room.model.will(say(GREY))
        files = [cat(room, 71 + n, f"{n}.png") for n in range(2)]
        old = [replace(one, url=f"{one.url}?ex={int(NOW) - 5:x}&hm=old") for one in files]
        new = [replace(one, url=f"{one.url}?ex={int(NOW) + 86_400:x}&hm=new") for one in files]
        platform.messages[1] = post(1, *new)
        await room.memory.remember(post(1, *old))
        answer, _ = await room.ask(WHAT, reply_to=1)
        assert answer.text.count(GREY) == 2
        assert platform.asked == [1], "once for both"
        assert all("hm=new" in query for query in room.cdn.queries)


async def test_a_link_that_is_refused_is_signed_anew_once(settings: Settings) -> None:
    platform = Platform()
    async with studio(settings, platform) as room:
        room.model.will(say(GREY))
        gone, new = cat(room, 71, "old.png"), cat(room, 71, "new.png")
        room.cdn.statuses["/71/old.png"] = 404
        platform.messages[1] = post(1, new)
        await room.memory.remember(post(1, gone))
        answer, _ = await room.ask(WHAT, reply_to=1)
        assert GREY in answer.text
        assert platform.asked == [1]


async def test_a_picture_of_a_message_that_only_the_platform_has_is_described_and_not_kept(
    settings: Settings, redis: Redis
) -> None:
    platform = Platform()
    async with studio(settings, platform) as room:
        room.model.will(say(GREY))
        platform.messages[1] = post(1, cat(room))
        answer, _ = await room.ask(WHAT, reply_to=1)
        assert GREY in answer.text
        assert [key async for key in redis.scan_iter(f"{room.settings.key_prefix}:*made:*")] == []


# --- found by what they show ---


async def test_a_picture_is_found_by_what_it_shows_without_being_edited(room: Studio) -> None:
    room.model.will(say("An architecture diagram: a load balancer before three servers. Text: nginx"))
    await room.memory.remember_many([post(1, cat(room, name="IMG_01.png")), post(2, text="lunch?")])
    await room.ask(WHAT, reply_to=1)
    await room.memory.flush()
    found = await stored(room)
    assert (found.revision, found.content) == (0.0, "[image: IMG_01.png]")
    answer, _ = await room.ask("who posted the architecture diagram?", 5_001)
    assert answer.hits[0].message.id == 1
    assert "Ann" in answer.text


async def test_questions_for_pictures_find_them_by_meaning(settings: Settings, embedder: Embedder) -> None:
    """With the real model, among other talk."""
    shown = {
        71: "A grey cat sleeping on a sofa.",
        72: "An architecture diagram with a load balancer and three servers.",
        73: "A screenshot of a terminal. Text: ImportError: libssl.so.1.1: cannot open shared object file",
    }
    async with studio(settings, embedder=embedder) as room:
        talk = ["lunch at noon?", "the deploy is green again", "who has the keys to the shed?", "see you tomorrow"]
        await room.memory.remember_many([post(20 + n, text=text, author_id=6) for n, text in enumerate(talk)])
        for at, (id_, text) in enumerate(shown.items()):
            room.model.will(say(text))
            await room.memory.remember(post(at + 1, cat(room, id_, f"IMG_{id_}.png")))
            await room.ask(WHAT, 5_000 + at, reply_to=at + 1)
        await room.memory.flush()
        asked = [
            "who posted the cat picture?",
            "find the architecture diagram",
            "find the screenshot with the libssl error",
        ]
        for at, text in enumerate(asked):
            answer, _ = await room.ask(text, 6_000 + at)
            assert answer.hits, text
            assert answer.hits[0].message.id == at + 1, text
            assert f"IMG_{71 + at}.png" in answer.text


async def test_the_honest_no_says_how_many_pictures_nobody_has_read(room: Studio) -> None:
    voice = Attachment(75, room.cdn.url("/75/v.ogg"), "audio/ogg", "v.ogg", 10, duration_s=3.0)
    await room.memory.remember_many(
        [
            post(1, cat(room), cat(room, 72, "b.png")),
            post(2, voice),
            post(3, cat(room, 73, "c.png", alt="a boat")),
            post(4, text="hello there"),
        ]
    )
    answer, _ = await room.ask("what did Ann say about volcanoes?")
    assert answer.text.endswith("(2 pictures and 1 voice message not read).")
    assert answer.tried[0].unread == Unread(2, 1)
    await room.ask(WHAT, 5_001, reply_to=1)
    answer, _ = await room.ask("what did Ann say about volcanoes?", 5_002)
    assert answer.text.endswith("(1 voice message not read).")


# --- as they arrive ---


async def test_nothing_is_read_on_arrival_unless_a_policy_says_so(room: Studio) -> None:
    await room.memory.remember(post(1, cat(room)))
    await idle(room.memory)
    assert room.described == 0
    await room.memory.policies.set(HERE, "read_media", True)
    await room.memory.remember_many([post(2, cat(room, 72, "b.png")), post(3, cat(room, 73, "c.png", alt="a boat"))])
    await idle(room.memory)
    assert room.described == 1
    assert (await stored(room, 2)).attachments[0].text == GREY
    assert (await stored(room, 3)).attachments[0].text == ""


async def test_age_restricted_channels_are_read_only_by_policy(room: Studio) -> None:
    await room.memory.policies.set(HERE, "read_media", True)
    await room.memory.remember(post(1, cat(room), age_restricted=True))
    await idle(room.memory)
    answer, context = await room.ask(WHAT, reply_to=1, age_restricted=True)
    assert room.described == 0
    assert "sofa" not in answer.text + context
    await room.memory.policies.set(HERE, "adult_media", True)
    answer, _ = await room.ask(WHAT, 5_001, reply_to=1, age_restricted=True)
    assert GREY in answer.text


# --- what was looked at ---


async def test_what_an_answer_rested_on_can_be_told_without_what_it_shows(room: Studio) -> None:
    await room.memory.remember(post(1, cat(room)))
    await room.ask(WHAT, reply_to=1)
    await room.ask(WHAT, 5_001, reply_to=1)
    (first,), (second,) = (room.memory.media.uses(GUILD, CHANNEL, id_) for id_ in (5_000, 5_001))
    assert (first.message_id, first.author, first.how) == (1, "Ann", f"described, by {MODEL}")
    assert second.how == f"cached, by {MODEL}"
    assert room.counts == {("image", "described"): 1, ("image", "cached"): 1}
    assert room.spent_usd > 0
    await room.memory.delete(GUILD, CHANNEL, [1])
    assert room.memory.media.uses(GUILD, CHANNEL, 5_000) == ()


async def test_redis_holds_what_was_read_in_a_form_that_people_can_read(room: Studio, redis: Redis) -> None:
    one = cat(room)
    await room.memory.remember(post(1, one))
    await room.ask(WHAT, reply_to=1)
    (key,) = [key async for key in redis.scan_iter(f"{room.settings.key_prefix}:*made:*")]
    assert key.decode().endswith(f"made:description/{GUILD}c{CHANNEL}:{one.id:020d}")
    fields: Any = await redis.hgetall(key)
    assert fields[b"text"].decode() == GREY
    assert fields[b"reader"].decode() == MODEL
    assert float(fields[b"at"]) == NOW
    assert int(fields[b"bytes"]) == len(picture())
    assert await redis.pttl(key) <= 7 * 86_400_000, "it ends with its message"
    newest = await Search(room.memory._store.buckets).newest(ARCHIVE)
    assert newest[0].attachments[0].text == GREY
