"""Decodes strangers' files in one bounded process (`confined.py`), one file at a time: reading media must never take
the cores from answering. The process starts with the first file, stays, and is replaced after a fault, a missed
deadline or a caller that went away. Its replies are JSON and bytes of a bounded size, never objects."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import signal
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, Literal

from pydantic import BaseModel, Field

from channelmem.media.kinds import UnreadableError, lasting, passing
from channelmem.media.reader import LONGEST_SIDE, TOO_MANY, Picture

PICTURE_CPU_S: Final = 10.0  # 40 million pixels take 1.5 s
SOUND_CPU_S: Final = 10.0
SOUND_SPEED: Final = 30.0  # seconds of sound that are decoded in a second, at least
PATIENCE: Final = 3.0  # how much longer than its processor time a file may take while other programs run
ENDING_S: Final = 1.0
END_S: Final = 5.0
MOST_WAITING: Final = 16
MOST_PICTURE: Final = 4_000_000
MOST_PIXELS: Final = 3 * LONGEST_SIDE * LONGEST_SIDE  # bytes
SOUND_BYTES_PER_S: Final = 32_000
KEPT: Final = ("PATH", "SYSTEMROOT", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "LANG", "TZ", "VIRTUAL_ENV")
"""Of the environment. Keys and tokens are not among them."""
SPARING: Final = {"MALLOC_MMAP_THRESHOLD_": "1048576", "MALLOC_TRIM_THRESHOLD_": "1048576"}
"""glibc then gives a large picture's memory back."""
NOT_ITS_FAULT: Final = {-getattr(signal, name) for name in ("SIGKILL", "SIGTERM", "SIGINT") if hasattr(signal, name)}

BROKEN: Final = "it is broken, or takes too much to read"
TOO_SLOW: Final = "it takes too long to read"

log = logging.getLogger(__name__)


class Reply(BaseModel):
    """What the process says about a file. It may have been taken over by one, so nothing is believed that can't be."""

    size: int = Field(ge=0)
    why: str = Field("", max_length=100)
    lasting: bool = False
    media_type: Literal["image/png", "image/jpeg", "image/webp", "image/gif", "image/x-rgb"] = "image/png"
    width: int = Field(1, ge=1, le=LONGEST_SIDE)
    height: int = Field(1, ge=1, le=LONGEST_SIDE)
    seconds: float = Field(0.0, ge=0, allow_inf_nan=False)
    kind: Literal["ogg", "flac", "mp4", "webm", "wav", "mp3"] = "ogg"


class Decoder:
    def __init__(self) -> None:
        self._lane = asyncio.Lock()
        self._waiting = 0
        self._process: Process | None = None

    async def picture(self, content: bytes) -> Picture:
        """Small enough for a model, and with nothing in it but itself."""
        return await self._drawn("picture", content, MOST_PICTURE)

    async def pixels(self, content: bytes) -> Picture:
        """The same as rows of RGB."""
        return await self._drawn("pixels", content, MOST_PIXELS)

    async def measure(self, content: bytes, max_s: float) -> Reply:
        """How long it is, by decoding it, and of what kind."""
        return (await self._asked("measure", content, 0, max_s))[0]

    async def sound(self, content: bytes, max_s: float) -> bytes:
        """One channel of 16-bit samples at 16 kHz."""
        _, sound = await self._asked("sound", content, int((max_s + 5) * SOUND_BYTES_PER_S), max_s)
        if len(sound) % 2:
            raise lasting(BROKEN)
        return sound

    async def close(self) -> None:
        async with self._lane:
            await self._end()

    async def _drawn(self, job: str, content: bytes, most: int) -> Picture:
        told, made = await self._asked(job, content, most)
        if job == "pixels" and len(made) != 3 * told.width * told.height:
            raise lasting(BROKEN)
        return Picture(made, told.media_type, told.width, told.height)

    async def _asked(self, job: str, content: bytes, most: int, max_s: float = 0.0) -> tuple[Reply, bytes]:
        """`most` bytes are taken of its reply."""
        if self._waiting > MOST_WAITING:
            raise passing(TOO_MANY)
        cpu_s = SOUND_CPU_S + max_s / SOUND_SPEED if max_s else PICTURE_CPU_S
        asked = {"job": job, "size": len(content), "max_s": max_s, "cpu_s": cpu_s}
        self._waiting += 1
        try:
            async with self._lane:
                told, made = await self._exchange(asked, content, most)
        finally:
            self._waiting -= 1
        if told.why:
            raise UnreadableError(told.why, lasting=told.lasting)
        return told, made

    async def _exchange(self, asked: dict[str, Any], content: bytes, most: int) -> tuple[Reply, bytes]:
        """Whatever goes wrong, the next file gets another process."""
        process = await self._running()
        fine = False
        try:
            async with asyncio.timeout(PATIENCE * asked["cpu_s"]):
                replied = await _exchanged(process, asked, content, most)
            fine = True
        except TimeoutError:
            raise passing(TOO_SLOW) from None
        except ValueError:  # it answered, and wrongly
            await self._end()
            raise lasting(BROKEN) from None
        except (asyncio.IncompleteReadError, OSError):
            raise self._fault(await self._end(after_s=ENDING_S)) from None
        finally:
            if not fine:
                await self._end()
        return replied

    def _fault(self, code: int | None) -> UnreadableError:
        log.warning("A file ended the process that decodes (code %s); the next one gets another", code)
        if code is not None and code == -getattr(signal, "SIGPROF", 0):
            return lasting(TOO_SLOW)
        return passing(BROKEN) if code in NOT_ITS_FAULT else lasting(BROKEN)

    async def _running(self) -> Process:
        if self._process is None or self._process.returncode is not None:
            await self._end()
            self._process = await _started()
        return self._process

    async def _end(self, after_s: float = 0.0) -> int | None:
        """Ends it, and tells its return code. One that is ending by itself is given a moment: asyncio can't tell the
        code of a process that was gone when it was to be killed."""
        process, self._process = self._process, None
        if process is None:
            return None
        if after_s:
            with suppress(TimeoutError):
                async with asyncio.timeout(after_s):
                    await process.communicate()
        if process.returncode is None:
            with suppress(ProcessLookupError):
                process.kill()
        # wait() waits for the pipes, too, and never returns while one is full; communicate() takes what is left.
        with suppress(TimeoutError):  # somebody else may hold its output open
            async with asyncio.timeout(END_S):
                await process.communicate()
        return process.returncode


async def _started() -> Process:
    command = (sys.executable, "-P", "-m", "channelmem.media.confined")
    try:
        return await asyncio.create_subprocess_exec(
            *command, stdin=PIPE, stdout=PIPE, stderr=DEVNULL, env=_environment()
        )
    except OSError as error:
        log.warning("The process that decodes can't be started: %s", error)
        raise passing(TOO_MANY) from None


async def _exchanged(process: Process, asked: dict[str, Any], content: bytes, most: int) -> tuple[Reply, bytes]:
    if process.stdin is None or process.stdout is None:
        raise ValueError("no pipes")
    process.stdin.write(json.dumps(asked).encode() + b"\n" + content)
    await process.stdin.drain()
    line = await process.stdout.readline()
    if not line:
        raise asyncio.IncompleteReadError(b"", 1)
    told = Reply.model_validate_json(line)
    if told.size > most:
        raise ValueError("a reply that is too long")
    return told, await process.stdout.readexactly(told.size)


def _environment() -> dict[str, str]:
    """What it takes to import the same packages."""
    kept = {name: os.environ[name] for name in KEPT if name in os.environ}
    return kept | SPARING | {"PYTHONPATH": os.pathsep.join(str(Path(one).absolute()) for one in sys.path if one)}
