"""Long answers are cut where a reader would cut them, and nothing is lost."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.answers import CUT, LIMIT, MOST_MESSAGES, messages_of, split


def test_a_short_answer_stays_whole() -> None:
    assert split("  You said so.\n") == ["You said so."]


@pytest.mark.parametrize("text", ["word " * 20_000, "x" * 1_000_000, "```py\n" + "line = 1\n" * 20_000, "[" * 100_000])
def test_an_answer_without_end_is_four_messages_that_say_so(text: str) -> None:
    made = messages_of(text)
    assert len(made) == MOST_MESSAGES
    assert all(0 < len(one) <= LIMIT for one in made)
    assert [one.endswith(CUT) for one in made] == [False, False, False, True]
    assert all(one.count("```") % 2 == 0 for one in made)


def test_four_messages_are_not_too_long() -> None:
    text = "x" * (4 * (LIMIT - 4))
    assert "".join(messages_of(text)) == text


def test_an_empty_answer_makes_no_message() -> None:
    assert split(" \n ") == []


def test_paragraphs_are_liked_more_than_lines_and_lines_more_than_words() -> None:
    assert split("aaa bbb\nccc\n\nddd eee fff", 20)[0] == "aaa bbb\nccc"
    assert split("aaa\nbbb ccc ddd eee fff", 20)[0] == "aaa\nbbb ccc ddd"
    assert split("aaa bbb ccc\nddd eee fff ggg", 20)[0] == "aaa bbb ccc"


def test_a_sentence_ends_before_the_cut() -> None:
    assert split("One is here. Two is not there", 20) == ["One is here.", "Two is not there"]


def test_a_link_is_never_cut() -> None:
    link = "[2 minutes ago](https://discord.com/channels/1/2/3)"
    pieces = split(f"{'word ' * 6}{link} and more words here", 60)
    assert any(link in piece for piece in pieces)


def test_a_code_block_is_closed_and_opened_again() -> None:
    text = "```py\n" + "\n".join(f"line_{n} = {n}" for n in range(300)) + "\n```"
    pieces = split(text)
    assert len(pieces) > 1
    assert all(piece.count("```") == 2 for piece in pieces)
    assert all(piece.startswith("```py\n") for piece in pieces)


@pytest.mark.parametrize("opening", ["```py\n", "```\n", "```", "```json ", "Look:\n```\n", f"```{'a' * 1990}\n"])
def test_a_code_block_without_a_border_is_cut_anywhere(opening: str) -> None:
    pieces = split(f"{opening}{'x' * 5000}\n```")
    assert len(pieces) <= 5
    assert all(len(piece) <= LIMIT for piece in pieces)
    assert sum(piece.count("x") for piece in pieces) == 5000


BLOCKS = st.sampled_from(["```", "```py\n", "\n```\n", "x" * 50, "a b", "\n", " ", "[a](http://x)", "`", "y" * 7])


@given(st.lists(BLOCKS, max_size=40).map("".join), st.integers(20, 60))
def test_code_blocks_of_any_shape_come_to_an_end(text: str, limit: int) -> None:
    pieces = split(text, limit)
    assert all(0 < len(piece) <= limit for piece in pieces)
    for letter in "xy":
        # Letters right behind a fence may be taken for a language and repeated, never lost.
        assert sum(piece.count(letter) for piece in pieces) >= text.count(letter)


@given(st.text(alphabet=st.sampled_from("ab.? \n[](h"), max_size=400), st.integers(20, 60))
def test_no_piece_is_too_long_and_no_letter_is_lost(text: str, limit: int) -> None:
    pieces = split(text, limit)
    assert all(0 < len(piece) <= limit for piece in pieces)
    assert _letters("".join(pieces)) == _letters(text)


@given(st.text(alphabet=st.sampled_from("ab.? \n`[](h"), max_size=400), st.integers(20, 60))
def test_no_letter_is_lost_around_code_blocks(text: str, limit: int) -> None:
    pieces = split(text, limit)
    assert all(0 < len(piece) <= limit for piece in pieces)
    written = iter(_letters("".join(pieces)))
    assert all(letter in written for letter in _letters(text)), "in their order"
    # A block that is opened again repeats its language, which has one letter at most here.
    assert len(_letters("".join(pieces))) <= len(_letters(text)) + len(pieces) - 1 if pieces else not _letters(text)


def _letters(text: str) -> str:
    return re.sub(r"[\s`]", "", text)


def test_the_longest_word_is_cut_where_it_must() -> None:
    pieces = split("x" * 5000)
    assert [len(piece) <= LIMIT for piece in pieces] == [True, True, True]
