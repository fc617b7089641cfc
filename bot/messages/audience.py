"""Audiences: who else reads an answer? In: the answer's channel and another one. Out: whether all of them read both.

Decided from roles and overwrites alone, because the bot has no list of members: people may have any combination of
roles, and so may those whom an overwrite names. In doubt the answer is no.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import discord

from .channels import MessageChannel

VIEW = discord.Permissions(view_channel=True).value
PAST = discord.Permissions(read_message_history=True).value
CONNECT = discord.Permissions(connect=True).value
SOMEBODY = 0
"""In place of a member's id: anybody whom no overwrite names."""


@dataclass(frozen=True, slots=True)
class Overwrites:
    """What a channel allows and denies, as bits by the id of a role or member; @everyone has the guild's id."""

    needed: tuple[int, ...]
    """Who has all of these permissions can read the channel and its past."""
    allowed: dict[int, int]
    denied: dict[int, int]
    members: frozenset[int]


def overwrites_of(channel: MessageChannel) -> Overwrites:
    """Those of its parent for a thread, which has none of its own."""
    room = channel.parent if isinstance(channel, discord.Thread) else channel
    # The public property builds a value of fifty flags for each of them: too slow for all channels of a large server.
    raw = room._overwrites if room is not None else []  # noqa: SLF001
    voice = isinstance(channel, discord.VoiceChannel | discord.StageChannel)
    return Overwrites(
        needed=(VIEW, PAST, CONNECT) if voice else (VIEW, PAST),
        allowed={one.id: one.allow for one in raw},
        denied={one.id: one.deny for one in raw},
        members=frozenset(one.id for one in raw if one.is_member()),
    )


class Audience:
    """Everybody who can read a channel, except those whose permissions were `checked` one by one."""

    def __init__(self, here: MessageChannel, checked: Collection[int]) -> None:
        guild = here.guild
        self._here, self._everyone = overwrites_of(here), guild.id
        self._checked = {*checked, guild.owner_id}
        ordinary = [role for role in guild.roles if not role.permissions.administrator]
        self._roles = {role.id for role in ordinary} - {guild.id}
        self._granted = 0
        """What any role may grant in the whole guild."""
        for role in ordinary:
            self._granted |= role.permissions.value

    def can_read(self, source: MessageChannel) -> bool:
        """Whether all of them can read a channel that is open to @everyone."""
        there = overwrites_of(source)
        people = {SOMEBODY, *self._here.members, *there.members} - self._checked
        return not any(self._learns(person, there, bit) for person in people for bit in there.needed)

    def _learns(self, person: int, there: Overwrites, bit: int) -> bool:
        """Whether the person may read the answer, but lack this permission there."""
        if there.allowed.get(person, 0) & bit:
            return False
        if there.denied.get(person, 0) & bit:
            return self._can_read_here(person, self._roles)
        shut_out = [role for role, bits in there.denied.items() if bits & bit and role in self._roles]
        if not shut_out:
            return False
        # One role that allows it outweighs all that deny it.
        roles = self._roles - {role for role, bits in there.allowed.items() if bits & bit}
        return any(self._can_read_here(person, roles, role) for role in shut_out)

    def _can_read_here(self, person: int, roles: Collection[int], role: int | None = None) -> bool:
        """Whether somebody who certainly has `role`, and may have any of `roles`, can read the answer."""
        return all(self._has(bit, person, roles, role) for bit in self._here.needed)

    def _has(self, bit: int, person: int, roles: Collection[int], role: int | None) -> bool:
        """Discord's order, from the last word to the first: member, roles, @everyone, the guild's roles."""
        allowed, denied = self._here.allowed, self._here.denied
        if (allowed.get(person, 0) | denied.get(person, 0)) & bit:
            return bool(allowed[person] & bit)
        if any(bits & bit for id_, bits in allowed.items() if id_ in roles):
            return True
        if role is not None and denied.get(role, 0) & bit:
            return False
        if (allowed.get(self._everyone, 0) | denied.get(self._everyone, 0)) & bit:
            return bool(allowed[self._everyone] & bit)
        return bool(self._granted & bit)
