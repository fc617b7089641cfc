"""The honest no: that nothing of what was searched answers the question, and how far back that reaches.

Enters: a phrasing, the sources' reports and the evidence. Leaves: one sentence that claims nothing beyond them. How
many messages were searched where is for `/why` (telling/explanation.py).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

from channelmem.display import (
    Phrasing,
    chosen,
    clock_time,
    counted,
    during,
    gap_words,
    listed,
    lower_you,
    name,
    proper,
    quoted,
    span_words,
)
from channelmem.durations import DAY_S
from channelmem.policy.policy import Policy
from channelmem.telling.block import Forest, build
from channelmem.telling.references import not_read
from channelmem.types import (
    MEMORY_OFF,
    Borrowed,
    Evidence,
    Message,
    Mode,
    Source,
    SourceReport,
    Thread,
    Unsearched,
    Wants,
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
    # "And Bob?" takes a topic as it is; one made of the words of two questions is no phrase.
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


FURTHER_CHARS: Final = 160
RECAP_CHARS: Final = 90
MOST_THREADS: Final = 6
MOST_LINES: Final = 6
MOST_ABOUT: Final = 8
LEAST_THREADS: Final = 5
LEAST_MESSAGES: Final = 20
"""Minimum recap size, if available."""


def recap_forest(messages: Sequence[Message], policy: Policy) -> Forest:
    """The threads of a recap. Whoever wants little or no ambient context for a model still wants to be caught up."""
    return build(
        messages,
        max_threads=max(policy.context_threads, LEAST_THREADS),
        max_messages=max(policy.context_messages, LEAST_MESSAGES),
    )


def recap(phrasing: Phrasing, forest: Forest, reports: Sequence[SourceReport]) -> Iterator[str]:
    """The lines of a recap: what was said about a topic in order of time, or the conversations, newest first."""
    if phrasing.route.topic:
        yield from _about(phrasing, forest)
    else:
        yield from _everything(phrasing, forest, reports)


def _about(phrasing: Phrasing, forest: Forest) -> Iterator[str]:
    messages = sorted(forest.messages, key=lambda one: (one.ts, one.id))
    yield f"{counted(len(messages), 'message')} about {phrasing.topic()}:"
    for message in messages[-MOST_ABOUT:]:
        yield phrasing.bullet(message, FURTHER_CHARS)


def _everything(phrasing: Phrasing, forest: Forest, reports: Sequence[SourceReport]) -> Iterator[str]:
    shown = forest.threads[:MOST_THREADS]
    threads = len(forest.threads) + forest.more_threads
    messages = len(forest.messages) + forest.more_messages
    oldest = min(message.ts for message in forest.messages)
    since = "" if forest.more_messages else f" since {clock_time(oldest, phrasing)}"
    order = ", newest first" if len(shown) > 1 else ""
    # Reading stopped at a limit, so the number of earlier messages is unknown.
    last = "The last " if any(one.source is not Source.HISTORY and one.count > messages for one in reports) else ""
    yield f"{last}{counted(messages, 'message')} in {counted(threads, 'conversation')}{since}{order}:"
    if len(shown) == 1:
        yield from _lines(phrasing, shown[0])
        left = messages - min(len(shown[0].messages), MOST_LINES)
    else:
        yield from _summaries(phrasing, shown)
        left = messages - sum(len(thread.messages) for thread in shown)
    if left:
        yield f"... {counted(left, 'more message')}"


def _lines(phrasing: Phrasing, thread: Thread) -> Iterator[str]:
    """The newest messages of a single conversation, line by line."""
    messages = thread.messages[-MOST_LINES:]
    for at, message in enumerate(messages):
        gap = gap_words(message.ts - messages[at - 1].ts) if at else None
        yield phrasing.bullet(message, FURTHER_CHARS, f"({gap} later) " if gap else "")


def _summaries(phrasing: Phrasing, threads: Sequence[Thread]) -> Iterator[str]:
    """Several conversations, each by its first and last words."""
    for at, thread in enumerate(threads):
        gap = gap_words(threads[at - 1].messages[0].ts - thread.messages[-1].ts) if at else None
        yield f"- {f'({gap} earlier) ' if gap else ''}{_summary(phrasing, thread)}"


def _summary(phrasing: Phrasing, thread: Thread) -> str:
    first, last = thread.messages[0], thread.messages[-1]
    people = listed([lower_you(person, start=not at) for at, person in enumerate(_participants(phrasing, thread))])
    head = f"{people}, {counted(len(thread.messages), 'message')}, {phrasing.when(last)}: "
    if first is last:
        return head + phrasing.quote(last, 2 * RECAP_CHARS)
    return f"{head}{quoted(first.content, RECAP_CHARS, phrasing.people)} … {phrasing.quote(last, RECAP_CHARS)}"


def _participants(phrasing: Phrasing, thread: Thread) -> list[str]:
    names = list({message.author_id: phrasing.who(message) for message in thread.messages}.values())
    return names if len(names) <= 4 else [*names[:3], f"{len(names) - 3} more"]
