"""The Lua scripts. In: a script's name. Out: its source, and the hash by which Redis knows it.

A script starts with `base` (KEYS[1], which routes it to the bucket's node), the key names, and from `lua/lib` what all
need (`common`, `derived`) and what it builds on. Its ARGV is exactly what the caller passes; the scripts that apply a
channel's limits are given them, with the time, by their callers.
"""

from __future__ import annotations

import hashlib
from functools import cache
from importlib import resources

from channelmem.store.keys import lua_names

LIBRARIES = {
    "apply": ("rules", "attachments", "refused", "decisions", "sources"),
    "make": ("rules", "sources"),
    "summaries": ("rules",),
    "outline": ("rules",),
    "summarise": ("rules", "refused", "sources"),
    "decide": ("refused", "decisions"),
    "settings": ("refused", "announcements"),
    "boundary": ("announcements",),
    "thread": ("announcements",),
    "enrich": ("rules", "attachments", "enrichment"),
    "attach": ("attachments",),
    "described": ("rules", "attachments", "enrichment", "descriptions"),
    "describe": ("rules", "attachments", "sources", "enrichment", "descriptions"),
    "unread": ("descriptions",),
    "archive": ("rules",),
    "view": ("rules", "visible"),
    "scope": ("rules", "visible"),
    "shown": ("rules", "visible"),
    "around": ("rules", "visible"),
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
    names = ["common", "derived", *LIBRARIES.get(name, ())]
    parts = [(lua / "lib" / f"{part}.lua").read_text("utf-8") for part in names]
    return "\n".join(["local base = KEYS[1]", lua_names(), *parts, (lua / f"{name}.lua").read_text("utf-8")])


@cache
def digest(name: str) -> str:
    return hashlib.sha1(source(name).encode(), usedforsecurity=False).hexdigest()
