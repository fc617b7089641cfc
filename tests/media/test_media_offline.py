"""Engines work off the event loop: one file at a time, even if nobody waits for it any more."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from waiting import LIMIT_S, until_true

from channelmem.ids import ChannelId
from channelmem.media.opening import OfflineReader
from channelmem.media.reader import File
from channelmem.types import Attachment


class Engine:
    def __init__(self) -> None:
        self.gate, self.running, self.most = threading.Event(), 0, 0

    def read(self, decoded: bytes) -> str:
        self.running += 1
        self.most = max(self.most, self.running)
        self.gate.wait(LIMIT_S)
        self.running -= 1
        if not decoded:
            raise ValueError("no")
        return decoded.decode()


async def as_it_is(content: bytes) -> bytes:
    return content


def file(content: bytes) -> File:
    return File(Attachment(1, "https://cdn.discordapp.com/a.png"), content, ChannelId(1, 2))


async def test_engines_read_one_file_at_a_time_even_after_a_cancellation() -> None:
    engine, lane = Engine(), ThreadPoolExecutor(1)
    readers = [OfflineReader(name, lambda: engine, 1, as_it_is, lane) for name in ("ocr", "whisper")]
    first = asyncio.create_task(readers[0].read(file(b"a")))
    await until_true(lambda: engine.running)
    second = asyncio.create_task(readers[1].read(file(b"b")))
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first
    engine.gate.set()
    assert await second == "b"
    assert engine.most == 1
    with pytest.raises(ValueError, match="no"):
        await readers[0].read(file(b""))
    await readers[0].close()
