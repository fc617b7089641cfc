"""Answers that quote, without a language model."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, tzinfo
from zoneinfo import ZoneInfo

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from channelmem.display import JumpUrl
from channelmem.recalling.candidates import CUT_SHORT
from channelmem.recalling.recall import Found
from channelmem.recalling.verdict import Verdict
from channelmem.routing.clause import with_wants
from channelmem.telling.answer import LONGEST, NO_CHANNEL, NOT_OURS, SMALL_TALK, answer_text, phrasing_of
from channelmem.telling.recap import recap_points
from channelmem.types import (
    Aside,
    Borrowed,
    Evidence,
    Hit,
    Kind,
    Message,
    Mode,
    Person,
    Question,
    Route,
    Source,
    SourceReport,
    Wants,
    Window,
)

NOW = 1_800_000_000.0  # 2027-01-15 08:00 UTC
BOT = Person(9, "vivy")
MARK, ANN, BOB = Person(1, "Mark"), Person(2, "Ann"), Person(3, "Bob")
TOPIC = Route(Kind.CHANNEL, topic="turtles")
LATEST = Route(Kind.CHANNEL, Mode.LATEST)
RECAP = Route(Kind.CHANNEL, Mode.RECAP)
IDS = {person.name: person.id for person in (MARK, ANN, BOB)}


def said(message_id: int, who: str, text: str, ago_s: float = 120, *, to: int | None = None) -> Message:
    return Message(10, 20, message_id, IDS[who], who, text, NOW - ago_s, to)


def hit(message: Message, *, similarity: float = 0.6, text_score: float | None = 2.0) -> Hit:
    return Hit(message, 1.0, similarity, text_score, answers=True)


def asked(text: str = "what did I just say about turtles?", *, is_dm: bool = False) -> Question:
    return Question(10, 20, 999, 1, "Mark", text, NOW, bot=BOT, is_dm=is_dm)


def answer(
    route: Route,
    hits: Sequence[Hit] = (),
    text: str = "what did I just say about turtles?",
    *,
    recapped: Sequence[Message] = (),
    looked: Sequence[SourceReport] = (),
    guess: bool = False,
) -> str:
    return text_of(
        asked(text), with_wants(route, text), hits, recapped, looked, verdict=Verdict.GUESS if guess else None
    )


def text_of(
    question: Question,
    route: Route,
    hits: Sequence[Hit] = (),
    recapped: Sequence[Message] = (),
    looked: Sequence[SourceReport] = (),
    *,
    verdict: Verdict | None = None,
    tz: tzinfo = UTC,
    jump_url: JumpUrl | None = None,
) -> str:
    phrasing = phrasing_of(question, route, [*recapped, *[one.message for one in hits]], tz, jump_url=jump_url)
    verdict = verdict or (Verdict.QUOTE if hits else Verdict.NOTHING)
    found = Found(route, verdict, tuple(hits), tuple(recapped), reports=tuple(looked))
    return answer_text(phrasing, found, recap_points(question, found, tz))


def test_the_asker_hears_you_said() -> None:
    turtles = said(1, "Mark", "It's turtles. All the way down!")
    assert answer(TOPIC, [hit(turtles)]) == "You said, 2 minutes ago: “It's turtles. All the way down!”"


def test_somebody_else_is_named() -> None:
    assert answer(LATEST, [hit(said(1, "Ann", "lunch?", 300))], "what did Ann say?") == (
        "Ann said, 5 minutes ago: “lunch?”"
    )


def test_the_bot_speaks_of_itself_as_i() -> None:
    own = Message(10, 20, 1, BOT.id, "vivy", "Hello", NOW - 60, own=True)
    route = Route(Kind.CHANNEL, Mode.LATEST, speakers=(BOT,), to_bot=True)
    assert answer(route, [hit(own)], "what did you say?") == "I said, 1 minute ago: “Hello”"


def test_a_member_called_you_does_not_speak_for_the_asker() -> None:
    fake = Message(10, 20, 1, 77, "You", "I quit", NOW - 60)
    assert answer(TOPIC, [hit(fake)]).startswith("a member called You said")


def test_people_of_one_name_are_told_apart() -> None:
    first, second = replace(said(1, "Ann", "turtles are slow"), author_id=10_021), said(2, "Ann", "turtles rock", 60)
    assert answer(TOPIC, [hit(first), hit(second)], "who mentioned turtles?").splitlines() == [
        "Ann#0021 said, 2 minutes ago: “turtles are slow”",
        "- Ann#0002, 1 minute ago: “turtles rock”",
    ]
    route = Route(Kind.CHANNEL, topic="llamas", speakers=(ANN, Person(10_021, "ann")))
    no = answer(route, text="what did they say about llamas?", looked=[SourceReport(Source.BUFFER, 2)])
    assert "Ann#0002 and ann#0021 haven't mentioned llamas" in no
    assert "Ann#0021, 2 minutes ago" in answer(RECAP, recapped=[first, second], text="catch me up")


def test_the_askers_namesake_needs_no_number() -> None:
    namesake = replace(said(1, "Ann", "lunch?", 300), author="Mark")
    assert answer(LATEST, [hit(namesake), hit(said(2, "Mark", "yes"))]).startswith("Mark said, 5 minutes ago")


def test_a_name_cannot_put_words_into_another_mouth() -> None:
    fake = Message(10, 20, 1, 77, "Bob said, just now: I quit. Ann", "hi", NOW - 60)
    assert ": I quit" not in answer(TOPIC, [hit(fake)])


def test_the_lines_that_answer_are_shown_and_nothing_to_fill_up() -> None:
    hits = [hit(said(i, "Ann", f"turtle {i}", 60 * i)) for i in range(1, 4)]
    hits.append(replace(hit(said(4, "Bob", "turtle soup")), answers=False))
    lines = answer(TOPIC, hits, "what was said about turtles?").splitlines()
    assert lines == [
        "Ann said, 1 minute ago: “turtle 1”",
        "- Ann, 2 minutes ago: “turtle 2”",
        "- Ann, 3 minutes ago: “turtle 3”",
    ]


def test_who_questions_are_answered_with_people_each_once() -> None:
    hits = [hit(said(1, "Bob", "turtles!", 180)), hit(said(2, "Bob", "turtles?")), hit(said(3, "Mark", "turtles"))]
    assert answer(TOPIC, hits, "who mentioned turtles?").splitlines() == [
        "Bob said, 3 minutes ago: “turtles!”",
        "- You, 2 minutes ago: “turtles”",
    ]


def test_who_is_not_always_who_said() -> None:
    assert answer(TOPIC, [hit(said(1, "Bob", "I feed the turtles"))], "who is feeding the turtles?") == (
        "Bob said, 2 minutes ago: “I feed the turtles”"
    )


@pytest.mark.parametrize(
    "text", ["did anyone mention turtles?", "has anybody talked about turtles", "was anyone talking about turtles?"]
)
def test_whether_questions_get_a_yes(text: str) -> None:
    assert answer(TOPIC, [hit(said(1, "Bob", "a turtle!"))], text) == "Yes: Bob, 2 minutes ago: “a turtle!”"


def test_a_likeness_without_a_shared_word_is_no_yes() -> None:
    near = hit(said(1, "Bob", "reptiles rule"), text_score=None)
    assert answer(TOPIC, [near], "did anyone mention turtles?").startswith("Bob said")
    assert answer(TOPIC, [near], "did anyone mention turtles?", guess=True).startswith("Perhaps: Bob")
    assert answer(TOPIC, [near], "who mentioned turtles?").startswith("Bob said")


def test_did_she_agree_is_not_answered_with_yes() -> None:
    assert answer(TOPIC, [hit(said(1, "Ann", "turtles? never"))], "did Ann agree to the turtles?").startswith(
        "Ann said"
    )


def test_somebodys_words_are_found_beside_better_ones_of_others() -> None:
    route = Route(Kind.MEMORY, topic="the venue", speakers=(ANN,))
    better = hit(said(1, "Bob", "the venue is booked"), similarity=0.9)
    fair = hit(said(2, "Ann", "the old mill as a venue?"), text_score=0.4, similarity=0.3)
    assert answer(route, [better, fair], "what did Ann suggest about the venue?") == (
        "Ann said, 2 minutes ago: “the old mill as a venue?”"
    )


def test_words_of_others_are_not_passed_off_as_the_persons_asked_for() -> None:
    route = Route(Kind.CHANNEL, topic="turtles", speakers=(ANN,))
    assert answer(route, [hit(said(1, "Mark", "turtles"))], "did Ann mention turtles?") == (
        "I found nothing by Ann about turtles, but you said, 2 minutes ago: “turtles”"
    )


def test_a_question_about_somebodys_doings_is_answered_by_whoever_knows() -> None:
    route = Route(Kind.MEMORY, topic="rome", speakers=(ANN,))
    hits = [hit(said(1, "Bob", "Ann was in Rome in May")), hit(said(2, "Ann", "Rome is old"))]
    assert answer(route, hits, "when did Ann go to Rome?").startswith("Bob said, 2 minutes ago: “Ann was in Rome")


def test_half_of_the_topic_is_a_mention_less_is_no_yes() -> None:
    route = Route(Kind.CHANNEL, topic="turtle feeding schedule")
    assert answer(route, [hit(said(1, "Bob", "turtle"))], "did anyone mention it?").startswith("Bob said")
    assert answer(route, [hit(said(1, "Bob", "feed the turtle"))], "did anyone mention it?").startswith("Yes")


def test_the_persons_own_words_win_over_better_hits_of_others() -> None:
    route = Route(Kind.CHANNEL, topic="turtles", speakers=(MARK,))
    hits = [hit(said(1, "Ann", "turtles turtles")), hit(said(2, "Mark", "turtles"))]
    assert answer(route, hits) == "You said, 2 minutes ago: “turtles”"


def test_each_quote_has_its_link_where_there_is_one() -> None:
    hits = [hit(said(1, "Ann", "turtles")), hit(said(2, "Bob", "turtles"))]
    text = text_of(asked("what about turtles?"), TOPIC, hits, jump_url=lambda m: f"https://x/{m.id}")
    assert [line.rsplit(" ", 1)[1] for line in text.splitlines()] == ["https://x/1", "https://x/2"]


def test_a_recap_tells_its_lines_oldest_first() -> None:
    messages = [
        said(1, "Ann", "where do we meet?", 8_000),
        said(2, "Bob", "at the old mill", 7_900, to=1),
        said(3, "Mark", "the build is red", 300),
    ]
    assert answer(RECAP, recapped=messages, text="catch me up").splitlines() == [
        "Since 05:46, 3 messages:",
        "- Ann, 2 hours ago: “where do we meet?”",
        "- Bob, 2 hours ago: “at the old mill”",
        "- You, 5 minutes ago: “the build is red”",
    ]


def test_a_question_that_nobody_answered_is_still_open() -> None:
    messages = [said(1, "Ann", "we meet at 8 at the mill", 900), said(2, "Bob", "who brings the drill?", 600)]
    assert answer(RECAP, recapped=messages, text="catch me up").endswith(
        "\n- Still open: Bob, 10 minutes ago: “who brings the drill?”"
    )


def test_a_recap_has_at_most_eight_lines_that_fit_with_their_links() -> None:
    messages = [said(i, "Ann", f"line {i} " + "x" * 300, 100 - i) for i in range(1, 30)]
    text = text_of(
        asked("catch me up"), RECAP, recapped=messages, jump_url=lambda m: "https://x/" + "1" * 80 + f"/{m.id}"
    )
    assert len(text) <= LONGEST
    assert len(text.splitlines()) == 1 + 8
    assert "\n…" not in text


def test_a_guess_begins_with_perhaps() -> None:
    text = answer(TOPIC, [hit(said(1, "Ann", "turtles"))], "what was said about reptiles?", guess=True)
    assert text == "Perhaps: Ann, 2 minutes ago: “turtles”"


def test_another_time_than_asked_for_is_told() -> None:
    route = replace(TOPIC, dropped="thursday")
    text = answer(route, [hit(said(1, "Ann", "turtles"))], "what did they say about turtles on thursday?")
    assert text == "Nothing was said on Thursday, but Ann said, 2 minutes ago: “turtles”"
    own = answer(route, [hit(said(1, "Mark", "turtles"))], "what did we say about turtles on thursday?", guess=True)
    assert own == "Perhaps: nothing was said on Thursday, but you, 2 minutes ago: “turtles”"


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("turtles arrive on thursday", "what did they say about turtles on thursday?"),
        ("they arrive at 9", "did anyone say when the turtles arrive on thursday?"),
    ],
)
def test_the_day_that_something_takes_place_is_no_other_time(line: str, text: str) -> None:
    assert answer(replace(TOPIC, dropped="thursday"), [hit(said(1, "Ann", line))], text).startswith(
        "Ann said, 2 minutes"
    )


def test_an_unknown_name_is_named() -> None:
    seen = [SourceReport(Source.ARCHIVE, 12, NOW - 3_600)]
    text = answer(replace(LATEST, stranger="Zofia"), text="what did Zofia say?", looked=seen)
    assert text == "Nobody called Zofia has written here since 07:00."


# --- only a question ---


ASKED_ALREADY = "who feeds the turtles on friday?"


def test_where_the_best_line_only_asks_the_same_that_is_told() -> None:
    feeding = replace(TOPIC, topic="feeds the turtles")
    asked_it = hit(said(1, "Ann", ASKED_ALREADY, 420))
    assert answer(feeding, [asked_it], "who feeds the turtles?") == (
        "Ann asked that 7 minutes ago; nobody has answered yet."
    )
    own = hit(said(1, "Mark", ASKED_ALREADY, 420))
    assert answer(feeding, [own], "who feeds the turtles?").startswith("You asked that 7 minutes ago;")
    route = with_wants(feeding, "who feeds the turtles?")
    linked = text_of(asked("who feeds the turtles?"), route, [asked_it], jump_url=lambda m: f"https://x/{m.id}")
    assert linked.endswith("nobody has answered yet. https://x/1")


@pytest.mark.parametrize(
    ("text", "topic", "guess"),
    [
        ("who feeds the turtles?", "feeds the turtles", True),
        ("when do we feed the turtles?", "feed the turtles", False),
        ("who feeds the green turtles of Ann's neighbour?", "feeds green turtles neighbour", False),
        ("what did Ann ask about the turtles?", "the turtles", False),
        ("what was said about the turtles?", "the turtles", False),
        ("did anyone mention turtles?", "turtles", False),
    ],
)
def test_a_question_is_quoted_unless_it_surely_is_the_same(text: str, topic: str, guess: bool) -> None:
    assert f"“{ASKED_ALREADY}”" in answer(
        replace(TOPIC, topic=topic), [hit(said(1, "Ann", ASKED_ALREADY))], text, guess=guess
    )


def test_a_question_with_an_answer_is_quoted() -> None:
    reply = said(2, "Bob", "me", 60, to=1)
    one = replace(hit(said(1, "Ann", ASKED_ALREADY)), around=(reply,))
    assert "asked that" not in answer(replace(TOPIC, topic="feeds the turtles"), [one], "who feeds the turtles?")
    own = replace(one, around=(said(2, "Ann", "anyone?", 60, to=1),))
    assert "asked that" in answer(replace(TOPIC, topic="feeds the turtles"), [own], "who feeds the turtles?")
    alone = hit(said(1, "Ann", ASKED_ALREADY))
    later = replace(hit(said(3, "Bob", "the turtles are mine")), answers=False)
    assert "asked that" not in answer(
        replace(TOPIC, topic="feeds the turtles"), [alone, later], "who feeds the turtles?"
    )
    long_ago = hit(said(1, "Ann", ASKED_ALREADY, 90_000))
    assert "asked that" not in answer(replace(TOPIC, topic="feeds the turtles"), [long_ago], "who feeds the turtles?")


# --- an honest no ---


@pytest.mark.parametrize(
    ("text", "topic", "told"),
    [
        ("what's the gate code?", "gate code", "Nobody has mentioned the gate code in the 12 messages I have seen."),
        ("is there parking?", "parking", "Nobody has mentioned parking in the 12 messages I have seen."),
        (
            "when's the saturday market",
            "saturday market",
            "Nobody has mentioned the Saturday market in the 12 messages I have seen.",
        ),
    ],
)
def test_a_thing_that_nobody_told_of_is_named(text: str, topic: str, told: str) -> None:
    seen = [SourceReport(Source.BUFFER, 12, NOW - 600)]
    assert answer(Route(Kind.CHANNEL, topic=topic), text=text, looked=seen) == told


@pytest.mark.parametrize(
    ("text", "topic"),
    [
        ("what should we bring to the picnic?", "bring to the picnic"),
        ("what's wrong with the other idea?", "wrong with the other idea"),
        ("what's the plan for wednesday?", "plan for wednesday"),
        ("what did Ann say about me wanting the top board?", "me wanting the top board"),
        ("when does the match start?", "match start"),
        ("did Ann say we should bring the tent?", "we should bring the tent"),
    ],
)
def test_where_no_thing_is_asked_for_no_answer_was_seen(text: str, topic: str) -> None:
    seen = [SourceReport(Source.BUFFER, 12, NOW - 600)]
    said_so = {answer_no(text, topic, seen, number) for number in range(6)}
    assert said_so == {
        "I didn't see an answer to that here.",
        "I couldn't find an answer to that here.",
        "Nothing I have seen here answers that.",
    }


def answer_no(text: str, topic: str, seen: Sequence[SourceReport], number: int) -> str:
    question = replace(asked(text), id=number)
    route = with_wants(Route(Kind.CHANNEL, topic=topic), text)
    assert text_of(question, route, looked=seen) == text_of(question, route, looked=seen)
    return text_of(question, route, looked=seen)


def test_words_that_were_used_are_not_called_unmentioned() -> None:
    found = Found(TOPIC, reports=(SourceReport(Source.BUFFER, 12, NOW - 600),), evidence=Evidence(missing=0.0))
    phrasing = phrasing_of(asked("did anyone mention turtles?"), TOPIC, [], UTC)
    assert "answer" in answer_text(phrasing, found)
    partly = replace(found, evidence=Evidence(missing=0.4))
    assert answer_text(phrasing, partly).startswith("Nobody has mentioned turtles")


def test_a_narrow_no_names_its_time() -> None:
    seen = [SourceReport(Source.BUFFER, 12, NOW - 600)]
    route = Route(Kind.CHANNEL, topic="rent", speakers=(ANN,), window=Window(NOW - 600, NOW), time_words="saturday")
    text = answer(route, text="what did Ann say on saturday about rent?", looked=seen)
    assert text == "Ann didn't mention rent on Saturday."


def test_a_time_before_all_that_is_remembered_is_not_denied() -> None:
    seen = [SourceReport(Source.BUFFER, 50, NOW - 600)]
    route = Route(Kind.CHANNEL, topic="rent", window=Window(NOW - 90_000, NOW - 86_400), time_words="thursday")
    text = answer(route, text="what was said on thursday about rent?", looked=seen)
    assert text == "I only remember back to 07:50, so I can't tell."


def test_that_nobody_posted_a_link_is_told_as_that() -> None:
    route = Route(Kind.CHANNEL, topic="links")
    text = answer(route, text="any links?", looked=[SourceReport(Source.BUFFER, 50, NOW - 600)])
    assert text == "Nobody has posted a link since 07:50."


def test_exact_words_stand_in_quotes() -> None:
    route = Route(Kind.CHANNEL, topic="ship it", literal=("ship it",))
    text = answer(route, text='who said "ship it"?', looked=[SourceReport(Source.BUFFER, 50, NOW - 600)])
    assert text == 'Nobody has written "ship it" since 07:50.'


def test_messages_are_counted() -> None:
    route = replace(LATEST, speakers=(ANN,), window=Window(NOW - 600, NOW), time_words="today")
    seen = [SourceReport(Source.BUFFER, 12, NOW - 600)]
    text = answer(route, [hit(said(1, "Ann", "hi"))], "how many messages did Ann send today?", looked=seen)
    assert text == "I count 12 messages by Ann from today."


@pytest.mark.parametrize("aside", list(SMALL_TALK))
def test_small_talk_gets_one_friendly_line_that_varies_by_question(aside: Aside) -> None:
    route = Route(Kind.NONE, wants=Wants.HELLO, aside=aside)
    told = [text_of(replace(asked("hi"), id=number), route) for number in range(12)]
    assert told == [text_of(replace(asked("hi"), id=number), route) for number in range(12)]
    assert len(set(told)) == len(SMALL_TALK[aside])
    assert all(one and "\n" not in one and "“" not in one and "{" not in one for one in told)


def test_the_bot_says_its_name() -> None:
    assert "vivy" in text_of(asked("who are you?"), Route(Kind.NONE, wants=Wants.HELLO, aside=Aside.NAME))


def test_examples_name_somebody_of_this_channel() -> None:
    phrasing, found = phrasing_of(asked("tell me a joke"), Route(Kind.NONE), [], UTC), Found(Route(Kind.NONE))
    with_member = answer_text(replace(phrasing, member='Carol "C" **'), found)
    assert with_member.endswith("""what did Carol 'C' ** say last?" or "what did I miss?\"""")
    assert answer_text(phrasing, found).endswith('"what was said today?" or "what did I miss?"')


def test_a_recap_that_was_read_up_to_a_limit_does_not_pass_for_all_there_is() -> None:
    messages = [said(i, "Ann", f"message {i}", 200 - i) for i in range(1, 101)]
    text = answer(RECAP, recapped=messages, text="catch me up", looked=[SourceReport(Source.ARCHIVE, 101, NOW - 101)])
    assert text.startswith("The last 100 messages, since 07:56:")
    whole = answer(RECAP, recapped=messages, text="catch me up", looked=[SourceReport(Source.ARCHIVE, 100, NOW - 100)])
    assert whole.startswith("Since 07:56, 100 messages:")


def test_a_search_that_was_cut_short_is_never_called_nobody() -> None:
    looked = [SourceReport(Source.ARCHIVE, 90_000, NOW - 600_000, CUT_SHORT)]
    assert answer(TOPIC, looked=looked) == f"I couldn't look it up. {CUT_SHORT}"


@pytest.mark.parametrize(
    ("count", "oldest_ago_s", "reach"),
    [
        (50, 1_800, "since 07:30"),
        (50, 30_000, "since yesterday 23:40"),
        (50, 5.9 * 86_400, "in the last 5 days"),
        (500, 30 * 86_400, "in the last 4 weeks"),
        (12, 1_800, "in the 12 messages I have seen"),
        (1, 1_800, "in the one message I have seen"),
    ],
)
def test_nothing_found_says_how_far_back_was_searched(count: int, oldest_ago_s: float, reach: str) -> None:
    looked = [SourceReport(Source.BUFFER, min(count, 50), NOW - min(1_800, oldest_ago_s))]
    looked.append(SourceReport(Source.ARCHIVE, count, NOW - oldest_ago_s))
    text = answer(Route(Kind.CHANNEL, topic="llamas"), text="did anyone mention llamas?", looked=looked)
    assert text == f"Nobody has mentioned llamas {reach}."


def test_what_could_not_be_searched_is_told_and_reaches_nowhere() -> None:
    looked = [
        SourceReport(Source.BUFFER, 50, NOW - 1_800),
        SourceReport(Source.ARCHIVE, 0, NOW - 5 * 86_400, "Redis does not answer."),
    ]
    route = Route(Kind.CHANNEL, topic="llamas", speakers=(ANN,))
    text = text_of(asked("what did Ann say about llamas?"), route, looked=looked, tz=ZoneInfo("Europe/Berlin"))
    assert text == "Ann hasn't mentioned llamas since 08:30. Redis does not answer."


@pytest.mark.parametrize(
    ("route", "told"),
    [
        (Route(Kind.CHANNEL, topic="llamas", speakers=(MARK,)), "You haven't mentioned llamas since 07:30."),
        (Route(Kind.CHANNEL, topic="llamas", speakers=(BOT,)), "I haven't mentioned llamas since 07:30."),
        (Route(Kind.CHANNEL, topic="llamas", speakers=(ANN, BOB)), "Ann and Bob haven't mentioned llamas since 07:30."),
        (Route(Kind.CHANNEL, topic="llamas", window=Window(NOW - 60)), "Nobody mentioned llamas in that time."),
        (Route(Kind.CHANNEL, Mode.RECAP, topic="llamas"), "Nobody has mentioned llamas since 07:30."),
        (Route(Kind.CHANNEL, topic="their ladder"), "I didn't see an answer to that here."),
        (
            Route(Kind.CHANNEL, topic="my ladder", borrowed=(Borrowed.TOPIC,)),
            "Nobody has mentioned your ladder since 07:30.",
        ),
        (
            Route(Kind.CHANNEL, topic="llamas my ladder", borrowed=(Borrowed.TOPIC,)),
            "I didn't see an answer to that here.",
        ),
        (Route(Kind.CHANNEL, Mode.LATEST), "I didn't see an answer to that here."),
    ],
)
def test_the_honest_no_fits_the_question(route: Route, told: str) -> None:
    text = "what was said about llamas?"
    assert answer(route, text=text, looked=[SourceReport(Source.BUFFER, 50, NOW - 1_800)]) == told


def test_an_empty_memory_claims_nothing_about_people() -> None:
    assert answer(TOPIC, looked=[SourceReport(Source.BUFFER)]) == "I have no messages here yet."


def test_an_empty_search_by_person_or_time_is_not_called_an_empty_memory() -> None:
    looked = [SourceReport(Source.BUFFER)]
    by_ann = Route(Kind.CHANNEL, Mode.LATEST, Window(NOW - 60), (ANN,))
    assert answer(by_ann, looked=looked) == "I found no messages by Ann from that time."
    assert answer(Route(Kind.CHANNEL, Mode.LATEST, speakers=(MARK,)), looked=looked) == "I found no messages by you."
    assert (
        answer(Route(Kind.CHANNEL, Mode.RECAP, Window(NOW - 60)), looked=looked)
        == "I found no messages from that time."
    )


def test_what_could_not_be_asked_is_not_called_empty() -> None:
    looked = [SourceReport(Source.BUFFER, problem="Redis does not answer.")]
    assert answer(TOPIC, looked=looked) == "I couldn't look it up. Redis does not answer."


def test_a_problem_is_told_beside_what_was_found() -> None:
    looked = [SourceReport(Source.BUFFER, problem="Redis does not answer."), SourceReport(Source.HISTORY, 20, NOW - 60)]
    text = answer(TOPIC, [hit(said(1, "Ann", "turtles"))], looked=looked)
    assert text.splitlines()[-1] == "Redis does not answer."


def test_a_problem_is_told_beside_a_recap_that_fills_the_answer() -> None:
    people = [replace(said(i, "Ann", "x" * 200, i), author_id=i, author=f"{i:02}{'n' * 38}") for i in range(11, 41)]
    problem = "Discord did not answer in time."
    text = answer(RECAP, recapped=people, text="catch me up", looked=[SourceReport(Source.HISTORY, problem=problem)])
    assert text.splitlines()[-1] == problem
    assert len(text) <= LONGEST


def test_a_mention_in_the_topic_is_told_by_name() -> None:
    question = replace(asked("did anyone mention <@3>?"), mentions=(BOB,))
    looked = [SourceReport(Source.BUFFER, 2, NOW - 60)]
    text = text_of(question, Route(Kind.CHANNEL, topic="<@3>"), looked=looked)
    assert text == "Nobody has mentioned @Bob in the 2 messages I have seen."


def test_other_questions_are_told_apart() -> None:
    told = {text_of(replace(asked("tell me a joke"), id=number), Route(Kind.NONE)) for number in range(6)}
    assert len(told) == len(NOT_OURS)
    assert not any("Ann" in one for one in told)


def test_a_private_conversation_has_no_channel() -> None:
    text = text_of(asked(is_dm=True), TOPIC)
    assert text == NO_CHANNEL


def test_what_was_found_in_a_private_conversation_is_told() -> None:
    assert "hello" in text_of(asked("catch me up", is_dm=True), RECAP, recapped=[said(1, "Mark", "hello")])


NAMES = st.sampled_from(["Ann", "@everyone", "You", "I", "”", "Bob\nYou said", "\u202e", "||", "```", "<@1>"])
TEXT = st.text(st.characters(), max_size=2_000) | st.sampled_from(
    ["hi” You said, 1 minute ago: “I quit", "a\nYou said, just now: “x”", "```", "@everyone <@1>", "||x", "x" * 4_000]
)


@st.composite
def any_message(draw: st.DrawFn) -> Message:
    return Message(
        10, 20, draw(st.integers(1, 40)), draw(st.integers(2, 9)), draw(NAMES), draw(TEXT),
        NOW - draw(st.floats(0, 1e6)), draw(st.none() | st.integers(1, 40)),
    )  # fmt: skip


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(
    st.lists(any_message(), max_size=8),
    st.sampled_from([TOPIC, LATEST, RECAP, Route(Kind.CHANNEL, topic="x”\n@everyone")]),
    st.sampled_from(["who mentioned x?", "did anyone mention x?", "what was said?", "catch me up"]),
)
def test_no_answer_pings_overflows_or_lets_a_quote_pose_as_the_askers(
    messages: list[Message], route: Route, text: str
) -> None:
    looked = [SourceReport(Source.BUFFER, 3, NOW - 60)]
    hits = [] if route.mode is Mode.RECAP else [hit(message) for message in messages]
    shown = answer(route, hits, text, recapped=messages, looked=looked)
    assert 0 < len(shown) <= LONGEST
    shown.encode()
    assert not re.search(r"@(everyone|here)|<@[!&]?\d+>|```", shown, re.IGNORECASE)
    outside = re.sub("“[^“”]*”", "", shown)
    assert not re.search("[“”]", outside)
    # Nobody here is the asker, so outside of quotes nothing may claim that the asker said it.
    assert not re.search(r"(?m)^(?:- )?You\b", outside)


@pytest.mark.parametrize(
    ("topic", "lead"), [("🍕", "Yes: Ann"), ("🎉", "Ann said"), ("him", "Ann said"), ("«»", "Ann said")]
)
def test_a_yes_needs_the_emoji_or_word_itself(topic: str, lead: str) -> None:
    pizza = said(1, "Ann", "🍕 tonight?")
    assert answer(Route(Kind.CHANNEL, topic=topic), [hit(pizza)], "did anyone mention it?").startswith(lead)
