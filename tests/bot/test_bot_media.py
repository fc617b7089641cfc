"""Pictures and voices in Discord, end to end: discord.py, Memory, a content host and providers over real sockets."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from clock import wall_now
from conftest import FakeEmbedder
from llm_server import LlmServer, llm_server, say
from loopback import Channel, Json, Upload
from loopback.bots import running, unhurried
from loopback.scene import Scene
from media_server import VoiceServer, picture, voice_server
from picturing import GREY
from redis.asyncio import Redis
from stored import mentions_of
from waiting import until

from bot.answers import REMOVED
from bot.client import Bot
from bot.history import DiscordHistory
from channelmem.llm.opening import open_responder
from channelmem.memory import Memory
from channelmem.policy.cascade import Place
from channelmem.settings import Settings

pytestmark = pytest.mark.process  # files are decoded in a process of their own

pytest_plugins = ["loopback.fixtures"]

WHAT = "what's in this picture?"
SPEECH = (Path(__file__).parents[1] / "data" / "voice.ogg").read_bytes()
VOICE_FLAG = 1 << 13


@pytest.fixture
async def model() -> AsyncIterator[LlmServer]:
    async with llm_server() as server:
        server.will(say(GREY))
        yield server


@pytest.fixture
async def speech() -> AsyncIterator[VoiceServer]:
    async with voice_server() as server:
        yield server


@pytest.fixture
def looking(scene: Scene, settings: Settings, model: LlmServer, speech: VoiceServer) -> Settings:
    llm = {"llm_base_url": model.openai_url, "llm_retries": 0, "vision_model": "openai:eyes", "vision_wait_s": 60.0}
    media = {"media_hosts": (f"127.0.0.1:{scene.server.port}",), "voice_base_url": speech.url, "backfill": False}
    return unhurried(settings).model_copy(update=llm | media)


@pytest.fixture
async def bot(scene: Scene, looking: Settings, fake_embedder: FakeEmbedder) -> AsyncIterator[Bot]:
    """A bot that sees and hears, and quotes."""
    history = DiscordHistory(looking)
    async with (
        Memory.open(looking, history=history, embedder=fake_embedder) as memory,
        running(scene.server, looking, memory, history) as started,
    ):
        yield started


def file(scene: Scene, content: bytes, name: str = "cat.png", kind: str = "image/png", **more: Any) -> Json:
    return scene.server.rest.upload(Upload(name, content, kind)) | more


async def post(scene: Scene, *files: Json, text: str = "", **extra: Any) -> Json:
    return await scene.server.say(scene.general, scene.ann, text, extra={"attachments": list(files), **extra})


async def test_a_reply_to_a_picture_is_answered_with_what_it_shows(scene: Scene, bot: Bot, model: LlmServer) -> None:
    shown = await post(scene, file(scene, picture()))
    said = await scene.server.ask(scene.general, scene.mark, WHAT, reply_to=shown)
    assert re.fullmatch(rf"The picture cat\.png \(Ann, just now\) shows: {GREY}\.", said)
    assert model.requests[0].pictures == [("image/png", picture())]
    again = await scene.server.ask(scene.general, scene.mark, WHAT, reply_to=shown)
    assert again == said
    assert len(model.requests) == 1


async def test_a_link_to_a_picture_works_like_a_reply(scene: Scene, bot: Bot) -> None:
    shown = await post(scene, file(scene, picture()))
    link = f"https://discord.com/channels/{scene.guild.id}/{scene.general.id}/{shown['id']}"
    assert GREY in await scene.server.ask(scene.general, scene.mark, f"what is this? {link}")


async def test_a_picture_in_the_question_itself_is_described_even_without_a_word(scene: Scene, bot: Bot) -> None:
    for words in ("what's this?", ""):
        content = f"{scene.server.world.bot.mention} {words}"
        asked = await scene.server.say(
            scene.general, scene.mark, content, extra={"attachments": [file(scene, picture())]}
        )
        assert (await scene.server.reply(asked))["content"] == f"Your picture cat.png shows: {GREY}."


async def test_why_tells_which_pictures_an_answer_rested_on(scene: Scene, bot: Bot) -> None:
    shown = await post(scene, file(scene, picture()))
    await scene.server.ask(scene.general, scene.mark, WHAT, reply_to=shown)
    why = await scene.server.answered(await scene.server.slash(scene.general, scene.mark, "why"))
    link = f"https://discord.com/channels/{scene.guild.id}/{scene.general.id}/{shown['id']}"
    assert f"**Image** by Ann: described, by openai:eyes [↗]({link})" in why
    assert "sofa" not in why
    assert (
        bot.metrics.registry.get_sample_value("channelmem_media_total", {"kind": "image", "outcome": "described"}) == 1
    )
    assert bot.metrics.registry.get_sample_value("channelmem_media_usd_total") > 0  # type: ignore[operator]


async def test_ambient_pictures_are_described_for_the_model_as_the_channel_allows(
    scene: Scene, looking: Settings, fake_embedder: FakeEmbedder, model: LlmServer
) -> None:
    model.will(say(GREY), say("Ann posted a grey cat on a sofa."))
    spoken = looking.model_copy(update={"llm_model": "openai:mouth"})
    history = DiscordHistory(spoken)
    async with (
        Memory.open(spoken, history=history, embedder=fake_embedder) as memory,
        running(scene.server, spoken, memory, history, open_responder(spoken, memory)),
    ):
        await memory.policies.set(Place.channel(scene.guild.id, scene.general.id), "max_images", 1)
        await post(scene, file(scene, picture("red"), "old.png"))
        await post(scene, file(scene, picture("blue"), "new.png"))
        asked = await scene.server.say(scene.general, scene.mark, f"{scene.server.world.bot.mention} what is new?")
        reply = await scene.server.reply(asked)
        await scene.server.until(lambda: reply["content"] == "Ann posted a grey cat on a sofa.")
    look, speak = model.requests
    assert look.pictures == [("image/png", picture("blue"))]
    assert speak.pictures == []
    assert "[image: old.png]" in speak.user
    assert f"[image: new.png: {GREY}]" in speak.user


async def test_an_expired_link_is_signed_anew_by_discord(scene: Scene, bot: Bot) -> None:
    one = file(scene, picture())
    fresh = one["url"]
    shown = await post(scene, one | {"url": f"{fresh}?ex={int(wall_now()) - 10:x}&is=1&hm=2"})
    await until(lambda: is_stored(bot, scene))
    shown["attachments"][0]["url"] = f"{fresh}?ex={int(wall_now()) + 86_400:x}&is=1&hm=3"
    assert GREY in await scene.server.ask(scene.general, scene.mark, WHAT, reply_to=shown)
    assert len(scene.server.calls("GET", f"/messages/{shown['id']}$")) == 1
    assert [path[-4:] for path in scene.server.rest.downloaded] == ["hm=3"]


async def is_stored(bot: Bot, scene: Scene) -> bool:
    return bool(await bot.memory.recent(scene.guild.id, scene.general.id, 1))


async def test_the_picture_of_a_link_preview_is_fetched_by_discords_proxy(
    scene: Scene, bot: Bot, model: LlmServer
) -> None:
    proxy = file(scene, picture("green"))["url"]
    preview: Json = {"type": "image", "url": "https://elsewhere.example/frog.png"}
    preview |= {"thumbnail": {"url": preview["url"], "proxy_url": proxy, "width": 64, "height": 48}}
    said = await scene.server.say(scene.general, scene.ann, "look https://elsewhere.example/frog.png")
    said["embeds"] = [preview]
    await scene.server.edit(said, said["content"], unfurl=True)
    await until(lambda: has_file(bot, scene))
    (kept,) = await bot.memory.recent(scene.guild.id, scene.general.id, 1)
    assert (kept.revision, kept.attachments[0].name, kept.attachments[0].embed) == (0.0, "frog.png", True)
    answer = await scene.server.ask(scene.general, scene.mark, WHAT, reply_to=said)
    assert answer.endswith(f"shows: {GREY}.")
    assert model.requests[0].pictures == [("image/png", picture("green"))]


async def has_file(bot: Bot, scene: Scene) -> bool:
    found = await bot.memory.recent(scene.guild.id, scene.general.id, 1)
    return bool(found and found[0].attachments)


async def test_a_preview_that_came_unheard_is_fetched_when_somebody_points_at_it(
    scene: Scene, bot: Bot, redis: Redis, settings: Settings
) -> None:
    proxy = file(scene, picture("green"))["url"]
    said = await scene.server.say(scene.general, scene.ann, "look https://elsewhere.example/frog.png")
    await until(lambda: is_stored(bot, scene))
    said["embeds"] = [
        {"type": "rich", "title": "A frog", "image": {"url": "https://x.example/f.png", "proxy_url": proxy}}
    ]
    assert GREY in await scene.server.ask(scene.general, scene.mark, WHAT, reply_to=said)
    keys = await mentions_of(redis, settings, "sofa")
    assert any(re.search(r"made:description/\w+:[0-9a-f]{64}$", key) for key in keys), keys


async def test_a_voice_message_is_transcribed_when_somebody_replies_to_it(
    scene: Scene, bot: Bot, speech: VoiceServer
) -> None:
    one = file(scene, SPEECH, "voice-message.ogg", "audio/ogg", duration_secs=12.4, waveform="AAAA")
    said = await post(scene, one, flags=VOICE_FLAG)
    answer = await scene.server.ask(scene.general, scene.mark, "what does she say?", reply_to=said)
    assert answer == "The voice message (Ann, just now) says: on my way."
    assert speech.heard == [(SPEECH, "audio/ogg", "whisper-1")]


async def test_deleting_the_picture_takes_its_description_and_the_answer_along(
    scene: Scene, bot: Bot, redis: Redis, settings: Settings
) -> None:
    shown = await post(scene, file(scene, picture()))
    asked = await scene.server.say(
        scene.general, scene.mark, f"{scene.server.world.bot.mention} {WHAT}", reply_to=shown
    )
    reply = await scene.server.reply(asked)
    assert GREY in reply["content"]
    await until(lambda: answer_is_stored(bot, scene))
    await scene.server.delete(scene.general, int(shown["id"]))
    await scene.server.until(lambda: reply["content"] == REMOVED)
    assert isinstance(bot.memory, Memory)
    await bot.memory._store.swept()
    await until(lambda: nothing_mentions(redis, settings))


async def answer_is_stored(bot: Bot, scene: Scene) -> bool:
    return any(one.own for one in await bot.memory.recent(scene.guild.id, scene.general.id, 5))


async def nothing_mentions(redis: Redis, settings: Settings) -> bool:
    return not await mentions_of(redis, settings, "sofa")


async def test_forget_me_reaches_descriptions(scene: Scene, bot: Bot, redis: Redis, settings: Settings) -> None:
    shown = await post(scene, file(scene, picture()))
    await scene.server.ask(scene.general, scene.mark, WHAT, reply_to=shown)
    await scene.server.answered(await scene.server.slash(scene.general, scene.ann, "memory forget me"))
    await until(lambda: nothing_mentions(redis, settings))


@pytest.fixture
def adult(scene: Scene) -> Channel:
    channel = scene.server.world.add_channel(scene.guild, "adult")
    channel.nsfw = True
    return channel


async def test_nothing_is_read_in_an_age_restricted_channel_unless_its_settings_say_so(
    scene: Scene, adult: Channel, bot: Bot, model: LlmServer
) -> None:
    shown = await scene.server.say(adult, scene.ann, "", extra={"attachments": [file(scene, picture())]})
    assert GREY not in await scene.server.ask(adult, scene.mark, WHAT, reply_to=shown)
    assert model.requests == []
    await bot.memory.policies.set(Place.channel(scene.guild.id, adult.id), "adult_media", True)
    assert GREY in await scene.server.ask(adult, scene.mark, WHAT, reply_to=shown)


async def test_by_policy_pictures_are_read_as_they_arrive_and_found_by_what_they_show(
    scene: Scene, bot: Bot, model: LlmServer
) -> None:
    await bot.memory.policies.set(Place.channel(scene.guild.id, scene.general.id), "read_media", True)
    await post(scene, file(scene, picture()), text="look")
    await scene.server.until(lambda: model.requests)
    await until(lambda: is_described(bot, scene))
    answer = await scene.server.ask(scene.general, scene.mark, "who posted the grey cat?")
    assert "Ann" in answer
    assert "look [image: cat.png]" in answer


async def is_described(bot: Bot, scene: Scene) -> bool:
    found = await bot.memory.recent(scene.guild.id, scene.general.id, 1)
    return bool(found and found[0].attachments[0].text)
