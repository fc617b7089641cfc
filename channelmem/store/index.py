"""The search index of a bucket: what it knows about a message (a redisvl schema), how it is made, whether what another
process built is of use to this one, and whether it has read all documents.

An index reads existing documents in the background after it was made: by a process that missed it, or by a server that
starts. FT.INFO knows how far it is, but blocks a large Redis for long. It is therefore asked rarely while an index
reads, and never again for the same making of it.
"""

from __future__ import annotations

import time
from typing import Any

from redis.asyncio import Redis
from redisvl.schema import IndexSchema  # type: ignore[import-untyped]

from channelmem.errors import IndexMismatchError
from channelmem.settings import Settings
from channelmem.store.cluster import Cluster
from channelmem.store.keys import MOVING, Keys
from channelmem.store.redis import command, pipelined

SCHEMA_VERSION = 1
LAYOUT = "2"
"""Of the index. Layout 1 also kept sortable times, and of each word in which field it stood. Searches work with both;
`channelmem reindex` makes the newer one, which is smaller."""
GRAPH_FROM = 50_000
"""Messages in a bucket from which `auto` chooses HNSW: below, an exact search of a whole guild is as fast."""

FIELDS = ("author", "text", "ts", "flag", "about")
"""The fields that reads ask for, in this order. `about` packs what no query needs (documents.py), because each field of
a hash costs about 60 bytes, and time in every read."""


def vector_field(version: int) -> str:
    return f"vec{version}"


def chosen(settings: Settings, *, messages: int = 0, built: str = "") -> Settings:
    """The settings with an algorithm instead of `auto`: it depends on how many messages a bucket holds. `built` is the
    present shape: a bucket around the limit does not change its index again and again."""
    if settings.index_algorithm != "auto":
        return settings
    needs_graph = messages >= (GRAPH_FROM // 2 if built.startswith("hnsw") else GRAPH_FROM)
    return settings.model_copy(update={"index_algorithm": "hnsw" if needs_graph else "flat"})


def as_built(settings: Settings, meta: dict[str, str]) -> Settings:
    """The same for an index that is missing: of the shape that it had, or that a process is about to give it."""
    built = meta.get("shape") or meta.get("building", "")
    return chosen(settings, messages=GRAPH_FROM if built.startswith("hnsw") else 0)


def noted(settings: Settings) -> dict[Any, str]:
    """What the meta key records about the index, as HSET takes it."""
    return {"shape": shape(settings), "layout": LAYOUT}


def shape(settings: Settings) -> str:
    """How the vector index is built; `channelmem reindex` changes it, or a worker where the settings say `auto`."""
    if settings.index_algorithm == "flat":
        return "flat"
    return f"hnsw m={settings.hnsw_m} ef={settings.hnsw_ef_construction}/{settings.hnsw_ef_runtime}"


def make_schema(settings: Settings, keys: Keys, *, dims: int, version: int) -> IndexSchema:
    vector: dict[str, Any] = {
        "dims": dims,
        "algorithm": settings.index_algorithm,
        "datatype": "float16",
        "distance_metric": "cosine",
    }
    if settings.index_algorithm == "hnsw":
        vector |= {
            "m": settings.hnsw_m,
            "ef_construction": settings.hnsw_ef_construction,
            "ef_runtime": settings.hnsw_ef_runtime,
        }
    return IndexSchema.from_dict(
        {
            "index": {"name": keys.index(version), "prefix": keys.one("msg"), "storage_type": "hash"},
            "fields": [
                {"name": "channel", "type": "tag"},
                {"name": "author", "type": "tag"},
                {"name": "flag", "type": "tag"},
                {"name": "text", "type": "text"},
                {"name": "ts", "type": "numeric"},
                {"name": vector_field(version), "type": "vector", "attrs": vector},
            ],
        }
    )


def create_command(schema: IndexSchema, name: str | None = None) -> list[Any]:
    """FT.CREATE for the schema, under its own or another name. redisvl makes the fields; its `create` has neither
    NOOFFSETS nor NOFIELDS, and counts a vector's INDEXMISSING among the parameters of its algorithm.

    NOOFFSETS saves 120 bytes per message: no query asks for phrases. NOFIELDS saves 26: there is one text field. A
    sortable time would cost 54: only the newest messages of many channels are sorted by it, and index_search.py keeps
    these few. INDEXMISSING applies to the vector field, the last one, and lets the repair scan find messages without a
    vector.
    """
    fields = [part for field in schema.fields.values() for part in field.as_redis_field().redis_args()]
    return [
        *("FT.CREATE", name or schema.index.name, "ON", "HASH", "PREFIX", 1, schema.index.prefix),
        *("LANGUAGE", "english", "NOOFFSETS", "NOFIELDS", "SCHEMA", *fields, "INDEXMISSING"),
    ]


def check_meta(found: dict[str, str], mine: dict[str, str]) -> None:
    """Whether this process can use what another one wrote."""
    if MOVING in found:
        raise IndexMismatchError(
            f"This memory is being spread over {found[MOVING]} bucket(s). "
            f"Wait for it, or finish it with: channelmem rebucket {found[MOVING]}"
        )
    if found["buckets"] != mine["buckets"]:
        raise IndexMismatchError(
            f"This Redis holds memory in {found['buckets']} bucket(s), the settings say {mine['buckets']}. "
            f"Set CHANNELMEM_BUCKETS={found['buckets']}, or run: channelmem rebucket {mine['buckets']}"
        )
    if found["schema"] != mine["schema"]:
        raise IndexMismatchError(
            f"This Redis holds memory in layout {found['schema']}, this version writes {mine['schema']}. "
            "Use the version that wrote it, or another CHANNELMEM_KEY_PREFIX to start fresh."
        )
    if (found["model"], found["dims"]) != (mine["model"], mine["dims"]):
        raise IndexMismatchError(
            f"The index was built with {found['model']} ({found['dims']} dimensions), "
            f"the settings say {mine['model']} ({mine['dims']}). Run: channelmem reindex"
        )


# --- fitting ---


COUNTED = 1_000
"""Channels whose messages are counted in one round trip."""


async def fitted(redis: Redis, settings: Settings, keys: Keys) -> Settings:
    """Unchanged if the settings name an algorithm."""
    if settings.index_algorithm != "auto":
        return settings
    built: Any = await redis.hget(keys.one("meta"), "shape")
    return chosen(settings, messages=await _stored(redis, keys), built=(built or b"").decode())


async def meta_of(redis: Redis, keys: Keys) -> dict[str, str]:
    """What is noted about a bucket; empty if nobody has used it."""
    meta: Any = await redis.hgetall(keys.one("meta"))
    return {name.decode(): value.decode() for name, value in meta.items()}


async def rooms_of(redis: Redis, keys: Keys) -> list[bytes]:
    """All rooms of a bucket that hold messages."""
    found: list[Any] = []
    guilds: Any = await redis.smembers(keys.one("guilds"))
    for guild in guilds:
        rooms: Any = await redis.smembers(keys.of("guild", int(guild)))
        found += rooms
    return found


async def _stored(redis: Redis, keys: Keys) -> int:
    """Messages of a bucket. FT.INFO would say it, too, but blocks a large Redis for long."""
    rooms, messages = await rooms_of(redis, keys), 0
    for at in range(0, len(rooms), COUNTED):
        page = rooms[at : at + COUNTED]
        messages += sum(await pipelined(redis, [("ZCARD", keys.of("chan", room.decode())) for room in page]))
    return messages


# --- what it has read ---


LOOK_SHARE = 20
"""FT.INFO takes at most a twentieth of Redis' time while an index is awaited."""

Making = tuple[str, bytes | None]
"""The run of the server, and what the process that made the index noted."""


def index_lost(error: Exception) -> bool:
    """RediSearch words this in several ways."""
    text = str(error).lower()
    return "no such index" in text or "unknown index name" in text


async def indexed(redis: Redis, name: str) -> float:
    """The share of the existing documents that an index has read; 1 for all of them."""
    facts = await _facts(redis, name)
    return min(float(facts[b"percent_indexed"]), 0.99) if int(facts[b"indexing"]) else 1.0


async def serving(redis: Redis, alias: str) -> str:
    """The name of the index behind an alias."""
    name: bytes = (await _facts(redis, alias))[b"index_name"]
    return name.decode()


async def _facts(redis: Redis, name: str) -> dict[bytes, Any]:
    info = await command(redis, "FT.INFO", name)
    return dict(zip(info[::2], info[1::2], strict=False))


class Completeness:
    def __init__(self, redis: Redis) -> None:
        self._redis = redis
        self._complete: dict[int, Making] = {}
        """By bucket: which making of its index is known to have read everything."""
        self._next_look_s: dict[int, float] = {}

    async def of(self, bucket: int, keys: Keys) -> bool:
        making = await self._making(keys)
        if self._complete.get(bucket) == making:
            return True
        started = time.monotonic()
        if started < self._next_look_s.get(bucket, 0.0):
            return False
        complete = await indexed(self._redis, keys.one("idx")) == 1
        self._next_look_s[bucket] = started + (time.monotonic() - started) * LOOK_SHARE
        if complete:
            self._complete[bucket] = making
        return complete

    async def _making(self, keys: Keys) -> Making:
        node = self._redis
        if isinstance(node, Cluster):
            ((node, _),) = await node.owned([keys.base]) or ((node, []),)
        server: Any = await node.info("server")
        made: Any = await self._redis.hget(keys.one("meta"), "made")
        return server["run_id"], made
