"""A question that builds on the one before: "and Bob?", "what about yesterday?", "who else?".

Enters: the line and the asker's previous route. Leaves: the previous route, changed by the new words, or None if the
line is complete by itself. What the new words leave out is inherited.
"""

from __future__ import annotations

import re
from dataclasses import replace

from channelmem.routing.people.naming import Line
from channelmem.types import Kind, Person, Route, Window

_LEAD = re.compile(r"[jl.,]*(?P<lead>&[jl]*(?:[qh]a)?|[qh]a|)[jt]*")
_SHORT = 6
_ELSE = re.compile(r"[&l.,]*(?:[qos]j|[qoh]|j|&j?)[l.,]*")
_THAT = re.compile(r"a[jt]*(?:[sM]|t(?=[jlz.,]*$))[jlz.,]*$")


def follow(line: Line, previous: Route | None) -> Route | None:
    """The previous route with new people, time or topic; None if the line is not a follow-up."""
    if previous is None or previous.kind is Kind.NONE:
        return None
    letters = line.letters
    if _ELSE.fullmatch(letters):
        return replace(previous, why=("continues the previous question", *previous.why))
    match = _LEAD.match(letters)
    rest = letters[match.end() :] if match else ""
    led = bool(match and match["lead"])
    if not rest or len(rest.strip("l.,")) > _SHORT or not (led or set(rest) <= set("NPz&,.lj")):
        return None
    if set(rest) & set("qohdDbBvmRr"):
        return None
    return _with_new(line, len(letters) - len(rest), previous)


def _with_new(line: Line, first: int, previous: Route) -> Route:
    people = tuple(dict.fromkeys(p for i, found in line.persons.items() if i >= first for p in found))
    topic = " ".join(
        token.text
        for token, letter in zip(line.tokens[first:], line.letters[first:], strict=True)
        if letter not in "NPzlj&.,@ap"
    )
    return replace(
        previous,
        speakers=people or previous.speakers,
        topic=topic or previous.topic,
        why=("follows the previous question: " + " ".join(line.words), *(f"words of {p.name}" for p in people)),
    )


def leans(line: Line) -> bool:
    """Whether a full question still depends on the one before: "and what did Bob say?"."""
    return line.letters.startswith("&")


def means_that(line: Line) -> bool:
    """Whether its topic is only "it" or "that"."""
    return _THAT.search(line.letters) is not None


def filled(route: Route, previous: Route) -> Route:
    """A full question's route, with the topic and the window it left out."""
    window = route.window if route.window != Window() else previous.window
    kind = route.kind if route.window != Window() else previous.kind
    return replace(route, topic=route.topic or previous.topic, window=window, kind=kind)


def only(people: tuple[Person, ...]) -> tuple[Person, ...]:
    """Whom "he" or "she" means: somebody only if there is just one candidate."""
    return people if len(people) == 1 else ()
