"""Vectors equal to the reference's, in the order of the texts, and questions that never wait for messages."""

import asyncio
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from filelock import FileLock

from channelmem.embedding import embed
from channelmem.embedding.embed import (
    BATCH_ROWS,
    BATCH_TOKENS,
    NICE,
    RUNS,
    Embedder,
    LaneEmbedder,
    Vectors,
    batches,
    open_embedder,
    question_precision,
)
from channelmem.embedding.model import Model, Progress, prepare
from channelmem.embedding.write import stored_vectors
from channelmem.errors import ModelError
from channelmem.settings import Settings

TEXTS = (
    "It's turtles all the way down.",
    "what did I just say about turtles?",
    "",
    "   ",
    "ok \U0001f602\U0001f602 \U0001f468\u200d\U0001f469\u200d\U0001f467",
    "\u05e9\u05dc\u05d5\u05dd \u05dc\u05db\u05d5\u05dc\u05dd, \u0645\u0631\u062d\u0628\u0627",
    "z\u200be\u200br\u200bo width, \u65e5\u672c\u8a9e, na\u00efve caf\u00e9",
    "@{}[]()|-~*\"'\\ $%^&",
    "turtle " * 285,
    "x" * 2000,
)

# One process loads torch for all tests that need it, and both ways of using it.
REFERENCE = """
import asyncio, json, sys
import numpy as np
from sentence_transformers import SentenceTransformer
from channelmem.embedding.embed import open_embedder
from channelmem.embedding.model import as_directory, find_source
from channelmem.embedding.write import SENTENCES
from channelmem.settings import Settings
texts = json.loads(sys.stdin.read())
settings = Settings(_env_file=None, embedding_backend="torch")
folder = as_directory(find_source(settings), settings.cache_dir).path
original = SentenceTransformer(str(folder), device="cpu")
theirs = original.encode(texts, normalize_embeddings=True)
stored = original.encode(list(SENTENCES), normalize_embeddings=True)
embedder = open_embedder(settings)
messages = asyncio.run(embedder.embed_messages(texts))
async def ask():
    return await embedder.begin_question(texts[1])
question = asyncio.run(ask())
embedder.close()
np.savez(sys.argv[1], theirs=theirs, stored=stored, messages=messages, question=question, identity=embedder.identity)
"""

# Small models of other shapes with random weights: what sentence-transformers itself makes of them is the reference.
SHAPES = """
import asyncio, json, sys
from pathlib import Path
import numpy as np
from sentence_transformers import SentenceTransformer
from sentence_transformers.models import Dense, Pooling, Transformer
from transformers import AutoTokenizer, BertConfig, BertModel, DistilBertConfig, DistilBertModel
from channelmem.embedding.embed import open_embedder
from channelmem.errors import ModelError
from channelmem.embedding.weights import unpacked
from channelmem.settings import Settings
texts, folder = json.loads(sys.stdin.read()), Path(sys.argv[1])
tokenizer = AutoTokenizer.from_pretrained(unpacked(Settings(_env_file=None).cache_dir))
small = {"vocab_size": 30522, "num_hidden_layers": 2, "max_position_embeddings": 64}
bert = BertModel(BertConfig(hidden_size=32, num_attention_heads=2, intermediate_size=64, **small))
distil = DistilBertModel(DistilBertConfig(dim=32, n_heads=2, hidden_dim=64, n_layers=2, vocab_size=30522))
worst = {}
for name, inner, pooling, more in (
    ("bert-cls", bert, "cls", []),
    ("distil-mean", distil, "mean", []),
    ("bert-dense", bert, "mean", [Dense(32, 16)]),
):
    inner.eval().save_pretrained(folder / f"{name}-inner")
    tokenizer.save_pretrained(folder / f"{name}-inner")
    shell = Transformer(str(folder / f"{name}-inner"), max_seq_length=48)
    made = SentenceTransformer(
        modules=[shell, Pooling(32, pooling_mode=pooling), *more],
        prompts={"query": "query: ", "document": "passage: "}, device="cpu",
    )
    made.save(str(folder / name))
    settings = Settings(_env_file=None, embedding_model=str(folder / name), cache_dir=folder / "cache")
    try:
        embedder = open_embedder(settings)
    except ModelError as error:
        worst[name] = str(error)
        continue
    messages = asyncio.run(embedder.embed_messages(texts)) - made.encode_document(texts, normalize_embeddings=True)
    async def ask():
        return await embedder.begin_question(texts[1])
    question = asyncio.run(ask()) - made.encode_query(texts[1], normalize_embeddings=True)
    embedder.close()
    worst[name] = float(max(np.abs(messages).max(), np.abs(question).max()))
(folder / "worst.json").write_text(json.dumps(worst))
"""

HOT_START = """
import asyncio, json, sys
from channelmem.embedding.embed import open_embedder
from channelmem.settings import Settings
embedder = open_embedder(Settings(_env_file=None))
async def ask():
    return await embedder.begin_question("what did I just say?")
asyncio.run(ask())
asyncio.run(embedder.embed_messages(["one", "two"]))
embedder.close()
print(json.dumps(sorted(name for name in sys.modules if "." not in name)))
"""


@pytest.fixture(scope="session")
def reference(tmp_path_factory: pytest.TempPathFactory) -> dict[str, np.ndarray]:
    shared = tmp_path_factory.getbasetemp()
    if os.environ.get("PYTEST_XDIST_WORKER"):
        shared = shared.parent  # one directory for all workers of this run
    file = shared / "reference.npz"
    with FileLock(f"{file}.lock"):
        if not file.exists():
            subprocess.run([sys.executable, "-c", REFERENCE, str(file)], input=json.dumps(TEXTS), text=True, check=True)
    with np.load(file) as loaded:
        return dict(loaded)


@pytest.fixture(scope="module")
def onnx() -> Iterator[Embedder]:
    """In one precision, so that vectors can be compared exactly."""
    embedder = open_embedder(Settings(_env_file=None, embedding_question_precision="fp32"))
    yield embedder
    embedder.close()


class Recorder:
    """An encoder whose vectors are the text's number, and whose runs can be held up."""

    dims = 1
    identity = "recorder"

    def __init__(self) -> None:
        self.events: list[str] = []
        self.runs = threading.Semaphore(0)
        """Each run of messages takes one; a test gives them."""
        self.started = threading.Semaphore(0)
        self.answers = threading.Event()
        self.answers.set()
        self.threads: dict[str, int] = {}

    def tokenise_question(self, text: str) -> list[str]:
        return [f"?{text}"]

    def tokenise_messages(self, texts: Sequence[str]) -> list[str]:
        return list(texts)

    def infer(self, rows: Sequence[str]) -> Vectors:
        question = rows[0].startswith("?")
        self.events.append("question begins" if question else "batch begins")
        self.threads["question" if question else "batch"] = threading.get_native_id()
        self.started.release()
        held = self.answers.wait(30) if question else self.runs.acquire(timeout=30)
        assert held, "the test never let this run go on"
        self.events.append("question ends" if question else "batch ends")
        return np.array([[float(row.strip("? .") or -1)] for row in rows], dtype=np.float32)


@pytest.fixture
def recorder() -> Recorder:
    return Recorder()


@pytest.fixture
def lanes(recorder: Recorder) -> Iterator[LaneEmbedder]:
    embedder = LaneEmbedder(recorder)
    yield embedder
    recorder.answers.set()
    recorder.runs.release(1000)
    embedder.close()


async def begun(recorder: Recorder) -> None:
    """Returns when one more run has begun."""
    assert await asyncio.to_thread(recorder.started.acquire, timeout=30)


@pytest.mark.process
@pytest.mark.timeout(300)
async def test_fp32_gives_the_vectors_of_sentence_transformers(
    onnx: Embedder, reference: dict[str, np.ndarray]
) -> None:
    ours = await onnx.embed_messages(TEXTS)
    assert ours.dtype == np.float32
    assert np.abs(ours - reference["theirs"]).max() < 1e-4


@pytest.mark.process
@pytest.mark.timeout(300)
def test_the_stored_vectors_are_those_of_sentence_transformers(reference: dict[str, np.ndarray]) -> None:
    assert np.abs(stored_vectors() - reference["stored"]).max() < 1e-5


@pytest.mark.process
@pytest.mark.timeout(300)
async def test_the_torch_back_end_gives_the_same_vectors_under_the_same_identity(
    onnx: Embedder, reference: dict[str, np.ndarray]
) -> None:
    assert np.abs(await onnx.embed_messages(TEXTS) - reference["messages"]).max() < 1e-4
    assert np.abs(await onnx.begin_question(TEXTS[1]) - reference["question"]).max() < 1e-4
    assert str(reference["identity"]) == onnx.identity


@pytest.mark.process
@pytest.mark.timeout(300)
def test_models_of_other_shapes_are_exported_or_refused_with_the_way_out(tmp_path: Path) -> None:
    """cls pooling, no token types, prompts, another length limit; a Dense layer cannot be exported."""
    command = [sys.executable, "-c", SHAPES, str(tmp_path)]
    subprocess.run(command, input=json.dumps(TEXTS), text=True, check=True)
    worst = json.loads((tmp_path / "worst.json").read_text())
    assert worst["bert-cls"] < 1e-4
    assert worst["distil-mean"] < 1e-4
    assert "CHANNELMEM_EMBEDDING_BACKEND=torch" in worst["bert-dense"]


async def test_int8_stays_near_fp32_and_says_that_it_is_another_model(onnx: Embedder) -> None:
    int8 = open_embedder(Settings(_env_file=None, embedding_precision="int8"))
    try:
        cosines = (await int8.embed_messages(TEXTS) * await onnx.embed_messages(TEXTS)).sum(axis=1)
    finally:
        int8.close()
    assert cosines.min() > 0.93
    assert cosines.mean() > 0.97
    assert int8.identity != onnx.identity
    assert int8.dims == onnx.dims


async def test_questions_in_int8_stay_near_messages_in_fp32_under_their_identity(onnx: Embedder) -> None:
    both = open_embedder(Settings(_env_file=None, embedding_question_precision="int8"))
    try:
        for text in TEXTS:
            question = await both.begin_question(text)
            assert question @ (await onnx.embed_messages([text]))[0] > 0.93
        assert not np.array_equal(await both.begin_question(TEXTS[1]), await onnx.begin_question(TEXTS[1]))
        assert np.array_equal(await both.embed_messages(TEXTS), await onnx.embed_messages(TEXTS))
        assert both.identity == onnx.identity
    finally:
        both.close()


@pytest.mark.parametrize(
    ("fast", "changes", "precision"),
    [
        (True, {}, "int8"),
        (False, {}, "fp32"),
        (True, {"embedding_question_precision": "fp32"}, "fp32"),
        (False, {"embedding_question_precision": "int8"}, "int8"),
        (True, {"embedding_model": "some/other-model"}, "fp32"),  # of which nobody measured how it fares
        (False, {"embedding_precision": "int8"}, "int8"),
    ],
)
def test_questions_take_int8_where_that_is_fast_and_measured(
    monkeypatch: pytest.MonkeyPatch, fast: bool, changes: dict[str, Any], precision: str
) -> None:
    monkeypatch.setattr(embed, "multiplies_int8", lambda: fast)
    assert question_precision(Settings(_env_file=None, **changes)) == precision


async def test_a_machine_that_cannot_make_int8_embeds_questions_in_fp32(monkeypatch: pytest.MonkeyPatch) -> None:
    make = prepare

    def only_fp32(settings: Settings, progress: Progress | None = None) -> Model:
        if settings.embedding_precision == "int8":
            raise ModelError("Making an int8 model needs packages that are not installed.")
        return make(settings, progress)

    monkeypatch.setattr(embed, "multiplies_int8", lambda: True)
    monkeypatch.setattr(embed, "prepare", only_fp32)
    embedder = open_embedder(Settings(_env_file=None))
    try:
        question, message = await embedder.begin_question("turtles"), await embedder.embed_messages(["turtles"])
        assert question @ message[0] == pytest.approx(1, abs=1e-5)
    finally:
        embedder.close()
    with pytest.raises(ModelError):
        open_embedder(Settings(_env_file=None, embedding_question_precision="int8"))


async def test_a_question_and_a_message_of_the_same_words_are_one_point(onnx: Embedder) -> None:
    question = await onnx.begin_question("turtles")
    assert question.shape == (onnx.dims,)
    assert np.linalg.norm(question) == pytest.approx(1, abs=1e-5)
    assert question @ (await onnx.embed_messages(["turtles"]))[0] == pytest.approx(1, abs=1e-5)


async def test_every_vector_is_that_of_its_own_text_whatever_the_lengths(onnx: Embedder) -> None:
    texts = [f"number {n} " + "and so on " * (n * 7 % 23) for n in range(40)]
    together = await onnx.embed_messages(texts)
    for index in (0, 1, 13, 22, 39):
        assert np.abs(together[index] - await onnx.begin_question(texts[index])).max() < 1e-4


async def test_no_texts_give_no_vectors(onnx: Embedder) -> None:
    assert (await onnx.embed_messages([])).shape == (0, onnx.dims)


async def test_half_a_surrogate_pair_is_embedded_like_a_question_mark(onnx: Embedder) -> None:
    broken, clean = await onnx.embed_messages(["so \ud83d that", "so ? that"])
    assert np.abs(broken - clean).max() < 1e-5
    assert (await onnx.begin_question("\udc00")).shape == (onnx.dims,)


async def test_text_beyond_the_models_limit_changes_nothing(onnx: Embedder) -> None:
    limit = "turtle " * 300
    one, other = await onnx.embed_messages([limit, limit + "and something else"])
    assert np.abs(one - other).max() < 1e-5


def test_batches_hold_similar_lengths_within_bounds_and_every_row_once() -> None:
    lengths = [(n * 37) % 120 + 2 for n in range(200)] + [BATCH_TOKENS * 2]
    groups = list(batches(lengths))
    assert sorted(place for group in groups for place in group) == list(range(len(lengths)))
    for group in groups:
        assert len(group) <= BATCH_ROWS
        assert len(group) == 1 or len(group) * max(lengths[place] for place in group) <= BATCH_TOKENS
    padding = sum(len(g) * max(lengths[p] for p in g) for g in groups) / sum(lengths)
    assert padding < 1.1


async def test_results_come_in_the_order_of_the_texts(lanes: LaneEmbedder, recorder: Recorder) -> None:
    recorder.runs.release(1000)
    texts = [str(n) + "." * (n * 31 % 50) for n in range(100)]
    assert (await lanes.embed_messages(texts))[:, 0].tolist() == list(range(100))
    assert recorder.events.count("batch begins") > 5


async def test_a_question_overtakes_a_long_batch(lanes: LaneEmbedder, recorder: Recorder) -> None:
    messages = asyncio.create_task(lanes.embed_messages([str(n) for n in range(100)]))
    await begun(recorder)
    assert (await lanes.begin_question("7")).tolist() == [7]
    assert recorder.events == ["batch begins", "question begins", "question ends"]
    recorder.runs.release(1000)
    assert len(await messages) == 100


async def test_the_next_batch_waits_while_a_question_is_at_work(
    lanes: LaneEmbedder, recorder: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(embed, "YIELD_S", 30)
    recorder.answers.clear()
    messages = asyncio.create_task(lanes.embed_messages([str(n) for n in range(BATCH_ROWS * 2)]))
    await begun(recorder)
    question = lanes.begin_question("7")
    await begun(recorder)
    recorder.runs.release(1000)
    assert not await asyncio.to_thread(recorder.started.acquire, timeout=0.2), "a batch began beside the question"
    recorder.answers.set()
    await asyncio.gather(question, messages)
    assert recorder.events[-2:] == ["batch begins", "batch ends"]


async def test_messages_go_on_when_questions_never_stop(
    lanes: LaneEmbedder, recorder: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(embed, "YIELD_S", 0.001)
    recorder.answers.clear()
    recorder.runs.release(1000)
    question = lanes.begin_question("7")
    await begun(recorder)
    assert len(await lanes.embed_messages([str(n) for n in range(50)])) == 50
    assert not question.done()
    recorder.answers.set()
    await question


async def test_a_cancelled_question_does_not_hold_messages_up(
    lanes: LaneEmbedder, recorder: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(embed, "YIELD_S", 30)
    recorder.answers.clear()
    running = lanes.begin_question("1")
    await begun(recorder)
    waiting = lanes.begin_question("2")
    await asyncio.sleep(0)
    waiting.cancel()
    recorder.answers.set()
    await running
    await asyncio.gather(waiting, return_exceptions=True)
    assert lanes._asking == 0


async def test_a_begun_question_is_at_work_before_anybody_awaits_it(lanes: LaneEmbedder, recorder: Recorder) -> None:
    recorder.answers.clear()
    vector = lanes.begin_question("7")
    await begun(recorder)
    assert not vector.done()
    recorder.answers.set()
    assert (await vector).tolist() == [7]


async def test_a_begun_question_that_nobody_wants_leaves_no_work_behind(
    lanes: LaneEmbedder, recorder: Recorder
) -> None:
    recorder.answers.clear()
    running = lanes.begin_question("1")
    await begun(recorder)
    lanes.begin_question("2").cancel()
    await asyncio.sleep(0)
    recorder.answers.set()
    await running
    assert lanes._asking == 0
    assert (await lanes.begin_question("3")).tolist() == [3]
    assert recorder.events.count("question begins") == 2


async def test_as_many_batches_run_at_once_as_there_are_lanes(recorder: Recorder) -> None:
    embedder = LaneEmbedder(recorder, lanes=2)
    try:
        messages = asyncio.create_task(embedder.embed_messages([str(n) for n in range(BATCH_ROWS * 4)]))
        await begun(recorder)
        await begun(recorder)
        assert recorder.events == ["batch begins", "batch begins"]
        assert not await asyncio.to_thread(recorder.started.acquire, timeout=0.2), "a third run beside two lanes"
        recorder.runs.release(1000)
        assert (await messages)[:, 0].tolist() == list(range(BATCH_ROWS * 4))
    finally:
        recorder.runs.release(1000)
        embedder.close()


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere a thread has no priority of its own")
async def test_messages_give_way_to_everything_else(lanes: LaneEmbedder, recorder: Recorder) -> None:
    recorder.runs.release(1000)
    await lanes.begin_question("1")
    await lanes.embed_messages(["1"])
    here = os.getpriority(os.PRIO_PROCESS, 0)
    nice = {name: os.getpriority(os.PRIO_PROCESS, thread) - here for name, thread in recorder.threads.items()}
    assert nice == {"question": 0, "batch": min(NICE, 19 - here)}


async def test_a_sandbox_that_forbids_priorities_does_not_stop_embedding(
    lanes: LaneEmbedder, recorder: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    def forbidden(*_: int) -> None:
        raise PermissionError

    monkeypatch.setattr(os, "setpriority", forbidden)
    recorder.runs.release(1000)
    assert (await lanes.embed_messages(["7"])).tolist() == [[7]]


async def test_groups_come_as_soon_as_they_are_ready_shortest_first(lanes: LaneEmbedder, recorder: Recorder) -> None:
    texts = [str(n) + "." * (n % 40) for n in range(64)]
    groups = lanes.embed_as_ready(texts)
    recorder.runs.release(RUNS)
    first, vectors = await anext(groups)
    assert vectors[:, 0].tolist() == first
    assert max(len(texts[place]) for place in first) <= min(len(texts[n]) for n in range(64) if n not in first)
    recorder.runs.release(1000)
    rest = [place async for places, _ in groups for place in places]
    assert sorted(first + rest) == list(range(64))


async def test_who_leaves_early_leaves_no_run_behind(lanes: LaneEmbedder, recorder: Recorder) -> None:
    groups = lanes.embed_as_ready([str(n) for n in range(BATCH_ROWS * 10)])
    recorder.runs.release(RUNS)
    await anext(groups)
    await groups.aclose()
    recorder.runs.release(1000)
    await lanes.embed_messages(["1"])
    assert recorder.events.count("batch begins") <= RUNS + 2


async def test_a_small_request_is_not_behind_a_large_one(lanes: LaneEmbedder, recorder: Recorder) -> None:
    large = asyncio.create_task(lanes.embed_messages([str(n) for n in range(BATCH_ROWS * 10)]))
    await begun(recorder)
    small = asyncio.create_task(lanes.embed_messages(["1"]))
    await asyncio.sleep(0)
    recorder.runs.release(1000)
    await small
    assert not large.done()
    await large


async def test_closing_twice_is_harmless_and_closed_is_closed() -> None:
    recorder = Recorder()
    embedder = LaneEmbedder(recorder)
    embedder.close()
    embedder.close()
    with pytest.raises(RuntimeError):
        await embedder.begin_question("1")
    with pytest.raises(RuntimeError):
        await embedder.embed_messages(["1"])
    assert embedder._asking == 0


@pytest.mark.process
def test_a_warm_start_imports_no_torch() -> None:
    prepare(Settings(_env_file=None))
    done = subprocess.run([sys.executable, "-c", HOT_START], capture_output=True, text=True, check=True)
    loaded = set(json.loads(done.stdout))
    assert {"onnxruntime", "tokenizers"} <= loaded
    assert not loaded & {"torch", "sentence_transformers", "transformers", "all_minilm_l6_v2", "onnx"}


def test_int8_on_torch_is_refused() -> None:
    with pytest.raises(ModelError, match="int8 needs the onnx back end"):
        open_embedder(Settings(_env_file=None, embedding_backend="torch", embedding_precision="int8"))


@pytest.mark.parametrize("missing", ["torch", "sentence_transformers"])
def test_the_torch_back_end_without_its_extra_is_one_sentence(monkeypatch: pytest.MonkeyPatch, missing: str) -> None:
    monkeypatch.setitem(sys.modules, missing, None)
    monkeypatch.delitem(sys.modules, "channelmem.embedding.export", raising=False)
    with pytest.raises(ModelError, match=rf"BACKEND=torch needs {missing}.*pip install '\.\[torch\]'"):
        open_embedder(Settings(_env_file=None, embedding_backend="torch"))


def test_a_missing_model_path_is_named_by_both_back_ends(tmp_path: Path) -> None:
    for backend in ("onnx", "torch"):
        settings = Settings(_env_file=None, embedding_backend=backend, embedding_model=str(tmp_path / "gone"))
        with pytest.raises(ModelError, match="no such directory"):
            open_embedder(settings)
