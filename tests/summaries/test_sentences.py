"""Where sentences end in chat."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from channelmem.summaries.extractive import LONGEST_CHARS, is_question, sentences


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("We ship friday. who tests?", ["We ship friday.", "who tests?"]),
        ("one line\nanother one", ["one line", "another one"]),
        ("Really?! Yes... fine", ["Really?!", "Yes...", "fine"]),
        ("see https://example.org/a.b?c=d. it has 2.5 GB", ["see https://example.org/a.b?c=d.", "it has 2.5 GB"]),
        ("update to v1.2.3 now", ["update to v1.2.3 now"]),
        ("bring fruit, e.g. pears, to Dr. Lee", ["bring fruit, e.g. pears, to Dr. Lee"]),
        ("J. Smith said no. ok then", ["J. Smith said no.", "ok then"]),
        ("1. buy milk\n2. sell it", ["1. buy milk", "2. sell it"]),
        ('He said "go." Then left', ['He said "go."', "Then left"]),
        ("今日は雨です。明日は晴れ！", ["今日は雨です。", "明日は晴れ！"]),  # noqa: RUF001
        ("🎉🎉 !!!\n---\n", []),
        ("a\u202eb\tc", ["ab c"]),
        ("", []),
    ],
)
def test_sentences_end_where_a_reader_would_say(text: str, expected: list[str]) -> None:
    assert sentences(text) == expected


def test_a_question_may_be_quoted_or_bold() -> None:
    assert is_question('she asked "when?"')
    assert is_question("**when?**")
    assert not is_question("when? today.")


def test_a_wall_of_text_is_folded_between_words() -> None:
    pieces = sentences("word " * 300)
    assert all(len(piece) <= LONGEST_CHARS and not piece.endswith("wor") for piece in pieces)
    assert " ".join(pieces).split() == ["word"] * 300


@given(st.text())
def test_sentences_are_tidy_lines_that_lose_no_letter(text: str) -> None:
    found = sentences(text)
    assert all(one == one.strip() and len(one.splitlines()) == 1 and len(one) <= LONGEST_CHARS for one in found)
    letters = [char for char in text if char.isascii() and char.isalnum()]
    assert [char for char in "".join(found) if char.isascii() and char.isalnum()] == letters
