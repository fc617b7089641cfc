"""Heal: puts messages without a vector back on the ingest stream. In: a bucket. Out: whether that is complete.

Needed after the stream was lost (buckets.py recreates its consumer group), because no worker would hear of them. A
recreated index needs no help: it reads the existing documents by itself, vectors included.
"""

from __future__ import annotations

from channelmem.store.buckets import Buckets

PAGE = 200
MOST = 1_000_000


async def repair(buckets: Buckets, bucket: int) -> bool:
    """Returns False if it must wait: the index still reads documents, or the stream has entries to embed first."""
    _, keys, version, vector_field = await buckets.ready(bucket)
    if await buckets.redis.xlen(keys.one("ingest")) or not await buckets.indexed(bucket):
        return False
    missing = ("FT.SEARCH", keys.one("idx"), f"ismissing(@{vector_field})", "NOCONTENT", "LIMIT", 0, MOST)
    (reply,) = await buckets.search(bucket, [(*missing, "TIMEOUT", 0, "DIALECT", 2)])
    names = [key[len(keys.one("msg")) :] for key in reply[1:]]
    for at in range(0, len(names), PAGE):
        page = [version, int(at == 0), *names[at : at + PAGE]]
        if await buckets.run("requeue", bucket, page) < 0:
            return False
    return True
