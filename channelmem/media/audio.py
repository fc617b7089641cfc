"""How long recordings are, and their sound; runs in a process of its own (`confined.py`). Their first bytes say what
they are, and only that demuxer opens them: left to guess, FFmpeg also takes playlists, which name files and sockets to
open. Length is counted frame by frame, before anything is resampled. PyAV is an optional package (extra `media`)."""

from __future__ import annotations

import io
from collections.abc import Generator
from contextlib import closing
from typing import Final

import av
from av.audio.frame import AudioFrame
from av.container import InputContainer

from channelmem.media.kinds import lasting
from channelmem.media.reader import Recording

RATE_HZ: Final = 16_000  # what speech models take
MAGIC: Final = ((0, b"OggS", "ogg"), (0, b"fLaC", "flac"), (4, b"ftyp", "mp4"), (0, b"\x1aE\xdf\xa3", "webm"),
                (8, b"WAVE", "wav"), (0, b"ID3", "mp3"))  # fmt: skip
"""Offset, bytes and demuxer. An MP3 without a tag begins with a frame."""
MP3_FRAMES: Final = (b"\xff\xfb", b"\xff\xfa", b"\xff\xf3", b"\xff\xf2", b"\xff\xe3", b"\xff\xe2")
CODECS: Final = frozenset(
    {"opus", "vorbis", "flac", "mp3", "aac", "alac", "pcm_u8", "pcm_s16le", "pcm_s24le", "pcm_s32le", "pcm_f32le"}
)
DECODERS: Final = ",".join(sorted({*CODECS, "libopus", "libvorbis", "mp3float"}))
"""The same by the names of what decodes them."""
DEMUXERS: Final = "ogg,flac,mp4,matroska,webm,wav,mp3"
RATES_HZ: Final = range(6_000, 192_001)  # at 1 Hz, a second of sound becomes hours of samples
MOST_CHANNELS: Final = 8
LONGEST_FRAME: Final = 65_536  # samples. FLAC has the longest.
NOT_AUDIO: Final = "it is not a recording, or a broken one"


def measured(content: bytes, max_s: float) -> Recording:
    """Its length by decoding all of it, but no more than `max_s`."""
    frames = _frames(content, max_s)
    with closing(frames):
        seconds = sum(frame.samples / frame.sample_rate for frame in frames)
    return Recording(seconds, kind_of(content))


def decoded(content: bytes, max_s: float) -> bytes:
    """One channel of 16-bit samples at `RATE_HZ`."""
    sound = bytearray()
    resampler = av.AudioResampler(format="s16", layout="mono", rate=RATE_HZ)
    frames = _frames(content, max_s)
    try:
        with closing(frames):
            for frame in frames:
                frame.pts = None  # gaps in the time stamps are not filled
                sound += b"".join(_samples(piece) for piece in resampler.resample(frame))
            sound += b"".join(_samples(piece) for piece in resampler.resample(None))
    except (av.FFmpegError, ValueError):
        raise lasting(NOT_AUDIO) from None
    return bytes(sound)


def kind_of(content: bytes) -> str:
    for offset, magic, kind in MAGIC:
        if content.startswith(magic, offset):
            return kind
    if content.startswith(MP3_FRAMES):
        return "mp3"
    raise lasting(NOT_AUDIO)


def _frames(content: bytes, max_s: float) -> Generator[AudioFrame, None, None]:
    """Each within bounds, and all of them within `max_s`; raises UnreadableError."""
    seconds = 0.0
    try:
        with _opened(content, kind_of(content)) as container:
            for frame in container.decode(audio=0):
                _check(frame)
                seconds += frame.samples / frame.sample_rate
                if seconds > max_s:
                    raise lasting(f"it is longer than {max_s:g} s")
                yield frame
    except (av.FFmpegError, LookupError, ValueError):
        raise lasting(NOT_AUDIO) from None
    if not seconds:
        raise lasting(NOT_AUDIO)


def _opened(content: bytes, kind: str) -> InputContainer:
    """With this demuxer and known decoders only, and without any protocol: everything there is to read is in memory."""
    options = {"format_whitelist": DEMUXERS, "codec_whitelist": DECODERS, "protocol_whitelist": "none"}
    container = av.open(io.BytesIO(content), "r", format=kind, options=options, metadata_errors="ignore")
    # Of several streams, whoever transcribes it may take another one than we measure.
    if len(container.streams.audio) != 1 or container.streams.audio[0].codec_context.codec.canonical_name not in CODECS:
        container.close()
        raise lasting(NOT_AUDIO)
    container.streams.audio[0].codec_context.thread_count = 1
    return container


def _check(frame: AudioFrame) -> None:
    if frame.sample_rate not in RATES_HZ or frame.samples > LONGEST_FRAME or frame.layout.nb_channels > MOST_CHANNELS:
        raise lasting(NOT_AUDIO)


def _samples(piece: AudioFrame) -> bytes:
    return bytes(piece.planes[0])[: 2 * piece.samples]  # a plane may be longer than what is in it
