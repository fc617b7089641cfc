"""An answer without a language model: sentences that quote who, when and what.

An answer claims nothing that was not read: a quote names its real author, a guess is called a guess, and "nobody
mentioned it" (`honest_no`) comes with what was searched and what could not be.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import tzinfo
from typing import Final

from channelmem.display import (
    JumpUrl,
    Phrasing,
    chosen,
    counted,
    cut,
    during,
    flatten,
    lower_you,
    name,
    namesakes,
    relevance,
)
from channelmem.durations import DAY_S
from channelmem.recalling.answering import asks
from channelmem.recalling.candidates import Asked
from channelmem.recalling.gist import Highlight
from channelmem.recalling.recall import SHOWN, Found
from channelmem.recalling.verdict import Verdict
from channelmem.telling.recap import counted_messages, nothing_found, recap, recap_forest, recap_points
from channelmem.telling.references import is_about_media, shows
from channelmem.text import emoji_of, stems, text_of
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
NOT_OURS: Final = (
    "I only know what was said here. Try {examples}.",
    "That's beyond me: I only know what people said here. Ask me {examples}.",
    "I can't help with that, but I know what was said here. Ask me {examples}.",
)
HELP: Final = "I remember what was said in this channel. Ask me {examples}, or about anything that came up here."
SMALL_TALK: Final = {
    Aside.GREETING: (
        "Hi! Ask me {examples}.",
        "Hello! Ask me about anything that came up here.",
        "Hi! How can I help?",
    ),
    Aside.THANKS: ("You're welcome.", "Any time!", "Glad to help."),
    Aside.GOODBYE: ("Bye!", "See you!", "Take care!"),
    Aside.NOD: ("👍", "All right.", "Good. Just ask if there's anything else."),
    Aside.LAUGH: ("Glad you're having fun.", "😄", "Ha!"),
    Aside.PRAISE: ("Thank you!", "That's kind of you.", "Thanks, happy to help!"),
    Aside.COMPLAINT: ("Sorry about that.", "Sorry, I'll try to do better.", "Point taken. Sorry!"),
    Aside.SORRY: ("No worries!", "No problem at all.", "It's fine."),
    Aside.FEELING: ("I'm well, thanks!", "Doing fine, thanks for asking!", "All good here, thanks!"),
    Aside.NAME: (
        "I'm {bot}. I remember what was said in this channel.",
        "I'm {bot}, the bot that remembers what people said here.",
    ),
    Aside.HELP: (HELP,),
}

ASKS: Final = 0.5
"""From this share of questions on, a line that does not end in an answer of its own ("turtles? never") only asks."""
FIRST_CHARS: Final = 400
FURTHER_CHARS: Final = 160
PROBLEM_CHARS: Final = 300
MOST_QUOTES: Final = 4
MOST_HITS: Final = 3
"""How many hits an answer about a topic shows."""
LONGEST: Final = 1_900
"""Discord allows 2,000 characters; the rest is room for what an adapter adds."""


def tell(asked: Asked, found: Found, member: str = "") -> Answer:
    """The answer to a question. `member` is the name of somebody here, for examples of what to ask."""
    told = recap_points(asked.question, found, asked.policy.tz) if found.messages else ()
    forest = recap_forest(found, told, asked.policy) if told else None
    shown = [*(forest.messages if forest else ()), *[hit.message for hit in found.hits], *asked.pointed]
    phrasing = phrasing_of(asked.question, found.route, shown, asked.policy.tz, jump_url=asked.jump_url)
    return Answer(
        answer_text(replace(phrasing, member=member), found, told, asked.pointed),
        found.route,
        found.hits,
        forest.threads if forest else (),
        tried=found.reports,
        found=found.verdict in SHOWN or bool(asked.pointed),
        sure=found.sure,
        evidence=found.evidence,
        pointed=asked.pointed,
    )


def answer_text(
    phrasing: Phrasing, found: Found, told: Sequence[Highlight] = (), pointed: Sequence[Message] = ()
) -> str:
    """`Answer.text`: quotes for hits, the lines of a recap, an honest no, at most 1,900 characters."""
    route, hits, reports = found.route, found.hits, found.reports
    guess = bool(hits) and found.verdict is Verdict.GUESS
    read = shows(phrasing, pointed) if pointed else []
    if read and (is_about_media(route) or guess or not (hits or told)):
        return joined(read)
    if phrasing.question.is_dm and not hits and not told:
        return NO_CHANNEL
    if route.kind is Kind.NONE:
        return friendly(phrasing)
    problems = _problems(reports)
    if route.mode is Mode.RECAP and told:
        lines = [*recap(phrasing, found, told), *read]
    elif hits and route.wants is Wants.COUNT:
        lines = [counted_messages(phrasing, reports)]
    elif hits:
        lines = [*(_only_asked(phrasing, hits, guess=guess) or _quotes(phrasing, hits, guess=guess)), *read]
    else:
        return joined([" ".join([nothing_found(phrasing, reports, found.evidence), *problems])])
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


def friendly(phrasing: Phrasing) -> str:
    """A word back to small talk, and for whatever is not ours what can be asked instead."""
    said = SMALL_TALK.get(phrasing.route.aside or Aside.FLAG, NOT_OURS)
    member = phrasing.member
    asks = (f"what did {name(member)} say last?" if member else "what was said today?", "what did I miss?")
    examples = " or ".join(f'"{one}"' for one in asks)
    told = chosen(said, phrasing.question).format(examples=examples, bot=name(phrasing.question.bot.name))
    return told.replace('?".', '?"')


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
        yield from _listed(phrasing, best, f"Yes: {who}, {when}: ")
    else:
        yield from _listed(phrasing, best, _lead(phrasing, best[0].message, guess=guess))


def _lead(phrasing: Phrasing, message: Message, *, guess: bool) -> str:
    who, when, other = phrasing.who(message), phrasing.when(message), _other_time(phrasing.route, message)
    if guess:
        return f"Perhaps: {other}{lower_you(who)}, {when}: "
    return f"N{other[1:]}{lower_you(who)} said, {when}: " if other else f"{who} said, {when}: "


def _other_time(route: Route, message: Message) -> str:
    """What to say if the time in the question is not when it was said: only of what was asked for as said then, and not
    where the line names that time itself."""
    names_it = not set(stems(route.dropped)).isdisjoint(stems(message.searchable))
    if not route.dropped or names_it or route.wants is not Wants.WORDS:
        return ""
    return f"nothing was said {during(route.dropped)}, but "


def _only_asked(phrasing: Phrasing, hits: Sequence[Hit], *, guess: bool) -> list[str]:
    """ "Fiona asked that 7 minutes ago; nobody has answered yet.", where the best line only asks the same question."""
    route, shown = phrasing.route, [hit for hit in hits if hit.answers] or hits[:1]
    if route.of_questions or route.literal or route.mode is not Mode.TOPIC:
        return []
    message = shown[0].message
    own = message.author_id == phrasing.question.asker_id and not (route.binds and route.speakers)
    of_words = guess or (route.binds and route.wants in _OF_WORDS)
    if not all(_only_asks(hit.message) for hit in shown) or (of_words and not own):
        return []
    old = phrasing.now - message.ts >= DAY_S  # until then somebody may have answered without a word of the question
    if old or not (own or _asks_the_same(phrasing, message)) or _is_answered(shown[0], hits):
        return []
    url = phrasing.jump_url(message) if phrasing.jump_url else ""
    told = f"{phrasing.who(message)} asked that {phrasing.when(message)}; nobody has answered yet."
    return [f"{told} {url}" if url else told]


_OF_WORDS: Final = frozenset({Wants.WORDS, Wants.WHO, Wants.WHETHER, Wants.LINK, Wants.FILE})
"""What a question for somebody's words may be answered with another question for."""


def _only_asks(message: Message) -> bool:
    text = text_of(message).rstrip()
    return asks(text) > ASKS and ("?" not in text or text.endswith("?"))


def _is_answered(hit: Hit, hits: Sequence[Hit]) -> bool:
    """Whether somebody else's later line is linked to it, or speaks of the same."""
    about = (other.message for other in hits if other.text_score and not _only_asks(other.message))
    later = [one for one in (*hit.around, *about) if (one.ts, one.id) > (hit.message.ts, hit.message.id)]
    return any(one.author_id != hit.message.author_id for one in later)


def _asks_the_same(phrasing: Phrasing, message: Message) -> bool:
    """Whether a question has nearly all words of the topic, and asks for the same kind of thing."""
    topic, text = set(stems(phrasing.route.topic)), text_of(message)
    if not topic or 4 * len(topic & set(stems(text))) < 3 * len(topic):
        return False
    return not message.own and _asked_for(text) == _asked_for(phrasing.question.text)


_FOR: Final = (
    re.compile(r"\bwho(?:s|['’]s|se|m)?\b", re.IGNORECASE),  # noqa: RUF001  (people type this apostrophe)
    re.compile(r"\bwhen(?:s|['’]s)?\b|\b(?:what|which) (?:time|day|date|week|month)\b|\bhow late\b", re.IGNORECASE),  # noqa: RUF001
    re.compile(r"\bwhere(?:s|['’]s)?\b", re.IGNORECASE),  # noqa: RUF001
    re.compile(r"\bwhy\b|\bhow come\b", re.IGNORECASE),
    re.compile(r"\bhow (?:many|much|long|often|far|big)\b", re.IGNORECASE),
)


def _asked_for(text: str) -> tuple[bool, ...]:
    return tuple(pattern.search(text) is not None for pattern in _FOR)


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
