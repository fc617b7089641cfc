"""Alone: one text through the model after a batch with it failed, so that the others do not suffer for it.

In: an embedder, a message's name and text. Out: its vector, or None where the model fails on this very text.
"""

from __future__ import annotations

import logging

import numpy as np
from numpy.typing import NDArray

from channelmem.embedding.embed import FAILURES, Embedder

log = logging.getLogger(__name__)

PLAIN_TEXT = "good morning"
"""A model that fails on this too is broken; then no text is given up for it."""


async def embed_alone(embedder: Embedder, name: str, text: str) -> NDArray[np.float32] | None:
    """Raises the model's own error where it fails on every text."""
    try:
        (vector,) = await embedder.embed_messages([text])
    except FAILURES as error:
        await embedder.embed_messages([PLAIN_TEXT])
        cause = type(error.__cause__ or error).__name__  # its own words may be those of the message
        log.error("The model fails on message %s (%s); it is found without meaning", name, cause)  # noqa: TRY400
        return None
    return vector  # type: ignore[no-any-return]
