"""Whom the tests of the router know, and the moment in which they ask."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from channelmem.routing.people import Roster
from channelmem.routing.route import Scene, route
from channelmem.types import Person, Route

NOW = datetime.fromisoformat("2026-03-18T15:30:00+00:00").timestamp()  # a Wednesday
MARK, ALICE, BOB, CAROL = Person(10, "Mark"), Person(11, "Alice", ("ally",)), Person(12, "bob"), Person(13, "Carol")
ZOE, WILL, MARIA, TEE = Person(14, "Zoë"), Person(15, "will"), Person(16, "María José"), Person(17, "Mr. T")
BOT = Person(1, "Chan")
SCENE = Scene(asker=MARK, bot=BOT, roster=Roster([MARK, ALICE, BOB, CAROL, ZOE, WILL, MARIA, TEE]), now=NOW)


def ask(text: str, **changes: object) -> Route:
    return route(text, replace(SCENE, **changes))  # type: ignore[arg-type]
