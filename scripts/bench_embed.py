"""Measures the embedder's speed: torch against ONNX Runtime fp32 and int8, in one run on one machine.

    python -m scripts.bench_embed [--rounds 10] [--skip-torch] [--starts] [--agreement FILE] [--json]

Each round runs every back end in turn, so that other load on the machine affects all of them about equally; the ratios
are what counts. On a busy machine torch suffers most, because its threads spin while they wait for each other; compare
the "best" column then. All questions are distinct. "torch" is sentence-transformers' own `encode`.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.progress import Progress as Bar
from rich.table import Table

from channelmem.embedding.embed import LaneEmbedder, OnnxEncoder, Vectors, cores, open_embedder
from channelmem.embedding.model import ModelSource, as_directory, find_source
from channelmem.settings import Settings

SUBJECTS = ("the deploy", "my turtle", "pizza on friday", "that redis upgrade", "the new keyboard", "our raid group")
VERBS = ("broke again", "looks great", "was moved to tomorrow", "costs too much", "needs a second look", "is done")
TAILS = (
    "",
    "lol",
    "can somebody check?",
    "I'll write it up tonight when I'm back home",
    "we talked about this last week already, and nobody had a better idea, so let's just try it and see what happens",
)
BATCH = 64

STARTS = {
    "hot start": "import asyncio; from channelmem.embedding.embed import open_embedder; "
    "from channelmem.settings import Settings; "
    "e = open_embedder(Settings(_env_file=None))\n"
    "async def ask(): await e.begin_question('turtles')\n"
    "asyncio.run(ask()); e.close()",
    "sentence-transformers": "import sys; from sentence_transformers import SentenceTransformer; "
    "SentenceTransformer(sys.argv[1], device='cpu').encode('turtles')",
}


@dataclass(frozen=True, slots=True)
class Figure:
    what: str
    how: str
    best: float
    p50: float
    p95: float
    """The worse tail: p5 for rates and agreement."""
    unit: str
    ratio: float | None = None
    """p50 relative to the first line with the same `what`; above 1 is better."""
    ratio_best: float | None = None


Timed = Callable[[Sequence[str]], Awaitable[object]]


def main() -> None:
    options = _options()
    console = Console(stderr=options.json)
    with Bar(console=console, transient=True) as bar:
        figures = asyncio.run(_measure(options, bar))
        if options.starts:
            figures += _starts(bar)
    if options.json:
        print(json.dumps([asdict(figure) for figure in figures], indent=2))
    else:
        console.print(_table(figures))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m scripts.bench_embed",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="Example: python -m scripts.bench_embed --starts --json > embed.json",
    )
    parser.add_argument("--rounds", type=int, default=10, help="rounds of 10 questions and 64 messages (default 10)")
    parser.add_argument("--skip-torch", action="store_true", help="skip the torch reference, which takes 10 s to load")
    parser.add_argument("--starts", action="store_true", help="also time process starts: first, later, and torch's")
    parser.add_argument(
        "--agreement",
        type=Path,
        metavar="FILE",
        help='also compare int8 with fp32 on the first 1,000 messages of a JSONL file with a "text" field',
    )
    parser.add_argument("--json", action="store_true", help="print JSON on standard output instead of a table")
    return parser.parse_args()


def chat_lines(count: int, seed: int = 1) -> list[str]:
    """Distinct lines with a chat-like mix of lengths."""
    rng = random.Random(seed)  # noqa: S311  (test data)
    parts = itertools.product(SUBJECTS, VERBS, TAILS)
    lines = [f"{subject} {verb} {tail}".strip() for subject, verb, tail in parts]
    rng.shuffle(lines)
    return [f"{lines[n % len(lines)]} {n}" if rng.random() < 0.7 else f"ok {n}" for n in range(count)]


async def _measure(options: argparse.Namespace, bar: Bar) -> list[Figure]:
    fp32 = open_embedder(Settings(_env_file=None))
    int8 = open_embedder(Settings(_env_file=None, embedding_precision="int8"))
    try:
        asked: dict[str, Timed] = {"onnx fp32": _asker(fp32), "onnx int8": _asker(int8)}
        written: dict[str, Timed] = {
            "onnx fp32, as they come": _unsorted(fp32),
            "onnx fp32, by length": fp32.embed_messages,
            "onnx int8, by length": int8.embed_messages,
        }
        if not options.skip_torch:
            torch = _torch()
            asked, written = {"torch": torch, **asked}, {"torch": torch, **written}
        figures = await _questions(asked, options.rounds, bar)
        figures += await _messages(written, options.rounds, bar)
        figures += await _questions_beside_messages(fp32, options.rounds, bar)
        if options.agreement:
            with options.agreement.open(encoding="utf-8") as rows:
                texts = [str(json.loads(row)["text"]) for row in itertools.islice(rows, 1000)]
            figures += _agreement(await fp32.embed_messages(texts), await int8.embed_messages(texts))
    finally:
        fp32.close()
        int8.close()
    return figures


def _asker(embedder: object) -> Timed:
    assert isinstance(embedder, LaneEmbedder)

    async def ask(texts: Sequence[str]) -> object:
        return await embedder.begin_question(texts[0])

    return ask


def _unsorted(embedder: object) -> Timed:
    """The same model on batches of 32 in order of arrival, each padded to its longest text."""
    assert isinstance(embedder, LaneEmbedder)
    encoder = embedder._encoder  # noqa: SLF001  (to time it without the sorting)
    assert isinstance(encoder, OnnxEncoder)

    def run(texts: Sequence[str]) -> object:
        return encoder.infer(encoder.tokenise_messages(texts))

    async def encode(texts: Sequence[str]) -> object:
        batches = (texts[at : at + 32] for at in range(0, len(texts), 32))
        return await asyncio.gather(*(asyncio.to_thread(run, batch) for batch in batches))

    return encode


def _torch() -> Timed:
    # Imported here because it takes 10 s, which --skip-torch is there to save.
    from channelmem.embedding.export import load_reference  # noqa: PLC0415

    model = load_reference(_packaged())

    async def encode(texts: Sequence[str]) -> object:
        return model.encode(list(texts), normalize_embeddings=True, show_progress_bar=False)

    return encode


def _packaged() -> ModelSource:
    settings = Settings(_env_file=None)
    return as_directory(find_source(settings), settings.cache_dir)


async def _questions(ways: dict[str, Timed], rounds: int, bar: Bar) -> list[Figure]:
    lines = iter(chat_lines(rounds * 10 * len(ways) + len(ways), seed=2))
    took: dict[str, list[float]] = {how: [] for how in ways}
    for way in ways.values():
        await way([next(lines)])  # the first call allocates
    for _ in bar.track(range(rounds), description="questions"):
        for how, way in ways.items():
            for _ in range(10):
                took[how].append(await _seconds(way, [f"what about {next(lines)}?"]) * 1000)
    return _lower_is_better("one question", took, "ms")


async def _messages(ways: dict[str, Timed], rounds: int, bar: Bar) -> list[Figure]:
    took: dict[str, list[float]] = {how: [] for how in ways}
    for number in bar.track(range(rounds), description="messages"):
        for how, way in ways.items():
            took[how].append(await _seconds(way, chat_lines(BATCH, seed=100 + number)) / BATCH)
    figures = _lower_is_better("messages", took, "per s")
    return [replace(figure, best=1 / figure.best, p50=1 / figure.p50, p95=1 / figure.p95) for figure in figures]


async def _questions_beside_messages(embedder: object, rounds: int, bar: Bar) -> list[Figure]:
    """A question on an idle embedder, and one that arrives while it embeds messages continuously."""
    assert isinstance(embedder, LaneEmbedder)
    ask = _asker(embedder)
    lines = iter(chat_lines(rounds * 20, seed=3))
    took: dict[str, list[float]] = {"alone": [], "while messages are embedded": []}
    for _ in bar.track(range(rounds), description="questions beside messages"):
        for how, each in took.items():
            busy = asyncio.create_task(embedder.embed_messages(chat_lines(2000))) if how != "alone" else None
            for _ in range(10):
                await asyncio.sleep(0.02)
                each.append(await _seconds(ask, [next(lines)]) * 1000)
            if busy is not None:
                busy.cancel()
                await asyncio.gather(busy, return_exceptions=True)
    return _lower_is_better("one question, onnx fp32", took, "ms")


def _agreement(exact: Vectors, ours: Vectors) -> list[Figure]:
    """How close int8 is to fp32: the cosine of each text with itself, and the overlap of its 10 nearest texts."""
    cosines = (exact * ours).sum(axis=1)
    both = [_nearest(vectors @ vectors.T) for vectors in (exact, ours)]
    shared = np.array([len(set(one) & set(other)) / 10 for one, other in zip(*both, strict=True)])
    return [
        Figure("int8 against fp32", how, float(each.max()), _at(each, 50), _at(each, 5), "")
        for how, each in {"cosine": cosines, "10 nearest in common": shared}.items()
    ]


def _nearest(similarities: Vectors) -> list[list[int]]:
    np.fill_diagonal(similarities, -1)
    return np.argsort(-similarities, axis=1)[:, :10].tolist()  # type: ignore[no-any-return]


async def _seconds(way: Timed, texts: Sequence[str]) -> float:
    start = time.perf_counter()
    await way(texts)
    return time.perf_counter() - start


def _starts(bar: Bar) -> list[Figure]:
    """Process starts, up to the first vector."""
    model = str(_packaged().path)
    took: dict[str, list[float]] = {"sentence-transformers": [], "first start (exports)": [], "hot start": []}
    for _ in bar.track(range(3), description="process starts"):
        took["sentence-transformers"].append(_process(STARTS["sentence-transformers"], model))
        took["hot start"].append(_process(STARTS["hot start"], model))
    with tempfile.TemporaryDirectory() as empty:
        code = f"import os; os.environ['CHANNELMEM_CACHE_DIR'] = {str(Path(empty))!r}; " + STARTS["hot start"]
        took["first start (exports)"].append(_process(code, model))
    return _lower_is_better("process to first vector", took, "s")


def _process(code: str, model: str) -> float:
    start = time.perf_counter()
    subprocess.run([sys.executable, "-c", code, model], check=True, capture_output=True)
    return time.perf_counter() - start


def _lower_is_better(what: str, took: dict[str, list[float]], unit: str) -> list[Figure]:
    first, first_best = (_at(next(iter(took.values())), percentile) for percentile in (50, 0))
    figures = []
    for how, each in took.items():
        best, p50, p95 = (_at(each, percentile) for percentile in (0, 50, 95))
        figures.append(Figure(what, how, best, p50, p95, unit, first / p50, first_best / best))
    return figures


def _at(values: Sequence[float], percentile: float) -> float:
    return float(np.percentile(values, percentile))


def _table(figures: Sequence[Figure]) -> Table:
    load = f"; load average {os.getloadavg()[0]:.1f}" if hasattr(os, "getloadavg") else ""
    table = Table(title=f"Embedder speed (a ratio above 1 is better); {cores()} cores{load}")
    for column in ("what", "how"):
        table.add_column(column)
    for column in ("best", "p50", "p95", "unit", "ratio of best", "ratio of p50"):
        table.add_column(column, justify="right")
    last = ""
    for figure in figures:
        if last and figure.what != last:
            table.add_section()
        what, last = ("" if figure.what == last else figure.what), figure.what
        numbers = (f"{value:.2f}" for value in (figure.best, figure.p50, figure.p95))
        ratios = ("" if value is None else f"{value:.1f}x" for value in (figure.ratio_best, figure.ratio))
        table.add_row(what, figure.how, *numbers, figure.unit, *ratios)
    return table


if __name__ == "__main__":
    main()
