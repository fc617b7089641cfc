"""Clues that are made by operations on whole sets, against their plain definitions."""

from __future__ import annotations

import random
from math import log1p

import pytest

from channelmem.linking.window import FEATURES, SPAN, Turn, TurnWindow, read, tabulate
from channelmem.types import Message

NAMES = ["ann", "bob", "carol", "dave", "eve"]


def talk(length: int, seed: int) -> list[Message]:
    chance = random.Random(seed)  # noqa: S311  (repeatable, not secret)
    texts = ["{}: which printer?", "the spooler of {} is broken", "no idea", "printer and spooler, all broken"]
    people = [chance.randrange(len(NAMES)) for _ in range(length)]
    return [
        Message(1, 2, n, who, NAMES[who], chance.choice(texts).format(chance.choice(NAMES)), 100.0 * n)
        for n, who in enumerate(people)
    ]


def heard(messages: list[Message]) -> tuple[TurnWindow, Turn]:
    """What a channel knows after all but the last message, and the last as a turn."""
    past, names = TurnWindow(), {name: who for who, name in enumerate(NAMES)}
    turns = [read(message, names, None, first_here=False) for message in messages]
    for turn in turns[:-1]:
        past.append(turn)
    return past, turns[-1]


@pytest.fixture(params=[(length, seed) for length in (2, 7, 51, 99, 100, 101, 150, 163) for seed in (1, 2)])
def moment(request: pytest.FixtureRequest) -> tuple[TurnWindow, Turn]:
    return heard(talk(*request.param))


def column(moment: tuple[TurnWindow, Turn], feature: str) -> list[float]:
    past, turn = moment
    (rows,) = tabulate([past.see(turn)])
    new, *found = rows[FEATURES.index(feature)].tolist()
    assert new == 0, "nothing of this speaks for starting something new"
    return [round(number, 4) for number in found]


def test_only_the_newest_turns_are_candidates(moment: tuple[TurnWindow, Turn]) -> None:
    past, turn = moment
    assert [one.message.id for one in past.turns] == list(range(max(turn.message.id - SPAN, 0), turn.message.id))


def test_time_and_distance_are_logarithms_of_what_lies_between(moment: tuple[TurnWindow, Turn]) -> None:
    past, turn = moment
    steps = [turn.message.id - one.message.id for one in past.turns]
    assert column(moment, "distance") == [round(log1p(n), 4) for n in steps]
    assert column(moment, "time") == [round(log1p(100.0 * n), 4) for n in steps]


def test_what_came_later_is_counted(moment: tuple[TurnWindow, Turn]) -> None:
    past, turn = moment
    turns, me = list(past.turns), turn.message.author_id
    own = [[one.message.author_id == me for one in turns[at + 1 :]] for at in range(len(turns))]
    to = [[one.message.author_id in turn.addressed for one in turns[at + 1 :]] for at in range(len(turns))]
    same = [[o.message.author_id == t.message.author_id for o in turns[at + 1 :]] for at, t in enumerate(turns)]
    assert column(moment, "mine since") == [round(log1p(sum(later)), 4) for later in own]
    assert column(moment, "addressee since") == [round(log1p(sum(later)), 4) for later in to]
    assert column(moment, "later by author") == [round(log1p(sum(later)), 4) for later in same]


def test_the_newest_of_each_author_is_found(moment: tuple[TurnWindow, Turn]) -> None:
    past, turn = moment
    me = turn.message.author_id
    last = {one.message.author_id: one for one in past.turns}
    to_me = {one.message.author_id: one for one in past.turns if me in one.addressed}
    open_to_me = {one.message.author_id: one for one in past.turns if me in one.addressed or not one.addressed}
    assert column(moment, "newest of author") == [float(one in last.values()) for one in past.turns]
    assert column(moment, "newest to me of author") == [float(one in to_me.values()) for one in past.turns]
    assert column(moment, "newest compatible of author") == [float(one in open_to_me.values()) for one in past.turns]


def test_whom_i_have_addressed_since_is_answered(moment: tuple[TurnWindow, Turn]) -> None:
    past, turn = moment
    turns, me = list(past.turns), turn.message.author_id
    mine = [(at, one.addressed) for at, one in enumerate(turns) if one.message.author_id == me]
    expected = [any(at > n and one.message.author_id in to for at, to in mine) for n, one in enumerate(turns)]
    assert column(moment, "answered by me") == [float(answered) for answered in expected]


def test_words_in_common_speak_for_a_candidate(moment: tuple[TurnWindow, Turn]) -> None:
    past, turn = moment
    common = column(moment, "common words")
    assert [number > 0 for number in common] == [bool(one.words & turn.words) for one in past.turns]
    highest = max(common)
    assert column(moment, "most common words") == [float(number == highest > 0) for number in common]
