"""Something made of messages that is neither answer nor summary, to test the rule that lib/derived.lua has for all."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from channelmem.policy.policy import Policy
from channelmem.store.documents import pack_limits, pack_origins
from channelmem.store.keys import padded, room
from channelmem.store.scripts import assembled
from channelmem.store.store import Store
from channelmem.types import Origin

OTHER = "other"
"""The kind."""
MAKE = """-- Uses rules, sources.
local limits, guild, name, text, given = limits_of(ARGV[2]), unpack(ARGV, 3, 6)
local sources = sources_of(guild, given, limits)
redis.call('UNLINK', MADE .. name)
if not sources or not next(sources) then return 0 end
redis.call('HSET', MADE .. name, 'text', text)
tie(name, MADE .. name, sources)
return 1
"""


async def make_other(
    store: Store, guild_id: int, channel_id: int, id_: int, text: str, origins: Iterable[Origin], policy: Policy
) -> bool:
    """Stores or replaces it; False, with nothing stored, unless all of its sources stand."""
    buckets, sources = store.buckets, pack_origins(guild_id, origins)
    name, limits = _name(guild_id, channel_id, id_), pack_limits(policy.limits)
    arguments = (repr(buckets.clock()), limits, str(guild_id), name, text, sources)
    script = assembled(MAKE)
    made: Any = await buckets.redis.eval(script, 1, buckets.guild_keys(guild_id).base, *arguments)
    return bool(made)


async def other_text(store: Store, guild_id: int, channel_id: int, id_: int) -> str | None:
    key = store.buckets.guild_keys(guild_id).of("made", _name(guild_id, channel_id, id_))
    text: Any = await store.buckets.redis.hget(key, "text")
    return None if text is None else str(text, "utf-8")


def _name(guild_id: int, channel_id: int, id_: int) -> str:
    return f"{OTHER}/{room(guild_id, channel_id)}:{padded(id_)}"
