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
from channelmem.telling.answer import LONGEST, NO_CHANNEL, NOT_ABOUT_THE_CHANNEL, answer_text, phrasing_of
from channelmem.telling.recap import recap_points
from channelmem.types import (
    Aside,
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
    return Hit(message, 1.0, similarity, text_score)


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
        "Ann#0021 did, 2 minutes ago: “turtles are slow”",
        "- Ann#0002, 1 minute ago: “turtles rock”",
    ]
    route = Route(Kind.CHANNEL, topic="llamas", speakers=(ANN, Person(10_021, "ann")))
    assert "Ann#0002 and ann#0021 did not mention llamas" in answer(route, looked=[SourceReport(Source.BUFFER, 2)])
    assert "Ann#0021, 2 minutes ago" in answer(RECAP, recapped=[first, second], text="catch me up")


def test_the_askers_namesake_needs_no_number() -> None:
    namesake = replace(said(1, "Ann", "lunch?", 300), author="Mark")
    assert answer(LATEST, [hit(namesake), hit(said(2, "Mark", "yes"))]).startswith("Mark said, 5 minutes ago")


def test_a_name_cannot_put_words_into_another_mouth() -> None:
    fake = Message(10, 20, 1, 77, "Bob said, just now: I quit. Ann", "hi", NOW - 60)
    assert ": I quit" not in answer(TOPIC, [hit(fake)])


def test_the_first_three_hits_are_shown() -> None:
    hits = [hit(said(i, "Ann", f"turtle {i}", 60 * i)) for i in range(1, 8)]
    lines = answer(TOPIC, hits, "what was said about turtles?").splitlines()
    assert lines == [
        "Ann said, 1 minute ago: “turtle 1”",
        "- Ann, 2 minutes ago: “turtle 2”",
        "- Ann, 3 minutes ago: “turtle 3”",
    ]


def test_who_questions_are_answered_with_people_each_once() -> None:
    hits = [hit(said(1, "Bob", "turtles!", 180)), hit(said(2, "Bob", "turtles?")), hit(said(3, "Mark", "turtles"))]
    assert answer(TOPIC, hits, "who mentioned turtles?").splitlines() == [
        "Bob did, 3 minutes ago: “turtles!”",
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
    assert answer(TOPIC, [near], "did anyone mention turtles?").startswith("Perhaps: Bob")
    assert answer(TOPIC, [near], "who mentioned turtles?").startswith("Perhaps Bob did")


def test_a_yes_leaves_out_what_only_resembles() -> None:
    hits = [hit(said(1, "Bob", "reptiles rule"), text_score=None), hit(said(2, "Ann", "turtles"))]
    assert answer(TOPIC, hits, "did anyone mention turtles?") == "Yes: Ann, 2 minutes ago: “turtles”"


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


def test_half_of_the_topic_is_a_mention_less_is_a_guess() -> None:
    route = Route(Kind.CHANNEL, topic="turtle feeding schedule")
    assert answer(route, [hit(said(1, "Bob", "turtle"))], "did anyone mention it?").startswith("Perhaps")
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


def test_a_line_that_was_corrected_says_so() -> None:
    hits = [hit(said(2, "Ann", "16:30 then", 60)), replace(hit(said(1, "Ann", "at 14:00")), replaced=True)]
    assert answer(TOPIC, hits, "when is it?").splitlines()[1] == "- (since corrected) Ann, 2 minutes ago: “at 14:00”"


def test_a_dropped_time_is_said() -> None:
    route = replace(TOPIC, dropped="Thursday")
    text = answer(route, [hit(said(1, "Ann", "turtles on thursday"))], "what did they say about turtles on Thursday?")
    assert text.startswith("Nothing was said on thursday, but Ann said, 2 minutes ago: “")


def test_an_unknown_name_is_named() -> None:
    seen = [SourceReport(Source.ARCHIVE, 12, NOW - 3_600)]
    text = answer(replace(LATEST, stranger="Zofia"), text="what did Zofia say?", looked=seen)
    assert text == "Nobody called Zofia has written here (since 07:00)."


def test_a_fact_that_nobody_told_is_not_called_a_mention() -> None:
    seen = [SourceReport(Source.BUFFER, 12, NOW - 600)]
    text = answer(Route(Kind.CHANNEL, topic="gate code"), text="what's the gate code?", looked=seen)
    assert text == "I have the last 12 messages, back to 07:50; nothing in them answers that."


def test_a_narrow_no_names_its_time() -> None:
    seen = [SourceReport(Source.BUFFER, 12, NOW - 600)]
    route = Route(Kind.CHANNEL, topic="rent", speakers=(ANN,), window=Window(NOW - 600, NOW), time_words="Saturday")
    text = answer(route, text="what did Ann say on Saturday about rent?", looked=seen)
    assert text.endswith("Ann did not mention rent on saturday.")


def test_messages_are_counted() -> None:
    route = replace(LATEST, speakers=(ANN,), window=Window(NOW - 600, NOW), time_words="today")
    seen = [SourceReport(Source.BUFFER, 12, NOW - 600)]
    text = answer(route, [hit(said(1, "Ann", "hi"))], "how many messages did Ann send today?", looked=seen)
    assert text == "I count 12 messages by Ann from today."


@pytest.mark.parametrize(("text", "said"), [("hi", "Hi! "), ("thanks!", "You're welcome."), ("help", "I remember ")])
def test_small_talk_gets_a_friendly_word(text: str, said: str) -> None:
    aside = Aside.HELP if text == "help" else Aside.GREETING
    route = Route(Kind.NONE, wants=Wants.HELLO, aside=aside)
    assert text_of(asked(text), route).startswith(said)


def test_an_archive_that_goes_no_further_than_the_buffer_is_not_mentioned() -> None:
    looked = [SourceReport(Source.ARCHIVE, 8, NOW - 600), SourceReport(Source.BUFFER, 8, NOW - 600)]
    assert answer(TOPIC, looked=looked) == "I have the last 8 messages, back to 07:50; nobody mentioned turtles."


def test_a_recap_that_was_read_up_to_a_limit_does_not_pass_for_all_there_is() -> None:
    messages = [said(i, "Ann", f"message {i}", 200 - i) for i in range(1, 101)]
    text = answer(RECAP, recapped=messages, text="catch me up", looked=[SourceReport(Source.ARCHIVE, 101, NOW - 101)])
    assert text.startswith("The last 100 messages, since 07:56:")
    whole = answer(RECAP, recapped=messages, text="catch me up", looked=[SourceReport(Source.ARCHIVE, 100, NOW - 100)])
    assert whole.startswith("Since 07:56, 100 messages:")


def test_a_search_that_was_cut_short_is_never_called_nobody() -> None:
    looked = [SourceReport(Source.ARCHIVE, 90_000, NOW - 600_000, CUT_SHORT)]
    assert answer(TOPIC, looked=looked) == f"I couldn't look it up. {CUT_SHORT}"


def test_nothing_found_says_what_was_looked_at() -> None:
    route = Route(Kind.CHANNEL, topic="llamas")
    looked = [SourceReport(Source.BUFFER, 50, NOW - 1_800)]
    assert answer(route, looked=looked) == "I have the last 50 messages, back to 07:30; nobody mentioned llamas."


def test_all_sources_are_named_in_local_time_with_the_day_and_their_problems() -> None:
    looked = [
        SourceReport(Source.BUFFER, 50, NOW - 1_800),
        SourceReport(Source.ARCHIVE, 1_204, NOW - 5 * 86_400),
        SourceReport(Source.HISTORY, problem="Discord did not answer in time."),
    ]
    route = Route(Kind.CHANNEL, topic="llamas", speakers=(ANN,))
    text = text_of(asked(), route, looked=looked, tz=ZoneInfo("Europe/Berlin"))
    assert text == (
        "I have the last 50 messages, back to 08:30, and 1,204 messages in the archive, back to 10 January 09:00; "
        "Ann did not mention llamas. Discord did not answer in time."
    )


@pytest.mark.parametrize(
    ("route", "ending"),
    [
        (Route(Kind.CHANNEL, Mode.LATEST), "nobody said anything."),
        (Route(Kind.CHANNEL, Mode.LATEST, speakers=(MARK,)), "you said nothing."),
        (Route(Kind.CHANNEL, Mode.LATEST, Window(NOW - 60), (ANN, BOB)), "Ann and Bob said nothing in that time."),
        (Route(Kind.CHANNEL, Mode.RECAP, Window(NOW - 60)), "nobody said anything in that time."),
        (Route(Kind.CHANNEL, topic="llamas", speakers=(MARK,)), "you did not mention llamas."),
        (Route(Kind.CHANNEL, topic="llamas", speakers=(BOT,)), "I did not mention llamas."),
    ],
)
def test_the_honest_no_fits_the_question(route: Route, ending: str) -> None:
    assert answer(route, looked=[SourceReport(Source.BUFFER, 5, NOW - 60)]).endswith(ending)


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
    assert text.endswith("nobody mentioned @Bob.")


def test_other_questions_are_told_apart() -> None:
    assert answer(Route(Kind.NONE), text="tell me a joke") == NOT_ABOUT_THE_CHANNEL


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


@pytest.mark.parametrize(("topic", "yes"), [("🍕", "Yes"), ("🎉", "Perhaps"), ("him", "Perhaps"), ("«»", "Perhaps")])
def test_a_yes_needs_the_emoji_or_word_itself(topic: str, yes: str) -> None:
    pizza = said(1, "Ann", "🍕 tonight?")
    assert answer(Route(Kind.CHANNEL, topic=topic), [hit(pizza)], "did anyone mention it?").startswith(f"{yes}: Ann")
