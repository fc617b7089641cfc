"""The torture run finds nothing in a short history with faults, and finds each thing that is broken on purpose."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from conftest import OwnServer
from pydantic import SecretStr

from channelmem.policy import Limits
from channelmem.store.decisions import Decisions
from channelmem.store.outbox import Result
from channelmem.store.store import Store
from channelmem.types import Message, Outcome
from scripts.torturing.actor import settings_for
from scripts.torturing.faults import Faults
from scripts.torturing.model import Model, Why
from scripts.torturing.plan import Plan
from scripts.torturing.processes import LocalProcess
from scripts.torturing.run import Run
from scripts.torturing.steps import ROOMS, Act, Reply, Step
from scripts.torturing.steps import Result as Done

STEPS = 400
NO_RESTART = "kill -9"
"""The server of a test does not come back by itself."""


def run_of(server: OwnServer, folder: Path, *, seed: int = 1, faulty: bool = True) -> Run:
    faults = Faults(server.url, server.folder)
    names = [name for name in faults.names if NO_RESTART not in name] if faulty else []
    settings = settings_for(folder, redis_url=SecretStr(server.url))
    return Run(Plan(seed, 2, names, fault_share=0.7), [LocalProcess(settings), LocalProcess(settings)], faults)


@pytest.fixture
async def short(own_server: OwnServer, tmp_path: Path) -> Run:
    return run_of(own_server, tmp_path)


async def done(run: Run, steps: int = STEPS) -> Run:
    try:
        await run(steps, 60)
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
