"""Voice messages and recordings: transcribed by an endpoint or offline, shown and found by what they say."""

from __future__ import annotations

import io
import wave
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from conftest import CHANNEL, GUILD
from media_server import VoiceServer, voice_server
from picturing import Studio, again, post, studio
from pydantic import SecretStr

from channelmem.cascade.levels import Place
from channelmem.media.problems import UnreadableError
from channelmem.media.whisper import decoded
from channelmem.settings import Settings
from channelmem.types import Attachment

HERE = Place.channel(GUILD, CHANNEL)
SPEECH = (Path(__file__).parent / "data" / "voice.ogg").read_bytes()
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
    await room.memory.media.idle()
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
    async with studio(settings, voice_base_url=speech.url, voice_usd_per_minute=60.0, llm_daily_usd=20.0) as room:
        await room.memory.remember_many([said(room, 1), said(room, 2)])
        await room.ask(WHAT, 5_001, reply_to=1)
        assert room.memory.media.spent_usd == pytest.approx(12.3)
        answer, _ = await room.ask(WHAT, 5_002, reply_to=2)
        assert "could not make out" in answer.text
        assert len(speech.heard) == 1


# --- offline ---


async def test_without_an_endpoint_speech_is_understood_offline(settings: Settings) -> None:
    async with studio(settings, vision_model="off") as room:
        await room.memory.remember(said(room))
        answer, _ = await room.ask(WHAT, reply_to=1)
        assert "release is on Friday" in answer.text
        assert room.memory.media.counts["voice", "described"] == 1


def recording(seconds: float, rate: int = 8_000) -> bytes:
    out = io.BytesIO()
    with wave.open(out, "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(rate)
        file.writeframes(b"\0\0" * int(seconds * rate))
    return out.getvalue()


def test_a_recording_is_decoded_no_further_than_the_limit() -> None:
    assert len(decoded(recording(2.0), 3.0)) / 16_000 == pytest.approx(2.0, abs=0.1)
    with pytest.raises(UnreadableError, match="longer than 3 s") as caught:
        decoded(recording(600.0), 3.0)
    assert caught.value.lasting


@pytest.mark.parametrize(
    "content", [b"", b"<html></html>", SPEECH[:100], b"OggS" + b"\0" * 100, b"RIFF\0\0\0\0WAVEfmt "]
)
def test_what_is_no_recording_is_refused(content: bytes) -> None:
    with pytest.raises(UnreadableError) as caught:
        decoded(content, 10.0)
    assert caught.value.lasting
