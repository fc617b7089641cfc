"""The reference back end: sentence-transformers itself."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray

from channelmem.embedding.export import load_reference, prefixes
from channelmem.embedding.model import ModelSource
from channelmem.embedding.onnx_encoder import clean


class TorchEncoder:
    """Rows are texts with their prompts; sentence-transformers tokenises them itself."""

    def __init__(self, source: ModelSource, threads: int) -> None:
        if threads:
            torch.set_num_threads(threads)
        self._model = load_reference(source)
        self._question_prefix, self._message_prefix = prefixes(self._model)
        self.dims = int(self._model.encode([""]).shape[1])
        # The same vectors as the fp32 export to within 1e-4, so the same identity: users can switch back ends freely.
        self.identity = source.identity("fp32")

    def tokenise_question(self, text: str) -> list[str]:
        return [self._question_prefix + clean(text)]

    def tokenise_messages(self, texts: Sequence[str]) -> list[str]:
        return [self._message_prefix + clean(text) for text in texts]

    def infer(self, rows: Sequence[str]) -> NDArray[np.float32]:
        vectors = self._model.encode(list(rows), prompt="", normalize_embeddings=True, show_progress_bar=False)
        return np.asarray(vectors, dtype=np.float32)
