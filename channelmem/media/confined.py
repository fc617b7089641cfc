"""The process in which strangers' files are decoded, started by `decoder.py`: jobs come on stdin, replies go to stdout.
A decoder's fault ends this process and nothing else: it has no secrets, can open neither files nor sockets, and its
memory and processor time are limited where the system can do that (not on Windows). Imports come before the limits.
Pillow and PyAV are optional packages (extra `media`).

A picture that is small enough and carries nothing but itself stays byte for byte; any other is scaled down and
re-encoded, which leaves out where and with what it was taken. The first bytes of a recording say what it is, and only
that demuxer opens it: left to guess, FFmpeg also takes playlists, which name files and sockets to open. Its length is
counted frame by frame, before anything is resampled."""

from __future__ import annotations

import io
import json
import signal
import sys
import wave
from collections.abc import Generator
from contextlib import closing, suppress
from pathlib import Path
from typing import IO, Final

import av
import psutil
from av.audio.frame import AudioFrame
from av.container import InputContainer
from PIL import Image, ImageOps, UnidentifiedImageError

from channelmem.media.kinds import UnreadableError, lasting
from channelmem.media.reader import LONGEST_SIDE, Picture

if sys.platform != "win32":
    import resource

MEMORY: Final = 768 << 20
"""Bytes beyond what the imports take: a picture of 40 million pixels is held three times while it is encoded again."""
FILES: Final = 0  # new ones: what is open stays open, and the number of one that is closed can't be taken again


# --- the process ---


def main() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the bot, which ends this one
    _confine()
    requests, replies = sys.stdin.buffer, sys.stdout.buffer
    while line := requests.readline():
        asked = json.loads(line)
        content = requests.read(asked["size"])
        _limit_time(asked["cpu_s"])
        _reply(replies, asked, content)
        _limit_time(0)  # waiting for the next file is not limited


def _reply(replies: IO[bytes], asked: dict[str, float | str], content: bytes) -> None:
    """Whatever else is raised ends the process: that is the file's fault, or ours."""
    told: dict[str, object]
    try:
        told, made = _done(str(asked["job"]), content, float(asked["max_s"]))
    except UnreadableError as error:
        told, made = {"why": str(error), "lasting": error.lasting}, b""
    replies.write(json.dumps(told | {"size": len(made)}).encode() + b"\n" + made)
    replies.flush()


def _done(job: str, content: bytes, max_s: float) -> tuple[dict[str, object], bytes]:
    if job == "measure":
        return {"seconds": measured(content, max_s), "kind": kind_of(content)}, b""
    if job == "sound":
        return {}, decoded(content, max_s)
    picture = checked(content) if job == "picture" else pixels(content)
    return {"media_type": picture.media_type, "width": picture.width, "height": picture.height}, picture.content


def _confine() -> None:
    _warm_up()
    if sys.platform == "win32":
        return
    with suppress(OSError):  # where memory runs out, the system ends this process and not the bot
        Path("/proc/self/oom_score_adj").write_text("1000")
    address_space = psutil.Process().memory_info().vms  # psutil reads files
    _lower(resource.RLIMIT_CORE, 0)
    _lower(resource.RLIMIT_FSIZE, 0)
    _lower(resource.RLIMIT_NOFILE, FILES)
    _lower(resource.RLIMIT_AS, address_space + MEMORY)


def _warm_up() -> None:
    """Pillow and PyAV load some of their modules with the first file that needs them; then it would be too late."""
    Image.init()
    drawn, played = io.BytesIO(), io.BytesIO()
    Image.new("RGB", (1, 1)).save(drawn, "JPEG", exif=Image.Exif(), comment=b"to be dropped")
    with wave.open(played, "wb") as file:
        file.setparams((1, 2, 8_000, 0, "NONE", ""))
        file.writeframes(b"\0\0" * 800)
    pixels(drawn.getvalue())
    decoded(played.getvalue(), 1.0)


def _lower(what: int, most: int) -> None:
    if sys.platform != "win32":
        with suppress(ValueError, OSError):  # macOS does not limit address space
            resource.setrlimit(what, (most, most))


def _limit_time(seconds: float) -> None:
    """Of the processor, from now on: beyond it the system ends this process. RLIMIT_CPU knows whole seconds only, and
    counts from the start of the process."""
    if sys.platform != "win32":
        signal.setitimer(signal.ITIMER_PROF, seconds)


# --- pictures ---

MOST_PIXELS: Final = 40_000_000
"""A camera's picture has fewer. A file of a few kilobytes can claim millions, which take gigabytes once unpacked."""
MOST_SCANS: Final = 50  # of a JPEG. A progressive one has about ten; one of hundreds is unpacked hundreds of times.
SCAN: Final = b"\xff\xda"
MOST_SENT: Final = 3_500_000  # bytes: providers take 5 MB of base64
TYPES: Final = {"PNG": "image/png", "JPEG": "image/jpeg", "WEBP": "image/webp", "GIF": "image/gif"}
"""What every provider takes."""
OPENED: Final = (*TYPES, "BMP")
HARMLESS: Final = {
    "dpi", "gamma", "srgb", "transparency", "chromaticity", "interlace", "aspect",  # PNG
    "jfif", "jfif_version", "jfif_unit", "jfif_density", "progressive", "progression", "adobe", "adobe_transform",
    "background", "version", "extension", "duration", "loop", "timestamp",  # GIF, WebP
}  # fmt: skip
"""What Pillow reads besides the picture that says nothing about who took it, where and with what."""
ENDS: Final = {"PNG": b"IEND\xaeB`\x82", "JPEG": b"\xff\xd9", "GIF": b";"}
"""Whatever follows is not part of the picture."""
BROKEN: Final = (OSError, SyntaxError, ValueError, EOFError, TypeError, Image.DecompressionBombError)
"""What Pillow raises for files that are not what they begin like."""
NOT_AN_IMAGE: Final = "it is not a picture, or a broken one"


def checked(content: bytes) -> Picture:
    """Blocking: megapixels take a second."""
    try:
        with Image.open(io.BytesIO(content), formats=OPENED) as image:
            width, height = image.size
            if width * height > MOST_PIXELS:
                raise lasting(f"it has more than {MOST_PIXELS // 1_000_000} million pixels")
            if content.count(SCAN) > MOST_SCANS and image.format in {"JPEG", "MPO"}:
                raise lasting(NOT_AN_IMAGE)
            image.load()
            if _can_stay(image, content):
                return Picture(content, TYPES[image.format or ""], width, height)
            return _written_anew(image)
    except UnidentifiedImageError:
        raise lasting("it is not a picture") from None
    except BROKEN:
        raise lasting(NOT_AN_IMAGE) from None


def pixels(content: bytes) -> Picture:
    """The same as rows of RGB."""
    with Image.open(io.BytesIO(checked(content).content)) as image:
        return Picture(image.convert("RGB").tobytes(), "image/x-rgb", *image.size)


def _can_stay(image: Image.Image, content: bytes) -> bool:
    kind = image.format or ""
    if kind not in TYPES or max(image.size) > LONGEST_SIDE or len(content) > MOST_SENT:
        return False
    return not (getattr(image, "is_animated", False) or _says_more(image) or not content.endswith(ENDS.get(kind, b"")))


def _says_more(image: Image.Image) -> bool:
    """Whether the file holds anything besides the picture: Exif, GPS, comments, colour profiles, unknown parts."""
    parts = [name for name, _ in getattr(image, "applist", ())]
    unknown = getattr(image, "private_chunks", ())
    return bool(set(image.info) - HARMLESS or set(parts) - {"APP0", "APP14"} or unknown or image.getexif())


def _written_anew(image: Image.Image) -> Picture:
    if getattr(image, "is_animated", False):
        image.seek(0)
    ImageOps.exif_transpose(image, in_place=True)  # the turn is metadata, too
    clear = image.has_transparency_data
    plain = image.convert("RGBA" if clear else "RGB")
    plain.thumbnail((LONGEST_SIDE, LONGEST_SIDE), Image.Resampling.LANCZOS)
    drawn = clear or image.format in {"PNG", "GIF", "BMP"}  # text stays sharp without JPEG's blur
    kind = "PNG" if drawn else "JPEG"
    content = _saved(plain, kind)
    if len(content) > MOST_SENT:
        kind, content = "JPEG", _saved(plain.convert("RGB"), "JPEG")
    return Picture(content, TYPES[kind], *plain.size)


def _saved(image: Image.Image, kind: str) -> bytes:
    out, bare = io.BytesIO(), Image.new(image.mode, image.size)
    bare.paste(image)  # a new image has no info that could be written along
    bare.save(out, kind, quality=85, optimize=kind == "JPEG")
    return out.getvalue()


# --- recordings ---

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


def measured(content: bytes, max_s: float) -> float:
    """Its length in seconds by decoding all of it, but no more than `max_s`."""
    with closing(_frames(content, max_s)) as frames:
        return sum(frame.samples / frame.sample_rate for frame in frames)


def decoded(content: bytes, max_s: float) -> bytes:
    """One channel of 16-bit samples at `RATE_HZ`."""
    sound = bytearray()
    resampler = av.AudioResampler(format="s16", layout="mono", rate=RATE_HZ)
    try:
        with closing(_frames(content, max_s)) as frames:
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


if __name__ == "__main__":
    main()
