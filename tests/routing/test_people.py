from __future__ import annotations

import pytest

from channelmem.routing.people import Roster, name_words
from channelmem.routing.words import fold
from channelmem.text import slips
from channelmem.types import Person

ANN = Person(1, "Ann")
ZOE = Person(2, "Zoë", ("zo_the_great",))
MARY = Person(3, "Mary Ann Smith")
KAREN = Person(4, "the_real_karen")
BRIEN = Person(5, "O'Brien")
JEAN = Person(6, "Jean-Luc")
TURTLE = Person(7, "🐢")
LI = Person(8, "李雷")
ALEXANDER = Person(9, "alexander")
ROSTER = Roster([ANN, ZOE, MARY, KAREN, BRIEN, JEAN, TURTLE, LI, ALEXANDER])


@pytest.mark.parametrize(
    ("words", "person", "length"),
    [
        (["zoe"], ZOE, 1),
        (["zo_the_great"], ZOE, 1),
        (["mary", "ann", "smith"], MARY, 3),
        (["maryannsmith"], MARY, 1),
        (["ann"], ANN, 1),
        (["o'brien"], BRIEN, 1),
        (["jean", "luc"], JEAN, 2),
        (["jean-luc"], JEAN, 1),
        (["🐢"], TURTLE, 1),
        (["李雷"], LI, 1),
    ],
)
def test_a_full_name_is_found_in_any_spelling(words: list[str], person: Person, length: int) -> None:
    assert ROSTER.find([*words, "said"], 0) == ((person,), length)


def test_a_word_that_is_nobodys_name_finds_nobody() -> None:
    assert ROSTER.find(["einstein"], 0) == ((), 0)


@pytest.mark.parametrize(
    ("word", "people"),
    [
        ("alex", (ALEXANDER,)),
        ("karen", (KAREN,)),
        ("smith", (MARY,)),
        ("alexnader", (ALEXANDER,)),
        ("alexanders", ()),
        ("al", ()),
        ("einstein", ()),
    ],
)
def test_a_part_a_prefix_or_a_slip_means_the_one_person_it_can(word: str, people: tuple[Person, ...]) -> None:
    assert ROSTER.guess(word) == people


def test_a_prefix_of_two_people_means_neither() -> None:
    assert Roster([Person(1, "alexander"), Person(2, "alexandra")]).guess("alex") == ()


def test_two_people_of_one_name_are_both_meant() -> None:
    sams = (Person(1, "Sam"), Person(2, "sam"))
    assert Roster(sams).find(["sam"], 0) == (sams, 1)


def test_an_id_finds_its_person() -> None:
    assert ROSTER.by_id(4) == KAREN
    assert ROSTER.by_id(99) is None


@pytest.mark.parametrize(("text", "folded"), [("ZOË", "zoe"), ("Łukasz", "łukasz"), ("José", "jose"), ("Bob", "bob")])
def test_case_and_accents_do_not_count(text: str, folded: str) -> None:
    assert fold(text) == folded


@pytest.mark.parametrize(
    ("name", "words"),
    [("[AFK] Tom!", ("afk", "tom")), ("elad`", ("elad",)), ("Mr. T", ("mr", "t")), ("", ()), ("***", ())],
)
def test_decoration_falls_away_from_a_name(name: str, words: tuple[str, ...]) -> None:
    assert name_words(name) == words


@pytest.mark.parametrize(
    ("one", "other", "count"),
    [
        ("carol", "carol", 0),
        ("carol", "carlo", 1),
        ("carol", "carrol", 1),
        ("carol", "caro", 1),
        ("carol", "karol", 1),
        ("carol", "car", 2),
        ("sunita", "suneeta", 2),
    ],
)
def test_slips_are_counted(one: str, other: str, count: int) -> None:
    assert slips(one, other) == slips(other, one) == count
