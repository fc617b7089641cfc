"""Measures settings: resolving them, how soon another client sees a change, and a start with many overrides.

python -m scripts.bench_settings [--channels N] [--rounds N] [--json]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import time

from redis.asyncio import Redis
from rich.progress import Progress

from channelmem.policy.cascade import Place
from channelmem.policy.policies import Policies
from channelmem.settings import Settings
from channelmem.store.buckets import Buckets
from channelmem.store.store import Store
from scripts import measure

CHANGE_S = 5.0
RESOLVING, CHANGING = "microseconds per policy", "seconds"
KNOWN, UNKNOWN = "known conversation", "first look at a conversation"
SEEN, START = "until another client sees a change", "start"


async def bench(options: argparse.Namespace, bar: Progress) -> measure.Report:
    report = measure.Report("bench_settings")
    doing = bar.add_task("changing settings", total=options.rounds)
    with measure.bench_settings() as settings:
        async with measure.client(settings) as redis, measure.client(settings) as other:
            await _fill(redis, settings, options.channels)
            here, _, took = await _opened(redis, settings)
            report.add(CHANGING, what=f"{START} with {options.channels:,} channels", median=took, worst=took)
            for what, times in _resolve(here, options.channels).items():
                report.add(RESOLVING, what=what, median=measure.spread(times).p50, worst=max(times))
            there, store, _ = await _opened(other, settings)
            following = asyncio.create_task(store.levels.follow())
            seen = []
            for number in range(options.rounds):
                seen.append(await _until_seen(here, there, number % 90 + 1))
                bar.advance(doing)
            following.cancel()
            report.add(CHANGING, what=SEEN, median=measure.spread(seen).p50, worst=max(seen))
    return report


async def _opened(redis: Redis, settings: Settings) -> tuple[Policies, Store, float]:
    store = Store(Buckets(redis, settings, dims=1, identity="", clock=time.time))
    started = time.perf_counter()
    await store.levels.load()
    return Policies(settings, store), store, time.perf_counter() - started


async def _fill(redis: Redis, settings: Settings, channels: int) -> None:
    keys = Buckets(redis, settings, dims=1, identity="", clock=time.time).guild_keys(measure.GUILD)
    document = json.dumps({"values": {"context_messages": 9, "context_max_age": 3600}, "changes": []})
    async with redis.pipeline(transaction=False) as pipe:
        for number in range(1, channels + 1):
            place = f"channel:{measure.GUILD}c{number}"
            pipe.execute_command("JSON.SET", keys.of("settings", place), "$", document)
            pipe.hset(keys.one("levels"), place, "1")
        await pipe.execute()


def _resolve(policies: Policies, channels: int) -> dict[str, list[float]]:
    times: dict[str, list[float]] = {}
    for what in (UNKNOWN, KNOWN):
        for number in range(1, min(channels, 10_000) + 1):
            started = time.perf_counter()
            policies.of(measure.GUILD, number, "librarian")
            times.setdefault(what, []).append((time.perf_counter() - started) * 1e6)
    return times


async def _until_seen(here: Policies, there: Policies, value: int) -> float:
    place = Place.channel(measure.GUILD, 1)
    await here.set(place, "context_messages", value)
    started = time.perf_counter()
    async with asyncio.timeout(CHANGE_S):
        while there.of(measure.GUILD, 1).context_messages != value:  # noqa: ASYNC110  (this waits for the other's event)
            await asyncio.sleep(0.0005)
    return time.perf_counter() - started


def main() -> None:
    parser = measure.parser(__doc__, "bench_settings")
    parser.add_argument("--channels", type=int, default=10_000, help="channels with overrides (default 10,000)")
    parser.add_argument("--rounds", type=int, default=100, help="changes (default 100)")
    measure.run(bench, parser.parse_args())


if __name__ == "__main__":
    main()
