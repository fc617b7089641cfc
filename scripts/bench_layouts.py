"""Compares ways to use the cores: several threads per model run, or several runs in parallel.

    python -m scripts.bench_layouts [--rounds 60] [--json]

Each layout runs in its own process, one after the other. It times a question of 8 tokens, asked immediately and after a
10 ms pause (sleeping threads must wake up), and chat lines of 12 tokens in batches of 16. "cores" is processor time per
second. It takes half a minute; docs/notes/model.md shows the results.
"""

from __future__ import annotations

import argparse
import asyncio
import multiprocessing
import os
import statistics
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from typing import Final, NamedTuple

import numpy as np
import onnxruntime
from rich.progress import Progress

from channelmem.embedding.model import prepare
from channelmem.settings import Settings
from scripts import measure
from scripts.measure import Report

QUESTION: Final = (1, 8)
BATCH: Final = (16, 12)
PAUSE_S: Final = 0.01


class Layout(NamedTuple):
    threads: int
    """Threads per run."""
    spin: bool
    runs: int
    """Runs in parallel."""


async def bench(options: argparse.Namespace, bar: Progress) -> Report:
    report = Report("layouts")
    cores = os.cpu_count() or 1
    model = str((await asyncio.to_thread(prepare, Settings(_env_file=None))).onnx)
    ways = {
        "one run, one thread": Layout(1, spin=False, runs=1),
        f"one run, {cores} threads that sleep": Layout(cores, spin=False, runs=1),
        f"one run, {cores} threads that spin": Layout(cores, spin=True, runs=1),
        f"{cores} runs, one thread each": Layout(1, spin=False, runs=cores),
    }
    task = bar.add_task("layouts", total=len(ways))
    for name, layout in ways.items():
        spawn = multiprocessing.get_context("spawn")
        with ProcessPoolExecutor(1, spawn) as process:
            row = await asyncio.wrap_future(process.submit(timed, model, layout, options.rounds))
        report.add("model runs and threads on the available cores", what=name, **row)
        bar.advance(task)
    return report


def timed(model: str, layout: Layout, rounds: int) -> dict[str, measure.Cell]:
    loaded = session(model, layout)
    names = [entry.name for entry in loaded.get_inputs()]

    def run(shape: tuple[int, int]) -> None:
        ids = np.full(shape, 2000, dtype=np.int64)
        tensors = {"input_ids": ids, "attention_mask": np.ones_like(ids), "token_type_ids": np.zeros_like(ids)}
        loaded.run(None, {name: tensors[name] for name in names})

    for _ in range(5):
        run(QUESTION)
    at_once, rested = _questions(run, rounds, 0.0), _questions(run, rounds, PAUSE_S)
    started, started_cpu = time.perf_counter(), time.process_time()
    with ThreadPoolExecutor(layout.runs) as lanes:
        list(lanes.map(lambda _: run(BATCH), range(rounds)))
    spent = time.perf_counter() - started
    cores = (time.process_time() - started_cpu) / spent
    rate = rounds * BATCH[0] / spent
    return {"question ms": at_once, "after a pause ms": rested, "messages/s": rate, "cores": cores}


def session(model: str, layout: Layout) -> onnxruntime.InferenceSession:
    """Loads the model with the layout's number of threads."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = layout.threads
    options.add_session_config_entry("session.intra_op.allow_spinning", str(int(layout.spin)))
    return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])


def _questions(run: Callable[[tuple[int, int]], None], rounds: int, pause_s: float) -> float:
    took = []
    for _ in range(rounds):
        time.sleep(pause_s)
        started = time.perf_counter()
        run(QUESTION)
        took.append((time.perf_counter() - started) * 1000)
    return statistics.median(took)


def options() -> argparse.ArgumentParser:
    parser = measure.parser(__doc__, "bench_layouts")
    parser.add_argument("--rounds", type=int, default=60, help="model runs of each kind (default 60)")
    return parser


if __name__ == "__main__":
    measure.run(bench, options().parse_args())
