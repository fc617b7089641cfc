"""A question that builds on the one before: "and Bob?", "what about yesterday?", "until when?", "and before that?".

Enters: the line, its own route, and what the asker asked before. Leaves: the route with what the new words leave out,
taken from the question before. A question that is complete by itself stays as it is.
"""

from __future__ import annotations

import math
import re
from dataclasses import replace

from channelmem.routing.people import Asked, Line, Scene
from channelmem.routing.words import word_set
from channelmem.types import Borrowed, Kind, Mode, Person, Route, Window

FOLLOWS_ODDS = 1.5
"""How much the odds rise, in logits, that words which only make sense after the last question are about the same
conversation: what was asked for a second ago is a reason, but "tell me a joke about it" is still a task."""
_LEAD = re.compile(r"[jl.,]*(?P<lead>&[jl]*(?:[qh]a)?|[qh]a|)[jt]*")
_SHORT = 6
_NEW = frozenset("NPz&,.lj")
_ASKING = frozenset("qohdDbBvmRr")
_ELSE = re.compile(r"[&l.,]*(?:[qos]j|[qoh]|j|&j?)[l.,]*")
# What stands for something said before.
_REFERS = word_set("it its that this they them their those these he him his she her there ones one")
_CONTENT = frozenset("xKLCcGHNPZ")
_SAYS = frozenset("xKLRHZ")
_SIDE = r"(?:(?:and |so |what (?:did|was|came) (?:\w+ ){0,2}?(?:said |say |write )?)*)"
_THAT_ONE = r"(?: (?:that|it|this|one|message|thing|him|her|them))?"
_BEFORE = re.compile(
    rf"{_SIDE}(?:the )?(?:(?:one|message|thing) )?(?:right |just )?(?:before|previous|earlier){_THAT_ONE}"
)
_AFTER = re.compile(
    rf"{_SIDE}(?:the )?(?:(?:one|message|thing) )?(?:right |just )?(?:after|next|then|afterwards){_THAT_ONE}"
)
_ORDER = 8
"""A question with more words than this has a topic of its own: "who asked about the hut before?"."""


def followed(line: Line, route: Route, scene: Scene) -> Route:
    """The route with what it takes from the message it replies to, and from the question before."""
    previous = None if scene.previous is None or scene.previous.route.kind is Kind.NONE else scene.previous
    if scene.reply_to is not None:
        route = replace(route, anchors=(scene.reply_to,))
    if previous is None:
        return _to_what_it_replies(line, route) if leans(line) else route
    if beside := _beside(line, route, previous):
        return beside
    if changed := _changed(line, route, previous.route):
        return _borrowing(line, route, _anchored(changed, previous), previous.route)
    if leans(line) or (not route.topic and refers(line)):
        filled = _anchored(_to_what_it_replies(line, _filled(route, previous.route)), previous)
        return _borrowing(line, route, filled, previous.route)
    return route


def _borrowing(line: Line, own: Route, found: Route, previous: Route) -> Route:
    """The route with a note of what its own words do not say."""
    pronoun = "e" in line.letters  # "he": the router has already looked whom that means
    theirs = found.speakers == previous.speakers and not line.persons
    borrowed = {
        Borrowed.REPLY: own.anchors,
        Borrowed.PEOPLE: found.speakers and theirs and (pronoun or own.speakers != found.speakers),
        Borrowed.TOPIC: previous.topic and previous.topic in found.topic and own.topic != found.topic,
        Borrowed.TIME: own.window != found.window,
    }
    return replace(found, borrowed=tuple(part for part, is_taken in borrowed.items() if is_taken))


def _to_what_it_replies(line: Line, route: Route) -> Route:
    """A reply such as "did anyone send him that list?": its own words, near the message it replies to."""
    if not route.anchors or route.mode is Mode.RECAP:
        return route
    words = " ".join(token.text for token, letter in zip(line.tokens, line.letters, strict=True) if letter in _SAYS)
    return replace(
        route, topic=route.topic or words, mode=Mode.TOPIC, follows=True, p=_likelier(route.p),
        borrowed=(Borrowed.REPLY,),
    )  # fmt: skip


def leans(line: Line) -> bool:
    """Whether it cannot be understood alone: "and what did Bob say?", "is it far?", "until when?"."""
    letters = line.letters
    if letters.startswith("&"):
        return True
    return (refers(line) and not line.persons) or _CONTENT.isdisjoint(letters)


def refers(line: Line) -> bool:
    """Whether it has a word for something said before."""
    return not _REFERS.isdisjoint(line.words)


def _anchored(route: Route, previous: Asked) -> Route:
    anchors = (*route.anchors, *(() if previous.hit_id is None else (previous.hit_id,)))
    return replace(route, anchors=anchors, follows=True, p=_likelier(route.p))


def _likelier(p: float) -> float:
    odds = math.exp(FOLLOWS_ODDS) * p / max(1.0 - p, 1e-6)
    return odds / (1.0 + odds)


def _beside(line: Line, route: Route, previous: Asked) -> Route | None:
    """ "And before that?": the messages on one side of the last answer, by the same people."""
    text, asked = " ".join(line.words), previous.route
    if previous.hit_ts is None or len(line.words) > _ORDER:
        return None
    if _BEFORE.fullmatch(text):
        window, mode = Window(None, previous.hit_ts - 0.001), Mode.LATEST
    elif _AFTER.fullmatch(text):
        window, mode = Window(previous.hit_ts + 0.001, None), Mode.FIRST
    else:
        return None
    speakers = route.speakers or asked.speakers
    why = ("next to the last answer: " + text, *(f"words of {person.name}" for person in speakers))
    return replace(
        asked, mode=mode, window=window, speakers=speakers, topic="", time_words="", literal=(), why=why, p=1.0,
        binds=True, if_about=Kind.CHANNEL,
        borrowed=(Borrowed.ANSWER, *(() if route.speakers or not speakers else (Borrowed.PEOPLE,))),
    )  # fmt: skip


def _changed(line: Line, route: Route, previous: Route) -> Route | None:
    """The question before with new people, another time or another topic: "and Bob?", "what about yesterday?"."""
    letters = line.letters
    if _ELSE.fullmatch(letters):
        return replace(previous, why=("continues the previous question", *previous.why))
    match = _LEAD.match(letters)
    rest = letters[match.end() :] if match else ""
    led = bool(match and match["lead"])
    if not rest or len(rest.strip("l.,")) > _SHORT or not (led or set(rest) <= _NEW) or set(rest) & _ASKING:
        return None
    return _with_new(line, len(letters) - len(rest), route, previous)


def _with_new(line: Line, first: int, route: Route, previous: Route) -> Route:
    people = tuple(dict.fromkeys(p for i, found in line.persons.items() if i >= first for p in found))
    topic = " ".join(
        token.text
        for token, letter in zip(line.tokens[first:], line.letters[first:], strict=True)
        if letter not in "NPzlj&.,@ap"
    )
    timed = route if line.times else previous
    return replace(
        previous,
        speakers=people or previous.speakers,
        topic=topic or previous.topic,
        window=timed.window,
        time_words=timed.time_words,
        if_about=timed.if_about,
        mode=Mode.TOPIC if topic else previous.mode,
        why=("follows the previous question: " + " ".join(line.words), *(f"words of {p.name}" for p in people)),
        p=route.p,
        anchors=route.anchors,
    )


def _filled(route: Route, previous: Route) -> Route:
    """A full question's route, with the topic, the people and the window it leaves out."""
    inherits = route.window == Window()
    return replace(
        route,
        topic=" ".join(filter(None, (route.topic, previous.topic))) if not _same(route, previous) else previous.topic,
        window=previous.window if inherits and not previous.missed else route.window,
        time_words=previous.time_words if inherits else route.time_words,
        if_about=previous.if_about if inherits else route.if_about,
        mode=Mode.TOPIC if route.topic or previous.topic else route.mode,
    )


def _same(route: Route, previous: Route) -> bool:
    return not route.topic or route.topic.casefold() in previous.topic.casefold()


def only(people: tuple[Person, ...]) -> tuple[Person, ...]:
    """Whom "he" or "she" means: somebody only if there is just one candidate."""
    return people if len(people) == 1 else ()
