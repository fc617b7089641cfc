"""Counting tokens: exact where it matters, cheap where it does not."""

from __future__ import annotations

import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from channelmem.telling import budget as tokens

ANY_TEXT = st.text(st.characters(), max_size=200)


def reference(text: str) -> int:
    """What the tokenizer says of the whole text at once."""
    return len(tokens._tokenizer().encode(text, add_special_tokens=False).ids)


@pytest.mark.parametrize(
    "text", ["", "hello", "I've been thinking, about X...", "한국어 and café", "line one\nline two", "x" * 90]
)
def test_a_count_is_the_tokenizers_own(text: str) -> None:
    assert tokens.count(text) == reference(text)


def test_long_text_is_not_cut_where_the_model_would_cut_it() -> None:
    assert tokens.count("word " * 1_000) == 1_000


@given(st.text(st.characters(codec="ascii", exclude_categories=["Cc"]) | st.sampled_from("\n\t"), max_size=90))
def test_counting_word_by_word_agrees_with_counting_at_once(text: str) -> None:
    assert tokens.count(text) == reference(text)


@given(ANY_TEXT)
def test_the_bound_is_never_below_the_count(text: str) -> None:
    assert tokens.bound(text) >= tokens.count(text)


@given(ANY_TEXT, ANY_TEXT)
def test_lines_cost_the_sum_of_their_parts(one: str, two: str) -> None:
    assert tokens.count(f"{one}\n{two}") == tokens.count(one) + tokens.count(two)
    assert tokens.counts([one, two]) == [tokens.count(one), tokens.count(two)]


@given(ANY_TEXT)
def test_the_count_is_never_below_the_tokenizers(text: str) -> None:
    assert tokens.count(text) >= reference(text.encode("utf-8", "replace").decode())


def test_a_run_that_the_vocabulary_does_not_know_is_not_nearly_free() -> None:
    assert reference("😀" * 50) == 1
    assert tokens.count("😀" * 50) == 100
    assert tokens.count("a" * 500) == 250


def test_a_short_text_fits_without_a_tokenizer(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse() -> None:
        raise AssertionError("the tokenizer was asked")

    monkeypatch.setattr(tokens, "_tokenizer", refuse)
    assert tokens.fits("twenty characters ok", 20)


def test_fits_is_decided_by_the_count_beyond_the_bound() -> None:
    assert tokens.fits("hello there " * 10, 20)
    assert not tokens.fits("hello there " * 10, 19)


def test_remembered_words_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tokens, "_MOST_WORDS", 3)
    words = tokens._Words()
    first = words.counts([["alpha", "beta", "gamma", "delta"]])
    assert words.counts([["alpha", "epsilon"]])[0] == words.counts([["alpha"]])[0] + words.counts([["epsilon"]])[0]
    assert len(words._costs) <= 4
    assert words.counts([["alpha", "beta", "gamma", "delta"]]) == first


@pytest.mark.process
def test_counting_loads_neither_torch_nor_the_models_package() -> None:
    code = (
        "import sys; from channelmem.telling import budget; budget.count('hello there');"
        "print([m for m in ('torch', 'sentence_transformers', 'all_minilm_l6_v2') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
