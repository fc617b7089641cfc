"""Measures every operation relative to a PING while the store grows, then removals and a restart.

    python -m scripts.bench_scale [--sizes 10000 100000] [--dir DIR] [--plot scale.png] [--no-removals] [--json]

Fills messages without the model (scripts/scaling/world.py): texts and vectors are recombined from real ones, 500
messages per channel, most of them in one guild, times over seven days. With --dir the data stays there, on an embedded
server of its own, and a later run continues: sizes that were measured are shown from the results there. Removals come
last and take what they remove with them, so a later run with larger sizes skips them unless all of it is still there.

100,000 messages take a few minutes, mostly to build the graph; 1,000,000 about an hour, and 3 GB of memory.
"""

from __future__ import annotations

import argparse
import gc
import json
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from pathlib import Path
from typing import Final

import matplotlib as mpl
from pydantic import SecretStr
from rich.progress import Progress

from channelmem.server.lease import lease, stop
from channelmem.settings import Settings
from channelmem.store.store import Store
from scripts import measure
from scripts.measure import Ratio, Report
from scripts.scaling.operations import GUILD_NEAREST, QUESTION, Operations
from scripts.scaling.removals import Waits, removed
from scripts.scaling.world import LEAVING, MIDDLE, MIDDLE_CHANNELS, PER_CHANNEL, Known, fill, known

mpl.use("Agg")  # before pyplot: no screen is needed to write a file
from matplotlib import pyplot as plt

LATENCY: Final = "operations"
IN_PINGS: Final = "p50 in PINGs"
STORED: Final = "bytes and inserts"
REMOVED: Final = "removals"
RESTART: Final = "restart"


async def bench(options: argparse.Namespace, bar: Progress) -> Report:
    with _folder(options.dir) as folder:
        results = folder / f"results-{options.index}.json"
        report = Report("scale", json.loads(results.read_text()) if results.exists() else {})
        settings = _settings(folder, options)
        with _server(settings) as url:
            real = await known(settings, folder)
            async with _store(settings, url) as store:
                gc.freeze()  # as the bot does: what is loaded by now stays
                for size in sorted(options.sizes):
                    await _grow(store, size, real, options, report, bar)
                    results.write_text(json.dumps(report.tables, indent=1))
                if options.removals:
                    await _removals(store, url, max(options.sizes), report)
        if options.restart:
            _restart(settings, max(options.sizes), report)
        results.write_text(json.dumps(report.tables, indent=1))
    report.ratios = _ratios(report)
    if options.plot:
        plot(report, options.plot)
    return report


@contextmanager
def _folder(given: Path | None) -> Iterator[Path]:
    if given is not None:
        given.mkdir(parents=True, exist_ok=True)
        yield given.absolute()
        return
    with tempfile.TemporaryDirectory(prefix="channelmem-scale-", ignore_cleanup_errors=True) as folder:
        yield Path(folder)


def _settings(folder: Path, options: argparse.Namespace) -> Settings:
    return Settings(
        _env_file=None, redis_url=None, data_dir=folder, key_prefix=f"scale-{options.index}",
        index_algorithm=options.index, embedded_grace_s=0, redis_timeout_s=60.0, archive_days=30,
    )  # fmt: skip


@contextmanager
def _server(settings: Settings) -> Iterator[str]:
    with lease(settings) as server:
        yield server.url


@asynccontextmanager
async def _store(settings: Settings, url: str) -> AsyncIterator[Store]:
    own = settings.model_copy(update={"redis_url": SecretStr(url)})
    async with measure.client(own) as redis:
        store = await Store.open(redis, own, dims=384, identity="scale", clock=time.time)
        yield store
        await store.close()


async def _grow(
    store: Store, size: int, real: Known, options: argparse.Namespace, report: Report, bar: Progress
) -> None:
    """Fills up to a size and measures there, unless an earlier run did."""
    task = bar.add_task(f"store {size:,}", total=size)
    insert_s = await fill(store, size, real, partial(bar.advance, task))
    bar.remove_task(task)
    if any(row["stored"] == size for row in report.tables.get(LATENCY, ())):
        return
    info = await store.buckets.redis.info("memory")
    used = int(info["used_memory"]) - int(info["used_memory_startup"])
    per_s = round(1 / insert_s) if insert_s else 0
    report.add(STORED, stored=size, **{"bytes per message": used / size, "inserts/s": per_s})
    await _latency(store, size, real, options.rounds, report, bar)


async def _latency(store: Store, size: int, real: Known, rounds: int, report: Report, bar: Progress) -> None:
    task = bar.add_task(f"measure at {size:,}", total=rounds + 1)
    operations = Operations(store, real, size)
    took = await measure.in_turns(operations.ways(), rounds, partial(bar.advance, task))
    await operations.tidy()
    bar.remove_task(task)
    ping = measure.spread(took["PING"].ms).p50
    for what, each in took.items():
        pings = measure.spread(each.ms).p50 / ping
        cpu_ms = measure.spread(each.cpu_ms).p50
        report.add(LATENCY, stored=size, what=what, **each.figures, **{IN_PINGS: pings, "own processor ms": cpu_ms})


async def _removals(store: Store, url: str, size: int, report: Report) -> None:
    """What one person said, then a whole guild."""
    leaving = min(size, 100_000) // 10
    guild = min(max(0, size - MIDDLE_CHANNELS.start * PER_CHANNEL), len(MIDDLE_CHANNELS) * PER_CHANNEL)
    if report.tables.get(REMOVED):
        return
    took = await removed(store, url, lambda: store.consent.forget(LEAVING))
    report.add(REMOVED, what="forget", stored=size, **_waited(leaving, *took))
    took = await removed(store, url, lambda: store.delete_guild(MIDDLE))
    report.add(REMOVED, what="delete_guild", stored=size, **_waited(guild, *took))


def _waited(messages: int, took_s: float, waits: Waits) -> dict[str, float | int]:
    return {
        "messages": messages,
        "seconds": took_s,
        "PING p50 ms": waits.at(50),
        "PING p99.9 ms": waits.at(99.9),
        "PING max ms": waits.at(100),
    }


def _restart(settings: Settings, size: int, report: Report) -> None:
    """How long the server loads after a stop, until it answers."""
    stop(settings)
    started = time.perf_counter()
    with _server(settings):
        report.add(RESTART, stored=size, seconds=time.perf_counter() - started)


# --- ratios and plot ---


def _ratios(report: Report) -> list[Ratio]:
    ratios = []
    rows = report.tables.get(LATENCY, [])
    sizes = sorted({int(row["stored"]) for row in rows})
    at = {(str(row["what"]), int(row["stored"])): float(row[IN_PINGS]) for row in rows}
    if sizes:
        ratios += [Ratio(f"{QUESTION}, {size:,} stored: p50 in PINGs", at[QUESTION, size], 25) for size in sizes[-2:]]
        ratios.append(Ratio(f"{GUILD_NEAREST}, {sizes[-1]:,} stored: p50 in PINGs", at[GUILD_NEAREST, sizes[-1]], 25))
    if len(sizes) > 1:
        growth = at[QUESTION, sizes[-1]] / at[QUESTION, sizes[-2]]
        ratios.append(Ratio(f"{QUESTION}: at {sizes[-1]:,} against {sizes[-2]:,}, both in PINGs", growth, 1.3))
    for row in report.tables.get(REMOVED, []):
        ratios.append(Ratio(f"{row['what']}: PING p99.9 ms meanwhile", float(row["PING p99.9 ms"]), 50))
        if row["what"] == "forget":
            per_10k = float(row["seconds"]) / max(1, int(row["messages"])) * 10_000
            ratios.append(Ratio("forget: seconds per 10,000 messages", per_10k, 8))
    return ratios


def plot(report: Report, path: Path) -> None:
    """Draws each operation's median in PINGs by the number of stored messages."""
    rows = report.tables[LATENCY]
    figure, panel = plt.subplots(figsize=(8, 5))
    panel.set_prop_cycle(color=mpl.colormaps["tab20"](range(20)))
    for what in dict.fromkeys(str(row["what"]) for row in rows if row["what"] != "PING"):
        line = [(row["stored"], row[IN_PINGS]) for row in rows if row["what"] == what]
        stored, pings = zip(*line, strict=True)
        panel.plot(stored, pings, marker="o", label=what)
    panel.set(xscale="log", yscale="log", xlabel="messages stored in one bucket", ylabel="median, in PINGs")
    panel.grid(visible=True, which="both", alpha=0.2)
    panel.legend(fontsize="small", loc="upper left", bbox_to_anchor=(1, 1))
    figure.tight_layout()
    figure.savefig(path, dpi=110)
    plt.close(figure)


def options() -> argparse.ArgumentParser:
    parser = measure.parser(__doc__, "bench_scale")
    sizes = [10_000, 100_000]
    parser.add_argument("--sizes", type=int, nargs="+", default=sizes, help="messages stored (default 10000 100000)")
    parser.add_argument("--index", choices=("hnsw", "flat"), default="hnsw", help="vector index (default hnsw)")
    parser.add_argument("--dir", type=Path, help="keep data and results here, and continue there")
    parser.add_argument("--rounds", type=int, default=100, help="calls per row (default 100)")
    parser.add_argument("--plot", type=Path, metavar="FILE", help="also plot the medians to this PNG file")
    parser.add_argument("--removals", action=argparse.BooleanOptionalAction, default=True, help="measure removals")
    parser.add_argument("--restart", action=argparse.BooleanOptionalAction, default=True, help="measure a restart")
    return parser


if __name__ == "__main__":
    measure.run(bench, options().parse_args())
