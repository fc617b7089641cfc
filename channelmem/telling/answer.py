"""An answer without a language model. Enters what was found, leaves sentences that quote who, when and what.

Nothing is claimed that was not read: a quote stands under its genuine author, a guess is called one, and
"nobody mentioned it" comes with what was looked at and what could not be.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, tzinfo
from typing import Final

from channelmem.recalling.ranking.line import signs, stems
from channelmem.telling.quote import ago, counted, cut, flatten, gap_words, name, named, quoted, safe
from channelmem.telling.relevance import label, worth_quoting
from channelmem.telling.threads import Forest
from channelmem.types import Hit, Kind, Message, Mode, Person, Question, Route, Source, SourceReport, Thread

NO_CHANNEL: Final = "I have no channel to look at here."
NOT_ABOUT_THE_CHANNEL: Final = "That does not seem to be about this conversation, so I looked nothing up."

FIRST_CHARS: Final = 400
FURTHER_CHARS: Final = 160
RECAP_CHARS: Final = 90
PROBLEM_CHARS: Final = 300
MOST_QUOTES: Final = 4
MOST_THREADS: Final = 6
MOST_LINES: Final = 6
LONGEST: Final = 1_900
"""Discord takes 2,000 characters; the rest is room for what an adapter adds."""

_PRONOUNS: Final = frozenset({"you", "i", "me", "we", "nobody"})

JumpUrl = Callable[[Message], str]

_WHO: Final = re.compile(r"\W*(?:and |so |but |hey |ok |okay )*who(?:'s|se)?\b(?P<rest>.*)", re.IGNORECASE | re.DOTALL)
_SAID_IT: Final = re.compile(
    r"\b(?:mention|said|say|talk|ask|bring|brought|post|wr[io]te|spoke|speak|suggest|discuss|told|tell|link|shar)",
    re.IGNORECASE,
)
_WHETHER: Final = re.compile(
    r"\W*(?:and |so |but |hey |ok |okay )*(?:did(?:n't)?|has(?:n't)?|have(?:n't)?|was|were|is|are)\b.*"
    r"\b(?:mention|talk|bring up|brought up|discuss|post|speak|spoken|ask(?:ed)? about"
    r"|(?:say|said|saying|write|wrote|written) (?:any|some)thing)",
    re.IGNORECASE | re.DOTALL,
)


@dataclass(frozen=True, slots=True)
class _View:
    """What one answer rests on."""

    question: Question
    route: Route
    now: float
    tz: tzinfo
    jump_url: JumpUrl | None
    people: dict[int, str]
    namesakes: frozenset[str]
    """Names, case-folded, that several of those who are told about have."""

    def who(self, message: Message) -> str:
        if message.own:
            return "I"
        if message.author_id == self.question.asker_id:
            return "You"
        return self.called(message.author_id, message.author)

    def called(self, person_id: int, shown: str) -> str:
        known = name(shown)
        apart = f"#{person_id % 10_000:04}" if known.casefold() in self.namesakes else ""
        # Somebody who goes by "You" must not speak for the asker.
        return f"a member called {known}{apart}" if known.casefold() in _PRONOUNS else f"{known}{apart}"

    def quote(self, message: Message, chars: int) -> str:
        url = self.jump_url(message) if self.jump_url else ""
        words = quoted(message.content, chars, self.people)
        return f"{words} {url}" if url else words

    def when(self, message: Message) -> str:
        return ago(self.now - message.ts)


def answer_text(  # noqa: PLR0913  (one argument per result of the stages before)
    question: Question,
    route: Route,
    hits: Sequence[Hit],
    forest: Forest,
    looked: Sequence[SourceReport],
    *,
    now: float,
    tz: tzinfo,
    jump_url: JumpUrl | None = None,
) -> str:
    """`Answer.text`: quotes for hits, a list for a recap, an honest no, at most 1,900 characters."""
    if question.is_dm and not hits and not forest.threads:
        return NO_CHANNEL
    if route.kind is Kind.NONE:
        return NOT_ABOUT_THE_CHANNEL
    people, namesakes = _people(question, hits, forest), _namesakes(question, route, hits, forest)
    view = _View(question, route, now, tz, jump_url, people, namesakes)
    problems = _problems(looked)
    if route.mode is Mode.RECAP and forest.threads:
        return _joined([*_recap(view, forest, looked)], problems)
    if hits:
        return _joined([*_quotes(view, hits)], problems)
    return _joined([" ".join([_nothing(view, looked), *problems])])


def _quotes(view: _View, hits: Sequence[Hit]) -> Iterator[str]:
    relevant = [hit for hit in hits if _asked_for(view, hit) and label(hit)]
    if view.route.mode is Mode.TOPIC:
        hits = worth_quoting(hits)
    # "I found nothing by Ann" must be true, also where somebody else said it better.
    mine = [hit for hit in hits if _asked_for(view, hit)] or worth_quoting(relevant)
    if not mine:
        yield from _listed(view, hits, _others_lead(view, hits[0]))
    elif _WHO.match(view.question.text):
        yield from _by_person(view, _surest(view, mine))
    elif _WHETHER.match(view.question.text):
        sure = _surest(view, mine)
        yes = "Yes" if _is_about(view.route, sure[0]) else "Perhaps"
        who, when = _lower_you(view.who(sure[0].message)), view.when(sure[0].message)
        yield from _listed(view, sure, f"{yes}: {who}, {when}: ")
    else:
        yield from _listed(view, mine, f"{view.who(mine[0].message)} said, {view.when(mine[0].message)}: ")


def _listed(view: _View, hits: Sequence[Hit], lead: str) -> Iterator[str]:
    """The first quote behind its lead, further ones as a list."""
    yield lead + view.quote(hits[0].message, FIRST_CHARS)
    for hit in hits[1:MOST_QUOTES]:
        message = hit.message
        yield f"- {view.who(message)}, {view.when(message)}: {view.quote(message, FURTHER_CHARS)}"
    if len(hits) > MOST_QUOTES:
        yield f"... {counted(len(hits) - MOST_QUOTES, 'more message')}"


def _by_person(view: _View, hits: Sequence[Hit]) -> Iterator[str]:
    """Who did: each person once, with the best hit of theirs."""
    best: dict[int, Hit] = {}
    for hit in hits:
        best.setdefault(hit.message.author_id, hit)
    rest = _WHO.match(view.question.text)
    did = " did" if rest and _SAID_IT.search(rest["rest"]) else ""
    sure = "" if _is_about(view.route, hits[0]) else "Perhaps "
    for at, hit in enumerate(list(best.values())[:MOST_QUOTES]):
        message = hit.message
        who = view.who(message)
        lead = f"- {who}" if at else f"{sure}{_lower_you(who) if sure else who}{did}"
        yield f"{lead}, {view.when(message)}: {view.quote(message, FURTHER_CHARS if at else FIRST_CHARS)}"
    if len(best) > MOST_QUOTES:
        yield f"... and {len(best) - MOST_QUOTES} more"


def _asked_for(view: _View, hit: Hit) -> bool:
    """Whether the hit is by somebody whose words the question wants.

    "What did Ann say about Rome?" wants Ann's; "when did Ann go to Rome?" is answered by whoever knows.
    """
    speakers = {person.id for person in view.route.speakers}
    wants_words = view.route.kind is Kind.CHANNEL or _SAID_IT.search(view.question.text)
    if not speakers or not wants_words or hit.message.author_id in speakers:
        return True
    return hit.message.own and view.question.bot.id in speakers


def _others_lead(view: _View, hit: Hit) -> str:
    who, when = view.who(hit.message), view.when(hit.message)
    return f"I found nothing {_by(view)}{_about(view)}, but {_lower_you(who)} said, {when}: "


def _surest(view: _View, hits: Sequence[Hit]) -> Sequence[Hit]:
    """For a yes or a name: the hits that use the topic's words, where there are any."""
    return [hit for hit in hits if _is_about(view.route, hit)] or hits


def _is_about(route: Route, hit: Hit) -> bool:
    """Whether at least half of the topic's words are in the message itself: resemblance is no mention."""
    if marks := signs(route.topic):
        return all(mark in hit.message.content for mark in marks)
    topic = set(stems(route.topic))
    if not topic:
        return not route.topic  # nothing but small words or marks: resemblance is all there is
    return 2 * len(topic & set(stems(hit.message.searchable))) >= len(topic)


def _recap(view: _View, forest: Forest, looked: Sequence[SourceReport]) -> Iterator[str]:
    shown = forest.threads[:MOST_THREADS]
    threads = len(forest.threads) + forest.more_threads
    messages = len(forest.messages) + forest.more_messages
    oldest = min(message.ts for message in forest.messages)
    since = "" if forest.more_messages else f" since {_clock(oldest, view)}"
    order = ", newest first" if len(shown) > 1 else ""
    # What was read ends at a limit: how many came before is not known.
    last = "The last " if any(one.source is not Source.HISTORY and one.count > messages for one in looked) else ""
    yield f"{last}{counted(messages, 'message')} in {counted(threads, 'conversation')}{since}{order}:"
    if len(shown) == 1:
        yield from _lines(view, shown[0])
        left = messages - min(len(shown[0].messages), MOST_LINES)
    else:
        yield from _summaries(view, shown)
        left = messages - sum(len(thread.messages) for thread in shown)
    if left:
        yield f"... {counted(left, 'more message')}"


def _lines(view: _View, thread: Thread) -> Iterator[str]:
    """A single conversation, line by line, the newest ones."""
    messages = thread.messages[-MOST_LINES:]
    for at, message in enumerate(messages):
        gap = gap_words(message.ts - messages[at - 1].ts) if at else None
        pause = f"({gap} later) " if gap else ""
        yield f"- {pause}{view.who(message)}, {view.when(message)}: {view.quote(message, FURTHER_CHARS)}"


def _summaries(view: _View, threads: Sequence[Thread]) -> Iterator[str]:
    """Several conversations, each by its first and last words."""
    for at, thread in enumerate(threads):
        gap = gap_words(threads[at - 1].messages[0].ts - thread.messages[-1].ts) if at else None
        yield f"- {f'({gap} earlier) ' if gap else ''}{_told(view, thread)}"


def _told(view: _View, thread: Thread) -> str:
    first, last = thread.messages[0], thread.messages[-1]
    people = _and([_lower_you(person, start=not at) for at, person in enumerate(_participants(view, thread))])
    head = f"{people}, {counted(len(thread.messages), 'message')}, {view.when(last)}: "
    if first is last:
        return head + view.quote(last, 2 * RECAP_CHARS)
    return f"{head}{quoted(first.content, RECAP_CHARS, view.people)} … {view.quote(last, RECAP_CHARS)}"


def _participants(view: _View, thread: Thread) -> list[str]:
    names = list({message.author_id: view.who(message) for message in thread.messages}.values())
    return names if len(names) <= 4 else [*names[:3], f"{len(names) - 3} more"]


def _nothing(view: _View, looked: Sequence[SourceReport]) -> str:
    asked = [source for source in looked if not source.problem]
    if looked and not asked:
        return "I could not look it up."
    seen = [_seen(source, view) for source in _distinct(asked)]
    if not seen:
        # A search by person or time that met nothing says nothing about other people or times.
        narrowed = [_by(view)] if view.route.speakers else []
        narrowed += ["from that time"] if view.route.window.start is not None else []
        return f"I have no messages {' '.join(narrowed) or 'here yet'}."
    return f"I have {', and '.join(seen)}; {_nobody(view)}."


def _distinct(looked: Sequence[SourceReport]) -> list[SourceReport]:
    """Near to far; an archive that goes no further than the buffer is not worth a mention."""
    kept: list[SourceReport] = []
    for source in sorted((one for one in looked if one.count), key=lambda one: list(Source).index(one.source)):
        if all(source.count > other.count for other in kept):
            kept.append(source)
    return kept


def _seen(source: SourceReport, view: _View) -> str:
    back = f", back to {_clock(source.oldest_ts, view)}" if source.oldest_ts is not None else ""
    count = f"{source.count:,}"
    if source.source is Source.BUFFER:
        return f"the last {count} messages{back}" if source.count > 1 else f"the last message{back}"
    if source.source is Source.ARCHIVE:
        return f"{counted(source.count, 'message')} of the archive{back}"
    return f"{counted(source.count, 'message')} of the channel's history{back}"


def _nobody(view: _View) -> str:
    speakers = [_speaker(view, person) for person in view.route.speakers]
    if not view.route.topic:
        who = f"{_and(speakers)} said nothing" if speakers else "nobody said anything"
        return f"{who} in that time" if view.route.window.start is not None else who
    who = f"{_and(speakers)} did not mention" if speakers else "nobody mentioned"
    return f"{who} {_topic(view)}"


def _speaker(view: _View, person: Person) -> str:
    if person.id == view.question.asker_id:
        return "you"
    return "I" if person.id and person.id == view.question.bot.id else view.called(person.id, person.name)


def _by(view: _View) -> str:
    owners = [_speaker(view, person) for person in view.route.speakers]
    return f"by {_and([{'I': 'me'}.get(owner, owner) for owner in owners])}"


def _about(view: _View) -> str:
    return f" about {_topic(view)}" if view.route.topic else ""


def _topic(view: _View) -> str:
    return safe(cut(flatten(named(view.route.topic, view.people)), 60))


def _clock(ts: float, view: _View) -> str:
    """The time of day, with the day where it is not today's."""
    then, today = datetime.fromtimestamp(ts, view.tz), datetime.fromtimestamp(view.now, view.tz).date()
    if then.date() == today:
        return f"{then:%H:%M}"
    if then.date() == today - timedelta(days=1):
        return f"yesterday {then:%H:%M}"
    return f"{then.day} {then:%B %H:%M}" if then.year == today.year else f"{then.day} {then:%B %Y}"


def _problems(looked: Sequence[SourceReport]) -> list[str]:
    return [
        cut(flatten(problem), PROBLEM_CHARS)
        for problem in dict.fromkeys(source.problem for source in looked)
        if problem
    ]


def _people(question: Question, hits: Sequence[Hit], forest: Forest) -> dict[int, str]:
    """Names for mentions inside quotes."""
    known = {person.id: person.name for person in (*question.mentions, question.bot)}
    known |= {message.author_id: message.author for message in forest.messages}
    known |= {hit.message.author_id: hit.message.author for hit in hits}
    return known | {question.asker_id: question.asker}


def _namesakes(question: Question, route: Route, hits: Sequence[Hit], forest: Forest) -> frozenset[str]:
    """Names that more than one of these people have; the asker is "you", and the bot "I"."""
    messages = (*forest.messages, *(hit.message for hit in hits))
    told = {(message.author_id, message.author) for message in messages if not message.own}
    told |= {(person.id, person.name) for person in route.speakers}
    owners: dict[str, set[int]] = {}
    for person_id, shown in told:
        if person_id not in {question.asker_id, question.bot.id}:
            owners.setdefault(name(shown).casefold(), set()).add(person_id)
    return frozenset(shown for shown, ids in owners.items() if len(ids) > 1)


def _lower_you(who: str, *, start: bool = False) -> str:
    return "you" if who == "You" and not start else who


def _and(parts: Sequence[str]) -> str:
    return " and ".join(filter(None, [", ".join(parts[:-1]), parts[-1]])) if parts else ""


def _joined(lines: Sequence[str], notes: Sequence[str] = ()) -> str:
    """Lines within the longest answer; whole lines go, and it shows. The notes stay: they tell what is missing."""
    room = LONGEST - sum(len(note) + 1 for note in notes)
    kept, used = [cut(lines[0], room)], len(lines[0])
    for line in lines[1:]:
        used += len(line) + 1
        if used > room - 2:
            kept.append("…")
            break
        kept.append(line)
    return "\n".join([*kept, *notes])
