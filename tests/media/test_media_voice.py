"""Voice messages and recordings: transcribed by an endpoint or offline, shown and found by what they say."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from conftest import CHANNEL, GUILD
from hostile_media import playlist, silent_flac, wav
from media_server import VoiceServer, voice_server
from picturing import Studio, again, idle, post, studio
from pydantic import SecretStr

from channelmem.policy.cascade import Place
from channelmem.settings import Settings
from channelmem.store.channel_state import TOTAL
from channelmem.types import Attachment

pytestmark = pytest.mark.process  # recordings are decoded in a process of their own

HERE = Place.channel(GUILD, CHANNEL)
DATA = Path(__file__).parents[1] / "data"
SPEECH, SECONDS = (DATA / "voice.ogg").read_bytes(), 4.2
"""Four seconds: "The release is on Friday. Bring the keys to the office." """
WHAT = "what does she say?"


@pytest.fixture
async def speech() -> AsyncIterator[VoiceServer]:
    async with voice_server() as server:
        yield server


@pytest.fixture
async def room(settings: Settings, speech: VoiceServer) -> AsyncIterator[Studio]:
    changes: dict[str, Any] = {"voice_base_url": speech.url, "voice_api_key": SecretStr("sk-voice")}
    async with studio(settings, voice_model="whisper-large", **changes) as one:
        yield one


def voice(room: Studio, id_: int = 81, seconds: float | None = 12.3, **changes: Any) -> Attachment:
    return replace(room.cdn.serves(id_, "voice-message.ogg", SPEECH), duration_s=seconds, **changes)


def said(room: Studio, id_: int = 1, **changes: Any) -> Any:
    return replace(post(id_, voice(room, 80 + id_, **changes)), content="[voice message]")


async def test_a_voice_message_that_somebody_points_at_is_transcribed(room: Studio, speech: VoiceServer) -> None:
    await room.memory.remember(said(room))
    answer, context = await room.ask(WHAT, reply_to=1)
    assert answer.text == "The voice message (Ann, 9 minutes ago) says: on my way."
    assert "[voice 0:12: on my way]</reference>" in context
    assert speech.heard == [(SPEECH, "audio/ogg", "whisper-large")], "byte for byte"
    assert speech.keys == ["Bearer sk-voice"]


async def test_the_next_question_finds_it_without_asking_again(room: Studio, speech: VoiceServer) -> None:
    speech.text = "the parcel is at the kiosk"
    await room.memory.remember(said(room))
    await room.ask(WHAT, reply_to=1)
    await room.memory.flush()
    async with again(room) as later:
        _, context = await later.ask("what is going on here?", 5_001)
        assert "[voice 0:12: the parcel is at the kiosk]" in context
        answer, _ = await later.ask("what did Ann say about the parcel?", 5_002)
        assert answer.hits[0].message.id == 1
        answer, _ = await later.ask(WHAT, 5_003, reply_to=1)
        assert "the parcel is at the kiosk" in answer.text
    assert len(speech.heard) == 1


async def test_ambient_voices_are_not_transcribed_unasked(room: Studio, speech: VoiceServer) -> None:
    await room.memory.policies.set(HERE, "max_images", 10)
    await room.memory.remember(said(room))
    _, context = await room.ask("what is going on here?")
    assert "[voice 0:12]" in context
    assert speech.heard == []


async def test_by_policy_voices_are_transcribed_as_they_come_but_other_audio_is_not(
    room: Studio, speech: VoiceServer
) -> None:
    await room.memory.policies.set(HERE, "read_media", True)
    song = replace(room.cdn.serves(90, "song.ogg", SPEECH), duration_s=None)
    await room.memory.remember_many([said(room), post(2, song)])
    await idle(room.memory)
    assert len(speech.heard) == 1
    _, context = await room.ask("what is going on here?")
    assert "[voice 0:12: on my way]" in context
    assert "[audio: song.ogg]" in context
    _, context = await room.ask(WHAT, 5_001, reply_to=2)
    assert "[audio: song.ogg: on my way]" in context


async def test_a_long_or_large_recording_is_not_even_fetched(room: Studio, speech: VoiceServer) -> None:
    await room.memory.remember_many([said(room, 1, seconds=301.0), said(room, 2, size=26_000_000)])
    for id_ in (1, 2):
        answer, _ = await room.ask(WHAT, 5_000 + id_, reply_to=id_)
        assert "could not make out" in answer.text
    assert speech.heard == []
    assert sum(room.cdn.fetched.values()) == 0


@pytest.mark.parametrize(
    ("status", "hold_ms"), [(400, 600_000), (415, 600_000), (401, 60_000), (429, 60_000), (500, 60_000)]
)
async def test_a_failure_is_noted_for_a_while_in_our_own_words(
    room: Studio, speech: VoiceServer, status: int, hold_ms: int
) -> None:
    speech.status = status
    await room.memory.remember(said(room))
    answer, _ = await room.ask(WHAT, reply_to=1)
    redis = room.memory._store.buckets.redis
    (key,) = [key async for key in redis.scan_iter(f"{room.settings.key_prefix}:*unread:*")]
    assert hold_ms / 2 < await redis.pttl(key) <= hold_ms
    assert b"secret" not in (await redis.get(key) or b"")
    assert "secret" not in answer.text


@pytest.mark.parametrize("text", [None, 5, ["a"], {}])
async def test_an_unusable_answer_is_a_failure(room: Studio, speech: VoiceServer, text: object) -> None:
    speech.text = text
    await room.memory.remember(said(room))
    answer, _ = await room.ask(WHAT, reply_to=1)
    assert "could not make out" in answer.text


async def test_a_transcript_counts_towards_the_spending_cap(settings: Settings, speech: VoiceServer) -> None:
    async with studio(settings, voice_base_url=speech.url, voice_usd_per_minute=60.0, llm_daily_usd=6.0) as room:
        await room.memory.remember_many([said(room, 1), said(room, 2)])
        await room.ask(WHAT, 5_001, reply_to=1)
        assert room.spent_usd == pytest.approx(SECONDS, abs=0.1)
        answer, _ = await room.ask(WHAT, 5_002, reply_to=2)
        assert "could not make out" in answer.text
        assert len(speech.heard) == 1


async def counted_micros(room: Studio) -> int:
    """Whatever day it is."""
    redis = room.memory._store.buckets.redis
    days = [key async for key in redis.scan_iter(f"{room.settings.key_prefix}:*spend:*")]
    return sum([int(await redis.hget(day, TOTAL.decode()) or 0) for day in days])


@pytest.mark.parametrize("claimed", [0.01, 12.3, None])
async def test_what_counts_is_the_length_that_was_measured(
    settings: Settings, speech: VoiceServer, claimed: float | None
) -> None:
    async with studio(settings, voice_base_url=speech.url, voice_usd_per_minute=60.0) as room:
        await room.memory.remember(said(room, seconds=claimed))
        await room.ask(WHAT, reply_to=1)
        assert room.spent_usd == pytest.approx(SECONDS, abs=0.1)
        assert await counted_micros(room) == pytest.approx(SECONDS * 1e6, rel=0.05)


async def test_a_long_recording_that_claims_to_be_short_is_not_sent(settings: Settings, speech: VoiceServer) -> None:
    async with studio(settings, voice_base_url=speech.url, voice_max_s=60.0) as room:
        files = [room.cdn.serves(81, "a.ogg", wav(61.0)), room.cdn.serves(82, "b.ogg", silent_flac(8_000, 10))]
        for id_, file in enumerate(files, 1):
            await room.memory.remember(post(id_, replace(file, duration_s=0.01)))
            await room.ask(WHAT, 5_000 + id_, reply_to=id_)
            (use,) = room.memory.media.uses(GUILD, CHANNEL, 5_000 + id_)
            assert use.how == "not read: it is longer than 60 s"
    assert speech.heard == []


@pytest.mark.parametrize("offline", [False, True])
async def test_what_is_no_recording_reaches_nobody_and_opens_no_file(
    settings: Settings, speech: VoiceServer, monkeypatch: pytest.MonkeyPatch, offline: bool
) -> None:
    """A local speech server would decode it, too."""
    monkeypatch.chdir(DATA)
    changes: dict[str, Any] = {"vision_model": "off"} if offline else {"voice_base_url": speech.url}
    async with studio(settings, **changes) as room:
        file = room.cdn.serves(81, "voice-message.ogg", playlist("voice.ogg"))
        await room.memory.remember(post(1, replace(file, duration_s=4.0)))
        answer, context = await room.ask(WHAT, reply_to=1)
        assert "release" not in answer.text + context
        (use,) = room.memory.media.uses(GUILD, CHANNEL, 5_000)
        assert use.how == "not read: it is not a recording, or a broken one"
    assert speech.heard == []


@pytest.mark.parametrize(("how", "counts"), [("silent", True), ("garbage", True), ("refuses", False), ("gone", False)])
async def test_what_may_have_been_transcribed_counts(
    settings: Settings, speech: VoiceServer, how: str, counts: bool
) -> None:
    speech.breaks, speech.text = how == "silent", None
    speech.status = 500 if how == "refuses" else 200
    url = "http://127.0.0.1:1/v1" if how == "gone" else speech.url
    async with studio(settings, voice_base_url=url, voice_usd_per_minute=60.0) as room:
        await room.memory.remember(said(room))
        answer, _ = await room.ask(WHAT, reply_to=1)
        assert "could not make out" in answer.text
        assert bool(await counted_micros(room)) is counts


# --- offline ---


async def test_without_an_endpoint_speech_is_understood_offline(settings: Settings) -> None:
    async with studio(settings, vision_model="off") as room:
        await room.memory.remember(said(room))
        answer, _ = await room.ask(WHAT, reply_to=1)
        assert "release is on Friday" in answer.text
        assert room.counts["voice", "described"] == 1
