"""Heal: puts messages that have no vector, and that no worker will hear of, back on the ingest stream.

In: a bucket. Out: how many were put back. Needed when the stream was lost (its group is made again by buckets.py); an
index made anew reads the documents that are there by itself, vectors included.
"""

from __future__ import annotations

import asyncio

from channelmem.buckets import Buckets
from channelmem.schema import vector_field
from channelmem.scripts import command

PAGE = 200
MOST = 1_000_000
INDEXING_PAUSE_S = 0.05


async def repair(buckets: Buckets, bucket: int) -> int:
    """Only where the stream is empty: entries on it are still to be embedded, or being embedded."""
    keys = buckets.keys(bucket)
    if await buckets.redis.xlen(keys.one("ingest")):
        return 0
    query = f"ismissing(@{vector_field(buckets.version)})"
    reply = await command(
        buckets.redis,
        *("FT.SEARCH", keys.one("idx"), query, "NOCONTENT", "LIMIT", 0, MOST, "DIALECT", 2),
    )
    names = [key[len(keys.one("msg")) :] for key in reply[1:]]
    put_back = 0
    for at in range(0, len(names), PAGE):
        put_back += await buckets.run("requeue", bucket, [buckets.version, *names[at : at + PAGE]])
        await asyncio.sleep(0)
    return put_back
