"""Heal: puts messages that have no vector, and that no worker will hear of, back on the ingest stream.

In: a bucket. Out: whether that is done. Needed when the stream was lost (its group is made again by buckets.py); an
index made anew reads the documents that are there by itself, vectors included.
"""

from __future__ import annotations

from channelmem.store.buckets import Buckets
from channelmem.store.schema import vector_field
from channelmem.store.scripts import command

PAGE = 200
MOST = 1_000_000


async def repair(buckets: Buckets, bucket: int) -> bool:
    """False: not now, because the index still reads documents or the stream has entries to embed first."""
    keys, version = buckets.keys(bucket), await buckets.version(bucket)
    if await buckets.redis.xlen(keys.one("ingest")) or not await buckets.indexed(bucket):
        return False
    reply = await command(
        buckets.redis,
        *(
            "FT.SEARCH",
            keys.one("idx"),
            f"ismissing(@{vector_field(version)})",
            "NOCONTENT",
            "LIMIT",
            0,
            MOST,
            "DIALECT",
            2,
        ),
    )
    names = [key[len(keys.one("msg")) :] for key in reply[1:]]
    for at in range(0, len(names), PAGE):
        page = [version, int(at == 0), *names[at : at + PAGE]]
        if await buckets.run("requeue", bucket, page) < 0:
            return False
    return True
