"""Recordings by their content: formats that we mean and no others, counted before anything is resampled."""

from __future__ import annotations

import tracemalloc
from pathlib import Path

import psutil
import pytest
from hostile_media import SESSION, playlist, recording, silent_flac, wav

from channelmem.media.confined import NOT_AUDIO, RATE_HZ, decoded, kind_of, measured
from channelmem.media.kinds import UnreadableError

DATA = Path(__file__).parents[1] / "data"
SPEECH = (DATA / "voice.ogg").read_bytes()
FORMATS = [
    ("ogg", "libopus", "ogg"), ("mp3", "libmp3lame", "mp3"), ("mp4", "aac", "mp4"),
    ("ipod", "aac", "mp4"), ("webm", "libopus", "webm"), ("wav", "pcm_s24le", "wav"), ("flac", "flac", "flac"),
]  # fmt: skip


@pytest.mark.parametrize(("container", "codec", "kind"), FORMATS)
def test_what_people_record_with_is_measured_and_decoded(container: str, codec: str, kind: str) -> None:
    content = recording(container, codec)
    assert kind_of(content) == kind
    assert measured(content, 5.0) == pytest.approx(1.0, abs=0.1)
    assert len(decoded(content, 5.0)) / 2 / RATE_HZ == pytest.approx(1.0, abs=0.1)


def refused(content: bytes, max_s: float = 300.0) -> str:
    reasons = set()
    for work in (measured, decoded):
        with pytest.raises(UnreadableError) as caught:
            work(content, max_s)
        assert caught.value.lasting
        reasons.add(str(caught.value))
    (reason,) = reasons
    return reason


def test_a_playlist_opens_no_local_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(DATA)
    for content in (playlist("voice.ogg"), b"ID3" + playlist("voice.ogg"), b"#EXTM3U\n#EXTINF:1,\nvoice.ogg\n"):
        assert refused(content) == NOT_AUDIO


def test_a_session_description_opens_no_socket() -> None:
    before = psutil.Process().net_connections("udp")
    assert refused(SESSION) == NOT_AUDIO
    assert psutil.Process().net_connections("udp") == before


@pytest.mark.parametrize(
    "content", [b"", b"<html></html>", SPEECH[:100], b"OggS" + bytes(100), b"RIFF\0\0\0\0WAVEfmt "]
)
def test_what_is_no_recording_is_refused(content: bytes) -> None:
    assert refused(content, 10.0) == NOT_AUDIO


def test_a_format_that_we_do_not_mean_is_refused() -> None:
    assert refused(recording("aiff", "pcm_s16be")) == NOT_AUDIO
    assert refused(recording("wav", "adpcm_ms")) == NOT_AUDIO, "the container is known, what is in it is not"


@pytest.mark.parametrize("rate", [1, 8, 5_999])
def test_a_few_bytes_at_a_tiny_rate_do_not_become_gigabytes(rate: int) -> None:
    tracemalloc.start()
    try:
        assert refused(silent_flac(rate, 100)) == NOT_AUDIO
        assert tracemalloc.get_traced_memory()[1] < 10_000_000
    finally:
        tracemalloc.stop()


def test_too_many_channels_are_refused() -> None:
    assert refused(wav(0.1, channels=16)) == NOT_AUDIO


def test_of_several_streams_nobody_knows_which_one_is_transcribed() -> None:
    assert measured(recording("mp4", "aac"), 5.0)
    assert refused(recording("mp4", "aac", streams=2)) == NOT_AUDIO


def test_the_length_is_counted_whatever_the_file_claims() -> None:
    assert measured(silent_flac(8_000, 10), 300.0) == pytest.approx(81.9, abs=0.1)
    assert refused(silent_flac(8_000, 100)) == "it is longer than 300 s"
    assert refused(wav(600.0), 3.0) == "it is longer than 3 s"
    assert len(decoded(wav(2.0), 3.0)) / 2 / RATE_HZ == pytest.approx(2.0, abs=0.1)
