"""The peers that bench_peers compares with channelmem on the same Redis and with the same model, and their processes.

- `Redisvl`: redisvl's `SemanticMessageHistory`, one session per channel, sentence-transformers on torch;
- `Literal`: the original design: one RedisJSON document per message with its vector as an array of numbers (FLOAT32 in
  an HNSW index), a 30-minute TTL, pruning of the channel's oldest messages, sentence-transformers on torch.

Each runs in its own process (`Guest`), so that torch's threads, which spin while they wait, do not disturb the others'
turns. torch gets the number of threads that is faster at the moment: on a busy machine two threads can be ten times
slower than one.

All accept precomputed vectors (`given`) when only memory use matters; rates and latencies always include their own
embedding. Their models embed on the calling thread, as their authors intended. `peers_on_disk` has those without Redis.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from typing import Any, Protocol, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from redis import Redis
from redis.commands.search.field import Field, NumericField, TagField, TextField, VectorField
from redis.commands.search.index_definition import IndexDefinition, IndexType
from redis.commands.search.query import Query
from redisvl.extensions.message_history import SemanticMessageHistory  # type: ignore[import-untyped]
from redisvl.utils.vectorize import CustomVectorizer, HFTextVectorizer  # type: ignore[import-untyped]

from channelmem.types import Message, Question
from scripts.measure import Taken

DIMS = 384
LIFE_S = 30 * 60
KEPT = 50
NEAR_ENOUGH = 0.7
"""redisvl's distance threshold, a cosine of 0.3. Its default distance of 0.3 finds almost nothing in a chat."""

FILLED = 1000
"""Messages per call while a peer is filled; chromadb takes at most some 5,000."""

Vector = NDArray[np.float32]
T = TypeVar("T")


class Model:
    """sentence-transformers, or precomputed vectors if given."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.vectorizer = HFTextVectorizer(model=path)
        self.given: Mapping[str, Vector] = {}
        self.ms_by_threads = {threads: self._median_ms(threads) for threads in (torch.get_num_threads(), 1)}
        """Milliseconds for one question on torch; the first entry is torch's default."""
        torch.set_num_threads(min(self.ms_by_threads, key=self.ms_by_threads.__getitem__))

    def _median_ms(self, threads: int) -> float:
        torch.set_num_threads(threads)
        took = []
        for number in range(8):
            started = time.perf_counter()
            self.embed(f"has anybody seen number {number}?")
            took.append(time.perf_counter() - started)
        return statistics.median(took) * 1000

    def embed(self, text: str) -> Vector:
        if text in self.given:
            return self.given[text]
        return np.asarray(self.vectorizer.embed(text), dtype=np.float32)


class Peer(Protocol):
    """A store with an embedding model of its own, opened with where it keeps its data, a name and a `Model`."""

    def add(self, messages: Sequence[Message]) -> None: ...

    def add_given(self, messages: Sequence[Message]) -> None:
        """The same with the model's precomputed vectors."""

    def ask(self, channel_id: int, text: str) -> int:
        """How many messages of the channel are near enough."""

    def drop(self) -> None: ...


class Redisvl:
    """redisvl, used as its documentation shows."""

    def __init__(self, url: str, name: str, model: Model) -> None:
        self._real = SemanticMessageHistory(name, vectorizer=model.vectorizer, redis_url=url)
        looked_up = CustomVectorizer(embed=lambda text: model.embed(text).tolist())
        # The same index; this instance only writes precomputed vectors.
        self._given = SemanticMessageHistory(name, vectorizer=looked_up, redis_url=url)

    def add(self, messages: Sequence[Message]) -> None:
        for message in messages:
            self._real.add_message(_row(message), session_tag=str(message.channel_id))

    def add_given(self, messages: Sequence[Message]) -> None:
        for message in messages:
            self._given.add_message(_row(message), session_tag=str(message.channel_id))

    def ask(self, channel_id: int, text: str) -> int:
        found = self._real.get_relevant(
            text, top_k=10, session_tag=str(channel_id), distance_threshold=NEAR_ENOUGH, raw=True
        )
        return len(found)

    def drop(self) -> None:
        self._real.delete()


def _row(message: Message) -> dict[str, str]:
    return {"role": "user", "content": message.content, "metadata": message.author}


class Literal:
    """JSON documents, as in the original design."""

    def __init__(self, url: str, name: str, model: Model) -> None:
        self._redis = Redis.from_url(url)
        self._name, self._model = name, model
        vector = {"TYPE": "FLOAT32", "DIM": DIMS, "DISTANCE_METRIC": "COSINE"}
        fields: list[Field] = [
            TagField("$.channel_id", as_name="channel_id"),
            TagField("$.author", as_name="author"),
            TextField("$.content", as_name="content"),
            NumericField("$.timestamp", as_name="timestamp"),
            VectorField("$.embedding", "HNSW", vector, as_name="embedding"),
        ]
        definition = IndexDefinition(prefix=[f"{name}:"], index_type=IndexType.JSON)  # type: ignore[no-untyped-call]
        self._redis.ft(name).create_index(fields, definition=definition)

    def add(self, messages: Sequence[Message]) -> None:
        for message in messages:
            self._add_one(message)

    def _add_one(self, message: Message) -> None:
        key = f"{self._name}:{message.channel_id}:{message.id}"
        order = f"{self._name}-order:{message.channel_id}"
        self._redis.json().set(key, "$", self._document(message))
        self._redis.expire(key, LIFE_S)
        self._redis.zadd(order, {key: message.ts})
        if old := self._redis.zrange(order, 0, -KEPT - 1):
            self._redis.delete(*old)
            self._redis.zrem(order, *old)

    def add_given(self, messages: Sequence[Message]) -> None:
        self.add(messages)

    def _document(self, message: Message) -> dict[str, Any]:
        return {
            "channel_id": str(message.channel_id),
            "author": message.author,
            "content": message.content[:500],
            "timestamp": message.ts,
            "embedding": self._model.embed(message.content[:500]).tolist(),
        }

    def ask(self, channel_id: int, text: str) -> int:
        query = (
            Query(f"@channel_id:{{{channel_id}}}=>[KNN 10 @embedding $vec AS distance]")
            .sort_by("distance")
            .return_fields("author", "content", "timestamp", "distance")
            .dialect(2)
        )
        vector = self._model.embed(text).tobytes()
        found: Any = self._redis.ft(self._name).search(query, {"vec": vector})
        return len(found.docs)

    def drop(self) -> None:
        self._redis.ft(self._name).dropindex(delete_documents=True)
        if orders := list(self._redis.scan_iter(f"{self._name}-order:*")):
            self._redis.delete(*orders)


class Guest:
    """A peer in its own process, which also does the timing."""

    def __init__(self, kind: Callable[[str, str, Model], Peer], where: str, name: str, model: str) -> None:
        """`where` is the URL of a Redis, or a folder."""
        spawn = multiprocessing.get_context("spawn")  # a fork would copy our model's state without its threads
        self._process = ProcessPoolExecutor(1, spawn, initializer=_move_in, initargs=(kind, where, name, model))

    async def threads(self) -> dict[int, float]:
        """Milliseconds for one question, by torch's number of threads."""
        return await self._there(_threads)

    async def fill(self, messages: Sequence[Message], vectors: Mapping[str, Vector]) -> None:
        await self._there(_fill, messages, vectors)

    async def ask(self, questions: Sequence[Question]) -> tuple[Taken, int]:
        """How long each question took, and how many found something."""
        return await self._there(_ask, questions)

    async def add(self, messages: Sequence[Message], at_once: int = 1) -> float:
        """Seconds until all of them are searchable, with this many per call."""
        return await self._there(_add, messages, at_once)

    async def leave(self) -> None:
        await self._there(_drop)
        self._process.shutdown()

    async def _there(self, call: Callable[..., T], *values: Any) -> T:
        return await asyncio.wrap_future(self._process.submit(call, *values))


class _Home:
    """State of a guest's process."""

    model: Model
    peer: Peer


def _move_in(kind: Callable[[str, str, Model], Peer], where: str, name: str, model: str) -> None:
    _Home.model = Model(model)
    _Home.peer = kind(where, name, _Home.model)


def _threads() -> dict[int, float]:
    return _Home.model.ms_by_threads


def _fill(messages: Sequence[Message], vectors: Mapping[str, Vector]) -> None:
    _Home.model.given = vectors
    for start in range(0, len(messages), FILLED):
        _Home.peer.add_given(messages[start : start + FILLED])
    _Home.model.given = {}


def _ask(questions: Sequence[Question]) -> tuple[Taken, int]:
    taken, found = Taken(), 0
    for question in questions:
        started, started_cpu = time.perf_counter(), time.process_time()
        found += bool(_Home.peer.ask(question.channel_id, question.text))
        taken.ms.append((time.perf_counter() - started) * 1000)
        taken.cpu_ms.append((time.process_time() - started_cpu) * 1000)
    return taken, found


def _add(messages: Sequence[Message], at_once: int) -> float:
    started = time.perf_counter()
    for start in range(0, len(messages), at_once):
        _Home.peer.add(messages[start : start + at_once])
    return time.perf_counter() - started


def _drop() -> None:
    _Home.peer.drop()
