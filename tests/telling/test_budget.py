"""Which lines fit."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from channelmem.telling import budget as tokens
from channelmem.telling.budget import MARKS_AROUND_A_TEXT, Block, BudgetRow, Draft, Section, fit, overflows


def section(head: str, *words: str) -> Section:
    rows = tuple(BudgetRow("- ", text) for text in words)
    return Section(head, rows, tuple(range(len(rows))), len(rows))


def draft(*near: Section, ambient: tuple[Block, ...] = (), more: int = 0) -> Draft:
    return Draft(near, "[wide]", ambient, more)


def block(head: str, *words: str) -> Block:
    return Block(head, tuple(BudgetRow("  ", text) for text in words), ("",) * len(words))


def cost(text: str) -> int:
    return tokens.count(text) + MARKS_AROUND_A_TEXT


def test_all_of_it_fits_into_exactly_what_it_costs() -> None:
    whole = draft(section("near", "one", "two"), ambient=(block("thread", "three", "four"),))
    text = fit(whole, 1_000)
    assert text == "[wide]\n\nthread\n  three\n  four\n\nnear\n- one\n- two"
    assert fit(whole, cost(text)) == text
    assert not overflows(whole, 1_000)
    assert overflows(whole, cost(text) - 1)


def test_the_most_important_rows_stay_and_are_read_in_their_order() -> None:
    rows = tuple(BudgetRow("- ", word) for word in ("a", "b", "c", "d"))
    ranked = Section("head", rows, (2, 0, 3, 1), 4)
    text = "head\n- a\n- c\n... 2 more messages"
    assert fit(draft(ranked), cost(text)) == text


def test_extra_rows_go_first_and_are_not_counted_as_left_out() -> None:
    rows = tuple(BudgetRow("- ", word) for word in ("extra", "main"))
    assert fit(draft(Section("head", rows, (1, 0), 1)), cost("head\n- main")) == "head\n- main"


def test_the_first_row_is_shortened_rather_than_lost() -> None:
    text = fit(draft(section("head", "word " * 200)), 30)
    assert text.startswith("head\n- word word")
    assert text.endswith("…")


def test_a_section_without_room_for_a_row_still_says_how_much_there_is() -> None:
    long = " ".join(f"{i}" for i in range(10, 20))
    text = "head\n... 2 more messages"
    assert fit(draft(section("head", long, long)), cost(text)) == text


def test_the_foot_of_a_section_is_never_cut_off() -> None:
    rows = tuple(BudgetRow("<r>", f"word {i}", "</r>", xml=True) for i in range(20))
    whole = Section("<x>", rows, tuple(range(20)), 20, "</x>")
    for budget in range(200):
        text = fit(draft(whole), budget)
        assert not text or text.endswith("</x>")
        assert text.count("<r>") == text.count("</r>")


def test_a_thread_keeps_its_newest_lines_and_tells_no_pause_before_the_first() -> None:
    rows = tuple(BudgetRow("  ", word) for word in ("one", "two", "three"))
    thread = Block("thread", rows, ("", "  --- 1 day later ---", "  --- 2 days later ---"))
    text = "[wide]\n\nthread\n  three\n\n... 2 more messages"
    assert fit(draft(ambient=(thread,)), cost(text) + tokens.count("--- 2 days later ---")) == text


def test_messages_left_out_by_a_cap_are_counted_too() -> None:
    assert fit(draft(ambient=(block("thread", "one"),), more=7), 100).endswith("... 7 more messages")


def test_nothing_is_told_without_room() -> None:
    assert fit(draft(section("head", "one")), 0) == ""
    assert fit(draft(), 1_000) == ""


WORDS = st.lists(st.text(st.characters(), max_size=40).map(lambda text: " ".join(text.split())), min_size=1, max_size=6)


@given(WORDS, WORDS, st.integers(0, 20), st.integers(0, 200))
def test_no_budget_is_exceeded(near: list[str], wide: list[str], more: int, budget: int) -> None:
    text = fit(draft(section("near", *near), ambient=(block("thread", *wide),), more=more), budget)
    assert not text or cost(text) <= budget
