"""Measures how long routing takes: p50 and p99 per class of question, including pathological input.

    python -m scripts.bench_route [--rounds N] [--json]

p50 and p99 are wall time, which other load on the machine lengthens. "cpu p50" and "cpu worst" are processor time
(time.process_time; the script has one thread); compare limits with these on a busy machine. The router caches the words
it has seen, as it would in a channel; "each with a new word" adds a word that it has not seen.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field

from channelmem.routing.people import Roster
from channelmem.routing.route import Scene, route
from channelmem.types import Person

NOW = 1_773_847_800.0
PEOPLE = ("mark", "alice", "bob", "carol", "dave")

PLAIN = (
    "what did bob say about kubernetes",
    "did anyone bring up pizza?",
    "can you find alice's message about the license",
    "who said that the server is down?",
    "tell me a joke",
    "how do I say good morning in Spanish",
    "catch me up",
    "what are people arguing about",
    "what does the python docs say about asyncio.gather?",
    "hello how are you",
)
TIMED = (
    "what did alice say yesterday about the budget?",
    "what did we decide on Monday?",
    "what was said in the last half hour",
    "what did bob promise two days ago?",
    "did carol post the link this morning",
    "what happened in here over the weekend?",
    "what were we discussing last month?",
    "who shared the pdf on march 3rd",
    "what did dave say on 2026-03-10",
    "what was the plan we made 3 hours ago",
)
PATHOLOGICAL = {
    "10,000 letters": "a" * 10_000,
    "10,000 characters of words": "what did bob say " * 600,
    "10,000 quotes": "'\"" * 5_000,
    "10,000 opened code marks": "`" * 10_000,
    "10,000 brackets": "<@" * 5_000,
    "10,000 digits and dots": "1.1-" * 2_500,
    "10,000 commas and names": "bob, alice and " * 700,
    "10,000 time words": "last week on monday at 3 " * 400,
    "10,000 hyphens": "a-" * 5_000,
    "10,000 spaces": " " * 10_000,
    "emoji": "🐢" * 10_000,
    "combining marks": "e\u0301" * 5_000,
    "many dates": " ".join(f"{month} {day}" for month in ("march", "april", "may") for day in range(1, 29)),
}


@dataclass(frozen=True, slots=True)
class Line:
    what: str
    questions: int
    p50_us: float
    p99_us: float
    cpu_p50_us: float
    cpu_worst_us: float


@dataclass(slots=True)
class Class:
    """Questions of one kind and how long routing them took."""

    what: str
    scene: Scene
    texts: Sequence[str]
    seldom: bool = False
    """Runs in every twentieth round only."""
    wall_us: list[float] = field(default_factory=list)
    cpu_us: list[float] = field(default_factory=list)

    def ask(self, new_word: str = "") -> None:
        for place, text in enumerate(self.texts):
            asked = f"{text} {new_word}{place}" if new_word else text
            begin, cpu_begin = time.perf_counter_ns(), time.process_time_ns()
            route(asked, self.scene)
            self.cpu_us.append((time.process_time_ns() - cpu_begin) / 1_000)
            self.wall_us.append((time.perf_counter_ns() - begin) / 1_000)

    @property
    def line(self) -> Line:
        wall, cpu = sorted(self.wall_us), sorted(self.cpu_us)
        p50, p99 = wall[len(wall) // 2], wall[int(len(wall) * 0.99)]
        return Line(self.what, len(self.texts), p50, p99, cpu[len(cpu) // 2], cpu[-1])


def scene(roster: Roster) -> Scene:
    return Scene(asker=Person(10, "mark"), bot=Person(1, "bot"), roster=roster, now=NOW)


def measure(rounds: int) -> list[Line]:
    """Runs all classes in turns, so that a slow moment of the machine affects all of them equally."""
    small = scene(Roster(Person(10 + i, name) for i, name in enumerate(PEOPLE)))
    crowd = [Person(10 + i, name) for i, name in enumerate(PEOPLE)]
    crowd += [Person(100 + i, f"user{i:04d} of the crowd", (f"nick_{i}",)) for i in range(5_000)]
    large = scene(Roster(crowd))
    first = Class("first question of a process", small, TIMED[7:8])
    first.ask()
    fresh = Class("without, each with a new word", small, PLAIN)
    classes = [
        Class("without a time expression", small, PLAIN),
        Class("with a time expression", small, TIMED),
        fresh,
        Class("without, 5,000 names in the roster", large, PLAIN),
        Class("with, 5,000 names in the roster", large, TIMED),
        Class("unknown names, 5,000 in the roster", large, ("what did usre1234 say", "did use say it")),
        *(Class(f"pathological: {what}", large, (text,), seldom=True) for what, text in PATHOLOGICAL.items()),
    ]
    for number in range(rounds):
        for each in classes:
            if not each.seldom or number % 20 == 0:
                each.ask(f"number{number}x" if each is fresh else "")
    return [first.line, *(each.line for each in classes)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=200, help="times each question is routed (default 200)")
    parser.add_argument("--json", action="store_true", help="print JSON on standard output instead of a table")
    options = parser.parse_args()
    lines = measure(options.rounds)
    if options.json:
        json.dump([asdict(each) for each in lines], sys.stdout, indent=1)
        return
    print(f"{'microseconds per question':44}{'p50':>10}{'p99':>10}{'cpu p50':>10}{'cpu worst':>12}")
    for each in lines:
        wall = f"{each.p50_us:10.0f}{each.p99_us:10.0f}"
        print(f"{each.what:44}{wall}{each.cpu_p50_us:10.0f}{each.cpu_worst_us:12.0f}")


if __name__ == "__main__":
    main()
