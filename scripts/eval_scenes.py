"""Answers the questions of invented channels end to end, and counts what a member would call right.

    python -m scripts.eval_scenes                        the scenes in tests/data/scenes
    python -m scripts.eval_scenes --data DIR/scenes      others of the same kind (skipped if they are not there)
    python -m scripts.eval_scenes --misses               with every miss: what was wanted, what was answered, and why
    python -m scripts.eval_scenes --model --scene bees   also in the words of the model that CHANNELMEM_LLM_* names

Right: a gold message is among the first three quotes and the required words are there; an honest no that quotes
nothing; a question that is none of our business left alone. A guess ("Perhaps") about something that nobody said counts
as partly right, a correction that is missed as wrong.

FRIEND is stricter: the first quote is gold, every further one gold or related, and where nothing may be quoted nothing
is. `lead` counts answers whose first quote is gold, `off` quotes that are neither gold nor related.

With --model every answer is also put into a language model's words, as the bot does it: where the bot would show quotes
instead, they count. The model's own words are right if they have the required words, at least half of what they say
beyond the question is in the gold messages (or in who wrote them), and no other message has more of it; of a recap, so
many gold messages are told by a third of their words. Where nobody said it they must say so; what is not about the
channel may be answered with anything but a quote.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import tempfile
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from channelmem import Answer, Kind, Memory, Question, Settings
from channelmem.extras import load
from channelmem.llm import Location, Responder, ResponderError
from scripts.scenes import Expected, Scene, Turn, quoted, read_scenes, replay

OWN = Path(__file__).parent.parent / "tests" / "data" / "scenes"
GUESS = "Perhaps"
NEAR = 3
"""A gold message must be among this many first quotes."""
QUIET = ("none", "no", "either")
"""What must not be answered with a quote."""


@dataclass(frozen=True, slots=True)
class Judged:
    scene: str
    turn: Turn
    answer: Answer
    shown: tuple[str, ...]
    verdict: str
    """right, partly or wrong."""
    fault: str = ""
    words: str = ""
    """The answer in a language model's words, if these are shown."""
    problem: str = ""
    """Why they are not."""
    spoken: bool | None = None
    """Whether the model's words, or the quotes in their place, are what a friend would say; None without a model."""

    @property
    def friend(self) -> bool:
        """Whether the quotes are what a friend would say."""
        want = self.turn.expected
        assert want
        if want.kind != "quote" or self.verdict != "right":
            return self.verdict == "right"
        return self.shown[0] in want.gold and {*want.gold, *want.related}.issuperset(self.shown)


def judge(  # noqa: PLR0911  (one return per verdict)
    want: Expected, answer: Answer, shown: Sequence[str]
) -> tuple[str, str]:
    """Verdict and fault."""
    none = answer.route.kind is Kind.NONE
    if want.kind in QUIET:
        return _quiet(want, answer, shown, none=none)
    if not shown:
        return "wrong", "false none" if none else "false nothing"
    gold = set(want.gold)
    if want.kind == "recap":
        got = len(gold.intersection(shown))
        return ("right", "") if got >= want.least else ("partly", "thin recap") if got else ("wrong", "false quote")
    if gold.intersection(shown[:NEAR]) and all(word.lower() in answer.text.lower() for word in want.must):
        return "right", ""
    if gold.intersection(shown):
        return "partly", "text" if gold.intersection(shown[:NEAR]) else "gold too deep"
    if set(want.stale).intersection(shown):
        return "wrong", "stale quote"
    if set(want.related).intersection(shown[:NEAR]):
        return "partly", "only related"
    return "wrong", "guess" if answer.text.startswith(GUESS) else "false quote"


def _quiet(want: Expected, answer: Answer, shown: Sequence[str], *, none: bool) -> tuple[str, str]:
    if want.kind == "none":
        return ("right", "") if none and not shown else ("wrong", "false quote") if shown else ("partly", "looked")
    if want.kind == "no" and none:
        return "wrong", "false none"
    if not shown:
        return "right", ""
    return ("partly", "guess") if answer.text.startswith(GUESS) else ("wrong", "false quote")


# --- a language model's words ---

SHARE = 0.5
"""Of what an answer says beyond the question, the share that must be in the gold messages."""
TOLD = 1 / 3
"""Of a message's words, the share that tells it in a recap."""


class Speaker:
    """Puts answers into a language model's words, as the bot does: if that fails, they stay quotes."""

    def __init__(self, responder: Responder) -> None:
        self._responder, self.words, self.problem = responder, "", ""

    async def __call__(self, question: Question, answer: Answer) -> str:
        self.words, self.problem = "", ""
        try:
            async for grown in self._responder.respond(question, answer, Location("", "general"), set()):
                self.words = grown
        except ResponderError as error:
            self.words, self.problem = "", str(error)
        return self.words or answer.text


def told_right(turn: Turn, words: str, said: Sequence[Turn]) -> bool:
    """Whether a model's words are what a friend would say."""
    checks, want = load("channelmem.llm.checks", "llm", "--model"), turn.expected
    assert want
    if want.kind == "none":
        return not [one for one in quoted(words, said) if one != "?"]
    if want.kind in QUIET:
        return bool(checks.admits(words, turn.text))
    gold = [one for one in said if one.id in want.gold]
    if want.kind == "recap":
        own = checks.content(words)
        parts = [checks.content(one.text) for one in gold]
        return sum(len(part & own) >= TOLD * len(part) for part in parts) >= want.least
    return _has(words, want.must) and _of_gold(turn, words, said, gold)


def _has(words: str, must: Sequence[str]) -> bool:
    """Whether all that is required is there; a time of day in whatever form."""
    facts_of = load("channelmem.llm.checks", "llm", "--model").facts_of
    told = facts_of(words)
    clocks = {one: facts_of(one).clocks for one in must}
    return all(one.lower() in words.lower() or (clocks[one] and all(map(told.tells, clocks[one]))) for one in must)


def _of_gold(turn: Turn, words: str, said: Sequence[Turn], gold: Sequence[Turn]) -> bool:
    checks = load("channelmem.llm.checks", "llm", "--model")
    content, told = checks.content, checks.facts_of(words)
    assert turn.expected
    fine = {*turn.expected.gold, *turn.expected.related}
    own = content(words) - content(turn.text)
    right = len(own & content(" ".join(f"{one.author} {one.text}" for one in gold)))
    other = max((len(own & content(f"{one.author} {one.text}")) for one in said if one.id not in fine), default=0)
    right += sum(map(told.tells, checks.facts_of(" ".join(one.text for one in gold)).clocks))
    return bool(right > 0 and right >= SHARE * len(own) and right >= other)


async def judged(
    scenes: Iterable[Scene], force: Kind | None = None, threshold: float | None = None, *, model: bool = False
) -> AsyncIterator[Judged]:
    """Every question of the scenes, in a channel of its own that is deleted afterwards."""
    clock = [0.0]
    with tempfile.TemporaryDirectory() as folder:
        settings = Settings(data_dir=Path(folder), _env_file=None)
        if threshold is not None:
            settings = settings.model_copy(update={"semantic_threshold": threshold})
        async with Memory.open(settings, clock=lambda: clock[0]) as memory:
            speak = _speaker(settings, memory, clock) if model else None
            for number, scene in enumerate(scenes, 1):
                async for turn, answer, said in replay(memory, scene, (1, number), clock, force, speak):
                    yield row_of(scene, turn, answer, list(said.values()), speak)
                await memory.delete_channel(1, number)


def _speaker(settings: Settings, memory: Memory, clock: list[float]) -> Speaker:
    opening = load("channelmem.llm.opening", "llm", "--model")
    return Speaker(opening.open_responder(settings, memory, clock=lambda: clock[0]))


def row_of(scene: Scene, turn: Turn, answer: Answer, said: Sequence[Turn], speak: Speaker | None) -> Judged:
    shown = tuple(quoted(answer.text, said))
    assert turn.expected
    row = Judged(scene.name, turn, answer, shown, *judge(turn.expected, answer, shown))
    if speak is None:
        return row
    spoken = told_right(turn, speak.words, said) if speak.words else row.friend
    return replace(row, words=speak.words, problem=speak.problem, spoken=spoken)


def figures(rows: Sequence[Judged]) -> dict[str, object]:
    verdicts = Counter(row.verdict for row in rows)
    quiet = [row for row in rows if row.turn.expected and row.turn.expected.kind in QUIET]
    return {
        "questions": len(rows),
        "right": verdicts["right"],
        "share": round(verdicts["right"] / max(1, len(rows)), 4),
        "partly": verdicts["partly"],
        "wrong": verdicts["wrong"],
        "friend": sum(row.friend for row in rows),
        "quiet": len(quiet),
        "quiet_right": sum(row.verdict == "right" for row in quiet),
        "faults": dict(Counter(row.fault for row in rows if row.fault).most_common()),
    }


def table(rows: Sequence[Judged]) -> None:
    groups: dict[str, list[Judged]] = defaultdict(list)
    for row in rows:
        groups[row.turn.group].append(row)
    print(f"{'class':16}   n right partly wrong  faults")
    for name in sorted(groups):
        told = Counter(row.verdict for row in groups[name])
        faults = Counter(row.fault for row in groups[name] if row.fault)
        counts = f"{len(groups[name]):3} {told['right']:5} {told['partly']:6} {told['wrong']:5}"
        print(f"{name:16} {counts}  {', '.join(f'{fault} {count}' for fault, count in faults.most_common())}")


def friend_line(rows: Sequence[Judged]) -> str:
    asked = [row for row in rows if row.turn.expected and row.turn.expected.kind == "quote"]
    fine = {row.turn.id: {*row.turn.expected.gold, *row.turn.expected.related} for row in asked if row.turn.expected}
    lead = sum(
        bool(row.shown) and row.turn.expected is not None and row.shown[0] in row.turn.expected.gold for row in asked
    )
    off = sum(one not in fine[row.turn.id] for row in asked for one in row.shown)
    friend = sum(row.friend for row in rows)
    return (
        f"FRIEND n={len(rows)} friend={friend} ({100 * friend / max(1, len(rows)):.1f}%) "
        f"lead={lead}/{len(asked)} ({100 * lead / max(1, len(asked)):.1f}%) off={off}"
    )


def model_lines(rows: Sequence[Judged]) -> Iterable[str]:
    """What changes with the model's words, and why they were not shown."""
    friend, shown = sum(bool(row.spoken) for row in rows), sum(bool(row.words) for row in rows)
    for row in rows:
        if row.spoken != row.friend:
            change = "better" if row.spoken else "worse"
            yield f"{change}: {row.turn.id} {row.turn.text}\n   quotes: {row.answer.text}\n   model:  {row.words}"
    yield from (
        f"quotes instead {count}: {why}" for why, count in Counter(r.problem for r in rows if r.problem).items()
    )
    share = 100 * friend / max(1, len(rows))
    yield f"FRIEND with the model: n={len(rows)} friend={friend} ({share:.1f}%) in its words={shown}"


def show_miss(row: Judged, texts: dict[str, str]) -> None:
    want, route = row.turn.expected, row.answer.route
    assert want
    print(f"\n[{row.verdict}: {row.fault}] {row.turn.id} ({row.turn.group}) {row.turn.author}: {row.turn.text}")
    print(f"   want {want.kind}: " + " | ".join(texts[gold] for gold in want.gold[:3]))
    print("   got  " + row.answer.text.replace("\n", "\n        "))
    print(
        f"   {route.kind}/{route.mode} topic={route.topic!r} who={[one.name for one in route.speakers]} p={route.p:.2f}"
    )
    print(f"   sure={row.answer.sure:.2f} {row.answer.evidence} why={route.why}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=OWN, help="folder of scenes")
    parser.add_argument("--misses", action="store_true", help="show every answer that is not right")
    parser.add_argument("--scene", help="only this scene")
    parser.add_argument("--group", help="only questions of this class are shown and counted")
    parser.add_argument("--force", type=Kind, help="set the route's kind, to see what recall alone would do")
    parser.add_argument("--json", action="store_true", help="print the figures as one JSON object")
    parser.add_argument("--model", action="store_true", help="also in the words of the model of CHANNELMEM_LLM_*")
    options = parser.parse_args()
    if options.model and Settings(_env_file=None).llm_model is None:
        parser.error("--model needs CHANNELMEM_LLM_MODEL (docs/llm.md)")
    if not options.data.is_dir():
        print(f"Skipped: there are no scenes in {options.data}.")
        return
    scenes = [scene for scene in read_scenes(options.data) if options.scene in (None, scene.name)]
    rows = asyncio.run(_all(scenes, options.force, model=options.model))
    rows = [row for row in rows if options.group in (None, row.turn.group)]
    if options.json:
        print(json.dumps(figures(rows)))
        return
    texts = {turn.id: f"{turn.author}: {turn.text}" for scene in scenes for turn in scene.turns}
    for row in rows if options.misses else ():
        if row.verdict != "right":
            show_miss(row, texts)
    table(rows)
    print(" ".join(f"{name}={value}" for name, value in figures(rows).items()))
    print(friend_line(rows))
    if options.model:
        print("\n".join(model_lines(rows)))


async def _all(scenes: Sequence[Scene], force: Kind | None, *, model: bool) -> list[Judged]:
    return [row async for row in judged(scenes, force, model=model)]


if __name__ == "__main__":
    main()
