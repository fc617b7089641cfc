"""Scenes: invented channels with questions asked in their moment, and what a member would call right.

Reads a folder with scenes as written (`*.txt`, the format of tests/data/README.md) or as rows (`messages.jsonl` and
`questions.jsonl`). `replay` plays a scene through the public API, as a bot would.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from channelmem import Answer, Kind, Memory, Message, Person, Question

BOT = Person(99, "Memo")
DISCORD_EPOCH_S = 1_420_070_400
UNITS_S = {"s": 1, "m": 60, "h": 3_600}
PAUSES_S = (4, 6, 9, 12, 15, 20, 26, 35, 50)
_LINE = re.compile(
    r"(?P<asks>\? )?(?:(?P<gap>[+@]\S+) )?(?P<who>\S+?)(?: \{(?P<label>\w+)\})?(?: >(?P<first>\w+))?"
    r"(?: \[(?P<kind>[\w-]+)\])?(?: >(?P<second>\w+))?: (?P<text>.+)"
)
_SPAN = re.compile(r"(\d+)([smh])")


@dataclass(frozen=True, slots=True)
class Expected:
    """What a member would call right."""

    kind: str
    """quote, recap, no (an honest no), none (not about the channel), either (no or none)."""
    gold: tuple[str, ...] = ()
    least: int = 1
    """How many gold messages a recap must show."""
    must: tuple[str, ...] = ()
    """What the answer must contain."""
    stale: tuple[str, ...] = ()
    """Messages that were corrected later."""
    related: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Turn:
    """A message, or a question if something is expected of it."""

    id: str
    ts: float
    author: str
    author_id: int
    text: str
    aliases: tuple[str, ...] = ()
    reply_to: str | None = None
    mentions: tuple[int, ...] = ()
    group: str = ""
    expected: Expected | None = None


@dataclass(slots=True)
class Scene:
    name: str
    turns: list[Turn] = field(default_factory=list)

    @property
    def questions(self) -> list[Turn]:
        return [turn for turn in self.turns if turn.expected]


def read_scenes(folder: Path) -> list[Scene]:
    if (folder / "questions.jsonl").exists():
        return _from_rows(folder)
    return [_written(number, path) for number, path in enumerate(sorted(folder.glob("*.txt")), 1)]


def _from_rows(folder: Path) -> list[Scene]:
    rows = [
        json.loads(line)
        for name in ("messages", "questions")
        for line in (folder / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()
    ]
    scenes: dict[str, Scene] = {}
    for row in sorted(rows, key=lambda row: (row["ts"], "class" in row)):
        scenes.setdefault(row["scene"], Scene(row["scene"])).turns.append(_turn(row))
    return list(scenes.values())


def _turn(row: dict[str, Any]) -> Turn:
    wanted = row.get("expect")
    expected = wanted and Expected(
        wanted["kind"],
        tuple(wanted.get("any", ())),
        wanted.get("least", 1),
        tuple(wanted.get("must", ())),
        tuple(wanted.get("stale", ())),
        tuple(wanted.get("also", ())),
    )
    return Turn(
        row["id"], row["ts"], row["author"], row["author_id"], row["text"], tuple(row.get("aliases", ())),
        row.get("reply_to"), tuple(row.get("mentions", ())), row.get("class", ""), expected,
    )  # fmt: skip


class _Writer:
    """Reads one scene as written, line by line."""

    def __init__(self, number: int, head: str) -> None:
        _, name, start, *people = head.split()
        self.scene, self.now = Scene(name), datetime.fromisoformat(start).replace(tzinfo=UTC).timestamp()
        self.aliases = dict(_person(person) for person in people)
        self.ids = {name: number * 100 + place for place, name in enumerate(self.aliases, 1)}
        self.labels: dict[str, str] = {}
        self.dice = random.Random(name)  # noqa: S311  (the same pauses in every run)
        self.asked: Turn | None = None

    def line(self, line: str) -> None:
        if line.startswith("  = "):
            assert self.asked, line
            self.scene.turns.append(_expecting(self.asked, line[4:], self.labels))
            self.asked = None
            return
        found = _LINE.fullmatch(line)
        assert found, f"{self.scene.name}: cannot read {line!r}"
        assert not self.asked, f"{self.scene.name}: nothing is expected of the question before {line!r}"
        turn = self._turn(found)
        if found["asks"]:
            self.asked = turn
        else:
            self.scene.turns.append(turn)
            if found["label"]:
                assert found["label"] not in self.labels, line
                self.labels[found["label"]] = turn.id

    def _turn(self, found: re.Match[str]) -> Turn:
        self.now = self._moment(found["gap"])
        who, replied = found["who"].replace("~", " "), found["first"] or found["second"]
        mark = f"q{len(self.scene.questions) + 1:02}" if found["asks"] else f"{len(self.scene.turns) + 1:03}"
        return Turn(
            f"{self.scene.name}-{mark}",
            self.now,
            who,
            self.ids[who],
            found["text"],
            self.aliases[who],
            self.labels[replied] if replied else None,
            tuple(self.ids[name] for name in self.ids if f"@{name}" in found["text"]),
            found["kind"] or "",
        )

    def _moment(self, gap: str | None) -> float:
        if gap is None:
            return self.now + self.dice.choice(PAUSES_S)
        if gap[0] == "@":
            return datetime.fromisoformat(gap[1:]).replace(tzinfo=UTC).timestamp()
        return self.now + sum(int(count) * UNITS_S[unit] for count, unit in _SPAN.findall(gap))


def _written(number: int, path: Path) -> Scene:
    head, *lines = path.read_text(encoding="utf-8").splitlines()
    writer = _Writer(number, head)
    for line in filter(str.strip, lines):
        writer.line(line)
    return writer.scene


def _person(text: str) -> tuple[str, tuple[str, ...]]:
    name, _, aliases = text.replace("~", " ").partition("=")
    return name, tuple(filter(None, aliases.split(",")))


def _expecting(turn: Turn, text: str, labels: dict[str, str]) -> Turn:
    head, *parts = [part.strip() for part in text.split(" | ")]
    kind, *words = head.split()
    least = int(words.pop(0)) if kind == "recap" else 1
    found: dict[str, list[str]] = {"stale": [], "also": [], "must": []}
    for part in parts:
        name, rest = part.split(" ", 1)
        found[name] += [rest] if name == "must" else [labels[label] for label in rest.split()]
    expected = Expected(
        "quote" if kind == "any" else kind,
        tuple(labels[label] for label in words),
        least,
        tuple(found["must"]),
        tuple(found["stale"]),
        tuple(found["also"]),
    )
    return replace(turn, expected=expected)


def routing_rows(folder: Path, *, every: bool = False) -> dict[str, list[dict[str, Any]]]:
    """The questions of each scene as rows of a routing file: is it about this conversation?

    Unless `every` is set, rows are left out that only a follow-up or a reply makes clear, and those where wording
    cannot tell ("either").
    """
    found: dict[str, list[dict[str, Any]]] = {}
    for scene in read_scenes(folder):
        found[scene.name] = [
            {
                "q": turn.text,
                "asker": turn.author.lower(),
                "roster": sorted({one.author.lower() for one in scene.turns if one.ts <= turn.ts}),
                "now": turn.ts,
                "route": "none" if turn.expected and turn.expected.kind == "none" else "channel",
            }
            for turn in scene.questions
            if every or _wording_tells(turn)
        ]
    return found


def _wording_tells(turn: Turn) -> bool:
    vague = turn.expected is not None and turn.expected.kind == "either"
    return not vague and turn.group not in {"followup", "before", "reply-to"}


Speak = Callable[[Question, Answer], Awaitable[str]]


async def replay(
    memory: Memory,
    scene: Scene,
    place: tuple[int, int],
    clock: list[float],
    force: Kind | None = None,
    speak: Speak | None = None,
) -> AsyncIterator[tuple[Turn, Answer, dict[int, Turn]]]:
    """Plays a scene: messages, the questions themselves and the bot's answers are remembered as a bot does it. Yields
    every question with its answer and the messages said so far, by id. `speak` puts answers into other words."""
    ids = {turn.id: _snowflake(turn.ts, number) for number, turn in enumerate(scene.turns)}
    said: dict[int, Turn] = {}
    for turn in scene.turns:
        clock[0] = turn.ts
        message = _message(turn, ids, place)
        await memory.remember(message)
        if not turn.expected:
            said[message.id] = turn
            continue
        await memory.flush()
        question = _question(message, force)
        answer = await memory.ask(question)
        words = await speak(question, answer) if speak else answer.text
        clock[0] = turn.ts + 0.5
        await memory.remember(_reply(message, words, clock[0]))
        yield turn, answer, dict(said)


def _snowflake(ts: float, number: int) -> int:
    return (int((ts - DISCORD_EPOCH_S) * 1_000) << 22) + number


def _message(turn: Turn, ids: dict[str, int], place: tuple[int, int]) -> Message:
    return Message(
        *place,
        ids[turn.id],
        turn.author_id,
        turn.author,
        turn.text,
        turn.ts,
        reply_to=ids[turn.reply_to] if turn.reply_to else None,
        mentions=turn.mentions,
        aliases=turn.aliases,
        addressed=turn.expected is not None,
    )


def _question(message: Message, force: Kind | None) -> Question:
    return Question(
        message.guild_id, message.channel_id, message.id, message.author_id, message.author, message.content,
        message.ts, reply_to=message.reply_to, bot=BOT, kind=force,
    )  # fmt: skip


def _reply(message: Message, text: str, ts: float) -> Message:
    place = (message.guild_id, message.channel_id)
    return Message(*place, message.id + (500 << 22), BOT.id, BOT.name, text, ts, reply_to=message.id, own=True)


def quoted(text: str, said: Iterable[Turn]) -> list[str]:
    """The ids of the messages that an answer quotes, in order; "?" for a quote of anything else."""
    known = list(said)
    return [_source(quote, line, known) for line in text.splitlines() for quote in re.findall(r"“([^”]*)”", line)]


def _source(quote: str, line: str, said: Sequence[Turn]) -> str:
    parts = [part for part in re.split(r"…|\.\.\.", _squashed(quote)) if part.strip()] or [_squashed(quote)]
    piece = max(parts, key=len).strip()
    fits = [turn for turn in said if piece in _squashed(turn.text)]
    exact = [turn for turn in fits if _squashed(turn.text) == _squashed(quote)] or fits
    named = [turn for turn in exact if turn.author.lower() in line.lower()] or exact
    return named[-1].id if named else "?"


def _squashed(text: str) -> str:
    return " ".join(text.split()).lower()
