"""The honest no: what was searched, and that nothing in it answers the question.

Enters: a phrasing and the sources' reports. Leaves: one sentence that claims nothing beyond them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from channelmem.display import Phrasing, clock_time, counted, during, gap_words, listed, lower_you, name, quoted
from channelmem.policy.policy import Policy
from channelmem.telling.block import Forest, build
from channelmem.telling.references import not_read
from channelmem.types import MEMORY_OFF, Message, Source, SourceReport, Thread, Unsearched

MOST_COUNTED = 100
"""Counting reads no more messages than this."""


def nothing_found(phrasing: Phrasing, reports: Sequence[SourceReport]) -> str:
    asked = [source for source in reports if not source.problem]
    if reports and not asked:
        return MEMORY_OFF if reports[0].unsearched is Unsearched.OFF else "I couldn't look it up."
    if phrasing.route.stranger:
        return _no_such_person(phrasing, asked)
    seen = [_seen(source, phrasing) for source in _distinct(asked)]
    if not seen:
        # A search by person or time that found nothing says nothing about other people or times.
        narrowed = [phrasing.by()] if phrasing.route.speakers else []
        narrowed += [_from_then(phrasing)] if phrasing.route.window.start is not None else []
        return f"I found no messages {' '.join(narrowed)}." if narrowed else "I have no messages here yet."
    missing = not_read(max(source.unread for source in asked))
    return f"I have {', and '.join(seen)}; {_nobody(phrasing)}{missing and f' ({missing})'}."


def counted_messages(phrasing: Phrasing, reports: Sequence[SourceReport]) -> str:
    """How many messages there are; reading stops at a limit, and the sentence says so."""
    count = max((report.count for report in reports), default=0)
    by = f" {phrasing.by()}" if phrasing.route.speakers else ""
    when = f" {_from_then(phrasing)}" if phrasing.route.window.start is not None else ""
    least = "at least " if count > MOST_COUNTED else ""
    return f"I count {least}{counted(min(count, MOST_COUNTED), 'message')}{by}{when}."


def _no_such_person(phrasing: Phrasing, reports: Sequence[SourceReport]) -> str:
    oldest = min((one.oldest_ts for one in reports if one.oldest_ts is not None), default=None)
    since = "" if oldest is None else f" (since {clock_time(oldest, phrasing)})"
    return f"Nobody called {name(phrasing.route.stranger)} has written here{since}."


def _from_then(phrasing: Phrasing) -> str:
    words = phrasing.route.time_words
    return f"from {during(words).removeprefix('on ')}" if words else "from that time"


def _distinct(reports: Sequence[SourceReport]) -> list[SourceReport]:
    """Near to far; an archive that reaches no further back than the buffer is not worth mentioning."""
    kept: list[SourceReport] = []
    for source in sorted((one for one in reports if one.count), key=lambda one: list(Source).index(one.source)):
        if all(source.count > other.count for other in kept):
            kept.append(source)
    return kept


def _seen(report: SourceReport, phrasing: Phrasing) -> str:
    back = f", back to {clock_time(report.oldest_ts, phrasing)}" if report.oldest_ts is not None else ""
    count = f"{report.count:,}"
    if report.source is Source.BUFFER:
        return f"the last {count} messages{back}" if report.count > 1 else f"the last message{back}"
    if report.source is Source.ARCHIVE:
        return f"{counted(report.count, 'message')} in the archive{back}"
    return f"{counted(report.count, 'message')} of the channel's history{back}"


def _nobody(phrasing: Phrasing) -> str:
    route = phrasing.route
    speakers = [phrasing.speaker(person) for person in route.speakers]
    narrowed = route.binds and route.window.start is not None
    then = f" {during(route.time_words)}" if narrowed and route.time_words else " in that time" if narrowed else ""
    if not route.binds:
        return "nothing in them answers that"
    if not route.topic:
        return f"{f'{listed(speakers)} said nothing' if speakers else 'nobody said anything'}{then}"
    who = f"{listed(speakers)} did not mention" if speakers else "nobody mentioned"
    return f"{who} {phrasing.topic()}{then}"


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
