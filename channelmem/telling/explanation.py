"""How a question was understood, in words for people: "It asks for Mark's words about “turtles”, yesterday."

Enters: a question and its route. Leaves: a sentence or a few, as safe to show in a chat as an answer. The weights are
in `Route.why`. Only /why, the inspector and the commands ask for these words, so no question pays for them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from datetime import tzinfo
from typing import Final

from channelmem.display import (
    MONTH,
    Phrasing,
    clock_time,
    counted,
    during,
    listed,
    name,
    namesakes,
    quoted,
    span_words,
)
from channelmem.types import Aside, Borrowed, Kind, Mode, Person, Question, Route, SourceReport, Wants, Window

MOST: Final = 4
"""So many people and exact words are named, the others counted."""
_SURENESS: Final = (
    (0.9, "It is clearly about this channel"),
    (0.6, "It is probably about this channel"),
    (0.4, "It may or may not be about this channel"),
    (0.1, "It is probably not about this channel"),
    (0.0, "It is almost certainly not about this channel"),
)
"""From which probability on, by wording. From 0.6 on, the router takes it to be (`routing.route.ABOUT`)."""
_OPEN: Final = 0.5
"""Below this, only evidence makes a question one about this channel (`recalling.verdict.OURS`)."""
_ASIDE: Final = {
    Aside.DIRECT: "It came in a direct message, which has no channel around it.",
    Aside.FLAG: "It asks for an answer without a look at this channel.",
    Aside.COMMAND: "It is a command, not a question.",
    Aside.MATERIAL: "It is a task that brings its own material, so nothing is looked up.",
    Aside.GREETING: "It is a greeting, not a question.",
    Aside.THANKS: "It is a thank-you, not a question.",
    Aside.GOODBYE: "It is a goodbye, not a question.",
    Aside.NOD: "It agrees to something, and asks nothing.",
    Aside.LAUGH: "It is a laugh, not a question.",
    Aside.PRAISE: "It is praise, not a question.",
    Aside.COMPLAINT: "It is a complaint, not a question.",
    Aside.SORRY: "It is an apology, not a question.",
    Aside.FEELING: "It asks how I am.",
    Aside.NAME: "It asks who I am.",
    Aside.HELP: "It asks what I can do.",
    Aside.UNREACHABLE: "It was not read, because the service did not answer.",
}
_THINGS: Final = {
    Wants.WHO: "a name",
    Wants.WHETHER: "a yes or a no",
    Wants.WHEN: "a time",
    Wants.WHERE: "a place",
    Wants.WHY: "a reason",
    Wants.AMOUNT: "a number",
    Wants.LINK: "a link",
    Wants.FILE: "a picture or another file",
}
"""What a message has to hold."""
_WHOLE: Final = {Wants.LINK: "links", Wants.FILE: "pictures or files"}
_YOURS: Final = (
    (re.compile(r"\b(?:i|we) (?:was|were)\b"), "you were"),
    (re.compile(r"\b(?:i am|i['’]m|we are|we['’]re)\b"), "you are"),  # noqa: RUF001  (people type this apostrophe)
    (re.compile(r"\b(?:i|we|me|us)\b"), "you"),
    (re.compile(r"\b(?:my|our)\b"), "your"),
)
_FILLED: Final = (
    (re.compile(r"\A(?=(?:the (?:last|past|previous)|these) (?!time\b))"), "in "),
    (re.compile(r"\A(?=(?:last|past) (?:\d|few|couple|half|hour|minute|two|three|four|five|six|ten))"), "in the "),
    (re.compile(rf"\A(?=\d\d?(?:st|nd|rd|th)? (?:of )?{MONTH}\b|{MONTH} (?:the )?\d)"), "on "),
)
"""Words that stand alone in "the last hour?" but not behind a comma."""


def explanation(question: Question, route: Route, tz: tzinfo) -> str:
    """What the question was taken to ask for, how sure that is, and what it left to the question before."""
    if route.aside is not None:
        return _ASIDE[route.aside]
    people = {person.id: person.name for person in (*question.mentions, question.bot)}
    people[question.asker_id] = question.asker
    phrasing = Phrasing(question, route, question.ts, tz, None, people, namesakes(question, route, ()))
    return " ".join([*_understood(phrasing), *_borrowed(route), *_missing(phrasing)])


def _understood(phrasing: Phrasing) -> Iterator[str]:
    """What it asks for, and whether it is about this channel: the more surprising of the two comes first."""
    route, asks = phrasing.route, f"it asks {_asked(phrasing)}{_when(phrasing)}."
    likely = next(words for least, words in _SURENESS if route.p >= least)
    if route.kind is Kind.NONE:
        yield f"{likely}." if route.sources else f"{likely}, so nothing is looked up."
        if route.sources:
            yield f"If it is, {asks}"
        return
    yield f"I{asks[1:]}"
    if route.forced:
        yield "It was asked as a question about this channel."
    elif route.p >= _OPEN or route.stranger:
        yield f"{likely}."
    else:
        yield f"By its wording, {likely[0].lower()}{likely[1:]}, but what was found says that it is."


def searched(question: Question, report: SourceReport, tz: tzinfo) -> str:
    """What came of one source: "archive: 62 messages, back to 16:17"."""
    phrasing = Phrasing(question, Route(Kind.NONE), question.ts, tz, None, {}, frozenset())
    back = "" if report.oldest_ts is None else f", back to {clock_time(report.oldest_ts, phrasing)}"
    return f"{report.source.value}: {report.problem or counted(report.count, 'message') + back}"


# --- what it asks for ---


def _asked(phrasing: Phrasing) -> str:
    route = phrasing.route
    if route.that is not None:
        which = "links" if route.that.linked else "replies"
        return f"{'what answers' if route.that.answers else 'about'} the message that it {which} to"
    if route.mode is Mode.RECAP:
        return _recap(phrasing)
    if route.wants is Wants.COUNT:
        who = _subject(phrasing)
        return f"how many messages {f'{who} wrote' if who else 'there are'}{_about(phrasing)}{_with(phrasing)}"
    if route.wants in {Wants.WHO, Wants.WHETHER} and (route.binds or route.saying):
        return _who_did(phrasing)
    if not route.binds and not route.stranger:
        return _fact(phrasing)
    return _words(phrasing) if route.wants is Wants.WORDS else _in_their_messages(phrasing)


def _recap(phrasing: Phrasing) -> str:
    if phrasing.route.missed:
        return "for a recap of what you missed"
    about = _about(phrasing) or (f" about {_exactly(phrasing)}" if phrasing.route.literal else "")
    return f"for a recap of what {_subject(phrasing) or 'people'} said{about}"


def _who_did(phrasing: Phrasing) -> str:
    """ "Who wrote about it" and "whether Ann wrote anything"; but "who did Ann mention?" asks for a name."""
    route, who = phrasing.route, _subject(phrasing)
    if route.wants is Wants.WHO and who:
        return _in_their_messages(phrasing)
    did = "asked" if route.of_questions else "wrote"
    subject = "who" if route.wants is Wants.WHO else f"whether {who or 'anybody'}"
    if route.topic or route.literal:
        return f"{subject} {did}{_about(phrasing) or f' {_exactly(phrasing)}'}"
    return f"{subject} {did} {('first' if _is_first(route) else 'last') if subject == 'who' else 'anything'}"


def _fact(phrasing: Phrasing) -> str:
    """Speakers are no condition: "when did Ann go to Rome?" may be answered by anybody's words about Ann and Rome."""
    thing = _THINGS.get(phrasing.route.wants)
    messages = f"{_order(phrasing.route, 'the')}messages"
    people = ["me" if who == "I" else who for who in _people(phrasing)]
    told = listed([*people, *filter(None, [_topic(phrasing)])])
    about = f" about {told}" if told else ""
    return f"for {thing} in {messages}{about}" if thing else f"what {messages} tell{about}"


def _in_their_messages(phrasing: Phrasing) -> str:
    route = phrasing.route
    if route.wants in _WHOLE and route.mode is not Mode.TOPIC:
        return f"for {_owned(phrasing, _WHOLE[route.wants])}"
    return f"for {_THINGS.get(route.wants, 'an answer')} in {_owned(phrasing, 'messages')}"


def _words(phrasing: Phrasing) -> str:
    route = phrasing.route
    if not _subject(phrasing) and (route.mode is Mode.TOPIC or Borrowed.ANSWER in route.borrowed):
        return f"what was {'asked' if route.of_questions else 'said'}{_about(phrasing)}{_with(phrasing)}"
    return f"for {_owned(phrasing, 'questions' if route.of_questions else 'words')}"


def _owned(phrasing: Phrasing, noun: str) -> str:
    """ "Mark's latest words", "your messages about turtles", "the first links in this channel", "messages about it"."""
    route = phrasing.route
    owner = listed([_possessive(who) for who in _people(phrasing)])
    whose = f"{owner} {_order(route, '')}" if owner else _order(route, "the")
    here = "" if owner or not whose else " in this channel"
    return f"{whose}{noun}{here}{_about(phrasing)}{_with(phrasing)}"


def _order(route: Route, article: str) -> str:
    """Which of the messages it asks for, if it has no topic to tell them by."""
    if route.mode is Mode.TOPIC or Borrowed.ANSWER in route.borrowed:
        return ""
    return f"{article} {'first' if _is_first(route) else 'latest'} ".lstrip()


def _is_first(route: Route) -> bool:
    return route.mode is Mode.FIRST


# --- about what ---


def _about(phrasing: Phrasing) -> str:
    topic = _topic(phrasing)
    return f" about {topic}" if topic else ""


def _topic(phrasing: Phrasing) -> str:
    """Quoted: what is left of a question can be any words, and seldom fits into a sentence."""
    route, shown = phrasing.route, phrasing.topic()
    if not shown or " ".join(route.literal).casefold() == route.topic.casefold():
        return ""
    return "you" if route.topic.casefold() == phrasing.question.asker.casefold() else f"“{shown}”"


def _exactly(phrasing: Phrasing) -> str:
    return listed(_some([quoted(words, 60, phrasing.people) for words in phrasing.route.literal]))


def _with(phrasing: Phrasing) -> str:
    return f" with {_exactly(phrasing)} in them" if phrasing.route.literal else ""


def _some(parts: Sequence[str]) -> list[str]:
    return [*parts[:MOST], *([counted(len(parts) - MOST, "other")] if len(parts) > MOST else [])]


# --- whose ---


def _people(phrasing: Phrasing) -> list[str]:
    """Whose words it asks for. The bot comes last, as people put it: "Ann and I"."""
    route, bot = phrasing.route, phrasing.question.bot
    if route.stranger and not route.speakers:
        return [name(route.stranger)]
    people: list[Person] = sorted(route.speakers, key=lambda person: bool(bot.id) and person.id == bot.id)
    return _some([phrasing.speaker(person) for person in people])


def _subject(phrasing: Phrasing) -> str:
    return listed(_people(phrasing))


def _possessive(who: str) -> str:
    if who in {"you", "I"}:
        return "your" if who == "you" else "my"
    return f"{who}'" if re.fullmatch(r"\d+ others", who) else f"{who}'s"


# --- when ---


def _when(phrasing: Phrasing) -> str:
    route, now = phrasing.route, phrasing.now
    start, end = route.window.start, route.window.end
    if route.window == Window():
        return ""
    if Borrowed.ANSWER in route.borrowed:
        return f", right {'before' if start is None else 'after'} the message that I found last time"
    if route.time_words:
        return f", {_time_words(route.time_words)}"
    if start is not None and (end is None or end >= now):
        return f", in the last {span_words(now - start).removeprefix('1 ')}"
    if start is None or end is None:
        return f", before {clock_time(end or now, phrasing)}"
    return f", between {clock_time(start, phrasing)} and {clock_time(end, phrasing)}"


def _time_words(words: str) -> str:
    """The asker's own words, said to them: "while you were away"."""
    told = during(words)
    for typed, shown in (*_YOURS, *_FILLED):
        told = typed.sub(shown, told)
    return told


# --- what else ---


def _borrowed(route: Route) -> Iterator[str]:
    """What its own words leave out."""
    taken = {
        Borrowed.PEOPLE: ("the person" if len(route.speakers) == 1 else "the people") if route.speakers else "",
        Borrowed.TOPIC: "the topic" if route.topic else "",
        Borrowed.TIME: "the time" if route.window != Window() else "",
    }
    parts = [taken[part] for part in route.borrowed if taken.get(part)]
    if parts:
        come = "comes" if parts in (["the person"], ["the topic"], ["the time"]) else "come"
        yield f"{listed(parts).capitalize()} {come} from your previous question."
    if Borrowed.REPLY in route.borrowed and route.that is None:
        yield "It goes with the message that it replies to."
    elif route.follows and not parts and Borrowed.ANSWER not in route.borrowed:
        yield "It builds on your previous question."


def _missing(phrasing: Phrasing) -> Iterator[str]:
    route = phrasing.route
    if route.dropped:
        yield f"Nothing like it was said {_time_words(route.dropped)}, so any time counts."
    if route.stranger and not route.speakers:
        yield f"Nobody called {name(route.stranger)} is known here."
