"""An answer without a language model: sentences that quote who, when and what.

An answer claims nothing that was not read: a quote names its real author, a guess is called a guess, and "nobody
mentioned it" (`honest_no`) comes with what was searched and what could not be.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import tzinfo
from typing import Final

from channelmem.display import JumpUrl, Phrasing, counted, cut, during, flatten, lower_you, namesakes, relevance
from channelmem.recalling.candidates import Asked
from channelmem.recalling.recall import SHOWN, Found
from channelmem.recalling.verdict import Verdict
from channelmem.telling.block import Forest
from channelmem.telling.recap import counted_messages, nothing_found, recap, recap_forest
from channelmem.telling.references import is_about_media, shows
from channelmem.text import emoji_of, stems
from channelmem.types import (
    Answer,
    Aside,
    Hit,
    Kind,
    Message,
    Mode,
    Question,
    Route,
    SourceReport,
    Wants,
    answering,
)

NO_CHANNEL: Final = "There's no channel to search here."
NOT_ABOUT_THE_CHANNEL: Final = 'I only know what was said here. Try "what did Ann say about the release?"'
HELP: Final = (
    'I remember what was said in this channel. Ask me "what did Ann say about the release?", "when is the match?", '
    '"who has the keys?" or "what did I miss?".'
)
_THANKED: Final = re.compile(r"\b(?:thanks?|thx|ty|cheers)\b", re.IGNORECASE)

FIRST_CHARS: Final = 400
FURTHER_CHARS: Final = 160
PROBLEM_CHARS: Final = 300
MOST_QUOTES: Final = 4
MOST_HITS: Final = 3
"""How many hits an answer about a topic shows."""
LONGEST: Final = 1_900
"""Discord allows 2,000 characters; the rest is room for what an adapter adds."""


def tell(asked: Asked, found: Found) -> Answer:
    """The answer to a question."""
    forest = recap_forest(found.messages, asked.policy) if found.messages else Forest()
    shown = [*(forest.messages if forest.threads else ()), *[hit.message for hit in found.hits], *asked.pointed]
    phrasing = phrasing_of(asked.question, found.route, shown, asked.policy.tz, jump_url=asked.jump_url)
    return Answer(
        answer_text(phrasing, found, forest, asked.pointed),
        found.route,
        found.hits,
        forest.threads,
        tried=found.reports,
        found=found.verdict in SHOWN or bool(asked.pointed),
        sure=found.sure,
        evidence=found.evidence,
        pointed=asked.pointed,
    )


def answer_text(phrasing: Phrasing, found: Found, forest: Forest, pointed: Sequence[Message] = ()) -> str:
    """`Answer.text`: quotes for hits, a list for a recap, an honest no, at most 1,900 characters."""
    route, hits, reports = found.route, found.hits, found.reports
    guess = bool(hits) and found.verdict is Verdict.GUESS
    read = shows(phrasing, pointed) if pointed else []
    if read and (is_about_media(route) or guess or not (hits or forest.threads)):
        return joined(read)
    if phrasing.question.is_dm and not hits and not forest.threads:
        return NO_CHANNEL
    if route.kind is Kind.NONE:
        return friendly(route, phrasing.question.text)
    problems = _problems(reports)
    if route.mode is Mode.RECAP and forest.threads:
        lines = [*recap(phrasing, forest, reports), *read]
    elif hits and route.wants is Wants.COUNT:
        lines = [counted_messages(phrasing, reports)]
    elif hits:
        lines = [*_quotes(phrasing, hits, guess=guess), *read]
    else:
        return joined([" ".join([nothing_found(phrasing, reports), *problems])])
    return joined(lines, problems)


def phrasing_of(
    question: Question,
    route: Route,
    messages: Sequence[Message],
    tz: tzinfo,
    others: Mapping[int, str] | None = None,
    jump_url: JumpUrl | None = None,
) -> Phrasing:
    """How an answer refers to the people of these messages, and to others by id."""
    people = _people(question, messages) | dict(others or {})
    known = namesakes(question, route, messages)
    return Phrasing(question, route, question.ts, tz, jump_url, people, known)


def friendly(route: Route, text: str) -> str:
    """A word back to a greeting or a thank you, and for whoever asks for help what can be asked."""
    if route.wants is not Wants.HELLO:
        return NOT_ABOUT_THE_CHANNEL
    if _THANKED.search(text):
        return "You're welcome."
    return HELP if route.aside is Aside.HELP else f"Hi! {HELP}"


def _quotes(phrasing: Phrasing, hits: Sequence[Hit], *, guess: bool) -> Iterator[str]:
    """The lines that answer, and nothing to fill up."""
    route = phrasing.route
    shown = answering(hits)
    best = [hit for hit in shown if _is_asked_for(phrasing, hit)]
    if not best:
        # "I found nothing by Ann" must be true even if somebody else said it better.
        best = [hit for hit in hits if _is_asked_for(phrasing, hit) and relevance(hit)][:1]
    if not best:
        yield from _listed(phrasing, shown[:1], _others_lead(phrasing, shown[0]))
    elif route.wants is Wants.WHO and route.saying and len(best) > 1:
        yield from _by_person(phrasing, best, guess=guess)
    elif route.wants is Wants.WHETHER and not guess and _is_about(route, best[0]):
        who, when = lower_you(phrasing.who(best[0].message)), phrasing.when(best[0].message)
        yield from _listed(phrasing, best, f"Yes: {_other_time(route)}{who}, {when}: ")
    else:
        yield from _listed(phrasing, best, _lead(phrasing, best[0].message, guess=guess))


def _lead(phrasing: Phrasing, message: Message, *, guess: bool) -> str:
    who, when, other = phrasing.who(message), phrasing.when(message), _other_time(phrasing.route)
    if guess:
        return f"Perhaps: {other}{lower_you(who)}, {when}: "
    return f"{other.capitalize()}{lower_you(who) if other else who} said, {when}: "


def _other_time(route: Route) -> str:
    """What to say if the time in the question is not when it was said."""
    return f"nothing was said {during(route.dropped)}, but " if route.dropped else ""


def _listed(phrasing: Phrasing, hits: Sequence[Hit], lead: str) -> Iterator[str]:
    """The first quote after its lead, the others as a list."""
    yield lead + phrasing.quote(hits[0].message, FIRST_CHARS)
    for hit in hits[1:MOST_QUOTES]:
        yield phrasing.bullet(hit.message, FURTHER_CHARS)
    if len(hits) > MOST_QUOTES:
        yield f"... {counted(len(hits) - MOST_QUOTES, 'more message')}"


def _by_person(phrasing: Phrasing, hits: Sequence[Hit], *, guess: bool) -> Iterator[str]:
    """Who did: each person once, with their best hit."""
    best: dict[int, Hit] = {}
    for hit in hits:
        best.setdefault(hit.message.author_id, hit)
    yield from _listed(phrasing, list(best.values()), _lead(phrasing, hits[0].message, guess=guess))


def _is_asked_for(phrasing: Phrasing, hit: Hit) -> bool:
    """Whether the hit is by somebody whose words the question asks for.

    "What did Ann say about Rome?" asks for Ann's; "when did Ann go to Rome?" may be answered by anybody who knows.
    """
    speakers = {person.id for person in phrasing.route.speakers}
    if not speakers or not phrasing.route.binds or hit.message.author_id in speakers:
        return True
    return hit.message.own and phrasing.question.bot.id in speakers


def _others_lead(phrasing: Phrasing, hit: Hit) -> str:
    who, when = phrasing.who(hit.message), phrasing.when(hit.message)
    about = f" about {phrasing.topic()}" if phrasing.route.topic else ""
    return f"I found nothing {phrasing.by()}{about}, but {lower_you(who)} said, {when}: "


def _is_about(route: Route, hit: Hit) -> bool:
    """Whether the message itself has at least half of the topic's words: similarity alone is not a mention."""
    if route.literal:
        return True
    if emoji := emoji_of(route.topic):
        return all(one in hit.message.content for one in emoji)
    topic = set(stems(route.topic))
    if not topic:
        return not route.topic  # only stop words or punctuation: similarity is all there is
    return 2 * len(topic & set(stems(hit.message.searchable))) >= len(topic)


def _problems(reports: Sequence[SourceReport]) -> list[str]:
    return [
        cut(flatten(problem), PROBLEM_CHARS)
        for problem in dict.fromkeys(report.problem for report in reports if report.unsearched is None)
        if problem
    ]


def _people(question: Question, messages: Sequence[Message]) -> dict[int, str]:
    """Names for mentions inside quotes."""
    known = {person.id: person.name for person in (*question.mentions, question.bot)}
    known |= {message.author_id: message.author for message in messages}
    return known | {question.asker_id: question.asker}


def joined(lines: Sequence[str], notes: Sequence[str] = (), limit: int = LONGEST) -> str:
    """The lines that fit; whole lines go, visibly. The notes stay: they say what is missing."""
    room = limit - sum(len(note) + 1 for note in notes)
    kept, used = [cut(lines[0], room)], len(lines[0])
    for line in lines[1:]:
        used += len(line) + 1
        if used > room - 2:
            kept.append("…")
            break
        kept.append(line)
    return "\n".join([*kept, *notes])
