"""Peers that keep their data in a folder instead of Redis. bench_peers takes those that are installed (extra `peers`).

- `Mem0`: mem0's `Memory` with `infer=False`, which keeps messages as they are without a language model, in its default
  store, a local Qdrant; each channel is a run;
- `Chroma`: one collection of chromadb's `PersistentClient`; the channel is a field to filter by.

Both embed with sentence-transformers, from the same weights as the other peers, and work offline. mem0's search by
words and entities is off: it needs fastembed and spaCy, which fetch models. chromadb's own embedding function fetches
its model too, and pads every text to 256 tokens.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Sequence
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Final

from channelmem.types import Message
from scripts.peers import DIMS, NEAR_ENOUGH, Model, Peer

MEM0: Final = "mem0"
CHROMA: Final = "chromadb"
INSTALL: Final = "pip install -e '.[peers]'"


class Mem0:
    """mem0 without a language model."""

    def __init__(self, folder: str, name: str, model: Model) -> None:
        # mem0 reads these when it is imported. Otherwise it reports to its makers and writes to the home directory.
        os.environ |= {"MEM0_TELEMETRY": "false", "MEM0_DIR": folder}
        logging.getLogger("mem0").setLevel(logging.ERROR)  # it warns about each optional package
        self._memory: Any = import_module("mem0").Memory.from_config(_config(folder, name, model.path))
        self._real, self._given = self._memory.embedding_model, _LookedUp(model)

    def add(self, messages: Sequence[Message]) -> None:
        for message in messages:
            said = {"role": "user", "name": message.author, "content": message.content}
            self._memory.add([said], run_id=str(message.channel_id), infer=False)

    def add_given(self, messages: Sequence[Message]) -> None:
        self._memory.embedding_model = self._given
        self.add(messages)
        self._memory.embedding_model = self._real

    def ask(self, channel_id: int, text: str) -> int:
        where = {"run_id": str(channel_id)}
        found = self._memory.search(text, top_k=10, filters=where, threshold=1 - NEAR_ENOUGH)
        return len(found["results"])

    def drop(self) -> None:
        self._memory.vector_store.client.close()
        self._memory.close()


def _config(folder: str, name: str, weights: str) -> dict[str, Any]:
    store = {"collection_name": name, "path": f"{folder}/qdrant", "embedding_model_dims": DIMS}
    return {
        "embedder": {"provider": "huggingface", "config": {"model": weights, "embedding_dims": DIMS}},
        "vector_store": {"provider": "qdrant", "config": store},
        # mem0 does not start without one; it is never called.
        "llm": {"provider": "openai", "config": {"api_key": "unused"}},
        "history_db_path": f"{folder}/history.db",
    }


class _LookedUp:
    """Stands in for mem0's embedder while precomputed vectors are written."""

    def __init__(self, model: Model) -> None:
        self._model = model

    def embed(self, text: str, _action: str) -> list[float]:
        vector: list[float] = self._model.embed(text).tolist()
        return vector


class Chroma:
    """chromadb, used as its documentation shows."""

    def __init__(self, folder: str, name: str, model: Model) -> None:
        chromadb, functions = import_module("chromadb"), import_module("chromadb.utils.embedding_functions")
        self._client = chromadb.PersistentClient(folder, chromadb.Settings(anonymized_telemetry=False))
        embed = functions.SentenceTransformerEmbeddingFunction(model_name=model.path)
        cosine = {"hnsw": {"space": "cosine"}}
        self._said = self._client.create_collection(name, embedding_function=embed, configuration=cosine)
        self._model = model

    def add(self, messages: Sequence[Message]) -> None:
        self._said.add(**_columns(messages))

    def add_given(self, messages: Sequence[Message]) -> None:
        vectors = [self._model.embed(message.content) for message in messages]
        self._said.add(**_columns(messages), embeddings=vectors)

    def ask(self, channel_id: int, text: str) -> int:
        found = self._said.query(query_texts=[text], n_results=10, where={"channel_id": str(channel_id)})
        return sum(distance <= NEAR_ENOUGH for distance in found["distances"][0])

    def drop(self) -> None:
        self._client.delete_collection(self._said.name)


def _columns(messages: Sequence[Message]) -> dict[str, list[Any]]:
    return {
        "ids": [str(message.id) for message in messages],
        "documents": [message.content for message in messages],
        "metadatas": [
            {"channel_id": str(message.channel_id), "author": message.author, "ts": message.ts} for message in messages
        ],
    }


KINDS: Final[dict[str, Callable[[str, str, Model], Peer]]] = {MEM0: Mem0, CHROMA: Chroma}
"""By name, which is also the name to import."""


def missing() -> list[str]:
    return [name for name in KINDS if find_spec(name) is None]


def left_out(names: Sequence[str]) -> str:
    return f"Not installed and left out: {', '.join(names)}. To include them: {INSTALL}"
