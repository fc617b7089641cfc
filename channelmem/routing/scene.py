"""What is known about the moment of a question: who asks, who may be meant, and when.

Enters: what the adapter knows. Leaves: a `Scene`, from which every stage of the router takes people and the time.
"""

from __future__ import annotations

from dataclasses import dataclass

from channelmem.routing.people.roster import Roster
from channelmem.routing.times.spans import Moment
from channelmem.types import Person, Route


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

    @property
    def moment(self) -> Moment:
        return Moment(self.now, self.tz, self.horizon_s, self.last_spoke_ts, self.joined_ts)

    def by_id(self, person_id: int) -> Person | None:
        """Whom a mention means."""
        named = next((person for person in self.mentions if person.id == person_id), None)
        return self.bot if person_id == self.bot.id else named or self.roster.by_id(person_id)
