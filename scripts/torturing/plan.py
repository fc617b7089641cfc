"""Plans a history: what is said, edited, deleted, decided and asked, and what breaks when.

The plan depends on its seed only, never on what happens: the same seed gives the same history.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from scripts.torturing.steps import GUILDS, PEOPLE, ROOMS, Act, Step

WORDS = (
    "turtle",
    "release",
    "venue",
    "cake",
    "invoice",
    "server",
    "otter",
    "train",
    "garden",
    "music",
    "paper",
    "bridge",
)
QUESTIONS = (
    "what did {name} just say?",
    "what did {name} say about the {word}?",
    "catch me up",
    "what was said about the {word}?",
    "what did you just say?",
    "who mentioned the {word}?",
)
ACTS = {
    Act.SAY: 56,
    Act.EDIT: 10,
    Act.DELETE: 8,
    Act.ASK: 12,
    Act.ANSWER: 4,
    Act.SEARCH: 4,
    Act.LIST: 1,
    Act.EXPORT: 0.6,
    Act.PAUSE: 0.5,
    Act.RESUME: 4,
    Act.CLEAR: 0.4,
}
DECISIONS = {Act.OPT_OUT: 4, Act.FORGET: 2, Act.OPT_IN: 20}
"""More openings than closings, so that most of what is said is stored."""
NEAR = 40
"""Edits and deletes meet one of this many newest messages of a channel."""
STEPS = 30
"""Of each process in one round."""


@dataclass(frozen=True, slots=True)
class Round:
    steps: tuple[tuple[Step, ...], ...]
    """Of each process, which owns its channels: what happens in a channel has an order."""
    decisions: tuple[tuple[int, Step], ...]
    """Of people, through one of the processes, after the steps."""
    fault: str = ""
    begins_s: float = 0.0
    lasts_s: float = 0.0
    killed: int | None = None
    """The process that is killed, in the middle of its steps."""
    killed_at: int = 0


@dataclass
class Plan:
    seed: int
    processes: int
    faults: Sequence[str]
    fault_share: float = 0.4
    kill_share: float = 0.1
    said: dict[tuple[int, int], list[tuple[int, int]]] = field(default_factory=dict)
    """By room: ids and authors."""
    last: int = 1000

    def rounds(self) -> Iterator[Round]:
        chance = random.Random(self.seed)  # noqa: S311  (a history, not a secret)
        while True:
            yield self._round(chance)

    def _round(self, chance: random.Random) -> Round:
        steps = tuple(tuple(self._step(chance, process) for _ in range(STEPS)) for process in range(self.processes))
        decisions = tuple(self._decision(chance) for _ in range(chance.choice((0, 0, 0, 1, 1, 2))))
        breaks, kills = chance.random() < self.fault_share, chance.random() < self.kill_share
        return Round(
            steps,
            decisions,
            chance.choice(self.faults) if breaks and self.faults else "",
            chance.uniform(0, 0.1),
            chance.uniform(0.05, 0.6),
            chance.randrange(self.processes) if kills else None,
            chance.randrange(STEPS),
        )

    def _step(self, chance: random.Random, process: int) -> Step:
        guild, channel = chance.choice(ROOMS[process :: self.processes])
        (act,) = chance.choices(list(ACTS), list(ACTS.values()))
        known = self.said.setdefault((guild, channel), [])[-NEAR:]
        if act in {Act.EDIT, Act.DELETE} and known:
            id_, author = chance.choice(known)
            return Step(act, guild, channel, author, id_, self._words(chance, id_) if act is Act.EDIT else "")
        if act in {Act.ASK, Act.ANSWER, Act.SEARCH}:
            return self._question(chance, act, guild, channel)
        if act in {Act.SAY, Act.EDIT, Act.DELETE}:
            return self._saying(chance, guild, channel)
        return Step(act, guild, channel, chance.choice(list(PEOPLE)))

    def _saying(self, chance: random.Random, guild: int, channel: int) -> Step:
        id_, author = self._next(), chance.choice(list(PEOPLE))
        self.said[guild, channel].append((id_, author))
        return Step(Act.SAY, guild, channel, author, id_, self._words(chance, id_))

    def _question(self, chance: random.Random, act: Act, guild: int, channel: int) -> Step:
        name, word = chance.choice(list(PEOPLE.values())), chance.choice(WORDS)
        text = word if act is Act.SEARCH else chance.choice(QUESTIONS).format(name=name, word=word)
        others = tuple(other for its_guild, other in ROOMS if its_guild == guild and other != channel)
        wide = act is Act.ASK and chance.random() < 0.3  # an answer for everybody quotes its own channel
        return Step(act, guild, channel, chance.choice(list(PEOPLE)), self._next(), text, others if wide else ())

    def _decision(self, chance: random.Random) -> tuple[int, Step]:
        (act,) = chance.choices(list(DECISIONS), list(DECISIONS.values()))
        scope = chance.choice((None, None, *GUILDS))
        return chance.randrange(self.processes), Step(act, author=chance.choice(list(PEOPLE)), scope=scope)

    def _words(self, chance: random.Random, id_: int) -> str:
        return " ".join((f"zq{id_:x}r{self._next():x}qz", *chance.sample(WORDS, 3)))

    def _next(self) -> int:
        self.last += 1
        return self.last
