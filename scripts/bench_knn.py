"""Measures nearest-neighbour search relative to a PING, for HNSW and FLAT, FLOAT16 and FLOAT32.

    python -m scripts.bench_knn [--sizes 1000 10000 100000] [--full] [--plot knn.png] [--json]

An index holds 1,000 to 100,000 messages in channels of 50. Each call alternates with a PING on the same connection.
The KNN rows are one raw FT.SEARCH that returns text, author, time and distance of the 10 nearest; "nearest, buffer" and
"nearest, archive" are the product's `Search.nearest`, including its Python code. Recall compares HNSW's 10 nearest with
numpy's: unfiltered, with the BATCHES policy forced on a channel filter, and with the policy that Redis chooses for such
a filter (ad hoc, which is exact).

The default takes about 5 minutes, mostly to build graphs, and stops FLOAT32 at 10,000 messages. --full builds all of
them (15 minutes with 100,000; hours with --sizes 1000000).
"""

from __future__ import annotations

import argparse
import itertools
import random
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeVar

import matplotlib as mpl
import numpy as np
from rich.progress import Progress

from channelmem.settings import Settings
from channelmem.store.index import create_command, make_schema
from channelmem.store.keys import keys_of
from channelmem.store.redis import command
from channelmem.store.search import Query, Search
from channelmem.store.store import Store
from channelmem.types import Source, Window
from scripts import measure
from scripts.fill import DIMS, Cloud, Vectors, fill
from scripts.measure import GUILD, PER_CHANNEL, Ratio, Report

mpl.use("Agg")  # before pyplot: no screen is needed to write a file
from matplotlib import pyplot as plt

LATENCY: Final = "KNN latency"
IN_PINGS: Final = "p50 in PINGs"
RECALL: Final = "recall of the 10 nearest: HNSW against exact search"
FLOAT32_UP_TO: Final = 10_000
PRODUCT: Final = "hnsw-float16"
VARIANTS: Final = (PRODUCT, "flat-float16", "hnsw-float32", "flat-float32")
FILTERED: Final = "KNN in a channel"
BUFFER: Final = "nearest, buffer"
ARCHIVE: Final = "nearest, archive"
# Search policies, to compare cost and recall; the product leaves the choice to Redis.
POLICIES: Final = {
    "unfiltered, ef 10": ("*", " EF_RUNTIME 10"),
    "unfiltered, ef 100": ("*", " EF_RUNTIME 100"),
    "unfiltered, ef 200": ("*", " EF_RUNTIME 200"),
    "in a channel, BATCHES forced": ("channel", " HYBRID_POLICY BATCHES"),
    "in a channel, as Redis chooses": ("channel", ""),
}
ROUNDING: Final = {"float16": 2e-3, "float32": 1e-5}
"""A neighbour counts as found within this distance of the tenth: Redis and numpy round sums differently."""
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Built:
    """An index under test."""

    name: str
    store: Store
    search: Search
    dtype: str

    def near(self, where: str, vector: Vectors, how: str = "") -> Awaitable[Any]:
        """Runs one raw KNN search for 10."""
        buckets = self.store.buckets
        query = f"{where}=>[KNN 10 @vec1 $v{how} AS d]"
        blob = vector.astype(self.dtype).tobytes()
        wanted = ("RETURN", 4, "d", "text", "author", "ts", "SORTBY", "d", "LIMIT", 0, 10, "DIALECT", 2)
        # After 500 ms, which a busy machine can take, Redis would return what it has found so far.
        patient = ("TIMEOUT", 60_000)
        return command(
            buckets.redis, "FT.SEARCH", buckets.keys(0).one("idx"), query, "PARAMS", 2, "v", blob, *wanted, *patient
        )

    async def tags(self) -> list[str]:
        """The channels' tags in the index, in the order they were filled."""
        buckets = self.store.buckets
        names = await command(buckets.redis, "FT.TAGVALS", buckets.keys(0).one("idx"), "channel")
        return sorted((name.decode() for name in names), key=lambda name: (len(name), name))


async def bench(options: argparse.Namespace, bar: Progress) -> Report:
    report = Report("knn")
    with measure.bench_settings() as settings:
        for name in options.variants:
            sizes = [size for size in sorted(options.sizes) if _is_built(name, size, options)]
            async with _opened(settings, name) as built:
                await _grow(built, sizes, options, report, bar)
            await measure.remove(_own(settings, name))
    report.ratios = _ratios(report)
    if options.plot:
        plot(report, options.plot)
    return report


def _is_built(name: str, size: int, options: argparse.Namespace) -> bool:
    return options.full or "float16" in name or size <= FLOAT32_UP_TO


async def _grow(built: Built, sizes: list[int], options: argparse.Namespace, report: Report, bar: Progress) -> None:
    """Grows one index and measures it at each size."""
    cloud, vectors = Cloud(), np.empty((0, DIMS), dtype=np.float32)
    for size in sizes:
        more = cloud.draw(size - len(vectors))
        task = bar.add_task(f"{built.name}: store {size:,}", total=len(more))
        advance = partial(bar.advance, task)
        await fill(built.store, more, first_id=len(vectors) + 1, dtype=built.dtype, advance=advance)
        bar.remove_task(task)
        vectors = np.concatenate([vectors, more])
        await _latency(built, size, cloud, options.rounds, report, bar)
        if built.name.startswith("hnsw"):
            await _recall(built, vectors, cloud, options.recall_queries, report)


# --- the index ---


def _own(settings: Settings, name: str) -> Settings:
    changes = {
        "key_prefix": f"{settings.key_prefix}-{name}",
        "index_algorithm": name.partition("-")[0],
        # Building a large graph takes longer than a message stays in the buffer.
        "max_age_minutes": settings.archive_days * 24 * 60,
    }
    return settings.model_copy(update=changes)


@asynccontextmanager
async def _opened(settings: Settings, name: str) -> AsyncIterator[Built]:
    own, dtype = _own(settings, name), name.partition("-")[2]
    async with measure.client(own) as redis:
        schema = make_schema(own, keys_of(own.key_prefix, 0), dims=DIMS, version=1)
        # The store accepts an existing index, which is how it gets a FLOAT32 one.
        await command(redis, *(dtype.upper() if part == "FLOAT16" else part for part in create_command(schema)))
        store = await Store.open(redis, own, dims=DIMS, identity=name, clock=time.time)
        yield Built(name, store, Search(store.buckets), dtype)
        await store.close()


# --- latency ---


async def _latency(built: Built, size: int, cloud: Cloud, rounds: int, report: Report, bar: Progress) -> None:
    task = bar.add_task(f"{built.name}: search {size:,}", total=rounds + 1)
    ways = _ways(built, cloud, await built.tags())
    took = await measure.in_turns(ways, rounds, partial(bar.advance, task))
    bar.remove_task(task)
    ping = measure.spread(took["PING"].ms).p50
    for how, each in took.items():
        pings = measure.spread(each.ms).p50 / ping
        report.add(LATENCY, index=built.name, stored=size, what=how, **each.figures, **{IN_PINGS: pings})


def _ways(built: Built, cloud: Cloud, tags: list[str]) -> dict[str, Callable[[], Awaitable[object]]]:
    """Each call uses another channel and another vector."""
    vectors = itertools.cycle(cloud.draw(500))
    tag = _shuffled(tags)
    channel = _shuffled(range(1000, 1000 + len(tags)))
    day = Window(time.time() - 86_400, time.time() + 86_400)
    authors = "500|501|502|503"

    def product(source: Source) -> Awaitable[object]:
        return built.search.nearest(Query(GUILD, (next(channel),), vector=next(vectors), source=source))

    ways: dict[str, Callable[[], Awaitable[object]]] = {
        "PING": built.store.buckets.redis.ping,
        FILTERED: lambda: built.near(f"(@channel:{{{next(tag)}}})", next(vectors)),
        "KNN in a channel, time, authors": lambda: built.near(
            f"(@channel:{{{next(tag)}}} @ts:[{day.start} {day.end}] @author:{{{authors}}})", next(vectors)
        ),
        "KNN unfiltered": lambda: built.near("*", next(vectors)),
    }
    if built.dtype == "float16":
        ways[BUFFER] = partial(product, Source.BUFFER)
        ways[ARCHIVE] = partial(product, Source.ARCHIVE)
    return ways


def _shuffled(values: Iterable[T]) -> Iterator[T]:
    order = list(values)
    random.Random(2).shuffle(order)  # noqa: S311  (an order, no secret)
    return itertools.cycle(order)


# --- recall ---


async def _recall(built: Built, vectors: Vectors, cloud: Cloud, count: int, report: Report) -> None:
    """Compares vectors as stored, rounded to FLOAT16, so that only the graph can be wrong."""
    stored = vectors.astype(built.dtype).astype(np.float32)
    asked = cloud.draw(count).astype(built.dtype).astype(np.float32)
    tags = await built.tags()
    for what, (where, how) in POLICIES.items():
        shares, took = [], []
        for number, vector in enumerate(asked):
            place = number * 7 % len(tags)
            inside = slice(None) if where == "*" else slice(place * PER_CHANNEL, (place + 1) * PER_CHANNEL)
            query = "*" if where == "*" else f"(@channel:{{{tags[place]}}})"
            started = time.perf_counter()
            reply = await built.near(query, vector, how)
            took.append((time.perf_counter() - started) * 1000)
            shares.append(_share(reply, stored[inside] @ vector, ROUNDING[built.dtype]))
        at = measure.spread(took)
        figures = {"recall@10": float(np.mean(shares)), "exact for": float(np.mean(np.array(shares) == 1.0))}
        report.add(RECALL, index=built.name, stored=len(stored), what=what, **figures, p50=at.p50, p99=at.p99)


def _share(reply: list[Any], exact: Vectors, rounding: float) -> float:
    """Share of the 10 hits that are as near as the true 10; by distance, so that ties count equally."""
    best = np.sort(exact)[::-1][:10]
    found = [1.0 - float(dict(zip(row[::2], row[1::2], strict=True))[b"d"]) for row in reply[2::2]]
    return sum(similarity >= float(best[-1]) - rounding for similarity in found) / len(best)


# --- ratios and plot ---


def _ratios(report: Report) -> list[Ratio]:
    rows = [row for row in report.tables[LATENCY] if row["index"] == PRODUCT]
    if not rows:
        return []
    least, most = min(int(row["stored"]) for row in rows), max(int(row["stored"]) for row in rows)
    ratios = []
    for what in (FILTERED, ARCHIVE):
        at = {int(row["stored"]): float(row[IN_PINGS]) for row in rows if row["what"] == what}
        ratios.append(Ratio(f"{what}, {most:,} stored: p50 in PINGs", at[most], 3.5))
        ratios.append(Ratio(f"{what}: p50 at {most:,} against {least:,}, both in PINGs", at[most] / at[least], 1.5))
    return ratios


def plot(report: Report, path: Path) -> None:
    """Draws the median by number of stored messages, one panel per index."""
    rows = report.tables[LATENCY]
    names = list(dict.fromkeys(str(row["index"]) for row in rows))
    figure, panels = plt.subplots(
        1, len(names), figsize=(4.2 * len(names), 4.2), sharex=True, sharey=True, squeeze=False
    )
    for panel, name in zip(panels[0], names, strict=True):
        mine = [row for row in rows if row["index"] == name]
        for number, what in enumerate(dict.fromkeys(str(row["what"]) for row in mine)):
            line = [(row["stored"], row["p50 ms"]) for row in mine if row["what"] == what]
            stored, median = zip(*line, strict=True)
            panel.plot(stored, median, marker="o", color=f"C{number}", label=what)
        panel.set(title=name, xscale="log", yscale="log", xlabel="messages stored")
        panel.grid(visible=True, which="both", alpha=0.2)
    panels[0][0].set_ylabel("milliseconds, p50")
    figure.tight_layout(rect=(0, 0.08, 1, 1))
    figure.legend(*panels[0][0].get_legend_handles_labels(), loc="lower center", ncols=6, fontsize="small")
    figure.savefig(path, dpi=110)
    plt.close(figure)


def options() -> argparse.ArgumentParser:
    parser = measure.parser(__doc__, "bench_knn")
    parser.add_argument(
        "--sizes",
        type=int,
        nargs="+",
        default=[1000, 10_000, 100_000],
        help="numbers of stored messages (default 1000 10000 100000)",
    )
    parser.add_argument(
        "--variants", nargs="+", choices=VARIANTS, default=list(VARIANTS), help="indexes to measure (default all)"
    )
    parser.add_argument("--full", action="store_true", help="also build FLOAT32 beyond 10,000 messages")
    parser.add_argument("--rounds", type=int, default=300, help="calls per row (default 300)")
    parser.add_argument("--recall-queries", type=int, default=100, help="queries per recall row (default 100)")
    parser.add_argument("--plot", type=Path, metavar="FILE", help="also plot the medians to this PNG file")
    return parser


if __name__ == "__main__":
    measure.run(bench, options().parse_args())
