"""The runtime encoder: ONNX Runtime and `tokenizers`; no torch, and no threads of its own."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnxruntime
from numpy.typing import NDArray
from tokenizers import Encoding, Tokenizer

from channelmem.embedding.model import Model


class OnnxEncoder:
    """Synchronous; `infer` may run in several threads at once, each on one core, all with the same weights."""

    def __init__(self, model: Model) -> None:
        self._manifest = model.manifest
        self.dims = model.manifest.dims
        self.identity = model.manifest.identity
        self._tokenizer = Tokenizer.from_file(str(model.tokenizer))
        # The file may have settings from training; ours come from the model's own limit.
        self._tokenizer.enable_truncation(max_length=model.manifest.max_tokens)
        self._tokenizer.no_padding()
        self._session = _session(model)
        self._inputs = [entry.name for entry in self._session.get_inputs()]

    def tokenise_question(self, text: str) -> list[Encoding]:
        return [self._tokenizer.encode(self._manifest.question_prefix + clean(text))]

    def tokenise_messages(self, texts: Sequence[str]) -> list[Encoding]:
        prefix = self._manifest.message_prefix
        return self._tokenizer.encode_batch_fast([prefix + clean(text) for text in texts])

    def infer(self, rows: Sequence[Encoding]) -> NDArray[np.float32]:
        """One run of the model; rows are padded to the longest."""
        longest = max(len(row) for row in rows)
        ids = np.full((len(rows), longest), self._manifest.pad_id, dtype=np.int64)
        mask = np.zeros_like(ids)
        for index, row in enumerate(rows):
            ids[index, : len(row)] = row.ids
            mask[index, : len(row)] = 1
        tensors = {"input_ids": ids, "attention_mask": mask, "token_type_ids": np.zeros_like(ids)}
        (vectors,) = self._session.run(None, {name: tensors[name] for name in self._inputs})
        return np.asarray(vectors, dtype=np.float32)


def clean(text: str) -> str:
    """Half of a surrogate pair is not a character and cannot be tokenised; it becomes a question mark."""
    return text.encode("utf-8", "replace").decode("utf-8")


def _session(model: Model) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    # Threads within a run would wait for each other at every operation; if they spin, they take the core Redis needs.
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 1
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(str(model.onnx), options, providers=["CPUExecutionProvider"])
