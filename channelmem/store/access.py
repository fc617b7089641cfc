"""Access tokens of the service, in Redis, with a copy in this process.

All service processes share them, and `channelmem token` changes them while they run. The copy is read again when it is
a second old: a revoked token ends within that time. While Redis is unreachable the last copy holds, so that questions
can still be answered from the platform's history. Of a token that is not in it nobody can tell then.
"""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from redis.asyncio import Redis

from channelmem.access import AccessToken, Caller, Scope, split
from channelmem.errors import RedisUnavailableError
from channelmem.store.keys import keys_of
from channelmem.store.redis import reads

COPY_S = 1.0
UNKNOWN_S = 0.1
"""The same for a token that is not in it: somebody may just have made it."""

log = logging.getLogger(__name__)


class AccessTokens:
    def __init__(self, redis: Redis, prefix: str, clock: Callable[[], float] = time.time) -> None:
        self._redis, self._key, self._clock = redis, keys_of(prefix, 0).one("access"), clock
        self._copy: dict[str, AccessToken] = {}
        self._read_at = float("-inf")
        self._reading = asyncio.Lock()

    async def caller(self, text: str) -> Caller | None:
        """Whose token this is; None if it is unknown, revoked or expired. RedisUnavailableError if nobody can tell."""
        parts = split(text)
        if parts is None:
            return None
        if parts[0] not in self._copy:
            await self._refresh(UNKNOWN_S)
        elif not self._reading.locked():  # of many requests at once, one reads; the others go by the copy
            with suppress(RedisUnavailableError):
                await self._refresh(COPY_S)
        kept = self._copy.get(parts[0])
        if kept is None or not kept.matches(parts[1]) or kept.is_expired(self._clock()):
            return None
        return kept.caller

    async def _refresh(self, age_s: float) -> None:
        """Returns when the copy is young enough. Nobody is turned away by a copy that is just being read."""
        async with self._reading:
            if time.monotonic() - self._read_at >= age_s:
                await self.all()

    @reads
    async def all(self) -> list[AccessToken]:
        """Every token, oldest first."""
        rows: Any = await self._redis.hgetall(self._key)
        tokens = filter(None, (_token(id_.decode(), raw) for id_, raw in rows.items()))
        self._copy = {token.id: token for token in tokens}
        self._read_at = time.monotonic()
        return sorted(self._copy.values(), key=lambda token: token.created_at)

    async def add(self, token: AccessToken) -> None:
        await self._redis.hset(self._key, token.id, _packed(token))
        self._copy[token.id] = token

    async def remove(self, id_: str) -> bool:
        """False if there is no such token."""
        self._copy.pop(id_, None)
        return bool(await self._redis.hdel(self._key, id_))


def _packed(token: AccessToken) -> str:
    guilds = None if token.guild_ids is None else sorted(map(str, token.guild_ids))
    stored = {"name": token.name, "digest": token.digest, "scopes": sorted(token.scopes), "guilds": guilds}
    return json.dumps({**stored, "created": token.created_at, "expires": token.expires_at})


def _token(id_: str, raw: bytes) -> AccessToken | None:
    """A damaged entry lets nobody in."""
    try:
        stored = json.loads(raw)
        guilds = stored["guilds"]
        return AccessToken(
            id_,
            str(stored["name"]),
            str(stored["digest"]),
            frozenset(map(Scope, stored["scopes"])),
            None if guilds is None else frozenset(map(int, guilds)),
            float(stored["created"]),
            None if stored["expires"] is None else float(stored["expires"]),
        )
    except (ValueError, KeyError, TypeError):
        log.warning("Ignoring a damaged access token: %.12s", id_)
        return None
