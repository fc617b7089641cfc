"""Which memory a question wants, whose words, from when and about what: the router, a pure function.

Enters: the question's text and its `Scene`. Leaves: a `Route` that explains itself. No I/O, no model: tokens,
class letters and a handful of patterns over them (reading -> letters -> clues -> topic).
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from channelmem import clues, reading
from channelmem.clues import Finding
from channelmem.letters import Known, Line, spell
from channelmem.people import Roster
from channelmem.spans import Clue, Moment
from channelmem.topic import topic
from channelmem.types import Kind, Mode, Person, Route, Source, Window

SKIP_FLAG = "🚫"
_COMMAND = re.compile(r"\s*[!/$.?][A-Za-z]")
_SOURCES = {
    Kind.CHANNEL: (Source.BUFFER, Source.ARCHIVE, Source.HISTORY),
    Kind.MEMORY: (Source.ARCHIVE, Source.BUFFER, Source.HISTORY),
    Kind.NONE: (),
}


@dataclass(frozen=True, slots=True)
class Scene:
    """What is known about the moment of a question."""

    asker: Person
    bot: Person
    roster: Roster
    now: float
    mentions: tuple[Person, ...] = ()
    tz: str = "UTC"
    horizon_s: float = 1_800.0
    last_spoke_ts: float | None = None
    joined_ts: float | None = None
    previous: Route | None = None
    is_dm: bool = False


def should_skip(text: str) -> bool:
    """Whether the question carries the flag that asks for an answer in isolation."""
    return SKIP_FLAG in text


def route(text: str, scene: Scene, force: Kind | None = None) -> Route:
    """The route of a question. `force` sets the kind; everything else stays the router's own."""
    if scene.is_dm and force is None:
        return _none("a direct message has no channel around it")
    if should_skip(text):
        return _none("the 🚫 flag asks for an answer in isolation")
    moment = Moment(scene.now, scene.tz, scene.horizon_s, scene.last_spoke_ts, scene.joined_ts)
    tokens = clues.without_address(reading.read(text), scene.bot)
    line = spell(tokens, Known(scene.roster, scene.bot, scene.mentions), moment)
    if not line.letters:
        return _none("no words")
    found = clues.judge(line)
    if found.finding is None and not found.recap and force is None:
        return _none(found.why)
    return _about(line, found, scene, force)


def _none(why: str) -> Route:
    return Route(Kind.NONE, why=(why,))


def _about(line: Line, found: clues.Judged, scene: Scene, force: Kind | None) -> Route:
    window, kind, why = _time(line, found, scene)
    kind = force or kind
    speakers = _speakers(line, found.finding, scene)
    about = topic(line, found.finding) if not found.recap or found.finding else found.topic
    mode = Mode.RECAP if found.recap and not about else Mode.TOPIC if about else Mode.LATEST
    to_bot = scene.bot in speakers or (scene.asker in speakers and "you" in line.words)
    reasons = (found.why, why, *(f"words of {person.name}" for person in speakers))
    return Route(kind, mode, window, speakers, about, reasons, _SOURCES[kind], to_bot)


def _time(line: Line, found: clues.Judged, scene: Scene) -> tuple[Window, Kind, str]:
    explicit = [each for each in line.times if each.span.clue is Clue.EXPLICIT]
    recent = [each for each in line.times if each.span.clue is Clue.RECENT]
    past = [each for each in line.times if each.span.clue is Clue.PAST]
    edge = scene.now - scene.horizon_s
    for each in explicit or recent:
        span = each.span
        start, end = span.start, span.end
        if span.clue is Clue.RECENT:
            return Window(start, end), Kind.CHANNEL, f"recent word: {each.phrase}"
        if span.nominal is not None and span.nominal >= edge and start is not None:
            start = max(start, edge)
        inside = start is not None and start >= edge
        return Window(start, end), Kind.CHANNEL if inside else Kind.MEMORY, f"time: {each.phrase}"
    if found.just:
        return Window(edge, scene.now), Kind.CHANNEL, "recent word: just"
    if past:
        return Window(past[0].span.start, past[0].span.end), Kind.MEMORY, f"past word: {past[0].phrase}"
    if found.remembers:
        return Window(), Kind.MEMORY, "told before, without a time"
    if found.recap and scene.last_spoke_ts is not None:
        return Window(min(scene.last_spoke_ts, scene.now), scene.now), Kind.CHANNEL, "since the asker last spoke"
    return Window(), Kind.CHANNEL, "no time given: the channel first, then memory"


def _speakers(line: Line, finding: Finding | None, scene: Scene) -> tuple[Person, ...]:
    if finding is None:
        return ()
    found: list[Person] = []
    for i in range(*finding.subject):
        letter = line.letters[i]
        if letter in "NP":
            found += line.persons.get(i, ())
        elif letter in "iu" or (letter == "M" and line.tokens[i].word == "me"):
            found.append(scene.asker)
        elif letter in "yU":
            found.append(scene.bot)
        elif letter == "e":
            found += _meant(line, scene)
    return tuple(dict.fromkeys(found))


def _meant(line: Line, scene: Scene) -> tuple[Person, ...]:
    """Whom he, she or they can mean: the people named in the question, or the only candidate."""
    named = tuple(person for people in line.persons.values() for person in people if person != scene.bot)
    if named:
        return named
    if scene.previous is not None and scene.previous.speakers:
        return scene.previous.speakers
    others = [person for person in scene.roster.people if person.id not in {scene.asker.id, scene.bot.id}]
    return tuple(others) if len(others) == 1 else ()
