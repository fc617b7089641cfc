"""What may and what must be visible after each step: finds violations.

A reply is a promise: what was acknowledged must stay, what was removed must not come back. Where a process died or
Redis did not answer, nobody knows whether a step was done, and the model allows both. A change that waits in a process
counts as delivered with the first reply that says that nothing is queued there.
"""

from __future__ import annotations

import logging
from collections import Counter, defaultdict, deque
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from enum import StrEnum

from channelmem.types import Outcome
from scripts.torturing.steps import Act, Reply, Result, Step

log = logging.getLogger(__name__)

EXAMPLES = 20
STORY = 12
REMOVALS = frozenset({Act.DELETE, Act.CLEAR})
PERSONAL = frozenset({Act.OPT_OUT, Act.OPT_IN, Act.FORGET})
OF_ROOMS = frozenset({Act.PAUSE, Act.RESUME})
CLOSINGS = frozenset({Act.PAUSE, Act.OPT_OUT, Act.FORGET})
"""They go to Redis at once, ahead of messages that wait, which are then refused."""
ASKS = frozenset({Act.ASK, Act.ANSWER})
"""Where memory has too little, these look at the platform's history too."""
CHANGES = frozenset({Act.SAY, Act.EDIT}) | REMOVALS | PERSONAL | OF_ROOMS


class State(StrEnum):
    """Of a person who may have opted out, or a room that may be paused."""

    OPEN = "open"
    CLOSED = "closed"
    UNKNOWN = "unknown"


class Why(StrEnum):
    """Kinds of violations. All but the first and the last three: something came out that must not."""

    LOST = "acknowledged, but lost"
    DELETED = "deleted"
    EDITED = "edited away"
    CLEARED = "cleared"
    FORGOTTEN = "forgotten"
    OPTED_OUT = "of people who opted out"
    REFUSED = "said while paused or opted out"
    FLUSHED = "gone with FLUSHALL"
    UNHEARD = "never said"
    LEAKED = "of another channel or guild"
    STORED = "stored against a decision"
    TURNED_AWAY = "refused without a reason"
    FAILED = "an unexpected error"


@dataclass(slots=True)
class Gone:
    """Since when a token must not come out, by the count of steps."""

    why: Why
    since: int
    decided: int = 0
    """When its person decided, if that is the reason."""


@dataclass(slots=True)
class Standing:
    """A person (everywhere or in a guild), or a room."""

    state: State = State.OPEN
    since: int = 0
    through: int = -1
    """The process that took the decision."""
    wanted: Step | None = None
    """What was decided last."""
    attempts: int = 0


@dataclass(slots=True)
class Said:
    step: Step
    sent: dict[str, int] = field(default_factory=dict)
    """Its revisions, and when they were sent."""
    allowed: set[str] = field(default_factory=set)
    gone: dict[str, Gone] = field(default_factory=dict)
    must: bool = False
    """Acknowledged: one of its allowed revisions has to be visible."""
    doomed: bool = False
    """Somebody tried to remove it, so no later revision has to be visible."""
    removed: Why | None = None
    """It is removed for good, so no later revision may be visible."""
    deleted: bool = False
    """It is no longer on the platform either."""
    withdrawn: dict[tuple[int, str], Gone] = field(default_factory=dict)
    """By process and revision: removed or edited there, but Redis does not know yet."""
    story: list[str] = field(default_factory=list)
    """What was done to it, and what came back."""

    @property
    def showable(self) -> set[str]:
        """Revisions that some answer may show: stored ones, and those that only the platform still has."""
        return self.allowed | {token for token, gone in self.gone.items() if gone.why is Why.FLUSHED}

    def end(self, gone: Gone, *, keep: str = "", until: int | None = None) -> None:
        """Nothing of it may be shown any more, but for one revision and those sent after `until`."""
        ended = {one for one in self.showable - {keep} if until is None or self.sent[one] <= until}
        self.gone |= dict.fromkeys(ended, gone)
        self.allowed -= ended
        self.must = self.must and bool(self.allowed)

    def doom(self) -> None:
        self.must, self.doomed = False, True

    def remove(self, gone: Gone) -> None:
        self.doom()
        self.removed = gone.why
        self.deleted |= gone.why is Why.DELETED
        self.end(gone)

    def flush(self, now: int) -> None:
        """Redis forgets the message and all decisions about it. Its last revision stays on the platform, unless it was
        deleted there."""
        self.end(Gone(Why.EDITED, now))
        if not self.deleted:
            self.gone[max(self.sent, key=self.sent.__getitem__)] = Gone(Why.FLUSHED, now)
        self.doomed, self.removed = False, None


@dataclass(frozen=True, slots=True)
class Ticket:
    """What was known when a step was sent."""

    process: int
    step: Step
    sent: int
    state: State
    attempts: int
    """Of decisions about its person or room: if there were more since, nobody knows which came first."""
    decided: int
    troubled: bool
    """Whether something was broken: a process may then go by its own copy of what was decided."""


Room = tuple[int, int]
Name = tuple[int | None, int]


class Model:
    def __init__(self) -> None:
        self.now = 0
        self.said: dict[Room, dict[int, Said]] = {}
        self.by_token: dict[str, Said] = {}
        self.people: dict[Name, Standing] = {}
        self.rooms: dict[Room, Standing] = {}
        self.waiting: dict[int, list[tuple[Ticket, Reply]]] = {}
        """By process: changes that it still has to deliver."""
        self.withdrawn: dict[int, list[Said]] = {}
        """By process: what it must not show although Redis may still hold it."""
        self.synced: dict[int, int] = {}
        """By process: until when it surely knows what others decided."""
        self.violations: Counter[Why] = Counter()
        self.examples: list[str] = []
        self.acknowledged = 0
        self.story: dict[Room | int, deque[str]] = defaultdict(lambda: deque(maxlen=STORY))
        """The last decisions about a room, and the last deaths of a process."""
        self.looked_for = 0
        """How often something acknowledged had to come out."""
        self.judged = 0
        """How many revisions came out and were judged."""

    # --- a step begins and ends ---

    def sent(self, process: int, step: Step, *, troubled: bool) -> Ticket:
        self.now += 1
        standings = list(self._standings(step))
        attempts = sum(one.attempts for one in standings)
        decided = max((one.since for one in standings), default=0)
        ticket = Ticket(process, step, self.now, self._state(step), attempts, decided, troubled)
        if step.act in {Act.SAY, Act.EDIT}:
            self._heard(ticket)
        return ticket

    def replied(self, ticket: Ticket, reply: Reply | None) -> None:
        self.now += 1
        self._tell(ticket, reply)
        if reply is None or reply.result == Result.FAILED:
            self._unsure(ticket)
            if reply is not None:
                self._violate(Why.FAILED, ticket, ticket.step.token)
            return
        if not reply.queued:
            if ticket.step.act in CLOSINGS:  # nobody knows which came first: it, or the messages that waited
                self._standing(ticket.step).attempts += 1
            self._delivered(ticket.process)  # first: earlier decisions that waited come before this one
        if ticket.step.act in CHANGES:
            if reply.queued and _waits(ticket.step.act, reply.result):
                self._wait(ticket, reply)
            else:
                self._change(ticket, reply)

    def _tell(self, ticket: Ticket, reply: Reply | None) -> None:
        """For whoever has to find out how a violation came about."""
        step, room = ticket.step, self.said.get((ticket.step.guild, ticket.step.channel), {})
        line = f"{ticket.sent}-{self.now} {step.act} by {ticket.process}: {reply and (reply.result, reply.queued)}"
        if step.act in {Act.SAY, Act.EDIT, Act.DELETE} and step.id in room:
            room[step.id].story.append(f"{line} {step.token}")
        elif step.act in OF_ROOMS | {Act.CLEAR}:
            self.story[step.guild, step.channel].append(line)

    def died(self, process: int) -> None:
        """With everything that it still had to deliver."""
        self.story[process].append(f"{self.now} died")
        for ticket, _ in self.waiting.pop(process, []):
            self._unsure(ticket)
        self._forget_withdrawn(process)

    def service_died(self, process: int) -> None:
        """It kept decisions for this process that Redis could not write. Everything else is kept by the process."""
        self.story[process].append(f"{self.now} its service died")
        waiting = self.waiting.get(process, [])
        for ticket, _ in waiting:
            if ticket.step.act in PERSONAL:
                self._unsure(ticket)
        self.waiting[process] = [one for one in waiting if one[0].step.act not in PERSONAL]
        for said in self.withdrawn.get(process, []):
            kept = {at: gone for at, gone in said.withdrawn.items() if at[0] != process or gone.why != Why.FORGOTTEN}
            said.withdrawn = kept

    def flushed(self) -> None:
        """Somebody emptied Redis, with tombstones and decisions. Called only while nothing is on its way."""
        self.now += 1
        for said in self._all():
            said.flush(self.now)
        self.people.clear()
        self.rooms.clear()

    def _delivered(self, process: int) -> None:
        for ticket, reply in self.waiting.pop(process, []):
            result = Result.DONE if reply.result == Result.DELAYED else reply.result
            self._change(ticket, Reply(result))
        self._forget_withdrawn(process)

    def _forget_withdrawn(self, process: int) -> None:
        for said in self.withdrawn.pop(process, []):
            said.withdrawn = {at: gone for at, gone in said.withdrawn.items() if at[0] != process}

    def _wait(self, ticket: Ticket, reply: Reply) -> None:
        self.waiting.setdefault(ticket.process, []).append((ticket, reply))
        if ticket.step.act in PERSONAL:
            self._doubt(ticket)
        for said in self._removed(ticket):
            said.doom()
            why = Why.FORGOTTEN if ticket.step.act in PERSONAL else Why.DELETED
            self._withdraw(said, ticket.process, Gone(why, self.now))
        if ticket.step.act is Act.EDIT:
            said = self.by_token[ticket.step.token]
            self._withdraw(said, ticket.process, Gone(Why.EDITED, self.now), keep=ticket.step.token)

    def _withdraw(self, said: Said, process: int, gone: Gone, keep: str = "") -> None:
        said.withdrawn |= {(process, token): gone for token in said.showable - {keep}}
        self.withdrawn.setdefault(process, []).append(said)

    # --- what changes ---

    def _change(self, ticket: Ticket, reply: Reply) -> None:
        if ticket.step.act in REMOVALS:
            self._remove(ticket)
        elif ticket.step.act in PERSONAL | OF_ROOMS:
            self._decide(ticket, reply)
        else:
            self._say(ticket, reply)

    def _heard(self, ticket: Ticket) -> None:
        """Until its reply comes, it may be there or not."""
        step = ticket.step
        room = self.said.setdefault((step.guild, step.channel), {})
        said = room.setdefault(step.id, Said(step))
        self.by_token[step.token], said.sent[step.token] = said, ticket.sent
        if ticket.state is State.CLOSED:
            said.gone[step.token] = Gone(Why.REFUSED, self.now, ticket.decided)
        elif said.removed:
            said.gone[step.token] = Gone(said.removed, self.now, ticket.decided)
        else:
            said.allowed.add(step.token)

    def _say(self, ticket: Ticket, reply: Reply) -> None:
        said, token = self.by_token[ticket.step.token], ticket.step.token
        older = Gone(Why.EDITED, self.now)
        if reply.result == Outcome.STORED and token not in said.allowed:
            self._violate(Why.STORED, ticket, token)
        elif reply.result == Outcome.STORED:
            self.acknowledged += 1
            said.end(older, keep=token, until=ticket.sent)
            said.must = ticket.state is State.OPEN and not said.doomed
        elif reply.result == Outcome.QUEUED:  # and delivered by now; older words are gone, whatever came first
            said.end(older, keep=token, until=ticket.sent)
            # An edit is refused if the message was said up to a second before its author or room was closed.
            known = ticket.step.act is Act.SAY or (said.must and ticket.decided < min(said.sent.values()))
            said.must = known and self._is_sure(ticket) and bool(said.allowed) and not said.doomed
        elif reply.result == Outcome.IGNORED:
            self._ignored(ticket, said)

    def _ignored(self, ticket: Ticket, said: Said) -> None:
        """An edit that is refused takes the older words along: they are no longer what the message says."""
        if ticket.step.act is Act.SAY and self._is_sure(ticket):
            self._violate(Why.TURNED_AWAY, ticket, ticket.step.token)
        said.end(Gone(Why.REFUSED, self.now, ticket.decided), until=ticket.sent)

    def _remove(self, ticket: Ticket) -> None:
        why = Why.DELETED if ticket.step.act is Act.DELETE else Why.CLEARED
        for said in self._removed(ticket):
            said.remove(Gone(why, self.now))

    def _removed(self, ticket: Ticket) -> list[Said]:
        """What a step removes."""
        step = ticket.step
        room = self.said.get((step.guild, step.channel), {})
        if step.act is Act.DELETE:
            return [room[step.id]] if step.id in room else []
        if step.act is Act.FORGET:
            own = (one for one in self._all() if one.step.author == step.author)
            return [one for one in own if step.scope in {None, one.step.guild} and one.step.ts <= step.ts]
        return [said for said in room.values() if said.step.ts <= step.ts] if step.act is Act.CLEAR else []

    def _decide(self, ticket: Ticket, reply: Reply) -> None:
        step, standing = ticket.step, self._standing(ticket.step)
        if reply.result in {Result.UNAVAILABLE, Result.DELAYED, Result.LEFT}:
            self._doubt(ticket)
            return
        for said in self._removed(ticket):
            said.remove(Gone(Why.FORGOTTEN, self.now, self.now))
        decided = State.OPEN if step.act in {Act.OPT_IN, Act.RESUME} else State.CLOSED
        standing.state = State.UNKNOWN if self._is_contested(step) else decided
        standing.since, standing.through, standing.wanted = self.now, ticket.process, step
        standing.attempts += 1

    def _is_contested(self, step: Step) -> bool:
        """Whether a decision about the same person still waits in some process."""
        waiting = (one.step for tickets in self.waiting.values() for one, _ in tickets)
        return any(one.act in PERSONAL and (one.scope, one.author) == (step.scope, step.author) for one in waiting)

    def _doubt(self, ticket: Ticket) -> None:
        standing = self._standing(ticket.step)
        standing.state, standing.since, standing.wanted = State.UNKNOWN, self.now, ticket.step
        standing.attempts += 1
        for said in self._removed(ticket):
            said.doom()

    def _unsure(self, ticket: Ticket) -> None:
        """Nobody knows whether it was done."""
        act = ticket.step.act
        for said in self._removed(ticket):
            said.doom()
        if act is Act.EDIT:
            said = self.by_token[ticket.step.token]
            said.must = said.must and self._is_sure(ticket)
        elif act in PERSONAL | OF_ROOMS:
            self._doubt(ticket)

    # --- what is seen ---

    def look(self, ticket: Ticket, reply: Reply, *, complete: bool = False) -> None:
        """Judges what came out. `complete`: everything that must be visible has to be among it."""
        ticket = replace(ticket, troubled=ticket.troubled or reply.down)
        self.judged += len(reply.seen)
        for token in reply.seen:
            if why := self._forbidden(ticket, token):
                self._violate(why, ticket, token)
        if complete and reply.result == Result.DONE:
            for said in self._expected(ticket):
                self.looked_for += 1
                if said.allowed.isdisjoint(reply.seen):
                    self._violate(Why.LOST, ticket, min(said.allowed))
                    said.must = False  # counted once

    def _forbidden(self, ticket: Ticket, token: str) -> Why | None:
        said = self.by_token.get(token)
        if said is None:
            return Why.UNHEARD
        if self._is_elsewhere(ticket.step, said.step):
            return Why.LEAKED
        for gone in (said.gone.get(token), said.withdrawn.get((ticket.process, token))):
            if gone is None or (gone.why is Why.FLUSHED and ticket.step.act in ASKS):
                continue
            if gone.since < ticket.sent and self._knows(ticket, gone.decided):
                return gone.why
        if ticket.step.act is Act.EXPORT:  # people may take along what they have hidden
            return None
        closed = [one for one in self._people(said.step) if one.state is State.CLOSED and one.since < ticket.sent]
        if any(self._knows(ticket, one.since, one.through) for one in closed):
            return Why.OPTED_OUT
        return None

    def _knows(self, ticket: Ticket, decided: int, through: int = -1) -> bool:
        """Whether the process had to know. Redis tells it, unless Redis was broken."""
        if not ticket.troubled or through == ticket.process:
            return True
        return decided <= self.synced.get(ticket.process, 0)

    def _is_elsewhere(self, asked: Step, said: Step) -> bool:
        if asked.act is Act.EXPORT:
            return said.author != asked.author
        here = said.guild == asked.guild
        return not here or (asked.act is not Act.SEARCH and said.channel not in {asked.channel, *asked.others})

    def _expected(self, ticket: Ticket) -> Iterator[Said]:
        step = ticket.step
        if step.act is Act.EXPORT:
            yield from (said for said in self._all() if said.must and said.step.author == step.author)
            return
        for said in self.said.get((step.guild, step.channel), {}).values():
            hidden = any(process == ticket.process for process, _ in said.withdrawn)
            if said.must and not hidden and all(one.state is State.OPEN for one in self._people(said.step)):
                yield said

    def _violate(self, why: Why, ticket: Ticket, token: str) -> None:
        self.violations[why] += 1
        if len(self.examples) < EXAMPLES:
            said = self.by_token.get(token)
            room = list(self.story[ticket.step.guild, ticket.step.channel])
            self.examples.append(
                f"{why}: {token} at {self.now}, {ticket}; {said}; {room}; {list(self.story[ticket.process])}"
            )
            log.error("%s", self.examples[-1])  # a long run says it at once

    # --- people and rooms ---

    def _standing(self, step: Step) -> Standing:
        if step.act in OF_ROOMS:
            return self.rooms.setdefault((step.guild, step.channel), Standing())
        return self.people.setdefault((step.scope, step.author), Standing())

    def _people(self, step: Step) -> list[Standing]:
        names: list[Name] = [(None, step.author), (step.guild, step.author)]
        return [self.people[name] for name in names if name in self.people]

    def _standings(self, step: Step) -> Iterator[Standing]:
        yield from self._people(step)
        if (room := self.rooms.get((step.guild, step.channel))) is not None:
            yield room

    def _state(self, step: Step) -> State:
        states = {one.state for one in self._standings(step)}
        return next((one for one in (State.CLOSED, State.UNKNOWN) if one in states), State.OPEN)

    def _is_sure(self, ticket: Ticket) -> bool:
        """Whether nothing was decided about its person and room since it was sent, and both were open."""
        attempts = sum(one.attempts for one in self._standings(ticket.step))
        return ticket.state is State.OPEN and attempts == ticket.attempts

    def _all(self) -> Iterator[Said]:
        for room in self.said.values():
            yield from room.values()

    def doubtful(self) -> list[Step]:
        """Decisions that have to be repeated until they are certain, as a person would."""
        standings = (*self.people.values(), *self.rooms.values())
        return [one.wanted for one in standings if one.state is State.UNKNOWN and one.wanted is not None]


def _waits(act: Act, result: str) -> bool:
    """Whether a change may still be in its process while something is queued there. Other decisions go to Redis at
    once, or fail."""
    if act in {Act.SAY, Act.EDIT}:
        return result in {Outcome.QUEUED, Outcome.IGNORED}
    return act in REMOVALS or (act in PERSONAL and result == Result.DELAYED)
