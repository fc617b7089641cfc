"""Which channel a client means. In: what a tool call says (an id, a name, nothing), and the client's bounds. Out: guild
and channel, or a sentence that tells the model what it can say instead.

Whatever lies outside the bounds is unknown here: the answer is the same as for a channel that does not exist.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from mcp.server.mcpserver.exceptions import ToolError

from channelmem.errors import RedisUnavailableError
from channelmem.mcp.bounds import Bounds
from channelmem.memory import Memory
from channelmem.overview import ListedChannel
from channelmem.telling.quote import cut, flatten
from channelmem.tools.context_tool import UNREACHABLE

Place = tuple[int, int]
"""Guild and channel."""
LARGEST_ID: Final = 2**63 - 1
NAMED: Final = 8
"""Channels that a complaint lists; the tool `list_channels` has all of them."""
SHOWN_CHARS: Final = 60


async def listed(memory: Memory, bounds: Bounds) -> list[ListedChannel]:
    """The channels a client can reach."""
    try:
        channels = await memory.overview.channels(bounds.guilds)
    except RedisUnavailableError as error:
        raise ToolError(UNREACHABLE) from error
    return [one for one in channels if bounds.allows(one.guild_id, one.channel_id)]


async def find(memory: Memory, bounds: Bounds, channel: str, guild: str) -> Place:
    """The channel that a call names by id or name; without a name, the only one there is."""
    wanted, within = _plain(channel), _plain(guild)
    if (place := by_ids(bounds, wanted, within)) is not None:
        return place
    channels = await listed(memory, bounds)
    in_guild = [one for one in channels if not within or within in {str(one.guild_id), _plain(one.guild)}]
    found = [one for one in in_guild if not wanted or wanted in {str(one.channel_id), _plain(one.name)}]
    if len(found) == 1:
        return found[0].guild_id, found[0].channel_id
    if found and wanted:
        raise ToolError(f"Several channels are called {_shown(channel)}: {_choices(found)}. Pass the channel id.")
    raise ToolError(_unknown(channel, in_guild))


def by_ids(bounds: Bounds, channel: str, guild: str) -> Place | None:
    """Where both ids are given or the bounds leave one choice, the channel need not hold any message yet."""
    guild_id = _id(guild) if guild else _only(bounds.guilds)
    channel_id = _id(channel) if channel else _only(bounds.channels)
    if guild_id is None or channel_id is None or not bounds.allows(guild_id, channel_id):
        return None
    return guild_id, channel_id


def _unknown(channel: str, channels: Sequence[ListedChannel]) -> str:
    if not channels:
        return "No channel with messages can be reached from here."
    if channel:
        return f"There is no channel {_shown(channel)} here. Known channels: {_choices(channels)}."
    return f"Say which channel: {_choices(channels)}."


def _choices(channels: Sequence[ListedChannel]) -> str:
    first = [
        f"{one.channel_id} ({cut(flatten(one.name), 40)})" if one.name else str(one.channel_id) for one in channels
    ]
    more = f" and {len(first) - NAMED} more (list_channels)" if len(first) > NAMED else ""
    return ", ".join(first[:NAMED]) + more


def _plain(text: str) -> str:
    return flatten(text).casefold().lstrip("#").strip()


def _id(text: str) -> int | None:
    is_id = text.isascii() and text.isdigit() and len(text) <= 19
    return int(text) if is_id and int(text) <= LARGEST_ID else None


def _only(ids: frozenset[int] | None) -> int | None:
    return next(iter(ids)) if ids is not None and len(ids) == 1 else None


def _shown(text: str) -> str:
    return repr(cut(flatten(text), SHOWN_CHARS))
