"""An embedder without a model, for tests and for scripts that need no meaning. It returns vectors at once."""

from __future__ import annotations

import asyncio
import re
import zlib
from collections.abc import AsyncGenerator, Sequence
from functools import cache

import numpy as np
from numpy.typing import NDArray

from channelmem.embedding.embed import Group


@cache
def _direction(word: str, dims: int) -> NDArray[np.float64]:
    return np.random.default_rng(zlib.crc32(word.encode())).normal(size=dims)


class FakeEmbedder:
    """Gives each word a direction of its own: the same words are near, others are not. Can be held to embed late."""

    dims = 32
    identity = "fake-hash-32"

    def __init__(self) -> None:
        self.embedded = 0
        self.gate = asyncio.Event()
        self.gate.set()

    async def embed_question(self, text: str) -> NDArray[np.float32]:
        return self.vector(text)

    def begin_question(self, text: str) -> asyncio.Future[NDArray[np.float32]]:
        return asyncio.ensure_future(self.embed_question(text))

    async def embed_messages(self, texts: Sequence[str]) -> NDArray[np.float32]:
        await self.gate.wait()
        self.embedded += len(texts)
        return np.stack([self.vector(text) for text in texts])

    async def embed_as_ready(self, texts: Sequence[str]) -> AsyncGenerator[Group]:
        """In groups of 32, in the order of the texts."""
        for at in range(0, len(texts), 32):
            some = texts[at : at + 32]
            yield list(range(at, at + len(some))), await self.embed_messages(some)

    def vector(self, text: str) -> NDArray[np.float32]:
        words = re.findall(r"\w+", text.lower()) or [text]
        vector = np.sum([_direction(word, self.dims) for word in words], axis=0)
        unit: NDArray[np.float32] = (vector / np.linalg.norm(vector)).astype(np.float32)
        return unit

    def close(self) -> None:
        pass
