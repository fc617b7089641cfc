"""No question crashes the memory, whoever asks it, in whichever zone and at whatever time that is a time."""

from __future__ import annotations

import os
import random
from dataclasses import replace
from datetime import MAXYEAR, UTC, datetime

import pytest
from conftest import CHANNEL, GUILD, NOW, FakeEmbedder, message
from test_route_fuzz import person, scene, text

from channelmem import Memory, Settings
from channelmem.types import LAST_TS, Question

ROUNDS = int(os.environ.get("FUZZ_QUESTIONS", "900"))
ZONES = ("UTC", "Pacific/Kiritimati", "Pacific/Pago_Pago", "America/New_York", "Asia/Kathmandu")
TIMES = (
    "last year", "next year", "in 9999", "since 9900", "last month", "on the weekend", "in december", "9999-12-31",
    "tonight", "next week", "in 3 years", "100 years ago", "1 Jan 1970", "last winter", "between 1pm and 3pm",
)  # fmt: skip
EDGES = (0.0, 1.0, 86_399.0, LAST_TS, LAST_TS - 1, LAST_TS - 86_400 * 200, NOW - 700, NOW)


def asked(dice: random.Random) -> Question:
    place = scene(dice)
    words = text(dice, place).split()
    if dice.random() < 0.6:
        words.insert(dice.randint(0, len(words)), dice.choice(TIMES))
    ts = dice.choice(EDGES) if dice.random() < 0.6 else dice.uniform(0, LAST_TS)
    who = place.asker
    question = Question(GUILD, CHANNEL, dice.getrandbits(60), who.id, who.name, " ".join(words), ts)
    return replace(
        question,
        mentions=tuple(place.roster.people[:1]),
        joined_ts=dice.choice((None, 0.0, LAST_TS)),
        is_dm=dice.random() < 0.1,
        reply_to=dice.choice((None, 3)),
    )


@pytest.mark.timeout(100 + ROUNDS / 10)
@pytest.mark.parametrize("zone", ZONES)
async def test_any_question_has_an_answer(settings: Settings, fake_embedder: FakeEmbedder, zone: str) -> None:
    dice = random.Random(zone)  # noqa: S311  (the same questions in every run)
    here = settings.model_copy(update={"timezone": zone})
    async with Memory.open(here, clock=lambda: NOW, embedder=fake_embedder) as memory:
        people = [person(dice, 10 + number) for number in range(6)]
        said = [
            message(n, text(dice, scene(dice)), author_id=10 + n % 6, author=people[n % 6].name) for n in range(1, 60)
        ]
        await memory.remember_many([replace(one, aliases=people[one.author_id - 10].aliases) for one in said])
        await memory.flush()
        failed = {}
        for _ in range(ROUNDS // len(ZONES)):
            question = asked(dice)
            try:
                answer = await memory.ask(question)
                await memory.context(question, answer)
            except Exception as error:  # noqa: BLE001  (all of them are to be seen)
                failed[question.text, question.ts] = repr(error)
        assert failed == {}


@pytest.mark.parametrize("zone", ZONES)
async def test_the_last_moment_has_an_answer(settings: Settings, fake_embedder: FakeEmbedder, zone: str) -> None:
    here = settings.model_copy(update={"timezone": zone})
    async with Memory.open(here, clock=lambda: NOW, embedder=fake_embedder) as memory:
        for words in ("today", "this week", "this month", "this year", "this winter", *TIMES):
            question = Question(GUILD, CHANNEL, 1, 5, "Ann", f"what did Mark say {words}?", LAST_TS)
            assert (await memory.ask(question)).text


def test_calendars_reach_a_century_beyond_the_last_time() -> None:
    assert datetime.fromtimestamp(LAST_TS, UTC).year <= MAXYEAR - 99
