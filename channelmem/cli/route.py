"""`channelmem route`: shows how the router reads a question; needs no Redis, model or network."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Annotated, Any, TypedDict
from zoneinfo import ZoneInfoNotFoundError

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from channelmem.cli.show import print_rows, to_json
from channelmem.display import visible
from channelmem.errors import ChannelmemError
from channelmem.routing.people import Roster
from channelmem.routing.route import Scene
from channelmem.routing.route import route as decide
from channelmem.settings import Settings, load_settings
from channelmem.telling.explanation import explanation
from channelmem.times.spans import zone
from channelmem.types import Person, Question, Route

BOT = Person(1, "bot")
NO_ROW = 'Expected a JSON object with a string "q", such as {"q": "what did Ann say?"}.'
_ASKER_ID = 2
_FIRST_ID = 10
_LATEST = 1e11  # the year 5138: a larger number is probably milliseconds


class RoutedRow(TypedDict):
    """A route as one JSON object."""

    q: str
    route: str
    mode: str
    speakers: list[str]
    start: float | None
    end: float | None
    topic: str
    p: float
    why: list[str]
    words: str
    """The same as a sentence."""


def route(  # noqa: PLR0913, PLR0917  (one per option)
    question: Annotated[str, typer.Argument(help="The question, as asked in a channel.")] = "",
    asker: Annotated[str, typer.Option(help="Name of the person asking.")] = "me",
    roster: Annotated[str, typer.Option(help="Names of the channel's people, separated by commas.")] = "",
    now: Annotated[str, typer.Option(help="Time of asking, such as 2026-03-18T15:30:00Z (default: now).")] = "",
    tz: Annotated[
        str, typer.Option(help="Time zone for phrases like 'this morning' (default: CHANNELMEM_TIMEZONE).")
    ] = "",
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Show the weights behind it, too.")] = False,
    jsonl: Annotated[
        bool,
        typer.Option(
            "--jsonl", help="Read JSON rows {q, asker, roster, now, tz} from stdin; options are the defaults."
        ),
    ] = False,
) -> None:
    """Show how a question is understood: whose messages, which topic, which time span, what kind of answer.

    \b
    Examples:
      channelmem route "what did Ann say yesterday?" --roster Ann,Bob
      echo '{"q": "catch me up"}' | channelmem route --jsonl
    """
    given = {"asker": asker, "roster": roster, "now": now, "tz": tz}
    if jsonl:
        if question:
            raise typer.BadParameter("--jsonl reads questions from stdin; remove the QUESTION argument.")
        settings = load_settings()
        print_rows(None, lambda line: _routed(line, given, settings))
        return
    if not question.strip():
        raise ChannelmemError('Pass a question, such as: channelmem route "what did Ann say?" --roster Ann,Bob')
    scene = scene_of(given, load_settings())
    row = as_row(question, decide(question, scene), scene)
    if as_json:
        print(to_json(row))
    else:
        _show(row, verbose=verbose)


def scene_of(row: Mapping[str, Any], settings: Settings) -> Scene:
    """The scene of a row; missing fields come from the settings and the clock."""
    people = [Person(_FIRST_ID + i, name) for i, name in enumerate(_names(row.get("roster")))]
    name = row.get("asker") or "me"
    if not isinstance(name, str):
        raise ChannelmemError(f'{name!r} is not a valid asker; use a name such as "Ann".')
    asker = next((person for person in people if person.name.casefold() == name.casefold()), Person(_ASKER_ID, name))
    return Scene(
        asker=asker,
        bot=BOT,
        roster=Roster(people),
        now=_moment(row.get("now")),
        tz=_zone(str(row.get("tz") or settings.timezone)),
        horizon_s=settings.buffer_s,
    )


def as_row(text: str, found: Route, scene: Scene) -> RoutedRow:
    """The route in the format of the evaluation files."""
    names = {scene.asker: "@asker", BOT: "@bot"}
    question = Question(0, 0, 0, scene.asker.id, scene.asker.name, text, scene.now, bot=BOT)
    return RoutedRow(
        q=text,
        route=found.kind.value,
        mode=found.mode.value,
        speakers=[names.get(person, person.name.lower()) for person in found.speakers],
        start=found.window.start,
        end=found.window.end,
        topic=found.topic,
        p=round(found.p, 4),
        why=list(found.why),
        words=explanation(question, found, zone(scene.tz)),
    )


def _names(roster: object) -> list[str]:
    if isinstance(roster, str):
        roster = [name.strip() for name in roster.split(",") if name.strip()]
    names = [] if roster is None else roster
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise ChannelmemError(f'{roster!r} is not a valid roster; use names such as ["Ann", "Bob"] or "Ann,Bob".')
    return names


def _moment(value: object) -> float:
    if value is None or value == "":
        return time.time()
    try:
        # Python counts True as a number; as a time it is a mistake.
        moment = float(value) if isinstance(value, int | float) and value is not True else _timestamp(str(value))
    except (ValueError, OverflowError):
        moment = -1.0
    if not 0 <= moment < _LATEST:
        raise ChannelmemError(f"{value!r} is not a valid time; use one such as 2026-03-18T15:30:00Z.")
    return moment


def _timestamp(text: str) -> float:
    moment = datetime.fromisoformat(text)
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


def _zone(name: str) -> str:
    try:
        zone(name)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise ChannelmemError(f"{name!r} is not a time zone name such as Europe/Berlin.") from error
    return name


def _routed(line: str, given: Mapping[str, str], settings: Settings) -> RoutedRow:
    try:
        row = json.loads(line)
    except ValueError as error:
        raise ChannelmemError(NO_ROW) from error
    question = row.get("q") if isinstance(row, dict) else None
    if not isinstance(question, str):
        raise ChannelmemError(NO_ROW)
    scene = scene_of({**given, **row}, settings)
    return as_row(question, decide(question, scene), scene)


def _show(row: RoutedRow, *, verbose: bool) -> None:
    table = Table(show_header=False, box=None)
    for name in ("route", "mode", "speakers", "topic"):
        value = row[name]
        table.add_row(name, escape(visible(", ".join(value) if isinstance(value, list) else value)) or "-")
    table.add_row("from", _time(row["start"]))
    table.add_row("to", _time(row["end"]))
    if verbose:
        table.add_row("p", f"{row['p']:.2f}")
        table.add_row("why", escape(visible("; ".join(row["why"]))))
    console = Console()
    console.print(escape(visible(row["words"])), highlight=False)
    console.print(table)


def _time(value: float | None) -> str:
    return "open" if value is None else datetime.fromtimestamp(value, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
