import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from channelmem.text import _WORD, FRAGMENT, _split, asking, read_lines, stems

TEXTS = st.lists(
    st.text(max_size=60)
    | st.sampled_from(["", "Won't you? no.", "the Wi-Fi won, yes/no", "lol", "wins at perl-base5.10"])
)


@given(TEXTS)
def test_lines_read_together_are_what_each_is_alone(texts: list[str]) -> None:
    lines, alone = read_lines(texts), [read_lines([text]) for text in texts]
    assert lines.asking.tolist() == [asking(text) for text in texts]
    assert lines.length.tolist() == [len(text.split()) for text in texts]
    assert lines.is_fragment.tolist() == [len(stems(text)) < FRAGMENT for text in texts]
    assert lines.is_fragment.tolist() == [bool(one.is_fragment[0]) for one in alone]


@given(st.text())
def test_splitting_at_spaces_first_finds_the_same_words(text: str) -> None:
    assert stems(text) == tuple(one for word in _WORD.findall(text.lower()) for one in _split(word).stems)


@given(TEXTS, st.sampled_from(["who won the wifi", "perl base", "yes", ""]))
def test_a_line_has_a_word_in_any_form_and_perhaps_in_the_very_form(texts: list[str], asked: str) -> None:
    topic = tuple(dict.fromkeys(stems(asked)))
    present, literal = read_lines(texts).having(asked)
    expected = [[float(word in stems(text)) for word in topic] for text in texts]
    assert present.tolist() == expected
    assert np.all(literal <= present)


def test_another_form_of_a_word_is_present_but_not_literal() -> None:
    present, literal = read_lines(["she won", "a win", "neither"]).having("won")
    assert present[:, 0].tolist() == [1.0, 1.0, 0.0]
    assert literal[:, 0].tolist() == [1.0, 0.0, 0.0]


@pytest.mark.parametrize("typed", ["tikcets", "tickts", "tickkets", "tockets"])
def test_a_word_that_nobody_used_may_be_misspelt(typed: str) -> None:
    lines = read_lines(["ticket sales are up", "the tide turns"])
    assert lines.having(typed, forgiving=True)[0].tolist() == [[1.0], [0.0]]
    assert not lines.having(typed)[0].any()


def test_a_word_that_somebody_used_is_no_typo_and_short_words_are_taken_as_they_are() -> None:
    present, _ = read_lines(["the planet is round", "the plane is late"]).having("plane", forgiving=True)
    assert present[:, 0].tolist() == [0.0, 1.0]
    assert not read_lines(["the hall is cold"]).having("hill", forgiving=True)[0].any()
