"""The torture run finds nothing in a short history with faults, and finds each thing that is broken on purpose."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from conftest import OwnServer
from pydantic import SecretStr

from channelmem.client.writes import Writes
from channelmem.errors import RedisUnavailableError
from channelmem.policy.policy import Limits
from channelmem.store.decisions import Decisions
from channelmem.store.outbox import Event, Result
from channelmem.store.store import Store
from channelmem.types import Message, Outcome
from scripts.torturing.actor import settings_for
from scripts.torturing.faults import Faults
from scripts.torturing.model import Model, Why
from scripts.torturing.plan import Plan
from scripts.torturing.processes import LocalProcess
from scripts.torturing.run import Run
from scripts.torturing.service import Service
from scripts.torturing.steps import ROOMS, Act, Reply, Step
from scripts.torturing.steps import Result as Done

STEPS = 400
FEW = 180
"""With a service, which takes seconds to start after each round."""
HANGS_S = 600.0
"""However slow the machine is."""
NO_RESTART = "Redis killed"
"""The server of a test does not come back by itself."""
KILLED = "service killed (kill -9)"
OF_SERVICE = (KILLED, "service stopped (SIGSTOP)", "service killed while the disk is full")


def run_of(server: OwnServer, folder: Path, *, seed: int = 1, faulty: bool = True) -> Run:
    faults = Faults(server.url, server.folder)
    names = [name for name in faults.names if NO_RESTART not in name] if faulty else []
    settings = settings_for(folder, redis_url=SecretStr(server.url))
    return Run(Plan(seed, 2, names, fault_share=0.7), [LocalProcess(settings), LocalProcess(settings)], faults)


@asynccontextmanager
async def run_with_service(server: OwnServer, folder: Path, *names: str) -> AsyncIterator[Run]:
    """One bot with its own memory, and one whose memory is in a service, which these faults break."""
    settings = settings_for(folder, redis_url=SecretStr(server.url))
    service = Service(settings, folder / "service.log")
    try:
        faults = Faults(server.url, server.folder, service)
        processes = [LocalProcess(settings), LocalProcess(service.client_settings())]
        yield Run(Plan(1, 2, names, fault_share=1.0, kill_share=0.0), processes, faults)
    finally:
        await service.close()


@pytest.fixture
async def short(own_server: OwnServer, tmp_path: Path) -> Run:
    return run_of(own_server, tmp_path)


async def done(run: Run, steps: int = STEPS) -> Run:
    try:
        await run(steps, HANGS_S)
    finally:
        for process in run._processes:
            await process.stop()
    return run


async def test_a_short_history_with_faults_violates_nothing(short: Run) -> None:
    await done(short)
    assert short.figures.total >= STEPS
    assert short.figures.faults
    assert short.model.acknowledged > 0
    assert (dict(short.model.violations), short.model.examples) == ({}, [])


@pytest.mark.process
async def test_a_short_history_with_a_client_and_a_service_that_fails_violates_nothing(
    own_server: OwnServer, tmp_path: Path
) -> None:
    async with run_with_service(own_server, tmp_path, *OF_SERVICE) as run:
        await done(run, FEW)
    assert run.figures.total >= FEW
    assert run.figures.faults
    assert (dict(run.model.violations), run.model.examples) == ({}, [])


def test_the_same_seed_gives_the_same_history() -> None:
    one, same, other = (list(islice(Plan(seed, 2, ["a", "b"]).rounds(), 20)) for seed in (1, 1, 2))
    assert one == same
    assert one != other


# --- what may come out after FLUSHALL ---

ROOM = ROOMS[0]


def stored(*tokens: str) -> Model:
    """A model that knows one message, with its revisions."""
    model = Model()
    for act, token in zip((Act.SAY, *[Act.EDIT] * len(tokens)), tokens, strict=False):
        did(model, Step(act, *ROOM, author=11, id=1, text=token, ts=1.0), Outcome.STORED)
    return model


def did(model: Model, step: Step, result: str = Done.DONE) -> None:
    model.replied(model.sent(0, step, troubled=False), Reply(result))


def shown(model: Model, act: Act, token: str) -> list[Why]:
    """The violations if a look shows it."""
    ticket = model.sent(0, Step(act, *ROOM, author=11), troubled=False)
    model.violations.clear()
    model.look(ticket, Reply(Done.DONE, seen=frozenset({token})))
    return list(model.violations)


OLD, NEW = "zq1r1qz", "zq1r2qz"


def test_after_a_flush_only_the_platform_has_the_last_words() -> None:
    model = stored(OLD, NEW)
    model.flushed()
    assert shown(model, Act.ASK, NEW) == []
    assert shown(model, Act.ASK, OLD) == [Why.EDITED]
    for act in (Act.LIST, Act.SEARCH, Act.EXPORT):
        assert shown(model, act, NEW) == [Why.FLUSHED]


def test_a_flush_does_not_bring_back_what_was_deleted() -> None:
    model = stored(OLD)
    did(model, Step(Act.DELETE, *ROOM, id=1))
    model.flushed()
    model.flushed()
    assert shown(model, Act.ASK, OLD) == [Why.DELETED]


@pytest.mark.parametrize(
    ("step", "why"),
    [
        (Step(Act.DELETE, *ROOM, id=1), Why.DELETED),
        (Step(Act.CLEAR, *ROOM, ts=2.0), Why.CLEARED),
        (Step(Act.FORGET, author=11, ts=2.0), Why.FORGOTTEN),
        (Step(Act.OPT_OUT, author=11, ts=2.0), Why.OPTED_OUT),
    ],
)
def test_what_is_decided_after_a_flush_holds_for_the_platform_too(step: Step, why: Why) -> None:
    model = stored(OLD)
    model.flushed()
    did(model, step)
    assert shown(model, Act.ASK, OLD) == [why]


# --- what waits while something is decided ---


def waits(model: Model, step: Step, result: str) -> None:
    model.replied(model.sent(0, step, troubled=True), Reply(result, queued=1))


def lost(model: Model, act: Act) -> list[Why]:
    """The violations if a complete look shows nothing."""
    model.look(model.sent(0, Step(act, *ROOM, author=11), troubled=False), Reply(Done.DONE), complete=True)
    return list(model.violations)


SAID = Step(Act.SAY, *ROOM, author=11, id=1, text=OLD, ts=1.0)


@pytest.mark.parametrize(
    ("closing", "opening"),
    [
        (Step(Act.PAUSE, *ROOM), Step(Act.RESUME, *ROOM)),
        (Step(Act.OPT_OUT, author=11), Step(Act.OPT_IN, author=11)),
        (Step(Act.OPT_OUT, author=11, scope=ROOM[0]), Step(Act.OPT_IN, author=11, scope=ROOM[0])),
    ],
)
@pytest.mark.parametrize("result", [Done.DONE, Done.UNAVAILABLE])
def test_a_decision_may_overtake_what_waits(closing: Step, opening: Step, result: Done) -> None:
    model = Model()
    waits(model, SAID, Outcome.QUEUED)
    did(model, closing, result)
    did(model, opening)
    assert lost(model, Act.LIST) == []
    assert lost(model, Act.EXPORT) == []
    assert shown(model, Act.LIST, OLD) == [], "or it was delivered first"


@pytest.mark.parametrize(
    "decision",
    [
        Step(Act.RESUME, *ROOM),
        Step(Act.OPT_IN, author=11),
        Step(Act.PAUSE, *ROOMS[1]),
        Step(Act.OPT_OUT, author=12),
        Step(Act.SETTLE),
    ],
)
def test_what_waits_is_stored_in_spite_of_decisions_that_do_not_refuse_it(decision: Step) -> None:
    model = Model()
    waits(model, SAID, Outcome.QUEUED)
    did(model, decision)
    assert lost(model, Act.LIST) == [Why.LOST]


def test_a_decision_that_waits_is_applied_before_the_next_one() -> None:
    model = Model()
    waits(model, Step(Act.OPT_OUT, author=11), Done.DELAYED)
    did(model, Step(Act.OPT_IN, author=11))
    assert model.doubtful() == []
    did(model, SAID, Outcome.STORED)
    assert lost(model, Act.LIST) == [Why.LOST], "its author is back"


# --- what is broken on purpose ---


def forgets_deletes(monkeypatch: pytest.MonkeyPatch) -> None:
    async def delete(*_: Any) -> int:
        return 1

    monkeypatch.setattr(Store, "delete", delete)


def ignores_decisions(monkeypatch: pytest.MonkeyPatch) -> None:
    async def write(*_: Any) -> None:
        pass

    monkeypatch.setattr(Decisions, "write", write)


def loses_messages(monkeypatch: pytest.MonkeyPatch) -> None:
    put = Store._put

    def losing(store: Store, message: Message, limits: Limits) -> asyncio.Future[Result]:
        if message.id % 10:
            return put(store, message, limits)
        lost: asyncio.Future[Result] = asyncio.get_running_loop().create_future()
        lost.set_result(1)
        return lost

    monkeypatch.setattr(Store, "_put", losing)


def mixes_up_channels(monkeypatch: pytest.MonkeyPatch) -> None:
    put = Store._put

    def straying(store: Store, message: Message, limits: Limits) -> asyncio.Future[Result]:
        elsewhere = next(channel for guild, channel in ROOMS if guild == message.guild_id)
        return put(store, replace(message, channel_id=elsewhere) if message.id % 10 == 0 else message, limits)

    monkeypatch.setattr(Store, "_put", straying)


@pytest.mark.parametrize(
    ("broken", "found"),
    [
        (forgets_deletes, Why.DELETED),
        (ignores_decisions, Why.STORED),
        (loses_messages, Why.LOST),
        (mixes_up_channels, Why.LEAKED),
    ],
)
async def test_a_broken_store_is_caught(
    own_server: OwnServer,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    broken: Callable[[pytest.MonkeyPatch], None],
    found: Why,
) -> None:
    broken(monkeypatch)
    run = await done(run_of(own_server, tmp_path, faulty=False))
    assert run.model.violations[found] > 0


def forgets_removals(monkeypatch: pytest.MonkeyPatch) -> None:
    async def remove(*_: Any) -> int:
        return 0

    monkeypatch.setattr(Writes, "remove", remove)


def calls_delivered_what_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    send = Writes._send

    async def sending(writes: Writes, lane: int, events: Sequence[Event]) -> list[int]:
        try:
            return await send(writes, lane, events)
        except RedisUnavailableError:
            return [0] * len(events)

    monkeypatch.setattr(Writes, "_send", sending)


@pytest.mark.process
@pytest.mark.parametrize(
    ("broken", "found"), [(forgets_removals, Why.DELETED), (calls_delivered_what_is_not, Why.LOST)]
)
async def test_a_broken_client_is_caught(
    own_server: OwnServer,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    broken: Callable[[pytest.MonkeyPatch], None],
    found: Why,
) -> None:
    broken(monkeypatch)
    async with run_with_service(own_server, tmp_path, KILLED) as run:
        await done(run, FEW)
    assert run.model.violations[found] > 0


def test_a_decision_that_only_a_service_knew_is_uncertain_after_its_death() -> None:
    model = stored(OLD)
    did(model, Step(Act.SAY, *ROOM, author=11, id=2, text=NEW, ts=1.0), Outcome.STORED)
    forget, removal = Step(Act.FORGET, author=11, ts=2.0), Step(Act.DELETE, *ROOM, id=2)
    model.replied(model.sent(0, forget, troubled=True), Reply(Done.DELAYED, queued=1))
    model.replied(model.sent(0, removal, troubled=True), Reply(Done.DONE, queued=2))
    assert shown(model, Act.ASK, OLD) == [Why.FORGOTTEN]
    model.service_died(0)
    assert [ticket.step for ticket, _ in model.waiting[0]] == [removal], "the client keeps what it sends"
    assert model.doubtful() == [forget]
    assert shown(model, Act.ASK, OLD) == []
    assert shown(model, Act.ASK, NEW) == [Why.DELETED]
