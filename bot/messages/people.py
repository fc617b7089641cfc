"""Members by id or name, and who may read which channel.

Messages from history carry no member, so their authors would lose their nicknames. One gateway request returns up to
a hundred members by id, or some whose name begins with a few letters; neither needs a privileged intent.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable
from dataclasses import dataclass

import aiohttp
import discord

from channelmem.policy.policies import Policies
from channelmem.settings import Settings
from channelmem.types import Person

from .convert import MESSAGE_CHANNELS, Members, MessageChannel, guild_of, thread_of, to_person

TIMEOUT_S = 2.0
MAX_MEMBERS = 100
MAX_FOUND = 5
MAX_NAME_CHARS = 32
"""Discord has no longer names."""
CACHE_S = 60.0
MAX_HELD = 1_000

UNANSWERED = (TimeoutError, discord.DiscordException, ConnectionError, aiohttp.ClientError, RuntimeError)
"""Discord does not answer, or (RuntimeError) the shard is not connected."""


async def fetch_members(guild: discord.Guild, ids: Iterable[int]) -> Members:
    """Members that do not arrive in time are left out: their messages then show the global name."""
    wanted = list(dict.fromkeys(ids))[:MAX_MEMBERS]
    known = {id_: member for id_ in wanted if (member := guild.get_member(id_))}
    missing = [id_ for id_ in wanted if id_ not in known]
    if not missing:
        return known
    try:
        async with asyncio.timeout(TIMEOUT_S):
            found = await guild.query_members(user_ids=missing, limit=MAX_MEMBERS, cache=False)
    except UNANSWERED:
        return known
    return known | {member.id: member for member in found}


class MemberSearch:
    """Finds members by name and keeps what it found for a minute: a gateway allows two requests per second."""

    def __init__(self) -> None:
        self.held: dict[tuple[int, str], tuple[Person, ...]] = {}

    async def find(self, guild: discord.Guild, beginning: str) -> tuple[Person, ...]:
        """People whose nickname, global name or user name begins like this; none if Discord does not answer."""
        name = beginning.strip()
        if not 0 < len(name) <= MAX_NAME_CHARS:
            return ()
        key = (guild.id, name.casefold())
        if key not in self.held:
            try:
                async with asyncio.timeout(TIMEOUT_S):
                    found = await guild.query_members(name, limit=MAX_FOUND, cache=False)
            except UNANSWERED:
                return ()
            self._hold(key, tuple(to_person(member) for member in found if not member.bot)[:MAX_FOUND])
        return self.held[key]

    def _hold(self, key: tuple[int, str], people: tuple[Person, ...]) -> None:
        if len(self.held) >= MAX_HELD:
            self.held.clear()
        self.held[key] = people
        # Dropped even if nobody asks again: otherwise names would be held indefinitely.
        asyncio.get_running_loop().call_later(CACHE_S, self._drop, key, people)

    def _drop(self, key: tuple[int, str], people: tuple[Person, ...]) -> None:
        if self.held.get(key) is people:
            del self.held[key]

    def clear(self) -> None:
        self.held.clear()


# --- permissions ---


def is_remembered(channel: discord.abc.Snowflake, settings: Settings, policies: Policies) -> bool:
    """Whether the operator includes the channel and its memory is on."""
    return is_included(channel, settings) and is_on(channel, policies)


def is_on(channel: discord.abc.Snowflake, policies: Policies) -> bool:
    """Whether the settings that people change while the bot runs let the channel be remembered."""
    guild_id = guild_of(channel)
    if isinstance(channel, discord.PartialMessageable) and policies.any_closed(guild_id):
        return False  # a thread Discord has not announced yet: its parent may be off
    return policies.storing(guild_id, channel.id, thread_of(channel)).enabled


def is_included(channel: discord.abc.Snowflake, settings: Settings) -> bool:
    """Applies the allow and block lists; a thread follows its parent unless it is listed itself."""
    if isinstance(channel, discord.PartialMessageable) and settings.channels_block:
        return False  # a thread Discord has not announced yet: its parent may be blocked
    ids = {channel.id} | ({channel.parent_id} if isinstance(channel, discord.Thread) else set())
    if ids & set(settings.channels_block):
        return False
    return not settings.channels_allow or bool(ids & set(settings.channels_allow))


def can_see(channel: MessageChannel, member: discord.Member) -> bool:
    """Whether the member receives what is said there now."""
    if isinstance(channel, discord.Thread) and channel.parent is None:
        return False
    return channel.permissions_for(member).view_channel


def can_read(channel: MessageChannel, reader: discord.Member | discord.Role) -> bool:
    """Whether the reader sees the channel and its past; the chat of a voice channel requires Connect, too."""
    if isinstance(channel, discord.Thread) and channel.parent is None:
        return False
    granted = channel.permissions_for(reader)
    voice = isinstance(channel, discord.VoiceChannel | discord.StageChannel)
    return granted.view_channel and granted.read_message_history and (granted.connect or not voice)


def message_channels(guild: discord.Guild) -> list[MessageChannel]:
    """Every channel of the guild where people write, threads included."""
    return [c for c in (*guild.channels, *guild.threads) if isinstance(c, MESSAGE_CHANNELS)]


def readable_channel_ids(
    here: MessageChannel, asker: discord.Member, settings: Settings, policies: Policies, *, private: bool
) -> tuple[int, ...]:
    """Other channels a question may search: asker and bot can both read them right now.

    Everybody in the channel sees a public answer, so a public question only searches channels that are open to the
    whole guild, and to everybody who can read the answer. Age-restricted channels are searched only from
    age-restricted ones.
    """
    guild = here.guild
    readers: list[discord.Member | discord.Role] = [asker, guild.me]
    if not private:
        readers.append(guild.default_role)
    audience = None if private else Audience(here, checked=(asker.id, guild.me.id))
    return tuple(
        channel.id
        for channel in message_channels(guild)
        if channel.id != here.id
        and is_remembered(channel, settings, policies)
        and not (isinstance(channel, discord.Thread) and channel.is_private())
        and (here.is_nsfw() or not channel.is_nsfw())
        and all(can_read(channel, reader) for reader in readers)
        and (audience is None or audience.can_read(channel))
    )


# --- audience ---


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
