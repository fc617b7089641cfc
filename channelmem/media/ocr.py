"""Text in pictures, offline: rapidocr (extra `ocr`), whose models come with it."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from rapidocr import RapidOCR

from channelmem.media.kinds import passing
from channelmem.media.reader import LONGEST_SIDE, Picture

OPTIONS: Final = {
    "Global.log_level": "critical",
    "Global.use_cls": False,  # looks for text that stands on its head
    # By default a small picture is blown up until its short side has 736 pixels: 7 times the work, for the same text.
    "Det.limit_type": "max",
    "Det.limit_side_len": LONGEST_SIDE,
    "EngineConfig.onnxruntime.intra_op_num_threads": 1,  # answering needs the other cores
}


class Engine:
    def __init__(self) -> None:
        self._ocr = RapidOCR(params=OPTIONS)

    def read(self, picture: Picture) -> str:
        """Empty if there is no text in it."""
        pixels = np.frombuffer(picture.content, np.uint8).reshape(picture.height, picture.width, 3)
        try:
            found: Any = self._ocr(pixels)
        except Exception as error:
            raise passing("the text in it can't be read") from error
        lines = " ".join(found.txts or ())
        return f"Text: {lines}" if lines.strip() else ""
