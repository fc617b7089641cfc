"""A recap in words: the window's conversations, newest first.

Enters: the messages of a window. Leaves: their threads (`recap_forest`), and lines that quote them (`recap`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from channelmem.policy import Policy
from channelmem.telling.honest_no import clock_time
from channelmem.telling.quote import Phrasing, counted, gap_words, listed, lower_you, quoted
from channelmem.telling.threads import Forest, build
from channelmem.types import Message, Source, SourceReport, Thread

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
