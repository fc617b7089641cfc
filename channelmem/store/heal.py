"""Heal: puts messages without a vector back on the ingest stream. In: a bucket. Out: whether that is complete.

Needed after the stream was lost (buckets.py recreates its consumer group), because no worker would hear of them. A
recreated index needs no help: it reads the existing documents by itself, vectors included.
"""

from __future__ import annotations

from redis.exceptions import ResponseError

from channelmem.store.buckets import VERSION, Buckets

PAGE = 200
NO_MORE = b"0"


async def repair(buckets: Buckets, bucket: int) -> bool:
    """Returns False if it must be tried again: the index still reads documents or was lost meanwhile, or the stream has
    entries to embed first."""
    await buckets.ready(bucket)
    if not await buckets.indexed(bucket):
        return False
    cursor: bytes | None = b""
    while cursor not in (None, NO_MORE):
        try:
            cursor = await buckets.run("requeue", bucket, [VERSION, PAGE, cursor])
        except ResponseError as error:
            if "cursor" not in str(error).lower():
                raise
            return False
    return cursor == NO_MORE
