"""Keys in Redis that somebody damaged: every endpoint answers, or says in one sentence that the memory can't."""

from __future__ import annotations

from typing import Any

import httpx
import pytest
from clock import wall_now
from redis.asyncio import Redis
from serving import Running
from test_api_tenants import (
    AUTHOR,
    CHANNEL,
    OPERATIONS,
    OURS,
    PLACE,
    TOLD,
    requests_of,
)

pytest_plugins = ["serving_fixtures"]

REMOVING = ("delete", "forget", "clear", "flush", "rebuild", "absorb")
ASKING = [
    (path, method, operation)
    for path, method, operation in OPERATIONS
    if method != "delete" and not any(word in path for word in REMOVING) and path not in {"/metrics", "/healthz"}
]


@pytest.fixture
async def filled(service: Running) -> httpx.AsyncClient:
    """A service that has written every kind of key that it can."""
    http = await service.operator()
    here = f"/v1/guilds/{OURS}/channels/{CHANNEL}"
    said, ts = PLACE | TOLD | {"content": "the vault code is 4711 and the turtles are slow"}, wall_now() - 7_200
    await http.post("/v1/messages", json=[said | {"id": str(number), "ts": ts + number} for number in range(9)])
    await http.post("/v1/messages", json=[PLACE | TOLD])
    await http.post("/v1/flush", json={})
    await http.post(f"{here}/summaries/update")
    await http.put(f"/v1/guilds/{OURS}/names", json={"guild": "a", "channels": [{"id": str(CHANNEL), "name": "b"}]})
    await http.put(f"{here}/gap", json={"newest_id": "20", "oldest_id": "10"})
    await http.post(f"{here}/load", json={"start_id": "1", "done_id": "1", "end_id": "9"})
    await http.post("/v1/spending/reserve", json=PLACE | {"day": 20_000, "micros": 900, "cap_micros": 1_000_000})
    await http.patch(f"/v1/settings/guilds/{OURS}/channels/{CHANNEL}", json={"max_images": 2})
    await http.put(f"{here}/boundary", json={"at": wall_now() - 9_000})
    await http.post(f"/v1/people/{AUTHOR + 1}/opt-out")
    await http.put(f"{here}/pause")
    await http.delete(f"{here}/pause")
    return http


async def wrong_type(redis: Redis, key: bytes, kind: bytes) -> None:
    await redis.delete(key)
    if kind == b"list":
        await redis.set(key, "junk")
    else:
        await redis.rpush(key, "junk")


async def junk(redis: Redis, key: bytes, kind: bytes) -> None:
    """Values of the right type that nobody of us wrote."""
    if kind == b"hash":
        names = await redis.hkeys(key)
        await redis.hset(key, mapping=dict.fromkeys(names, b"\xff junk"))
        await redis.hset(key, b"\xff junk", b"\xff junk")
    elif kind == b"zset":
        await redis.zadd(key, {b"\xff junk": wall_now()})
    elif kind == b"set":
        await redis.sadd(key, b"\xff junk")
    elif kind == b"string":
        await redis.set(key, b"\xff junk")


async def statuses(http: httpx.AsyncClient) -> dict[str, str]:
    """What every endpoint says: those that fail with a mistake of ours."""
    failed = {}
    for path, method, operation in ASKING:
        for request in requests_of(path, method, operation)[:1]:
            try:
                answered = await http.request(**request)
            except httpx.RemoteProtocolError as error:  # a stream that broke
                failed[f"{method} {path}"] = repr(error)
                continue
            if answered.status_code == 500:
                failed[f"{method} {path}"] = "500"
    return failed


@pytest.mark.parametrize("damage", [wrong_type, junk])
async def test_a_damaged_key_is_no_mistake_of_ours(
    service: Running, filled: httpx.AsyncClient, redis: Redis, damage: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("channelmem.summaries.summaries.WAIT_S", 0.1)  # for who updates them: a damaged lock stays
    prefix, found = service.memory._store.buckets.settings.key_prefix, {}
    # Whose damage would show nowhere else: the token itself, the index, documents that JSON.SET keeps well-formed.
    all_keys = {key.split(b":")[2]: key async for key in redis.scan_iter(f"{prefix}:*")}  # one of each kind
    keys = [key for kind, key in all_keys.items() if kind not in {b"access", b"meta"}]
    assert len(keys) > 15
    for key in sorted(keys):
        kind, kept = await redis.type(key), await redis.dump(key)
        if kept is None:
            continue
        await damage(redis, key, kind)
        if failed := await statuses(filled):
            found[key.decode().partition("}:")[2]] = failed
        await redis.delete(key)
        await redis.restore(key, 0, kept, replace=True)
    assert found == {}
