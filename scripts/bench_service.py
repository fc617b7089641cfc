"""Measures the service: what HTTP adds to a question, how many messages it takes, and many askers at once.

    python -m scripts.bench_service [--rounds 200] [--askers 200] [--seconds 20] [--batches 40] [--json]

`channelmem serve` runs in a process of its own, with its own model, on the Redis of this run. For the first table the
same questions go to `Memory.ask` in this process and to the service, in turns; "over HTTP" is a bare client that sends
and reads bytes, so that it shows what the service costs and not what a library does. What HTTP adds is the time of a
request without the milliseconds that its own answer reports for `Memory.ask`: beside other load, two processes are not
equally lucky. The second table compares messages per second, until the last one is searchable, with the embedder alone
in this process, before and after; its target is a ratio of processor time, for the same reason. In the third, two
tenants ask about the same channel ids at once; every answer is checked for the other one's words.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import re
import secrets
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Any
from urllib.parse import urlsplit

import psutil
from pydantic import SecretStr
from rich.progress import Progress

from channelmem.access import Scope, new_token
from channelmem.client import Client
from channelmem.embedding.embed import Embedder, open_embedder
from channelmem.memory import Memory
from channelmem.ops import open_access
from channelmem.settings import Settings
from channelmem.types import Message, Question
from channelmem.wire.messages import value_json
from scripts import measure
from scripts.measure import Ratio, Report

ASKING, TAKING, MANY = "one question after the other", "messages per second until searchable", "askers at once"
IN_PROCESS, OVER_HTTP, BY_CLIENT = "Memory.ask in this process", "POST /v1/ask over HTTP", "Client.ask (httpx)"
BATCH = 100
MOST_OVER_MS, MOST_TIMES = 1.5, 1.25
SECOND = measure.GUILD + (1 << 22)
"""The second tenant's guild."""


@dataclass(slots=True)
class Wire:
    """The barest HTTP client: one connection, one request at a time."""

    url: str
    token: str
    reader: asyncio.StreamReader | None = None
    writer: asyncio.StreamWriter | None = None

    async def post(self, path: str, body: object) -> tuple[int, bytes]:
        if self.reader is None or self.writer is None:
            parts = urlsplit(self.url)
            self.reader, self.writer = await asyncio.open_connection(parts.hostname, parts.port)
        data = json.dumps(body).encode()
        head = (
            f"POST {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {self.token}\r\n"
            f"Content-Type: application/json\r\nContent-Length: {len(data)}\r\n\r\n"
        )
        self.writer.write(head.encode() + data)
        answered = await self.reader.readuntil(b"\r\n\r\n")
        length = re.search(rb"content-length: (\d+)", answered)
        assert length, answered
        return int(answered[9:12]), await self.reader.readexactly(int(length[1]))

    def close(self) -> None:
        if self.writer is not None:
            self.writer.close()


@dataclass(slots=True)
class Asked:
    """What many askers saw."""

    ms: list[float] = field(default_factory=list)
    statuses: Counter[int] = field(default_factory=Counter)
    wrong: int = 0
    """Answers with the other tenant's words."""


async def bench(options: argparse.Namespace, bar: Progress) -> Report:
    report = Report("bench_service")
    with measure.bench_settings() as settings:
        tokens = await _tokens(settings)
        with _service(settings) as (url, process), closing(open_embedder(settings)) as embedder:
            async with Memory.open(
                settings.model_copy(update={"embed_in_process": False}), embedder=embedder
            ) as memory:
                await _fill(memory, url, tokens)
                await _ask(report, options, bar, memory, settings, url, tokens[0])
                await _take(report, options, bar, embedder, url, tokens[0], process)
                await _ask_together(report, options, bar, url, tokens, process)
        await measure.remove(settings)
    return report


async def _tokens(settings: Settings) -> tuple[str, str]:
    """One for each tenant, bound to its guild."""
    made = []
    async with open_access(settings) as tokens:
        for guild_id in (measure.GUILD, SECOND):
            text, kept = new_token(str(guild_id), frozenset(Scope), frozenset({guild_id}), now=time.time())
            await tokens.add(kept)
            made.append(text)
    return made[0], made[1]


@contextmanager
def _service(settings: Settings) -> Iterator[tuple[str, psutil.Process]]:
    environment = {
        **os.environ,
        "REDIS_URL": measure.url_of(settings),
        "CHANNELMEM_KEY_PREFIX": settings.key_prefix,
        "CHANNELMEM_DATA_DIR": str(settings.data_dir),
        "CHANNELMEM_SERVICE_MAX_PENDING": "1000000",
    }
    command = [sys.executable, "-m", "channelmem", "serve", "--port", "0"]
    with subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stderr is not None
            url = next(found[1] for line in process.stderr if (found := re.search(r"Listening on (http://\S+)", line)))
            yield url, psutil.Process(process.pid)
        finally:
            process.terminate()


def _of_second(message: Message) -> Message:
    return replace(message, guild_id=SECOND, content=f"secondly {message.content}")


async def _fill(memory: Memory, url: str, tokens: tuple[str, str]) -> None:
    """The same channel for both tenants; every line of the second begins with a word that the first never says."""
    ours = measure.conversation(measure.subject_channel())
    for token, messages in zip(tokens, (ours, list(map(_of_second, ours))), strict=True):
        wire = Wire(url, token)
        status, _ = await wire.post("/v1/messages", [value_json(one) for one in messages])
        assert status == 202
        await wire.post("/v1/flush", {})
        wire.close()
    assert await memory.flush()


async def _ask(
    report: Report,
    options: argparse.Namespace,
    bar: Progress,
    memory: Memory,
    settings: Settings,
    url: str,
    token: str,
) -> None:
    doing = bar.add_task(ASKING, total=options.rounds + 1)
    theirs = settings.model_copy(update={"service_url": url, "service_token": SecretStr(token)})
    wire, questions = Wire(url, token), measure.questions(0)
    added, within = list[float](), list[float]()

    async def over_http() -> None:
        body, started = value_json(next(questions)), time.perf_counter()
        status, said = await wire.post("/v1/ask", body)
        took_ms = (time.perf_counter() - started) * 1000
        assert status == 200
        within.append(json.loads(said)["ms"]["total"])
        added.append(took_ms - within[-1])

    async with Client.open(theirs) as client:
        ways: dict[str, measure.Call] = {
            IN_PROCESS: lambda: memory.ask(next(questions)),
            OVER_HTTP: over_http,
            BY_CLIENT: lambda: client.ask(next(questions)),
        }
        took = await measure.in_turns(ways, options.rounds, lambda: bar.advance(doing))
    wire.close()
    for name, taken in took.items():
        report.add(ASKING, what=name, **taken.figures)
    report.add(ASKING, what="Memory.ask within these requests", **measure.Taken(within).figures)
    report.add(ASKING, what="added by HTTP", **measure.Taken(added).figures)
    # At most 1.5 ms, or a quarter of Memory.ask, whichever is more.
    most_ms = max(MOST_OVER_MS, measure.spread(within).p50 * (MOST_TIMES - 1))
    report.ratios.append(
        Ratio(f"ms that HTTP adds to a question (of {most_ms:.2f})", measure.spread(added).p50, most_ms)
    )


async def _take(
    report: Report,
    options: argparse.Namespace,
    bar: Progress,
    embedder: Embedder,
    url: str,
    token: str,
    process: psutil.Process,
) -> None:
    total = BATCH * options.batches
    doing, texts = bar.add_task(TAKING, total=3), measure.chat_lines(total, seed=7)
    messages = measure.conversation(texts, first_id=10**6, channel=5_000)
    wire = Wire(url, token)

    async def alone() -> tuple[float, float]:
        started, used = time.perf_counter(), time.process_time()
        await embedder.embed_messages(texts)
        bar.advance(doing)
        return time.perf_counter() - started, time.process_time() - used

    async def served() -> tuple[float, float]:
        started, used = time.perf_counter(), sum(process.cpu_times()[:2])
        for at in range(0, total, BATCH):
            status, said = await wire.post("/v1/messages", [value_json(one) for one in messages[at : at + BATCH]])
            assert (status, said.count(b'"stored"')) == (202, BATCH), said[:200]
        accepted = time.perf_counter() - started
        while b"true" not in (await wire.post("/v1/flush", {}))[1]:
            pass
        bar.advance(doing)
        report.add(TAKING, what="accepted (202)", **{"per second": total / accepted})
        return time.perf_counter() - started, sum(process.cpu_times()[:2]) - used

    before, whole, after = await alone(), await served(), await alone()
    wire.close()
    model = [(one + other) / 2 for one, other in zip(before, after, strict=True)]
    for what, (wall_s, cpu_s) in ((f"POST /v1/messages, batches of {BATCH}", whole), ("the embedder alone", model)):
        report.add(TAKING, what=what, **{"per second": total / wall_s, "processor ms each": cpu_s / total * 1000})
    what = "messages per processor second over the embedder's own"
    report.ratios.append(Ratio(what, model[1] / whole[1], 0.8, at_least=True))


async def _ask_together(
    report: Report,
    options: argparse.Namespace,
    bar: Progress,
    url: str,
    tokens: tuple[str, str],
    process: psutil.Process,
) -> None:
    doing = bar.add_task(MANY, total=None)
    asked, numbers, until = Asked(), count(), time.monotonic() + options.seconds
    before = process.memory_info().rss
    await asyncio.gather(*(_asker(url, tokens, next(numbers), until, asked) for _ in range(options.askers)))
    bar.remove_task(doing)
    spread = measure.spread(asked.ms)
    failed = sum(times for status, times in asked.statuses.items() if status >= 500 and status != 503)
    report.add(
        MANY,
        askers=options.askers,
        seconds=options.seconds,
        **{"answers per second": asked.statuses[200] / options.seconds, "p50 ms": spread.p50, "p99 ms": spread.p99},
        **{f"status {status}": times for status, times in sorted(asked.statuses.items())},
        wrong=asked.wrong,
        **{"memory grew MB": (process.memory_info().rss - before) / 1e6},
    )
    report.ratios.append(Ratio("answers with another tenant's words", asked.wrong, 0.0))
    report.ratios.append(Ratio("failures other than a deliberate 503", failed, 0.0))


async def _asker(url: str, tokens: tuple[str, str], number: int, until: float, asked: Asked) -> None:
    second = number % 2
    wire, questions = Wire(url, tokens[second]), measure.questions(0)
    for _ in range(secrets.randbelow(50)):
        next(questions)
    while time.monotonic() < until:
        started = time.perf_counter()
        status, said = await wire.post("/v1/ask", _of(next(questions), second))
        asked.statuses[status] += 1
        asked.ms.append((time.perf_counter() - started) * 1000)
        if status == 200 and (b"secondly" in said) != bool(second and b'"found":true' in said):
            asked.wrong += 1
        if status != 200:
            await asyncio.sleep(0.1)
    wire.close()


def _of(question: Question, second: int) -> dict[str, Any]:
    return value_json(replace(question, guild_id=SECOND) if second else question)


def main() -> None:
    parser = measure.parser(__doc__, "bench_service")
    parser.add_argument("--rounds", type=int, default=200, help="questions of each kind")
    parser.add_argument("--batches", type=int, default=40, help=f"batches of {BATCH} messages")
    parser.add_argument("--askers", type=int, default=200)
    parser.add_argument("--seconds", type=float, default=20.0, help="how long they ask")
    measure.run(bench, parser.parse_args())


if __name__ == "__main__":
    main()
