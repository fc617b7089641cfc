"""The Lua scripts. In: a script's name. Out: its source, and the hash by which Redis knows it.

A script starts with `base` (KEYS[1], which routes it to the bucket's node), the key names, `common.lua`, `derived.lua`
and the parts it builds on. Its ARGV is exactly what the caller passes; the scripts that apply a channel's limits are
given them, with the time, by their callers.
"""

from __future__ import annotations

import hashlib
from functools import cache
from importlib import resources

from channelmem.store.keys import lua_names

PARTS = {
    "apply": ("rules", "attachments", "refused", "deciding", "making"),
    "make": ("rules", "making"),
    "summaries": ("rules",),
    "outline": ("rules",),
    "summarise": ("rules", "refused", "making"),
    "decide": ("refused", "deciding"),
    "settings": ("refused", "announcing"),
    "boundary": ("announcing",),
    "thread": ("announcing",),
    "enrich": ("rules", "attachments", "enriching"),
    "attach": ("attachments",),
    "described": ("rules", "attachments", "enriching", "describing"),
    "describe": ("rules", "attachments", "making", "enriching", "describing"),
    "unread": ("describing",),
    "archive": ("rules",),
    "view": ("rules", "read"),
    "scope": ("rules", "read"),
    "shown": ("rules", "read"),
    "around": ("rules", "read"),
    "authored": ("jobs",),
    "drain": ("timer",),
    "forget": ("jobs", "timer"),
    "forgotten": ("jobs", "refused"),
    "opt_in": ("jobs", "refused"),
    "returning": ("jobs",),
}
"""What scripts build on beyond `common` and `derived`."""
ALONE = {"each"}
"""Scripts of no bucket, which build on nothing."""


@cache
def source(name: str) -> str:
    lua = resources.files("channelmem.store") / "lua"
    if name in ALONE:
        return (lua / f"{name}.lua").read_text("utf-8")
    names = ["common", "derived", *PARTS.get(name, ()), name]
    parts = [(lua / f"{part}.lua").read_text("utf-8") for part in names]
    return "\n".join(["local base = KEYS[1]", lua_names(), *parts])


@cache
def digest(name: str) -> str:
    return hashlib.sha1(source(name).encode(), usedforsecurity=False).hexdigest()
