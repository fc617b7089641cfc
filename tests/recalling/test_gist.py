"""Which lines of a stretch of talk are worth telling."""

from __future__ import annotations

from datetime import UTC

from channelmem.recalling.gist import MOST_POINTS, WEIGHTS, About, Stretch, features, points
from channelmem.types import Message

NOW = 1_800_000_000.0  # Friday, 2027-01-15 08:00 UTC
PEOPLE = {"Ann": 2, "Bob": 3, "Carol": 4}


def said(number: int, who: str, text: str, *, to: int | None = None) -> Message:
    return Message(10, 20, number, PEOPLE[who], who, text, NOW - 3_000 + 20 * number, to)


TALK = (
    said(1, "Ann", "morning all"),
    said(2, "Bob", "lol"),
    said(3, "Ann", "shall we meet on saturday at 7?"),
    said(4, "Bob", "works for me"),
    said(5, "Carol", "haha my cat is on the keyboard again 😂"),
    said(6, "Bob", "😂😂"),
    said(7, "Ann", "no wait, the hall is closed then. sunday at 9 it is", to=3),
    said(8, "Carol", "ok"),
    said(9, "Carol", "I'll bring the big tent"),
    said(10, "Bob", "nice"),
    said(11, "Ann", "tickets: https://tickets.example/42"),
    said(12, "Bob", "who drives?"),
)


def told(stretch: Stretch) -> list[int]:
    return [point.message.id for point in points(stretch)]


def test_what_is_settled_and_taken_on_is_told_and_banter_is_not() -> None:
    shown = told(Stretch(TALK))
    assert {7, 9, 11} <= set(shown)
    assert not {2, 6, 10} & set(shown)
    assert shown == sorted(shown)


def test_only_a_question_that_nobody_answered_is_open() -> None:
    assert {point.message.id for point in points(Stretch(TALK)) if point.is_open} <= {12}
    asked = (said(1, "Ann", "when do we start at the mill?"), said(2, "Bob", "at 9"))
    assert not any(point.is_open for point in points(Stretch(asked)))
    assert points(Stretch(asked[:1]))[0].is_open


def test_a_value_that_was_replaced_counts_less() -> None:
    column = list(WEIGHTS).index("replaced")
    assert features(Stretch(TALK))[:, column].tolist() == [0, 0, 1, *[0] * 9]
    assert WEIGHTS["replaced"] < 0


def test_the_topic_comes_first() -> None:
    talk = [said(n, "Ann", f"the roof needs {n} new tiles by friday") for n in range(1, 15)]
    talk += [said(n, "Bob", f"the boat costs {n} euros in all") for n in range(15, 20)]
    about = [About(1, 1, 1, 0.8, 0.2) if "boat" in one.content else About(0, 0, 0, 0.1, 0.0) for one in talk]
    assert {15, 16, 17, 18, 19} <= set(told(Stretch(talk, about)))


def test_a_day_is_found_however_it_is_named() -> None:
    talk = [
        said(1, "Ann", "we open the hall on sat"),
        said(2, "Bob", "and close it tmrw"),
        said(3, "Carol", "the 16th is fine for me"),
        said(4, "Ann", "monday is out"),
    ]
    column = list(WEIGHTS).index("same_day")
    for day in ("saturday", "tomorrow", "the 16th", "the wknd"):
        assert features(Stretch(talk, (), day, NOW, UTC))[:, column].tolist() == [1, 1, 1, 0]


def test_the_same_is_told_once() -> None:
    talk = [said(n, "Ann", "we meet on saturday at 9 in the old mill") for n in range(1, 10)]
    talk += [said(n, "Bob", f"I can get {one} for it") for n, one in enumerate(("tea", "soup", "bread"), 10)]
    assert {10, 11, 12} <= set(told(Stretch(talk)))


def test_at_most_eight_lines_are_told_and_none_of_nothing() -> None:
    talk = [said(n, "Ann", f"item {n} costs {n} euros, paid on friday") for n in range(1, 60)]
    assert len(told(Stretch(talk))) <= MOST_POINTS
    assert points(Stretch(())) == ()
    assert told(Stretch(talk[:1])) == [1]
