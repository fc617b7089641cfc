"""The honest no: that nothing of what was searched answers the question, and how far back that reaches.

Enters: a phrasing, the sources' reports and the evidence. Leaves: one sentence that claims nothing beyond them. How
many messages were searched where is for `/why` (telling/explanation.py).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from datetime import tzinfo
from typing import Final

from channelmem.display import (
    Phrasing,
    chosen,
    clock_time,
    counted,
    cut,
    during,
    flatten,
    listed,
    name,
    proper,
    safe,
    span_words,
)
from channelmem.durations import DAY_S, HOUR_S
from channelmem.policy.policy import Policy
from channelmem.recalling.gist import Highlight, Stretch, points
from channelmem.recalling.recall import Found
from channelmem.recalling.verdict import Verdict
from channelmem.telling.block import Forest, build
from channelmem.telling.references import not_read
from channelmem.types import (
    MEMORY_OFF,
    Borrowed,
    Evidence,
    Mode,
    Question,
    Source,
    SourceReport,
    Unsearched,
    Wants,
    Window,
)

MOST_COUNTED = 100
"""Counting reads no more messages than this."""
FEW: Final = 20
"""So many messages are named by their number, not by the time that they reach back to."""
DAYS: Final = 2
"""From here on, the time is given in days."""
_NO_ANSWER: Final = (
    "I didn't see an answer to that here.",
    "I couldn't find an answer to that here.",
    "Nothing I have seen here answers that.",
)
_POSTED: Final = {Wants.LINK: "a link", Wants.FILE: "a picture or another file"}
_MOST_WORDS: Final = 5
"""A longer topic is a sentence: it fits behind no "mentioned"."""
_MOSTLY: Final = 0.5
"""From this share of a fact's words on that nobody used, the thing itself was not mentioned."""
_THE: Final = r"(?P<the>(?:the|an?|any)\s+)?"
_OBJECT: Final = rf"\b(?:about|mention\w*|discuss\w*|regarding|bring up|brought up)\s+{_THE}"
_SUBJECT: Final = r"\s+(?:been\s+)?(?:mentioned|discussed|come up|came up|brought up)\b"
_THING: Final = (
    r"(?:\b(?:is|are|was|were)|\b(?:what|who|when|where)(?:['’]?s|\s+(?:is|was)))\s+"  # noqa: RUF001  (typed)
    r"(?:there\s+(?:an?\s+)?|(?P<the>(?:the|any)\s+))"
)
"""What stands around a thing in a question: "about the", "when's the", "is there"."""
_CLAUSE: Final = re.compile(
    r"\b(?:i|you|he|she|it|we|they|me|us|him|them|who|what|when|where|why|how|is|are|was|were|be|do|does|did|has|have"
    r"|had|can|could|should|would|will|if|that|because|plans?|status|situation|latest|deal|problem|reason|answer)\b"
    r"|\bthey['’]?(?:d|re|ll)\b",  # noqa: RUF001
    re.IGNORECASE,
)
_OURS: Final = re.compile(r"\b(?:my|our)\b", re.IGNORECASE)


def nothing_found(phrasing: Phrasing, reports: Sequence[SourceReport], evidence: Evidence | None = None) -> str:
    asked = [source for source in reports if not source.problem]
    if (that := phrasing.route.that) is not None and that.linked and (asked or not reports):
        return "I can't see that message."
    if reports and not asked:
        return MEMORY_OFF if reports[0].unsearched is Unsearched.OFF else "I couldn't look it up."
    if phrasing.route.stranger:
        return _no_such_person(phrasing, asked)
    searched = [source for source in asked if source.count]
    if not searched:
        # A search by person or time that found nothing says nothing about other people or times.
        narrowed = [phrasing.by()] if phrasing.route.speakers else []
        narrowed += [_from_then(phrasing)] if phrasing.route.window.start is not None else []
        return f"I found no messages {' '.join(narrowed)}." if narrowed else "I have no messages here yet."
    missing = not_read(max(source.unread for source in asked))
    no = _no(phrasing, searched, evidence)
    return f"{no.removesuffix('.')} ({missing})." if missing else no


def counted_messages(phrasing: Phrasing, reports: Sequence[SourceReport]) -> str:
    """How many messages there are; reading stops at a limit, and the sentence says so."""
    count = max((report.count for report in reports), default=0)
    by = f" {phrasing.by()}" if phrasing.route.speakers else ""
    when = f" {_from_then(phrasing)}" if phrasing.route.window.start is not None else ""
    least = "at least " if count > MOST_COUNTED else ""
    return f"I count {least}{counted(min(count, MOST_COUNTED), 'message')}{by}{when}."


def _no_such_person(phrasing: Phrasing, reports: Sequence[SourceReport]) -> str:
    oldest = _oldest(reports)
    since = "" if oldest is None else f" {_since(phrasing, oldest)}"
    return f"Nobody called {name(phrasing.route.stranger)} has written here{since}."


def _from_then(phrasing: Phrasing) -> str:
    words = phrasing.route.time_words
    return f"from {during(words).removeprefix('on ')}" if words else "from that time"


def _no(phrasing: Phrasing, searched: Sequence[SourceReport], evidence: Evidence | None) -> str:
    """ "Nobody has mentioned parking since 16:17.", or that no answer was seen where its words were used."""
    route = phrasing.route
    did, done = _what(phrasing)
    least = 0.0 if route.binds else _MOSTLY
    used = evidence is not None and evidence.missing <= least
    if not done or (used and not route.literal and route.wants not in _POSTED):
        return chosen(_NO_ANSWER, phrasing.question)
    who = [phrasing.speaker(person) for person in route.speakers] if route.binds else []
    if not (route.binds and route.window.start is not None):
        return f"{_has(who)} {done} {_reaching(phrasing, searched)}."
    oldest = _oldest(searched)
    if oldest is not None and route.window.end is not None and route.window.end < oldest:
        return f"I only remember back to {clock_time(oldest, phrasing)}, so I can't tell."
    then = during(route.time_words) if route.time_words else "in that time"
    return f"{_first_upper(listed(who))} didn't {did} {then}." if who else f"Nobody {done} {then}."


def _what(phrasing: Phrasing) -> tuple[str, str]:
    """What was not done, as "mention parking" and "mentioned parking"; empty if no such words fit."""
    route = phrasing.route
    if route.wants in _POSTED and not route.topic:
        return f"post {_POSTED[route.wants]}", f"posted {_POSTED[route.wants]}"
    if route.literal:
        return f'write "{phrasing.topic()}"', f'written "{phrasing.topic()}"'
    thing = _mentionable(phrasing)
    if thing and route.of_questions:
        return f"ask about {thing}", f"asked about {thing}"
    return (f"mention {thing}", f"mentioned {thing}") if thing else ("", "")


def _mentionable(phrasing: Phrasing) -> str:
    """The topic, if the question shows that it is a thing that fits behind "mentioned": "about the budget", "did
    parking come up"; of a question for a fact "is there parking?", "when's the match?"."""
    topic, route, text = phrasing.topic(), phrasing.route, phrasing.question.text
    if not topic or len(topic.split()) > _MOST_WORDS or _CLAUSE.search(topic):
        return ""
    named = re.escape(route.topic)
    forms = (
        (_OBJECT + named, named + _SUBJECT) if route.binds or route.mode is Mode.RECAP else (_THING + named + r"\W*$",)
    )
    found = next(filter(None, (re.search(form, text, re.IGNORECASE) for form in forms)), None)
    # "And Bob?" takes a topic as it is; words pieced together from two questions don't make a phrase.
    whole = Borrowed.TOPIC in route.borrowed and not any(word in text.lower() for word in topic.lower().split())
    if found is None and not whole:
        return ""
    the = (found.groupdict().get("the") or "").lower() if found else ""
    return f"{the}{proper(_OURS.sub('your', topic))}"


def _has(who: Sequence[str]) -> str:
    """ "Nobody has", "Ann hasn't", "You haven't", "Ann and Bob haven't"."""
    if not who:
        return "Nobody has"
    return f"{_first_upper(listed(who))} {'hasn' if len(who) == 1 and who[0] not in {'you', 'I'} else 'haven'}'t"


def _first_upper(who: str) -> str:
    return f"You{who[3:]}" if who == "you" or who.startswith(("you ", "you, ")) else who


def _reaching(phrasing: Phrasing, searched: Sequence[SourceReport]) -> str:
    """How far back what was searched goes: never further than its oldest message."""
    count, oldest = max(one.count for one in searched), _oldest(searched)
    if count <= FEW or oldest is None:
        return f"in the {f'{count:,} messages' if count > 1 else 'one message'} I have seen"
    return _since(phrasing, oldest)


def _since(phrasing: Phrasing, oldest: float) -> str:
    age = phrasing.now - oldest
    return f"in the last {span_words(age)}" if age >= DAYS * DAY_S else f"since {clock_time(oldest, phrasing)}"


def _oldest(searched: Sequence[SourceReport]) -> float | None:
    return min((one.oldest_ts for one in searched if one.oldest_ts is not None), default=None)


# --- recap ---


ROOM: Final = 1_800
"""Characters for the lines of a recap."""
LINE_CHARS: Final = (160, 120, 90, 60)
"""At most so many of each message: the first length with which all lines fit."""
LEAST_MESSAGES: Final = 20
"""A recap shows a language model so many messages, if there are."""


def recap_points(question: Question, found: Found, tz: tzinfo) -> tuple[Highlight, ...]:
    """The lines of a recap. A day without a window is one whose plans are asked for."""
    day = found.route.time_words if found.route.window == Window() else ""
    return points(Stretch(found.messages, found.about, day, question.ts, tz))


def recap_forest(found: Found, told: Sequence[Highlight], policy: Policy) -> Forest:
    """What an answer rests on: its lines, and for a language model what is closest to its topic, or newest. Whoever
    wants little or no ambient context for a model still wants to be caught up."""
    most = max(policy.context_messages, LEAST_MESSAGES)
    worth = [sum(one) for one in found.about] or range(len(found.messages))
    best = sorted(range(len(found.messages)), key=worth.__getitem__)[-most:]
    shown = {one.id: one for one in (*(found.messages[at] for at in best), *(one.message for one in told))}
    return build(tuple(shown.values()), max_threads=len(shown), max_messages=len(shown))


def recap(phrasing: Phrasing, found: Found, told: Sequence[Highlight]) -> Iterator[str]:
    """The lines of a recap, oldest first, behind a line that says of what."""
    yield f"{_of_what(phrasing, found)}:"
    every = ([_point(phrasing, point, chars) for point in told] for chars in LINE_CHARS)
    fitting = next((lines for lines in every if sum(map(len, lines)) + len(lines) <= ROOM), None)
    yield from fitting or [_point(phrasing, point, LINE_CHARS[-1]) for point in told]


def _point(phrasing: Phrasing, point: Highlight, chars: int) -> str:
    return phrasing.bullet(point.message, chars, "Still open: " if point.is_open else "")


def _of_what(phrasing: Phrasing, found: Found) -> str:
    route, count = phrasing.route, counted(len(found.messages), "message")
    if route.topic:
        return f"{'Perhaps about' if found.verdict is Verdict.GUESS else 'About'} {phrasing.topic()}"
    first = clock_time(found.messages[0].ts, phrasing)
    if route.time_words and route.window == Window():
        return f"For {safe(cut(flatten(route.time_words), 40))}, from what was said since {first}"
    # Reading stopped at a limit, so the number of earlier messages is unknown.
    more = any(one.source is not Source.HISTORY and one.count > len(found.messages) for one in found.reports)
    if route.window.end is not None and route.window.end < phrasing.now - HOUR_S and len(found.messages) > 1:
        last = clock_time(found.messages[-1].ts, phrasing)
        return f"{count} from {first} to {last.removeprefix(first[:-5])}"
    return f"The last {count}, since {first}" if more and len(found.messages) > 1 else f"Since {first}, {count}"
