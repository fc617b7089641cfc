"""The embedder: texts enter, unit vectors leave, and only here inference leaves the event loop. Questions have their
own lanes; messages run in small batches of similar length, one per lane at a time, and wait (for a bounded time) while
a question runs. One run uses one core: several side by side get up to a third more done (docs/model.md)."""

from __future__ import annotations

import asyncio
import logging
import os
import platform
import sys
import threading
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import aclosing, suppress
from pathlib import Path
from typing import Any, Protocol, TypeVar

import numpy as np
import onnxruntime
from numpy.typing import NDArray
from tokenizers import Encoding, Tokenizer

from channelmem.embedding.model import Model, Precision, Progress, as_directory, find_source, prepare
from channelmem.errors import ModelError
from channelmem.extras import load
from channelmem.settings import Settings

Vectors = NDArray[np.float32]
Group = tuple[list[int], Vectors]  # the positions of some of the texts, and a vector for each
A = TypeVar("A")
R = TypeVar("R")

log = logging.getLogger(__name__)

FAILURES = (ModelError, RuntimeError, ValueError)
"""What an embedder raises if its model fails on a text: ours raises the first, others also their libraries' errors."""

# One run of the model has at most this many tokens, including padding. Measured on two busy cores, larger runs are no
# faster per message, and a question shares its core with at most one run.
BATCH_TOKENS = 128
BATCH_ROWS = 16
# How many runs a lane does before it returns: every return wakes the event loop, which takes a core from the model.
RUNS = 2
# How much the nice value of the threads that embed messages exceeds that of the rest of the process.
NICE = 10
# The longest that messages wait for questions, so that they make progress even if questions never stop.
YIELD_S = 0.05
# Leave any further cores to other programs, unless the settings ask for more.
MOST_LANES = 4


class Embedder(Protocol):
    dims: int
    identity: str

    def begin_question(self, text: str) -> asyncio.Future[Vectors]: ...

    async def embed_messages(self, texts: Sequence[str]) -> Vectors: ...

    def embed_as_ready(self, texts: Sequence[str]) -> AsyncGenerator[Group]: ...

    def close(self) -> None: ...


class Encoder(Protocol):
    """What a back end offers; rows can be of any type that has a length to sort by."""

    dims: int
    identity: str

    def tokenise_question(self, text: str) -> list[Any]: ...

    def tokenise_messages(self, texts: Sequence[str]) -> list[Any]: ...

    def infer(self, rows: Sequence[Any]) -> Vectors: ...


class LaneEmbedder:
    """An encoder behind lanes for questions and lanes for messages; works from any event loop."""

    def __init__(self, encoder: Encoder, lanes: int = 1, *, asking: Encoder | None = None) -> None:
        """`asking` embeds questions: the same model, in a precision that is faster for one short text."""
        self.dims = encoder.dims
        self.identity = encoder.identity
        self._encoder = encoder
        self._questions = asking or encoder
        self._lanes = lanes
        self._question_lanes = ThreadPoolExecutor(lanes, thread_name_prefix="embed-question")
        self._message_lanes = ThreadPoolExecutor(lanes, "embed-messages", initializer=_give_way)
        self._asking = 0
        self._quiet = threading.Condition()

    def begin_question(self, text: str) -> asyncio.Future[Vectors]:
        """One unit vector of `dims` numbers. It starts now, and stops early if the future is cancelled."""
        with self._quiet:
            self._asking += 1
        try:
            job = self._question_lanes.submit(self._answer, text)
        except RuntimeError:
            self._answered(None)
            raise
        # A callback, because it also runs if the job is cancelled before it starts.
        job.add_done_callback(self._answered)
        return asyncio.wrap_future(job)

    async def embed_messages(self, texts: Sequence[str]) -> Vectors:
        """One unit vector per text, in the order of the texts."""
        vectors = np.empty((len(texts), self.dims), dtype=np.float32)
        async with aclosing(self.embed_as_ready(texts)) as groups:
            async for places, some in groups:
                vectors[places] = some
        return vectors

    async def embed_as_ready(self, texts: Sequence[str]) -> AsyncGenerator[Group]:
        """The same in groups, as the model finishes them: texts of similar length, shortest first."""
        if not texts:
            return
        rows = await self._tokenised(texts)
        running: dict[asyncio.Future[Vectors], list[int]] = {}
        try:
            runs = list(batches([len(row) for row in rows]))
            for some in (runs[at : at + RUNS] for at in range(0, len(runs), RUNS)):
                # No more than there are lanes: concurrent requests take turns, so a small one does not queue behind
                # a large one.
                if len(running) == self._lanes:
                    for job in await _first_of(running):
                        yield running.pop(job), _result(job)
                job = self._on_message_lane(self._infer_when_quiet, [[rows[place] for place in run] for run in some])
                running[job] = [place for run in some for place in run]
            while running:
                for job in await _first_of(running):
                    yield running.pop(job), _result(job)
        finally:
            for job in running:
                job.cancel()

    def close(self) -> None:
        for lane in (self._question_lanes, self._message_lanes):
            lane.shutdown(wait=True, cancel_futures=True)

    def _answer(self, text: str) -> Vectors:
        vector: Vectors = self._questions.infer(self._questions.tokenise_question(text))[0]
        return vector

    def _answered(self, job: Future[Vectors] | None) -> None:
        del job
        with self._quiet:
            self._asking -= 1
            self._quiet.notify_all()

    def _infer_when_quiet(self, runs: Sequence[Sequence[Any]]) -> Vectors:
        vectors: list[Vectors] = []
        for rows in runs:
            with self._quiet:
                self._quiet.wait_for(lambda: self._asking == 0, timeout=YIELD_S)
            vectors.append(self._encoder.infer(rows))
        return np.concatenate(vectors)

    async def _tokenised(self, texts: Sequence[str]) -> list[Any]:
        job = self._on_message_lane(self._encoder.tokenise_messages, texts)
        try:
            await asyncio.wait([job])
        finally:
            job.cancel()  # in case nobody waits for it any more
        return _result(job)

    def _on_message_lane(self, work: Callable[[A], R], argument: A) -> asyncio.Future[R]:
        return asyncio.wrap_future(self._message_lanes.submit(work, argument))


def _result(job: asyncio.Future[R]) -> R:
    """The result of a finished job. Errors of ONNX Runtime and tokenizers share no base class; here they get one."""
    error = job.exception()
    if isinstance(error, Exception) and not isinstance(error, ModelError):
        raise ModelError(f"The embedding model failed: {error}") from error
    return job.result()


async def _first_of(running: Iterable[asyncio.Future[Vectors]]) -> set[asyncio.Future[Vectors]]:
    done, _ = await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
    return done


def _give_way() -> None:
    """Messages are embedded in the background: the event loop, Redis and questions go first if cores are scarce."""
    if sys.platform == "linux":  # where each thread can have its own priority
        thread = threading.get_native_id()
        with suppress(OSError):  # a sandbox may forbid it; an error here would end the lane
            os.setpriority(os.PRIO_PROCESS, thread, os.getpriority(os.PRIO_PROCESS, thread) + NICE)


def batches(lengths: Sequence[int]) -> Iterator[list[int]]:
    """The positions of the rows, shortest first, in groups of bounded size: rows of equal length need no padding."""
    group: list[int] = []
    for place in sorted(range(len(lengths)), key=lengths.__getitem__):
        # The newest row is the longest so far, and all are padded to it.
        if group and (len(group) == BATCH_ROWS or (len(group) + 1) * lengths[place] > BATCH_TOKENS):
            yield group
            group = []
        group.append(place)
    if group:
        yield group


def open_embedder(settings: Settings, progress: Progress | None = None) -> Embedder:
    """The configured embedder. Loads the model, and exports it on first use, so call it outside the event loop."""
    if settings.embedding_backend == "torch":
        return _open_torch(settings)
    return _open_onnx(prepare(settings, progress), settings, progress)


def _open_onnx(model: Model, settings: Settings, progress: Progress | None) -> LaneEmbedder:
    lanes = settings.embedding_threads or min(cores(), MOST_LANES)
    faster = _for_questions(settings, progress)
    if faster is None:
        return LaneEmbedder(OnnxEncoder(model), lanes)
    with ThreadPoolExecutor(1) as beside:  # most of loading is ONNX Runtime's work, on another core
        loading = beside.submit(OnnxEncoder, faster)
        return LaneEmbedder(OnnxEncoder(model), lanes, asking=loading.result())


def _for_questions(settings: Settings, progress: Progress | None) -> Model | None:
    """The model in the precision for questions, if that is another one than for messages."""
    precision = question_precision(settings)
    if precision == settings.embedding_precision:
        return None
    try:
        return prepare(settings.model_copy(update={"embedding_precision": precision}), progress)
    except ModelError as error:
        if settings.embedding_question_precision != "auto":
            raise
        log.info("Questions are embedded in %s: %s", settings.embedding_precision, error)
        return None


def question_precision(settings: Settings) -> Precision:
    """Two precisions of one model agree closely, so questions may take the faster one. By default they do where the
    processor has instructions for it, with the model that this was measured for (docs/model.md)."""
    if settings.embedding_question_precision != "auto":
        return settings.embedding_question_precision
    measured = settings.embedding_model == Settings.model_fields["embedding_model"].default
    return "int8" if measured and multiplies_int8() else settings.embedding_precision


def multiplies_int8() -> bool:
    """Whether the processor multiplies and adds 8-bit numbers in one instruction (VNNI, or dot products on ARM)."""
    if platform.machine() == "arm64":  # Apple's
        return True
    try:
        with Path("/proc/cpuinfo").open(encoding="ascii", errors="replace") as about:
            words = set(about.read(20_000).split())  # the first processor's flags are among them
    except OSError:
        return False
    return not words.isdisjoint({"avx512_vnni", "avx_vnni", "asimddp"})


def _open_torch(settings: Settings) -> LaneEmbedder:
    if settings.embedding_precision != "fp32":
        raise ModelError("int8 needs the onnx back end; unset CHANNELMEM_EMBEDDING_BACKEND or _PRECISION.")
    source = find_source(settings)
    # Imported here because it loads torch (10 s), which the default back end must never do.
    encoders = load("channelmem.embedding.export", "torch", "CHANNELMEM_EMBEDDING_BACKEND=torch", ModelError)
    folder = as_directory(source, settings.cache_dir)
    # torch spreads each run over its threads itself.
    return LaneEmbedder(encoders.TorchEncoder(folder, settings.embedding_threads))


def cores() -> int:
    """How many cores this process may use; in a container, fewer than the machine has."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


# --- the runtime encoder ---


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
