"""Embeds one text alone, after a batch with it failed. In: an embedder, a message's name and text. Out: its vector, or
None if the model fails on this text.
"""

from __future__ import annotations

import logging

import numpy as np
from numpy.typing import NDArray

from channelmem.embedding.embed import FAILURES, Embedder

log = logging.getLogger(__name__)

PLAIN_TEXT = "good morning"
"""A model that fails on this as well is broken, and no text is to blame."""


async def embed_alone(embedder: Embedder, name: str, text: str) -> NDArray[np.float32] | None:
    """Raises the model's own error if it fails on every text."""
    try:
        (vector,) = await embedder.embed_messages([text])
    except FAILURES as error:
        await embedder.embed_messages([PLAIN_TEXT])
        cause = type(error.__cause__ or error).__name__  # its own text may quote the message
        log.error("The model fails on message %s (%s); it stays searchable by text and time only", name, cause)  # noqa: TRY400
        return None
    return vector  # type: ignore[no-any-return]
