"""Evaluates answers on LoCoMo and IRC, through the real Memory and Redis with a replayed clock.

    python -m scripts.eval_recall --data DIR [--json] [--dump FILE] [--quick] [--only irc|locomo]

LoCoMo: share of the evidence in the first 5, 10 and 20 hits, and MRR (the kind is forced to memory; topic, speakers and
window come from the router). IRC, over a buffer of 50: whether the first hit is the intended message, reply links as
stored, absent topics, and the author asking "what did I just say about T". Each comes with ablations, and with the
latency of `ask` next to embedding the question plus one PING in the same run. It uses REDIS_URL if set, else an
embedded server in a temporary directory. `--quick` skips the ablations.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, TextIO

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from channelmem.policy.policy import Policy
from channelmem.recalling.candidates import Asked
from channelmem.recalling.rank import SHIPPED, FactWeights, SpeakerWeights, Weights
from channelmem.recalling.recall import Recall
from channelmem.server.lease import connect_url
from channelmem.settings import Settings
from channelmem.text import stems
from channelmem.types import Answer, Hit, Kind, Mode, Person, Question
from scripts.eval_links import best_link, score
from scripts.replay import Row, Stage, Talk, question, read, stage, talks

BUFFER = 50
SOON_S = 1_800.0
UNBOUNDED_MINUTES = 60.0 * 24 * 3_650
ABLATED_EVERY = 6
"""LoCoMo's ablations use every sixth question, so compare them with each other, not with the full table."""

_SAID, _FACTS = SpeakerWeights(), FactWeights()
_LINKLESS = replace(SHIPPED, parent=0.0, said=replace(_SAID, thread=0.0, parent_cosine=0.0))
ABLATIONS: dict[str, Weights] = {
    "as shipped": SHIPPED,
    "without what is fitted": replace(SHIPPED, said=None, facts=None),
    "without the thread's words": replace(SHIPPED, said=replace(_SAID, thread=0.0)),
    "without the parents' and the thread's words": _LINKLESS,
    "without the neighbours' words": replace(SHIPPED, near=()),
    "without parents, thread and neighbours": replace(_LINKLESS, near=()),
    "without the neighbours' cosine": replace(SHIPPED, cosine_near=0.0),
    "without any cosine": replace(
        SHIPPED,
        cosine=0.0,
        cosine_word=0.0,
        cosine_most=0.0,
        said=replace(_SAID, parent_cosine=0.0),
        facts=replace(_FACTS, cosine=0.0),
    ),
    "without words": replace(SHIPPED, words=0.0, said=None, facts=None),
    "without preferring the speaker": replace(SHIPPED, speaker=0.0),
    "without dates and window": replace(SHIPPED, date=0.0, window=0.0),
    "without kinds of lines": replace(
        SHIPPED,
        question=0.0,
        question_for_fact=0.0,
        fragment=0.0,
        said=replace(_SAID, length=0.0),
        facts=replace(_FACTS, kind=0.0, question=0.0, length=0.0),
    ),
}
WHOLE = "the whole question, names and all"


@dataclass(slots=True)
class Ranks:
    """Ranks of the wanted messages, by kind: 0 is first, None is not found."""

    by_kind: dict[str, list[int | None]] = field(default_factory=lambda: defaultdict(list))

    def add(self, kind: str, rank: int | None) -> None:
        self.by_kind[kind].append(rank)

    def figures(self) -> dict[str, dict[str, float]]:
        every = [rank for ranks in self.by_kind.values() for rank in ranks]
        return {kind: _hit_figures(ranks) for kind, ranks in {"all": every, **self.by_kind}.items() if ranks}


def _hit_figures(ranks: Sequence[int | None]) -> dict[str, float]:
    return {
        "hit@1": percent(sum(rank == 0 for rank in ranks) / len(ranks)),
        "mrr": round(sum(1 / (rank + 1) for rank in ranks if rank is not None) / len(ranks), 3),
        "n": len(ranks),
    }


@dataclass(slots=True)
class Recalls:
    """Shares of evidence found, by kind of question."""

    by_kind: dict[str, list[tuple[float, float, float, float]]] = field(default_factory=lambda: defaultdict(list))

    def add(self, kind: str, evidence: set[str], ranked: Sequence[str]) -> None:
        found = [len(evidence.intersection(ranked[:k])) / len(evidence) for k in (5, 10, 20)]
        first = next((place for place, one in enumerate(ranked, start=1) if one in evidence), 0)
        self.by_kind[kind].append((found[0], found[1], found[2], 1 / first if first else 0.0))

    def figures(self) -> dict[str, dict[str, float]]:
        every = [row for rows in self.by_kind.values() for row in rows]
        return {kind: self._of(rows) for kind, rows in {"all": every, **self.by_kind}.items() if rows}

    @staticmethod
    def _of(rows: Sequence[tuple[float, float, float, float]]) -> dict[str, float]:
        five, ten, twenty, mrr = (sum(column) / len(rows) for column in zip(*rows, strict=True))
        return {
            "r@5": percent(five),
            "r@10": percent(ten),
            "r@20": percent(twenty),
            "mrr": round(mrr, 3),
            "n": len(rows),
        }


def percent(share: float) -> float:
    return round(100 * share, 1)


class Evaluation:
    def __init__(self, data: Path, bar: Progress, out: TextIO | None, *, ablate: bool) -> None:
        self.data, self.bar, self.out, self.ablate = data, bar, out, ablate
        self.report: dict[str, Any] = {}

    def dump(self, task: str, **fields: object) -> None:
        if self.out:
            self.out.write(json.dumps({"task": task, **fields}) + "\n")

    # --- LoCoMo ---

    async def locomo(self, on: Stage) -> None:
        recalls, adversarial = Recalls(), 0
        ablations: dict[str, Recalls] = defaultdict(Recalls)
        conversations = {talk.name: talk for talk in talks(self.data / "locomo_messages.jsonl", "conv", 100)}
        rows = read(self.data / "locomo_questions.jsonl")
        bar = self.bar.add_task("LoCoMo", total=len(rows))
        for name, talk in conversations.items():
            await on.hear(talk.messages)
            on.clock.now = talk.messages[-1].ts + 60
            for number, row in enumerate(row for row in rows if row["conv"] == name):
                self.bar.advance(bar)
                asked = question(talk, row["question"], number, on.clock.now, kind=Kind.MEMORY)
                answer = await on.memory.ask(asked)
                if row["category"] == 5:
                    adversarial += answer.found
                    self.dump("locomo_adversarial", qid=row["qid"], answered=answer.found)
                    continue
                evidence = {one for one in row["evidence"] if one in talk.id_of}
                if not evidence:
                    continue
                ranked = _names(talk, answer.hits)
                recalls.add(row["kind"], evidence, ranked)
                self.dump("locomo", qid=row["qid"], ranked=ranked)
                if self.ablate and number % ABLATED_EVERY == 0:
                    async for label, hits in self._ablated(on, asked, answer):
                        ablations[label].add(row["kind"], evidence, _names(talk, hits))
        self.report["locomo"] = recalls.figures()
        unanswerable = sum(row["category"] == 5 for row in rows)
        self.report["locomo_adversarial"] = {"answered": percent(adversarial / unanswerable), "n": unanswerable}
        if self.ablate:
            self.report["locomo_ablations"] = {label: one.figures()["all"] for label, one in ablations.items()}

    async def _ablated(self, on: Stage, asked: Question, answer: Answer) -> Any:
        """The hits of the same route with each ingredient taken away."""
        policy = Policy.of_settings(on.settings)
        for label, weights in ABLATIONS.items():
            recall = Recall(on.search, on.embedder, clock=on.clock, weights=weights)
            yield label, (await recall(Asked.of(asked, answer.route, policy))).hits
        recall = Recall(on.search, on.embedder, clock=on.clock)
        # People without a name: nothing is taken out of the text, and their ids still count.
        people = tuple(Person(one.id, "") for one in answer.route.speakers)
        whole = replace(answer.route, topic=asked.text, mode=Mode.TOPIC, speakers=people)
        yield WHOLE, (await recall(Asked.of(asked, whole, policy))).hits

    # --- IRC ---

    async def irc(self, on: Stage) -> None:
        channels = {talk.name: talk for talk in talks(self.data / "irc_messages.jsonl", "channel", 200)}
        queries = read(self.data / "irc_queries.jsonl")
        run = _Irc(self, on, queries)
        bar = self.bar.add_task("IRC", total=len(queries))
        links: dict[str, dict[int, int]] = {}
        for name, talk in channels.items():
            mine = sorted(
                (row for row in queries if row["channel"] == name), key=lambda row: talk.id_of[row["buffer_last"]]
            )
            heard = 0
            links[name] = {}
            for row in mine:
                upto = talk.id_of[row["buffer_last"]] - talk.messages[0].id + 1
                links[name] |= await _replay(on, talk, heard, upto)
                heard = upto
                await run.ask(talk, row)
                self.bar.advance(bar)
            links[name] |= await _replay(on, talk, heard, len(talk.messages))
        self._links("ubuntu", channels, links)
        self.report |= run.figures()

    async def other_channels(self, on: Stage) -> None:
        path = self.data / "irc_newdomains_messages.jsonl"
        if not path.exists():
            return
        channels = {talk.name: talk for talk in talks(path, "channel", 300)}
        bar = self.bar.add_task("other channels", total=len(channels))
        links: dict[str, dict[int, int]] = {}
        for name, talk in channels.items():
            links[name] = await _replay(on, talk, 0, len(talk.messages))
            self.bar.advance(bar)
        self._links("other channels", channels, links)

    def _links(self, label: str, channels: dict[str, Talk], links: dict[str, dict[int, int]]) -> None:
        """Scored by eval_links, which knows messages by their number in the channel."""
        predicted: dict[str, dict[int, int]] = {}
        for name, talk in channels.items():
            number = {talk.id_of[row["id"]]: row["n"] for row in talk.rows}
            predicted[name] = {number[one]: number[parent] for one, parent in links[name].items()}
            for row in talk.rows:
                if "reply_to" in row:
                    one = talk.id_of[row["id"]]
                    parent = links[name][one]
                    self.dump("links", id=row["id"], parent=None if parent == one else talk.name_of[parent])
        scores = score(predicted, {name: list(talk.rows) for name, talk in channels.items()})
        self.report.setdefault("links", {})[label] = asdict(scores)


async def _replay(on: Stage, talk: Talk, start: int, end: int) -> dict[int, int]:
    """Hears these messages and reads back, from Redis, what each was found to answer."""
    links: dict[int, int] = {}
    for first in range(start, end, BUFFER):
        some = talk.messages[first : min(end, first + BUFFER)]
        await on.hear(some)
        # What has no visible text is not stored, and so starts nothing and answers nothing.
        links |= {one.id: one.id for one in some}
        links |= {one.id: best_link(one.id, one.parents) for one in await on.stored(talk, len(some))}
    return links


class _Irc:
    """The questions over a buffer: the given ones, absent topics, and the author's own."""

    def __init__(self, evaluation: Evaluation, on: Stage, queries: Sequence[Row]) -> None:
        self._evaluation, self._on, self._queries = evaluation, on, queries
        self._number = 0
        self._hits, self._just = Ranks(), Ranks()
        self._ablations: dict[str, Ranks] = defaultdict(Ranks)
        self._false_no: list[bool] = []
        self._false_yes: list[bool] = []
        self._false_yes_anyone: list[bool] = []
        self._latency: dict[str, list[float]] = defaultdict(list)

    async def ask(self, talk: Talk, row: Row) -> None:
        self._on.clock.now = talk.messages[talk.id_of[row["buffer_last"]] - talk.messages[0].id].ts + 1
        asked, answer = await self._timed(talk, row)
        ranked = _names(talk, answer.hits)
        self._hits.add(row["kind"], _rank(row["gold"], ranked))
        self._false_no.append(not answer.found)
        self._evaluation.dump("irc", qid=row["qid"], ranked=ranked)
        self._evaluation.dump("abstention", qid=row["qid"], present=True, answered=answer.found)
        if self._evaluation.ablate:
            async for label, hits in self._evaluation._ablated(self._on, asked, answer):  # noqa: SLF001  (one script)
                self._ablations[label].add(row["kind"], _rank(row["gold"], _names(talk, hits)))
        await self._absent(talk, row)
        await self._just_said(talk, row)

    async def _timed(self, talk: Talk, row: Row) -> tuple[Question, Answer]:
        """The question, and beside it what nobody can avoid: its embedding and one round trip, in changing order."""
        asked = self._next(talk, row["query"])
        # Messages were embedded a moment ago; neither side shall pay for waking up the question's lane.
        await self._on.embedder.begin_question(row["author"])
        if self._number % 2:
            floor, (answer, ask_ms) = await self._floor(asked), await self._asking(asked)
        else:
            (answer, ask_ms), floor = await self._asking(asked), await self._floor(asked)
        if answer.route.mode is Mode.TOPIC and answer.found:
            spent = floor | {
                "ask": ask_ms,
                "ask_route": answer.ms.route,
                "ask_embed": answer.ms.embed,
                "ask_search_and_rank": answer.ms.search,
            }
            for name, value in spent.items():
                self._latency[name].append(value)
        return asked, answer

    async def _asking(self, asked: Question) -> tuple[Answer, float]:
        started = time.perf_counter()
        answer = await self._on.memory.ask(asked)
        return answer, (time.perf_counter() - started) * 1000

    async def _floor(self, asked: Question) -> dict[str, float]:
        started = time.perf_counter()
        await self._on.embedder.begin_question(asked.text)
        embedded = time.perf_counter()
        await self._on.redis.ping()
        return {"embed": (embedded - started) * 1000, "ping": (time.perf_counter() - embedded) * 1000}

    async def _absent(self, talk: Talk, row: Row) -> None:
        topic = self._elsewhere(talk, row)
        if topic is None:
            return
        answer = await self._on.memory.ask(self._next(talk, f"what did {row['author']} say about {topic}?"))
        self._false_yes.append(answer.found)
        self._evaluation.dump("abstention", qid=f"{row['qid']}-absent", present=False, answered=answer.found)
        answer = await self._on.memory.ask(self._next(talk, f"did anyone mention {topic}?"))
        self._false_yes_anyone.append(answer.found)

    async def _just_said(self, talk: Talk, row: Row) -> None:
        gold = talk.messages[talk.id_of[row["gold"]] - talk.messages[0].id]
        if self._on.clock.now - gold.ts > SOON_S:
            return
        text = f"what did I just say about {' '.join(row['topic'])}?"
        self._number += 1
        asked = question(talk, text, self._number, self._on.clock.now, asker=row["author"])
        ranked = _names(talk, (await self._on.memory.ask(asked)).hits)
        self._just.add(row["kind"], _rank(row["gold"], ranked))
        self._evaluation.dump("just_said", qid=row["qid"], ranked=ranked)

    def _elsewhere(self, talk: Talk, row: Row) -> str | None:
        """The next query's topic from another channel that shares no stem with this buffer."""
        last = talk.id_of[row["buffer_last"]] - talk.messages[0].id
        here = {stem for one in talk.messages[max(0, last - BUFFER + 1) : last + 1] for stem in stems(one.content)}
        start = self._queries.index(row)
        for other in (*self._queries[start:], *self._queries[:start]):
            if other["channel"] != row["channel"] and not here.intersection(stems(" ".join(other["topic"]))):
                return " ".join(other["topic"])
        return None

    def _next(self, talk: Talk, text: str) -> Question:
        self._number += 1
        return question(talk, text, self._number, self._on.clock.now)

    def figures(self) -> dict[str, Any]:
        report: dict[str, Any] = {
            "irc": self._hits.figures(),
            "just_said": self._just.figures(),
            "abstention": {
                "false_no": percent(statistics.mean(self._false_no)),
                "false_yes": percent(statistics.mean(self._false_yes)),
                "false_yes_anyone": percent(statistics.mean(self._false_yes_anyone)),
                "n": len(self._false_yes),
            },
            "latency_ms": _latency(self._latency),
        }
        if self._ablations:
            report["irc_ablations"] = {
                label: {kind: one["hit@1"] for kind, one in ranks.figures().items()}
                for label, ranks in self._ablations.items()
            }
        return report


def _latency(spent: dict[str, list[float]]) -> dict[str, float]:
    """Medians; the ratio is the median of each question's own, so that a busy moment of the machine touches both."""
    medians = {name: round(statistics.median(values), 3) for name, values in spent.items()}
    ratios = [
        ask / (embed + ping) for ask, embed, ping in zip(spent["ask"], spent["embed"], spent["ping"], strict=True)
    ]
    return medians | {"ratio": round(statistics.median(ratios), 2), "n": len(ratios)}


def _names(talk: Talk, hits: Sequence[Hit]) -> list[str]:
    return [talk.name_of[hit.message.id] for hit in hits]


def _rank(wanted: str, ranked: Sequence[str]) -> int | None:
    return ranked.index(wanted) if wanted in ranked else None


async def evaluate(evaluation: Evaluation, url: str, base: Settings, only: str | None = None) -> None:
    started = time.perf_counter()
    if only != "locomo":
        # The buffer alone: a topic that is absent from it must not be found in what left it.
        small = {"max_messages": BUFFER, "max_age_minutes": UNBOUNDED_MINUTES, "archive": False, "recall_limit": 20}
        async with stage(url, base, **small) as on:
            await evaluation.irc(on)
            await evaluation.other_channels(on)
    if only != "irc":
        async with stage(url, base, archive=True, archive_days=3_650.0, recall_limit=20) as on:
            await evaluation.locomo(on)
    evaluation.report["seconds"] = round(time.perf_counter() - started, 1)


@contextmanager
def _dumping(path: Path | None) -> Iterator[TextIO | None]:
    if path is None:
        yield None
        return
    with path.open("w", encoding="utf-8") as out:
        yield out


def show(report: dict[str, Any], console: Console) -> None:
    for section, figures in report.items():
        if not isinstance(figures, dict):
            console.print(f"{section}: {figures}")
            continue
        rows = figures if all(isinstance(one, dict) for one in figures.values()) else {"": figures}
        columns = list(next(iter(rows.values())))
        table = Table(section, *columns, title_justify="left")
        for name, values in rows.items():
            table.add_row(name, *(str(values.get(column, "")) for column in columns))
        console.print(table)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, metavar="DIR", help="folder with the evaluation data")
    parser.add_argument("--json", action="store_true", help="print JSON on standard output")
    parser.add_argument("--dump", type=Path, metavar="FILE", help="write each result as a JSON line")
    parser.add_argument("--quick", action="store_true", help="skip the ablations")
    parser.add_argument("--only", choices=("irc", "locomo"), help="run only one of the two")
    options = parser.parse_args()
    console = Console(file=sys.stderr)
    columns = (TextColumn("{task.description:>16}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with tempfile.TemporaryDirectory(prefix="channelmem-eval-") as directory, _dumping(options.dump) as out:
        base = Settings(data_dir=Path(directory))
        with connect_url(base) as url, Progress(*columns, console=console) as bar:
            evaluation = Evaluation(options.data, bar, out, ablate=not options.quick)
            asyncio.run(evaluate(evaluation, url, base, options.only))
    if options.json:
        print(json.dumps(evaluation.report))
    else:
        show(evaluation.report, Console())


if __name__ == "__main__":
    main()
