"""Audiences against every combination of roles: nobody who reads an answer learns what they may not read."""

from __future__ import annotations

import itertools
import random
from types import SimpleNamespace
from typing import cast

import pytest

from bot import messages
from bot.messages import PAST, SOMEBODY, VIEW, Audience, MessageChannel, Overwrites

ADMINISTRATOR = 8
GUILD, ROLES, MEMBERS = 1, (10, 11, 12), (100, 101)
READ = VIEW | PAST


def some(rng: random.Random, share: float) -> int:
    return sum(bit for bit in (VIEW, PAST) if rng.random() < share)


def random_overwrites(rng: random.Random) -> Overwrites:
    named = [id_ for id_ in (GUILD, *ROLES, *MEMBERS) if rng.random() < 0.4]
    denied = {id_: some(rng, 0.3) for id_ in named}
    allowed = {id_: some(rng, 0.3) & ~denied[id_] for id_ in named}
    return Overwrites((VIEW, PAST), allowed, denied, frozenset(named) & frozenset(MEMBERS))


def reads(granted: dict[int, int], channel: Overwrites, member: int, roles: tuple[int, ...]) -> bool:
    """Discord's rule, step by step."""
    value = 0
    for role in (GUILD, *roles):
        value |= granted[role]
    if value & ADMINISTRATOR:
        return True
    for level in ((GUILD,), roles, (member,)):
        for id_ in level:
            value &= ~channel.denied.get(id_, 0)
        for id_ in level:
            value |= channel.allowed.get(id_, 0)
    return value & READ == READ


def room(granted: dict[int, int], overwrites: Overwrites) -> MessageChannel:
    roles = [
        SimpleNamespace(id=id_, permissions=SimpleNamespace(value=value, administrator=bool(value & ADMINISTRATOR)))
        for id_, value in granted.items()
    ]
    guild = SimpleNamespace(id=GUILD, owner_id=999, roles=roles)
    return cast("MessageChannel", SimpleNamespace(guild=guild, rules=overwrites))


def test_no_combination_of_roles_learns_anything(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(messages, "overwrites_of", lambda channel: channel.rules)
    rng = random.Random(20)  # noqa: S311  (the same guilds in every run)
    people = [
        (member, roles)
        for member in (SOMEBODY, *MEMBERS)
        for count in range(len(ROLES) + 1)
        for roles in itertools.combinations(ROLES, count)
    ]
    allowed = strict = 0
    for _ in range(3_000):
        granted = {GUILD: some(rng, 0.8)}
        granted |= {role: ADMINISTRATOR if rng.random() < 0.1 else some(rng, 0.3) for role in ROLES}
        here, there = random_overwrites(rng), random_overwrites(rng)
        if not reads(granted, there, SOMEBODY, ()):
            continue  # not open to @everyone, which is checked before
        leaks = any(reads(granted, here, *who) and not reads(granted, there, *who) for who in people)
        told = Audience(room(granted, here), checked=()).can_read(room(granted, there))
        assert not (told and leaks), (granted, here, there)
        allowed += told
        strict += not (told or leaks)
    assert allowed > 500  # it does not simply refuse
    assert strict < allowed / 20
