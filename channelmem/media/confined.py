"""The process in which strangers' files are decoded, started by `decoder.py`: jobs come on stdin, replies go to stdout.
A decoder's fault ends this process and nothing else: it has no secrets, can open neither files nor sockets, and its
memory and processor time are limited where the system can do that (not on Windows). Imports come before the limits."""

from __future__ import annotations

import io
import json
import signal
import sys
import wave
from contextlib import suppress
from pathlib import Path
from typing import IO, Final

import psutil
from PIL import Image

from channelmem.media import audio, image
from channelmem.media.kinds import UnreadableError

if sys.platform != "win32":
    import resource

MEMORY: Final = 768 << 20
"""Bytes beyond what the imports take: a picture of 40 million pixels is held three times while it is encoded again."""
FILES: Final = 0  # new ones: what is open stays open, and the number of one that is closed can't be taken again


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
        recording = audio.measured(content, max_s)
        return {"seconds": recording.seconds, "kind": recording.kind}, b""
    if job == "sound":
        return {}, audio.decoded(content, max_s)
    picture = image.checked(content) if job == "picture" else image.pixels(content)
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
    image.pixels(drawn.getvalue())
    audio.decoded(played.getvalue(), 1.0)


def _lower(what: int, most: int) -> None:
    if sys.platform != "win32":
        with suppress(ValueError, OSError):  # macOS does not limit address space
            resource.setrlimit(what, (most, most))


def _limit_time(seconds: float) -> None:
    """Of the processor, from now on: beyond it the system ends this process. RLIMIT_CPU knows whole seconds only, and
    counts from the start of the process."""
    if sys.platform != "win32":
        signal.setitimer(signal.ITIMER_PROF, seconds)


if __name__ == "__main__":
    main()
