"""A run: lets processes live a history while things break, tells the model, and counts."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from scripts.torturing.faults import Faults
from scripts.torturing.model import Model
from scripts.torturing.plan import Plan, Round
from scripts.torturing.processes import Process
from scripts.torturing.steps import LOOKS, PEOPLE, ROOMS, Act, Reply, Result, Step

CHECKPOINT = 12
"""Rounds between two moments when everything is delivered and looked at."""
FLUSH_EVERY = 15
"""Checkpoints between two FLUSHALL."""
TRIES = 200


@dataclass(slots=True)
class Figures:
    steps: Counter[str] = field(default_factory=Counter)
    faults: Counter[str] = field(default_factory=Counter)
    checkpoints: int = 0
    seconds: float = 0.0

    @property
    def total(self) -> int:
        return self.steps.total()


class Run:
    def __init__(self, plan: Plan, processes: Sequence[Process], faults: Faults, *, flushes: bool = True) -> None:
        self.plan, self.model, self.figures = plan, Model(), Figures()
        self._processes, self._faults, self._flushes = processes, faults, flushes
        self._troubled = False
        self._dying: set[int] = set()
        self._remote = len(processes) - 1 if faults.service else None
        """The process whose memory is in the service."""
        self._deaths = 0
        """Of the service."""
        if faults.service:
            faults.service.on_death = self._service_died

    async def __call__(self, steps: int, seconds: float) -> None:
        """Ends after so many steps or seconds, with a look at everything."""
        started = time.monotonic()
        if self._faults.service:
            await self._faults.service.start()
            await self._faults.service.admit()
        await self._faults.recovered()
        for number in range(len(self._processes)):
            await self._start(number)
        for count, one in enumerate(self.plan.rounds(), 1):
            await self._round(one)
            self.figures.seconds = time.monotonic() - started
            if self.figures.total >= steps or self.figures.seconds >= seconds:
                break
            if count % CHECKPOINT == 0:
                await self._checkpoint()
        await self._checkpoint(last=True)
        self.figures.seconds = time.monotonic() - started

    async def _start(self, number: int) -> None:
        await self._processes[number].start()
        self._synced(number)

    def _synced(self, number: int) -> None:
        """Whether a service has read what others decided cannot be asked."""
        if number != self._remote:
            self.model.synced[number] = self.model.now

    def _service_died(self) -> None:
        self._deaths += 1
        assert self._remote is not None
        self.model.service_died(self._remote)

    # --- a round ---

    async def _round(self, one: Round) -> None:
        self._troubled = bool(one.fault)
        fault = asyncio.create_task(self._strike(one))
        lives = [self._live(number, steps, one) for number, steps in enumerate(one.steps)]
        await asyncio.gather(*lives)
        for number, step in one.decisions:
            if number != one.killed:
                await self._do(number, step)
        await fault
        await self._faults.recovered()
        if one.killed is not None:
            await self._start(one.killed)

    async def _strike(self, one: Round) -> None:
        if one.fault:
            self.figures.faults[one.fault] += 1
            await self._faults.strike(one.fault, one.begins_s, one.lasts_s)

    async def _live(self, number: int, steps: Sequence[Step], one: Round) -> None:
        for at, step in enumerate(steps):
            if one.killed == number and at == one.killed_at:
                await self._kill_during(number, step)
                return
            await self._do(number, step)

    async def _kill_during(self, number: int, step: Step) -> None:
        self.figures.faults["process killed (kill -9)"] += 1
        doing = asyncio.create_task(self._do(number, step))
        await asyncio.sleep(0.001)
        self._dying.add(number)
        await self._processes[number].kill()
        await doing
        self._dying.discard(number)
        self.model.died(number)

    async def _do(self, number: int, step: Step, *, complete: bool = False) -> Reply | None:
        now = time.time()
        step = replace(step, ts=now, revision=now if step.act is Act.EDIT else 0.0)
        if step.act is Act.EDIT and (said := self.model.said.get((step.guild, step.channel), {}).get(step.id)):
            step = replace(step, ts=said.step.ts)
        self.figures.steps[step.act] += 1
        ticket = self.model.sent(number, step, troubled=self._troubled)
        deaths = self._deaths
        reply = await self._processes[number].do(step)
        if reply is not None and number == self._remote and reply.result == Result.DELAYED and deaths != self._deaths:
            reply = replace(reply, result=Result.UNAVAILABLE)  # a service kept it that may be gone
        if reply is None and number not in self._dying:
            raise RuntimeError(f"Process {number} ended by itself during {step}")
        if reply is not None and step.act in LOOKS:
            self.model.look(ticket, reply, complete=complete or step.act is Act.LIST)
        self.model.replied(ticket, reply)
        return reply

    # --- a checkpoint ---

    async def _checkpoint(self, *, last: bool = False) -> None:
        """Everything is delivered and certain; then everything is looked at."""
        self.figures.checkpoints += 1
        self._troubled = False
        await self._settle()
        await self._repeat_doubtful()
        await self._settle()
        if last:  # a killed worker's messages are embedded by another one after 20 s
            await self._surely(0, Step(Act.EMBED))
        await self._look_at_everything()
        if self._flushes and not last and self.figures.checkpoints % FLUSH_EVERY == 0:
            self.figures.faults["everything lost (FLUSHALL)"] += 1
            await self._faults.flush_all()
            self.model.flushed()

    async def _settle(self) -> None:
        for number in range(len(self._processes)):
            await self._surely(number, Step(Act.SETTLE))
            self._synced(number)

    async def _surely(self, number: int, step: Step) -> None:
        reply = await self._do(number, step)
        if reply is None or reply.result != Result.DONE or reply.queued:
            raise RuntimeError(f"Process {number} does not come to an end: {step.act}, {reply}")

    async def _repeat_doubtful(self) -> None:
        for _ in range(TRIES):
            doubtful = self.model.doubtful()
            if not doubtful:
                return
            for step in doubtful:
                await self._do(0, step)
            await asyncio.sleep(0.05)
        raise RuntimeError(f"Decisions stay uncertain: {self.model.doubtful()}")

    async def _look_at_everything(self) -> None:
        for number in range(len(self._processes)):
            for guild, channel in ROOMS:
                await self._do(number, Step(Act.LIST, guild, channel))
        for author in PEOPLE:
            await self._do(0, Step(Act.EXPORT, author=author), complete=True)
