"""What one message says about whom it speaks to."""

from __future__ import annotations

import pytest

from channelmem.linking.window import TEXT_FEATURES, named, read
from channelmem.types import Message

NAMES = {"ann": 1, "bob": 2, "zoë müller": 3, "山田 太郎": 4, "x|away": 5, "actionparsnip": 6, "jo": 7}


def message(text: str, **more: object) -> Message:
    return Message(1, 2, 3, 99, "eve", text, 1_000_000.0, **more)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "start", "anywhere"),
    [
        ("ann: try this", {1}, {1}),
        ("ann, bob: try this", {1}, {1, 2}),
        ("@zoë müller try this", {3}, {3}),
        ("山田 太郎、 ok?", {4}, {4}),
        ("x|away: hello", {5}, {5}),
        ("I think bob is right", set(), {2}),
        ("is that @bob?", set(), {2}),
        ("the annual plan", set(), set()),
        ("ann_2: hello", set(), set()),
        ("jo: hello", {7}, {7}),
        ("my jo is gone", set(), set()),
        ("is @jo here", set(), {7}),
        ("", set(), set()),
    ],
)
def test_names_are_found_as_words_of_their_own(text: str, start: set[int], anywhere: set[int]) -> None:
    assert named(text, NAMES) == (start, anywhere)


@pytest.mark.parametrize("text", ["actionparsnio: thanks", "actionparsnip1, thanks", "actionparsni"])
def test_a_misspelt_address_still_means_somebody(text: str) -> None:
    assert named(text, NAMES) == ({6}, {6})


@pytest.mark.parametrize("text", ["action: now", "actually: no", "actionparsing is fun, they say"])
def test_a_word_that_begins_like_a_name_means_nobody(text: str) -> None:
    assert named(text, NAMES) == (set(), set())


def test_mentions_and_the_replied_to_are_addressed_but_never_oneself() -> None:
    turn = read(message("hello eve", mentions=(8, 99)), NAMES | {"eve": 99}, replied=9, first_here=True)
    assert turn.addressed == {8, 9}
    assert turn.named == {8, 9}


def test_an_address_to_somebody_unknown_is_a_clue_of_its_own() -> None:
    clue = TEXT_FEATURES.index("unknown address")
    assert read(message("stranger: hello"), NAMES, None, first_here=True).row[clue] == 1
    assert read(message("ann: hello"), NAMES, None, first_here=True).row[clue] == 0


def test_words_leave_out_names_and_common_ones() -> None:
    assert read(message("ann: the Printers are broken"), NAMES, None, first_here=True).words == {"printe", "broken"}


def test_a_turn_has_a_number_for_every_clue() -> None:
    assert len(read(message("hi?"), NAMES, None, first_here=False).row) == len(TEXT_FEATURES)
