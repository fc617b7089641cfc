"""The Lua scripts, loaded once and called by hash. In: a script's name and arguments. Out: Redis' raw reply.

A script starts with `base` (KEYS[1], which routes it to the bucket's node), the key names, `common.lua`, and the parts
it builds on. Its ARGV is exactly what the caller passes; the scripts that apply a channel's limits are given them, with
the time, by their callers.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from functools import cache
from importlib import resources
from typing import Any

from redis.asyncio import Redis
from redis.exceptions import NoScriptError

from channelmem.store.connection import answered, command
from channelmem.store.keys import Keys, lua_names

PARTS = {
    "apply": ("rules",),
    "archive": ("rules",),
    "view": ("rules", "read"),
    "find": ("rules", "read"),
    "around": ("rules", "read"),
}
"""What scripts build on beyond `common`."""


@cache
def source(name: str) -> str:
    lua = resources.files("channelmem.store") / "lua"
    names = ["common", *PARTS.get(name, ()), name]
    parts = [(lua / f"{part}.lua").read_text("utf-8") for part in names]
    return "\n".join(["local base = KEYS[1]", lua_names(), *parts])


@cache
def digest(name: str) -> str:
    return hashlib.sha1(source(name).encode(), usedforsecurity=False).hexdigest()


async def run_script(redis: Redis, name: str, keys: Keys, arguments: Sequence[Any] = ()) -> Any:
    """One round trip; a second one only after Redis lost its script cache (a restart)."""
    call = (1, keys.base, *arguments)
    try:
        return await answered(command(redis, "EVALSHA", digest(name), *call))
    except NoScriptError:
        return await answered(command(redis, "EVAL", source(name), *call))
