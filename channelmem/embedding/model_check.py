"""What an export is compared with before it is trusted: varied sentences enter, the lowest agreement leaves.

The packaged model is compared with vectors that sentence-transformers gave for these sentences when they were stored
(`python -m scripts.reference_vectors`), so no torch is needed; other models are compared with sentence-transformers.
"""

from __future__ import annotations

import hashlib
from importlib import resources
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from channelmem.embedding.model import Model
from channelmem.embedding.onnx_encoder import OnnxEncoder

TOLERANCE = 1e-4
STORED = "reference.npz"
_MAKERS = ("torch", "sentence-transformers", "onnx", "onnxruntime", "tokenizers")

SENTENCES = (
    "ok",
    "",
    "what did I just say about turtles?",
    "The deploy failed again: see https://example.org/build/42 @here \U0001f600",
    "\u05e9\u05dc\u05d5\u05dd \u05dc\u05db\u05d5\u05dc\u05dd, \u05de\u05d4 \u05e9\u05dc\u05d5\u05de\u05db\u05dd?",
    "\u65e5\u672c\u8a9e\u306e\u30e1\u30c3\u30bb\u30fc\u30b8\u3002 \u00dcbergr\u00f6\u00dfentr\u00e4ger",
    "a longer message that goes on about nothing in particular " * 40,
)


def encode(model: Model) -> NDArray[np.float32]:
    """The sentences in one padded batch, so that padding is verified too."""
    encoder = OnnxEncoder(model)
    return encoder.infer(encoder.tokenise_messages(SENTENCES))


def agreement(ours: NDArray[np.float32], theirs: NDArray[np.float32]) -> float:
    """The lowest cosine between two sets of unit vectors."""
    return float((ours * theirs).sum(axis=1).min())


def stored_vectors() -> NDArray[np.float32]:
    """The packaged model's vectors for the sentences, computed by sentence-transformers."""
    with resources.files(__package__).joinpath(STORED).open("rb") as file, np.load(file, allow_pickle=False) as stored:
        vectors: NDArray[np.float32] = stored["vectors"]
        return vectors


def versions() -> dict[str, str]:
    """The versions of the packages that take part in an export, if installed."""
    return {name: found for name in _MAKERS if (found := _version(name)) is not None}


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def sha256(file: Path) -> str:
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
