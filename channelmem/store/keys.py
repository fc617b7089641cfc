"""Every Redis key, on one screen.

All keys of a guild share the hash tag of its bucket, so they live in one slot. Ids are strings of 20 digits wherever
Redis sorts or parses them: messages of the same moment then sort by id, and nothing beyond 2^53 is rounded. The Lua
scripts take the same names from `lua_names`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

KEYS = {
    # per message
    "msg": "msg:",  # HASH   msg:<room>:<id>     one message (index.py names its fields)
    "gone": "gone:",  # STRING gone:<room>:<id>    tombstone: 'inf', or the revision that emptied it; expires
    # per channel
    "chan": "chan:",  # ZSET   chan:<room>         id -> ts: the order; a message is visible while it is in here
    "wait": "wait:",  # SET    wait:<room>         ids that still wait for their vector
    "people": "people:",  # HASH   people:<room>       author -> last ts, name, aliases
    "into": "into:",  # HASH   into:<room>         source id -> names of what was made of it (derived.py)
    "summaries": "summaries:",  # ZSET   summaries:<room>    summary -> start: one is visible while it is in here
    "lock": "lock:",  # STRING lock:<room>         who updates its summaries; expires
    "floor": "floor:",  # STRING floor:<room or guild>  messages up to this ts are no longer accepted; expires
    "drain": "drain:",  # ZSET   drain:<room>[:<e>]  removed ids whose documents must still be unlinked
    # per author
    "quoting": "quoting:",  # ZSET   quoting:<author>    name of what was made of their words -> when that ends
    # per derived thing
    "summary": "summary:",  # JSON   summary:<room>:<level>-<start>-<end>  one summary (summaries/pyramid.py)
    "made": "made:",  # HASH   made:<kind>/<room>:<id>  its text and sources; answers of the bot are messages instead
    # per attachment
    "unread": "unread:",  # STRING unread:<room>:<key>:<reader>  why it could not be read; expires (derived.py)
    "reading": "reading:",  # STRING reading:<room>:<key>  whose claim it is to read it now; expires
    # per guild
    "guild": "guild:",  # SET    guild:<guild>          its rooms that hold messages
    "unfetched": "unfetched:",  # HASH   unfetched:<guild>      channel -> both ends of what back-fill must still fetch
    "loading": "loading:",  # HASH   loading:<guild>        channel -> how far a load of its past has come
    "names": "names:",  # HASH   names:<guild>          channel -> its name; '' -> the guild's own; expires
    # per place where settings are set (levels.py)
    "settings": "settings:",  # JSON   settings:<place>       what is set there, and the last changes; or a boundary
    # per day, in the first bucket
    "spend": "spend:",  # HASH   spend:<date>        room -> micro-dollars for language models; '*' -> all; expires
    # per bucket
    "levels": "levels",  # HASH   place -> how often it changed; '*' -> how often anything did
    "threads": "threads",  # HASH   room of a thread -> room of its channel
    "changes": "changes",  # STREAM the newest removals, decisions and settings that copies must follow (buckets.py)
    "changed": "changed",  # PUB/SUB kinds of what is new in there
    "guilds": "guilds",  # SET    guild ids
    "epochs": "epochs",  # HASH   room -> epoch; raised by a clear, part of the channel tag of later documents
    "policy": "policy",  # HASH   <room>:paused, :off, :cleared -> since when, until when
    "optout": "optout",  # SET    <author> or <guild>:<author>: neither stored nor shown
    "refused": "refused",  # HASH   room, off:<room>, <author> or <guild>:<author> -> windows: nothing may be stored
    "due": "due",  # ZSET   room -> when its summaries are to be updated; 0: something of them was removed
    "updating": "updating",  # SET    rooms whose summaries are being updated: due again if their lock is gone
    "redact": "redact",  # ZSET   <room>:<id> -> ts of answers to be replaced on the platform; expires
    "forgetting": "forgetting",  # SET    <guild or *>:<author>: their messages are being removed
    "returning": "returning",  # SET    <author> or <guild>:<author>: the opt-out ends when their removal is done
    "drains": "drains",  # SET    drain keys with work left
    "ingest": "ingest",  # STREAM messages waiting for their vector
    "access": "access",  # HASH   token id -> JSON: name, digest, scopes, guilds, until when (bucket 0 only)
    "rebuilding": "rebuilding",  # STRING whose turn it is to rebuild the index; expires (ingest/reindex.py)
    "meta": "meta",  # HASH   schema, buckets, model, dims, version of the vector field; progress of a reindex
    "idx": "idx",  # ALIAS  for the index idx:<version>
}
GROUP = "embed"  # the consumer group of the ingest stream
MOVING = "moving_to"  # a field of the first bucket's meta key: how many buckets a run of rebucket.py makes
ID_DIGITS = 20


@dataclass(frozen=True, slots=True)
class Keys:
    """The keys of one bucket."""

    base: str

    def one(self, name: str) -> str:
        """A key that exists once per bucket, such as `ingest`."""
        return self.base + KEYS[name]

    def of(self, name: str, owner: int | str) -> str:
        """A key of a channel or guild, such as `chan`."""
        return f"{self.base}{KEYS[name]}{owner}"

    def channel(self, guild_id: int, channel_id: int) -> tuple[str, str]:
        """The key of a channel's order, and what the keys of its messages start with."""
        channel = room(guild_id, channel_id)
        return f"{self.base}{KEYS['chan']}{channel}", f"{self.base}{KEYS['msg']}{channel}:"

    def message(self, guild_id: int, channel_id: int, message_id: int) -> str:
        return f"{self.base}{KEYS['msg']}{room(guild_id, channel_id)}:{padded(message_id)}"

    def index(self, version: int) -> str:
        return f"{self.base}idx:{version}"


def keys_of(prefix: str, bucket: int) -> Keys:
    return Keys(f"{prefix}:{{{bucket}}}:")


def room(guild_id: int, channel_id: int) -> str:
    """A channel's name in keys and tags. It contains the guild, so no two guilds can share one, and consists of letters
    and digits, so queries need no escaping."""
    return f"{guild_id}c{channel_id}"


@lru_cache(maxsize=4_096)
def guild_and_channel(name: bytes) -> tuple[int, int]:
    """Both ids of a room."""
    guild, _, channel = name.partition(b"c")
    return int(guild), int(channel)


def padded(message_id: int) -> str:
    return f"{message_id:0{ID_DIGITS}d}"


def lua_names() -> str:
    """The table above as Lua locals; in every script `base` is KEYS[1]."""
    return "".join(f"local {name.upper()} = base .. '{part}'\n" for name, part in KEYS.items())
