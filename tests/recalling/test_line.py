from hypothesis import given
from hypothesis import strategies as st

from channelmem.text import stem, stems, words


def test_forms_of_a_word_meet() -> None:
    assert stems("turtles") == stems("Turtle") == stems("TURTLE'S")
    assert stems("she won a race") == stems("win a race")
    assert stems("the children") == stems("a child")


def test_stop_words_carry_nothing() -> None:
    assert stems("what did you say about it") == ()
    assert stem("the") == ""


def test_a_part_of_a_compound_is_found() -> None:
    assert stem("base") in stems("I need perl-base5.8.8-12")
    assert stem("wifi") in stems("my Wi-Fi is down")
    assert stem("gnome") in stems("using gnome2 classic")


def test_contractions_are_stop_words_with_either_apostrophe() -> None:
    assert stems("don't") == stems("don’t") == ()  # noqa: RUF001  (people type it)


def test_words_for_the_index_are_as_written() -> None:
    assert words("What about the Turtles, the turtles?") == ("turtles",)


def test_letters_of_any_script_are_words() -> None:
    assert stems("naïve 日本語") == (stem("naïve"), "日本語")


@given(st.text())
def test_any_text_has_stems_and_none_is_empty(text: str) -> None:
    assert all(stems(text))
