"""Shared by the benchmarks: timing, reports of tables and ratios, a private Redis, and test texts.

Ratios within one run are what counts. Contestants take turns, a little of each per round, so that other load on the
machine affects all of them about equally; medians and percentiles cover all rounds.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import os
import platform
import random
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import SecretStr
from redis.asyncio import Redis
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from channelmem.server.lease import connect_url
from channelmem.settings import Settings
from channelmem.store.redis import connect
from channelmem.types import Message, Question

GUILD = 811_111_111_111_111_111
ASKER = 77
PER_CHANNEL = 50
"""Messages per channel: the size of the rolling buffer."""

Cell = str | float | int
Call = Callable[[], Awaitable[object]]


# --- reports ---


@dataclass(frozen=True, slots=True)
class Ratio:
    """A measured ratio and its target."""

    what: str
    measured: float
    limit: float
    at_least: bool = False

    @property
    def ok(self) -> bool:
        return self.measured >= self.limit if self.at_least else self.measured <= self.limit


@dataclass(slots=True)
class Report:
    """Tables of figures, and the ratios derived from them."""

    name: str
    tables: dict[str, list[dict[str, Cell]]] = field(default_factory=dict)
    ratios: list[Ratio] = field(default_factory=list)

    def add(self, title: str, **row: Cell) -> None:
        self.tables.setdefault(title, []).append(row)

    def as_json(self) -> dict[str, Any]:
        ratios = [{**asdict(ratio), "ok": ratio.ok} for ratio in self.ratios]
        return {"bench": self.name, "machine": machine(), "tables": self.tables, "ratios": ratios}


def machine() -> dict[str, Cell]:
    return {
        "cores": os.cpu_count() or 1,
        "load": round(os.getloadavg()[0], 1) if hasattr(os, "getloadavg") else 0.0,
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
    }


def show(console: Console, found: Mapping[str, Any]) -> None:
    """Prints a report's JSON as tables."""
    about = found["machine"]
    console.print(f"\n[bold]{found['bench']}[/bold]: {about['cores']} cores, load average {about['load']}")
    for title, rows in found["tables"].items():
        table = Table(title=title, title_justify="left")
        names = list(dict.fromkeys(name for row in rows for name in row))
        for number, name in enumerate(names):
            table.add_column(name, justify="right" if number else "left")
        for row in rows:
            table.add_row(*(_cell(row.get(name, "")) for name in names))
        console.print(table)


def show_ratios(console: Console, ratios: Sequence[Mapping[str, Any]]) -> None:
    table = Table(title="targets", title_justify="left")
    for name in ("what", "target", "measured", ""):
        table.add_column(name, justify="left" if name in ("what", "") else "right")
    for ratio in ratios:
        target = f"{'at least' if ratio['at_least'] else 'at most'} {ratio['limit']:.2f}"
        mark = "[green]OK[/green]" if ratio["ok"] else "[red]MISSED[/red]"
        table.add_row(ratio["what"], target, f"{ratio['measured']:.2f}", mark)
    console.print(table)


def _cell(value: Cell) -> str:
    if isinstance(value, str):
        return value
    return f"{value:,.0f}" if isinstance(value, int) or abs(value) >= 1000 else f"{value:.3g}"


def run(measure: Callable[[argparse.Namespace, Progress], Coroutine[Any, Any, Report]], options: Any) -> None:
    """Runs a benchmark and prints its tables, or JSON on standard output."""
    console = wide_console()
    with progress() as bar:
        found = asyncio.run(measure(options, bar)).as_json()
    if options.json:
        print(json.dumps(found, indent=2))
        return
    show(console, found)
    if found["ratios"]:
        show_ratios(console, found["ratios"])


def wide_console() -> Console:
    """Keeps tables intact when the output is not a terminal."""
    return Console() if sys.stdout.isatty() else Console(width=120)


def progress() -> Progress:
    """A progress bar on stderr, so that stdout stays parseable."""
    parts = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.percentage:>3.0f}%"), TimeElapsedColumn())
    return Progress(*parts, console=Console(file=sys.stderr), transient=True)


def parser(doc: str | None, name: str) -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(
        prog=f"python -m scripts.{name}", description=doc, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    made.add_argument("--json", action="store_true", help="print JSON on standard output instead of tables")
    return made


# --- time ---


@dataclass(frozen=True, slots=True)
class Spread:
    p50: float
    p95: float
    p99: float


def spread(values: Sequence[float]) -> Spread:
    return Spread(*(float(np.percentile(values, percentile)) for percentile in (50, 95, 99)))


async def seconds(call: Call) -> float:
    started = time.perf_counter()
    await call()
    return time.perf_counter() - started


@dataclass(frozen=True, slots=True)
class Taken:
    """Milliseconds per call: wall time, and this process's processor time, which other load disturbs less."""

    ms: list[float] = field(default_factory=list)
    cpu_ms: list[float] = field(default_factory=list)

    @property
    def figures(self) -> dict[str, Cell]:
        at = spread(self.ms)
        return {"p50 ms": at.p50, "p95 ms": at.p95, "p99 ms": at.p99}


async def in_turns(
    ways: Mapping[str, Call], rounds: int, advance: Callable[[], object], *, times: int = 1
) -> dict[str, Taken]:
    """Times `times` calls of each way per round, in shuffled order so that none always follows the same neighbour.
    The first round only warms up."""
    took = {name: Taken() for name in ways}
    names = list(ways)
    dice = random.Random(1)  # noqa: S311  (an order, no secret)
    for number in range(rounds + 1):
        dice.shuffle(names)
        for name in names:
            started = time.process_time()
            spent = [await seconds(ways[name]) * 1000 for _ in range(times)]
            if number:
                took[name].ms.extend(spent)
                took[name].cpu_ms.append((time.process_time() - started) * 1000 / times)
        advance()
    return took


# --- Redis ---


@contextmanager
def bench_settings(**changes: Any) -> Iterator[Settings]:
    """Settings with a private key prefix: on REDIS_URL if set, else on an embedded server in a temporary directory."""
    with tempfile.TemporaryDirectory(prefix="channelmem-bench-", ignore_cleanup_errors=True) as folder:
        values: dict[str, Any] = {"data_dir": Path(folder), "embedded_grace_s": 0, "key_prefix": f"bench{os.getpid()}"}
        base = Settings(_env_file=None, **{**values, "redis_timeout_s": 60.0, **changes})
        with connect_url(base) as url:
            yield base.model_copy(update={"redis_url": SecretStr(url)})


def url_of(settings: Settings) -> str:
    assert settings.redis_url is not None
    return settings.redis_url.get_secret_value()


@asynccontextmanager
async def client(settings: Settings) -> AsyncIterator[Redis]:
    redis = connect(url_of(settings), settings)
    try:
        yield redis
    finally:
        await redis.aclose()


async def remove(settings: Settings) -> None:
    """Removes a benchmark's keys; drops the index first, which is faster than unindexing each key."""
    async with client(settings) as redis:
        for name in await redis.execute_command("FT._LIST"):  # type: ignore[no-untyped-call]
            if name.startswith(f"{settings.key_prefix}:".encode()):
                await redis.execute_command("FT.DROPINDEX", name)  # type: ignore[no-untyped-call]
        async with redis.pipeline(transaction=False) as pipe:
            async for key in redis.scan_iter(f"{settings.key_prefix}:*", count=5000):
                pipe.unlink(key)
            await pipe.execute()


# --- chat ---

SUBJECTS = (
    "turtles", "the deploy", "pizza", "redis", "the keyboard", "our raid group", "chess", "the garden", "tomatoes",
    "the dentist", "coffee", "the invoice", "kubernetes", "the hamster", "guitar strings", "the marathon", "taxes",
    "the printer", "sourdough", "the concert", "lasagna", "the backup", "spiders", "the train to Basel", "yoga",
    "the router", "candles", "the museum", "firefox", "the roof", "badminton", "the thesis", "penguins", "the loan",
    "pancakes", "the elevator", "crosswords", "the tent", "podcasts", "the violin", "laundry", "the bridge",
    "origami", "the compiler", "mangoes", "the ferry", "karaoke", "the telescope", "mushrooms", "the contract",
)  # fmt: skip
SHORT = ("lol", "ok", "same here", "hm, no idea", "brb", "that's what I thought", "thanks!", "no way")
SAYING = (
    "I think {} should wait until tomorrow",
    "has anybody looked at {} since last week?",
    "{} broke again, third time this month",
    "my sister really loves {}",
    "we talked about {} already, and nobody had a better idea, so let's just try it and see what happens on friday",
    "honestly {} costs too much for what it is",
    "ok so {} is done, I'll write it up tonight when I'm back home and send it around",
)
ASKING = (
    "what did anyone say about {}?",
    "who mentioned {}?",
    "did somebody talk about {}?",
    "what was said about {} just now?",
    "has anyone said anything about {}?",
)
NAMES = ("Ann", "Bob", "Carol", "Dmitri", "Eve", "Farid", "Grace", "Hiro")


def chat_lines(count: int, seed: int = 1) -> list[str]:
    """Distinct lines with chat-like lengths: a third have a few words, a few are long."""
    dice = random.Random(seed)  # noqa: S311  (test data)
    texts = []
    for number in range(count):
        said = dice.choice(SAYING).format(dice.choice(SUBJECTS)) if dice.random() > 0.3 else dice.choice(SHORT)
        texts.append(f"{said} {number}" if dice.random() < 0.5 else f"{number} {said}")
    return texts


def read_lines(path: Path) -> list[str]:
    """The `text` field of each line of a JSONL file."""
    with path.open(encoding="utf-8") as rows:
        return [str(json.loads(row)["text"]) for row in rows]


def lines_of(options: argparse.Namespace, count: int, seed: int = 1) -> list[str]:
    """Lines from --data if given (repeated as needed), else generated ones."""
    if options.data is None:
        return chat_lines(count, seed)
    return list(itertools.islice(itertools.cycle(read_lines(options.data)), count))


def conversation(texts: Sequence[str], *, first_id: int = 1, channel: int = 0) -> list[Message]:
    """Recent messages, 50 per channel; channels are numbered from `channel`."""
    now = time.time()
    made = []
    for place, text in enumerate(texts):
        number = first_id + place
        author = number % len(NAMES)
        where = 1000 + channel + place // PER_CHANNEL
        # The newest is a second old, so that clocks never put it into the future.
        ts = now - 1 - 0.5 * (PER_CHANNEL - 1 - place % PER_CHANNEL)
        made.append(Message(GUILD, where, number, 500 + author, NAMES[author], text, ts))
    return made


def subject_channel() -> list[str]:
    """Fifty lines, each about a different subject; `questions` asks about them."""
    return [SAYING[number % len(SAYING)].format(subject) for number, subject in enumerate(SUBJECTS)]


def questions(channel: int) -> Iterator[Question]:
    """Endless distinct questions, each answered in `subject_channel`."""
    for number in itertools.count():
        about = SUBJECTS[number % len(SUBJECTS)]
        other = SUBJECTS[(number + 1 + number // len(SUBJECTS)) % len(SUBJECTS)]
        text = ASKING[number % len(ASKING)].format(about if number < len(SUBJECTS) else f"{about} and {other}")
        yield Question(GUILD, 1000 + channel, 10**15 + number, ASKER, "Zoe", text, time.time())
