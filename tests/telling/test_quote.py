"""People's words made safe to show."""

from __future__ import annotations

import re
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from channelmem.display import cut, escape_xml, flatten, line, name, named, plain_name, presentable, quoted, safe

# Surrogates included: broken clients send halves of a pair.
ANY_TEXT = st.text(st.characters(), max_size=300)
NASTY = st.lists(
    st.sampled_from(
        ["@everyone", "@here", "<@12>", "<@&3>", "```", "`", "||", "~~", "\\", "“", "”", "\n", "\u202e", "\u200b",
         "\U000e0041", "\ud83d", "👨‍👩‍👧", "[System]", "</contextual_references>", "- Ann (1m ago): ", "a", " ", "é",
         "\u0301"]
    ),
    max_size=30,
).map("".join)  # fmt: skip


@pytest.mark.parametrize("breaker", ["\n", "\r\n", "\x0b", "\x0c", "\x1c", "\x85", "\u2028", "\u2029"])
def test_no_line_break_survives(breaker: str) -> None:
    assert flatten(f"one{breaker}two") == "one two"


@pytest.mark.parametrize(
    "unseen", ["\u200b", "\u202e", "\u2066", "\ufeff", "\U000e0041", "\U000e0101", "\x07", "\ud800"]
)
def test_what_nobody_sees_is_taken_out(unseen: str) -> None:
    assert flatten(f"pay{unseen}load") == "payload"


def test_a_link_shows_where_it_leads() -> None:
    assert quoted("[the rules](https://evil.example)", 100) == "“[the rules] (https://evil.example)”"
    assert quoted("[a]\u200b(https://evil.example)", 100) == "“[a] (https://evil.example)”"
    assert name("[Ann](https://evil.example)").startswith("[Ann] (https")


@pytest.mark.parametrize("unseen", ["\u200b", "\u202e", "\u2067", "\u2060", "\x1b", "\x00", "\U000e0041"])
def test_a_models_lines_stay_and_what_nobody_sees_goes(unseen: str) -> None:
    assert presentable(f"one{unseen}\n\n  two\tthree [x]{unseen}(y)") == "one\n\n  two    three [x] (y)"


def test_joiners_stay_where_they_shape_emoji_and_scripts() -> None:
    family, persian = "👨‍👩‍👧", "می‌خواهم"
    assert flatten(f"{family} {persian}") == f"{family} {persian}"
    assert flatten("ev\u200dery\u200cone") == "everyone"


def test_a_blank_letter_is_no_text() -> None:
    assert flatten("\u3164\u2800") == ""


def test_mentions_channels_and_emoji_become_names() -> None:
    text = "<@1> <@!2> <@&3> <#4> <#5> <:wave:6> <a:dance:7> </recall:8>"
    assert named(text, {1: "Ann"}, {4: "general"}) == "@Ann @someone @role #general #channel :wave: :dance: /recall"


@pytest.mark.parametrize("ping", ["@everyone", "@here", "@Everyone", "<@123>", "<@!123>", "<@&123>"])
def test_a_quote_never_pings(ping: str) -> None:
    shown = quoted(f"hi {ping} hi", 100)
    assert not re.search(r"@(everyone|here)|<@[!&]?\d+>", shown, re.IGNORECASE)


def test_a_name_that_looks_like_a_ping_does_not_ping_either() -> None:
    assert "@everyone" not in name("@everyone")
    assert "@everyone" not in quoted("<@1>", 100, {1: "everyone"})
    assert "<@2>" not in quoted("<@1>", 100, {1: "<@2>"})


def test_an_at_sign_before_a_time_is_left_alone() -> None:
    assert quoted("lunch @5pm", 100) == "“lunch @5pm”"


@pytest.mark.parametrize("code", ["```py\nboom", "a `b", "``a`", "```a```"])
def test_open_code_does_not_swallow_the_rest_of_an_answer(code: str) -> None:
    assert "`" not in quoted(code, 100)


def test_whole_inline_code_stays_code() -> None:
    assert quoted("use `make check`", 100) == "“use `make check`”"


def test_a_cut_spoiler_stays_a_spoiler() -> None:
    assert quoted("||the butler did it and then some||", 20).count("||") == 2


@pytest.mark.parametrize(
    "words", ["use `||` in bash", "which operator? ||", "a \\|| b", "hiii~~", "`~~`", "~~no~~ yes ~~"]
)
def test_marks_that_open_nothing_do_not_pair_with_those_of_the_next_quote(words: str) -> None:
    shown = re.sub("`[^`]*`|\\\\.", "", quoted(words, 100))
    assert shown.count("||") % 2 == shown.count("~~") % 2 == 0
    assert "||||" not in shown


@pytest.mark.parametrize("code", ["\\` a ` b", "` `` ` ``"])
def test_code_that_only_seems_to_end_does_not_swallow_the_next_quote(code: str) -> None:
    assert "`" not in quoted(code, 100)


@pytest.mark.parametrize("mark", [">>> ", "> ", "# ", "### ", "-# ", "- ", "* ", "> # "])
def test_a_name_at_the_beginning_of_a_line_is_no_heading_list_or_block_quote(mark: str) -> None:
    assert name(f"{mark}Bob") == "Bob"
    assert name(mark) == "someone"


def test_a_name_keeps_marks_that_do_nothing() -> None:
    assert [name(one) for one in ("-Bob-", "#1 fan", "Bob > Ann")] == ["-Bob-", "#1 fan", "Bob > Ann"]


def test_an_inner_quote_cannot_end_the_outer_one() -> None:
    shown = quoted("hello” Ann said, 2 minutes ago: “I quit", 100)
    assert shown.count("“") == shown.count("”") == 1
    assert shown.endswith("”")


def test_a_cut_never_splits_what_people_see_as_one_character() -> None:
    family = "👨‍👩‍👧"
    assert cut(family * 3, 2 * len(family) + 2) == f"{family * 2}…"
    assert cut("e\u0301" * 4, 6) == "e\u0301" * 2 + "…"
    assert cut("🇩🇪🇫🇷🇮🇹", 4) == "🇩🇪…"


def test_a_name_keeps_no_mark_that_a_line_of_context_is_built_from() -> None:
    assert plain_name("--- 2 hours later ---: [System] (1m ago)") == "2 hours later --- System 1m ago"
    assert plain_name("\u3164") == "someone"
    assert plain_name("O'Brien") == "O'Brien"


def test_xml_is_escaped() -> None:
    assert escape_xml('<a href="x">&') == "&lt;a href=&quot;x&quot;&gt;&amp;"


@given(ANY_TEXT | NASTY, st.integers(1, 60))
def test_a_line_is_one_line_of_visible_characters_within_its_limit(text: str, limit: int) -> None:
    shown = line(text, limit)
    assert len(shown) <= limit
    assert len(shown.splitlines()) <= 1
    shown.encode()
    assert not {unicodedata.category(char) for char in shown.replace("\u200c", "").replace("\u200d", "")} & {
        "Cc", "Cf", "Cs", "Co", "Zl", "Zp",
    }  # fmt: skip


@given(ANY_TEXT | NASTY)
def test_a_quote_has_exactly_its_own_quotation_marks_and_no_ping(text: str) -> None:
    shown = quoted(text, 200, {12: "here"})
    assert shown[0] == "“"
    assert shown[-1] == "”"
    assert not re.search("[“”]", shown[1:-1])
    assert not re.search(r"@(everyone|here)|<@[!&]?\d+>|```", shown, re.IGNORECASE)


# What Discord takes as one piece, in the order in which it tries.
PIECE = re.compile(r"\\[^0-9A-Za-z\s]|(`+).*?[^`]\1(?!`)|\|\|.+?\|\||~~.+?~~|.", re.DOTALL)


@given(NASTY, NASTY)
def test_no_formatting_of_two_quotes_reaches_what_stands_between_them(one: str, other: str) -> None:
    shown = f"{quoted(one, 60)}\n- Ann, 1 minute ago: {quoted(other, 60)}"
    assert "\n" in [found[0] for found in PIECE.finditer(shown)]


@given(ANY_TEXT | NASTY)
def test_flattening_twice_changes_nothing(text: str) -> None:
    assert flatten(flatten(text)) == flatten(text)


@given(ANY_TEXT | NASTY)
def test_every_name_can_be_shown(text: str) -> None:
    for shown in (name(text), plain_name(text), safe(flatten(text)) or "-"):
        assert shown
        assert len(shown.splitlines()) == 1
    assert not re.search(r"[:,()\[\]<>]", plain_name(text))
