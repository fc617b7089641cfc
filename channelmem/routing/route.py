"""The router, a pure function: which memory a question is about, whose words, from when and about what.

Enters: the question's text and its `Scene`. Leaves: a `Route` that explains itself. No I/O, no model: tokens, class
letters and a handful of patterns over them (tokens -> letters -> clues -> topic).
"""

from __future__ import annotations

import re
from dataclasses import replace

from channelmem.commands import is_command
from channelmem.routing.clauses import Finding
from channelmem.routing.clues import Judged, judge
from channelmem.routing.followup import filled, follow, leans, means_that, only
from channelmem.routing.letters import spell
from channelmem.routing.people.naming import Line
from channelmem.routing.scene import Scene
from channelmem.routing.times.dates import is_date
from channelmem.routing.times.spans import Clue
from channelmem.routing.times.when import TimeMatch
from channelmem.routing.tokens import has_payload, read, unaddressed
from channelmem.routing.topic import topic
from channelmem.routing.wants import with_wants
from channelmem.routing.weigh import NAMES
from channelmem.types import Kind, Mode, Person, Route, Source, Window

__all__ = ["SKIP_FLAG", "Scene", "route", "should_skip"]

SKIP_FLAG = "🚫"
_CALLED = re.compile("Nj*,?[qhd]")
_ANY_TIME = Window()
_BUFFER_FIRST = (Source.BUFFER, Source.ARCHIVE, Source.HISTORY)
_ARCHIVE_FIRST = (Source.ARCHIVE, Source.BUFFER, Source.HISTORY)
# Subjects that name nobody: people, who, the channel.
_ANYBODY = frozenset("gotH")
# With only the asker, the bot and one other person, "she" is that person.
_FEW = 3
_TOLD_BEFORE_S, _TOLD_AFTER_S = 7 * 86_400.0, 30 * 86_400.0


def should_skip(text: str) -> bool:
    """Whether the question has the flag that asks for an answer in isolation."""
    return SKIP_FLAG in text


def route(text: str, scene: Scene, force: Kind | None = None) -> Route:
    """The route of a question. `force` sets the kind; the router still decides everything else."""
    if scene.is_dm and force is None:
        return _none("a direct message has no channel around it")
    if force is Kind.NONE or should_skip(text):
        return _none("the 🚫 flag asks for an answer in isolation")
    if is_command(text):
        return _none("a command")
    tokens = unaddressed(read(text, scene.roster.slang), scene.bot)
    if force is None and ":" in text and has_payload(tokens):
        return _none("a task that brings its own material")
    line = spell(tokens, scene)
    if not line.letters:
        return _none("no question")
    return with_wants(_decided(line, scene, force), text)


def _none(why: str) -> Route:
    return Route(Kind.NONE, why=(why,))


def _decided(line: Line, scene: Scene, force: Kind | None) -> Route:
    found = judge(line)
    if not found.about:
        followed = follow(line, scene.previous)
        if followed is not None:
            return _of_kind(_followed(line, followed, found, scene), force, scene)
        if force is None:
            return _none(found.why)
    routed = _about(line, found, scene, force)
    previous = scene.previous
    if previous is None or previous.kind is Kind.NONE or not (leans(line) or (not routed.topic and means_that(line))):
        return routed
    routed = filled(routed, previous)
    return replace(routed, mode=_mode(found, routed.topic), sources=_sources(routed.kind, routed.window, scene))


def _followed(line: Line, followed: Route, found: Judged, scene: Scene) -> Route:
    if line.times:
        window, kind, why = _time(line, found, scene)
        followed = replace(followed, window=window, kind=kind, why=(*followed.why, why))
    mode = Mode.TOPIC if followed.topic else Mode.LATEST if followed.mode is Mode.TOPIC else followed.mode
    return replace(followed, mode=mode, sources=_sources(followed.kind, followed.window, scene))


def _of_kind(routed: Route, force: Kind | None, scene: Scene) -> Route:
    if force is None:
        return routed
    return replace(routed, kind=force, sources=_sources(force, routed.window, scene))


def _about(line: Line, found: Judged, scene: Scene, force: Kind | None) -> Route:
    window, kind, why = _time(line, found, scene)
    kind = force or kind
    speakers = _speakers(line, found.finding, scene)
    about = topic(line, found, scene.asker.name)
    return Route(
        kind=kind,
        mode=_mode(found, about),
        window=window,
        speakers=speakers,
        topic=about,
        why=(found.why, why, *[f"words of {person.name}" for person in speakers]),
        sources=_sources(kind, window, scene),
        to_bot=scene.bot in speakers or ("you" in line.words and scene.asker in speakers),
    )


def _mode(found: Judged, about: str) -> Mode:
    if about:
        return Mode.TOPIC
    return Mode.RECAP if found.recap or found.asks_for_topic else Mode.LATEST


def _sources(kind: Kind, window: Window, scene: Scene) -> tuple[Source, ...]:
    """The sources to try, in order. If the window reaches beyond the buffer, the archive comes first for any kind."""
    if kind is Kind.NONE:
        return ()
    wide = window.start is not None and window.start < scene.now - scene.horizon_s
    if kind is Kind.MEMORY or (wide and scene.last_spoke_ts == window.start):
        return _ARCHIVE_FIRST
    return _BUFFER_FIRST


def _time(line: Line, found: Judged, scene: Scene) -> tuple[Window, Kind, str]:
    """Window and kind: recent words decide first, then written times, then words for the past."""
    if found.just:
        return Window(scene.now - scene.horizon_s, scene.now), Kind.CHANNEL, "recent word: just"
    if line.times:
        by_clue = {each.span.clue: each for each in reversed(line.times)}
        for clue in (Clue.EXPLICIT, Clue.RECENT, Clue.PAST):
            if clue in by_clue:
                return _said(by_clue[clue], found, scene)
    return _unsaid(found, scene)


def _said(each: TimeMatch, found: Judged, scene: Scene) -> tuple[Window, Kind, str]:
    """The time that the words name."""
    window = Window(each.span.start, each.span.end)
    if each.span.clue is Clue.EXPLICIT:
        return _written(each, found, scene)
    if each.span.clue is Clue.PAST:
        return window, Kind.MEMORY, f"past word: {each.phrase}"
    if found.about_life and each.phrase == "recently":
        return _ANY_TIME, Kind.CHANNEL, "a recent event: may be told at any time"
    return window, Kind.CHANNEL, f"recent word: {each.phrase}"


def _unsaid(found: Judged, scene: Scene) -> tuple[Window, Kind, str]:
    """The time meant by a question that names none."""
    if found.told_before:
        return _ANY_TIME, Kind.MEMORY, "told before, no time given"
    if found.recap and not found.finding and scene.last_spoke_ts is not None:
        return Window(min(scene.last_spoke_ts, scene.now), scene.now), Kind.CHANNEL, "since the asker last spoke"
    return _ANY_TIME, Kind.CHANNEL, "no time given: the channel first, then memory"


def _written(each: TimeMatch, found: Judged, scene: Scene) -> tuple[Window, Kind, str]:
    """A written time: one that starts within the horizon means the channel, one that starts earlier means memory."""
    span, edge = each.span, scene.now - scene.horizon_s
    start, end = span.start, span.end
    if span.nominal is not None and span.nominal >= edge and start is not None:
        start = max(start, edge)
    kind = Kind.CHANNEL if start is not None and start >= edge else Kind.MEMORY
    if found.about_life:
        start, end = _told(each, start, end, scene.now)
    return Window(start, end), kind, f"time: {each.phrase}"


def _told(each: TimeMatch, start: float | None, end: float | None, now: float) -> tuple[float | None, float | None]:
    """When people may talk about what happened then: around a date, or at any time after a distant one."""
    if is_date(each.phrase):
        early = None if start is None else start - _TOLD_BEFORE_S
        return early, None if end is None else min(end + _TOLD_AFTER_S, now)
    return start, end


def _speakers(line: Line, finding: Finding | None, scene: Scene) -> tuple[Person, ...]:
    if finding is None:
        names = NAMES.search(line.letters)
        if names is None and "U" in line.letters:
            return (scene.bot,)
        at = range(*names.span()) if names else range(0)
        return tuple(person for i in at for person in line.persons.get(i, ()))
    if _ANYBODY.issuperset(finding.who):
        return ()
    found: list[Person] = []
    for i in range(*finding.subject):
        letter = line.letters[i]
        if letter in "NP":
            found += line.persons.get(i, ())
        elif letter in "iu" or line.tokens[i].word == "me":
            found.append(scene.asker)
        elif letter in "yU":
            found += _addressed(line) or (scene.bot,)
        elif letter == "e":
            found += _meant(line, scene, i)
    return tuple(dict.fromkeys(found)) if len(found) > 1 else tuple(found)


def _addressed(line: Line) -> tuple[Person, ...]:
    """Whom "you" means if the question addresses somebody: "bob, what did you say?"."""
    return line.persons.get(0, ()) if _CALLED.match(line.letters) else ()


def _named(line: Line, scene: Scene) -> tuple[Person, ...]:
    return tuple(person for people in line.persons.values() for person in people if person != scene.bot)


def _meant(line: Line, scene: Scene, at: int) -> tuple[Person, ...]:
    """Whom "he", "she" or "they" can mean: the people named in the question, or the only candidate."""
    if "o" in line.letters[:at]:
        return ()  # "who fetches Ted, did they decide": can be anybody
    if named := _named(line, scene):
        return named
    if scene.previous is not None and scene.previous.speakers:
        return scene.previous.speakers
    if len(scene.roster.people) > _FEW:
        return ()
    return only(tuple(p for p in scene.roster.people if p.id not in {scene.asker.id, scene.bot.id}))
