"""What holds for any text: no crash, ordered windows, and a route that address, case and punctuation do not change."""

from __future__ import annotations

import string

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from channelmem.routing.people import Roster
from channelmem.routing.route import Previous, Scene, route
from channelmem.types import Kind, Person, Route

BOT = Person(1, "bot")
MARK, ALICE, BOB = Person(10, "mark"), Person(11, "Alice"), Person(12, "bob")
ROSTER = Roster([MARK, ALICE, BOB, Person(13, "May"), Person(14, "🐢 turtle"), Person(15, "Zoë")])
NOW = 1_773_847_800.0

WORDS = [
    "what",
    "did",
    "who",
    "when",
    "where",
    "how",
    "i",
    "you",
    "we",
    "people",
    "anyone",
    "bob",
    "alice",
    "may",
    "just",
    "said",
    "say",
    "talk",
    "talking",
    "about",
    "mentioned",
    "mention",
    "tell",
    "told",
    "me",
    "my",
    "us",
    "the",
    "a",
    "in",
    "on",
    "at",
    "last",
    "week",
    "month",
    "yesterday",
    "today",
    "morning",
    "monday",
    "march",
    "3rd",
    "10",
    "minutes",
    "hours",
    "ago",
    "since",
    "before",
    "joined",
    "catch",
    "up",
    "miss",
    "summary",
    "of",
    "this",
    "chat",
    "here",
    "is",
    "was",
    "were",
    "has",
    "have",
    "been",
    "being",
    "link",
    "message",
    "question",
    "bob's",
    "earlier",
    "now",
    "lunch",
    "3pm",
    "2026-03-10",
    "weekend",
    "between",
    "and",
    "or",
    "both",
    "them",
    "they",
    "she",
    "'quoted'",
    ",",
    ".",
    "?",
    "!",
    "remember",
    "recently",
    "night",
    "next",
    "tomorrow",
    "will",
]
sentences = st.lists(st.sampled_from(WORDS), max_size=14).map(" ".join)
anything = st.one_of(st.text(max_size=300), sentences)
moments = st.floats(min_value=100_000.0, max_value=4e9)
zones = st.sampled_from(["UTC", "Europe/Berlin", "America/St_Johns", "Asia/Kathmandu", "Pacific/Apia"])


def scene(now: float = NOW, tz: str = "UTC", previous: Previous | None = None) -> Scene:
    return Scene(
        asker=MARK,
        bot=BOT,
        roster=ROSTER,
        now=now,
        tz=tz,
        previous=previous,
        last_spoke_ts=now - 50,
        joined_ts=now - 9e4,
    )


@given(anything, moments, zones)
def test_any_text_has_a_route_with_an_ordered_window(text: str, now: float, tz: str) -> None:
    window = route(text, scene(now, tz)).window
    start = now if window.start is None else window.start
    end = now if window.end is None else window.end
    assert start <= end or window.start is None
    assert end <= now


@given(anything, sentences)
def test_a_follow_up_of_any_question_has_a_route(text: str, before: str) -> None:
    previous = Previous(route(before, scene()), 5, NOW - 60)
    found = route(text, scene(previous=previous))
    assert found.sources or found.kind is Kind.NONE
    assert 0.0 <= found.p <= 1.0


@given(sentences)
def test_case_does_not_change_the_route(text: str) -> None:
    plain = route(text, scene())
    for other in (text.upper(), text.title(), text.capitalize()):
        assert _same(route(other, scene()), plain)


@given(sentences, st.text(alphabet="?!. …", max_size=4))
def test_trailing_punctuation_does_not_change_the_route(text: str, marks: str) -> None:
    stem = text.rstrip("?!. …")
    assert _same(route(stem + marks, scene()), route(stem, scene()))


@given(sentences, st.sampled_from(["@bot hey, ", "<@1> ", "hey bot, ", "@bot ", "ok @bot: ", "<@!1> hi! "]))
def test_an_address_does_not_change_the_route(text: str, address: str) -> None:
    assert _same(route(address + text, scene()), route(text, scene()))


@settings(max_examples=25)
@given(
    st.sampled_from([*string.punctuation, "a ", "bob, ", "last ", "did bob ", "'\"", "🐢", "1.1-"]),
    st.integers(1, 9_000),
)
def test_repeated_pieces_have_a_route(piece: str, times: int) -> None:
    assert route(piece * times, scene()).why


@pytest.mark.parametrize(
    "text",
    [
        "\x00",
        "\x00 'a' \x00",
        "'",
        "''",
        "`",
        "```",
        "<@>",
        "<@99999999999999999999>",
        "@",
        "\ud800",
        "what did bob say \u037ayesterday today",  # a letter that unfolds to a space
    ],
)
def test_odd_input_has_a_route(text: str) -> None:
    assert route(text, scene()).why


def _same(one: Route, other: Route) -> bool:
    return (one.kind, one.mode, one.window, one.speakers, one.topic.lower()) == (
        other.kind,
        other.mode,
        other.window,
        other.speakers,
        other.topic.lower(),
    )
