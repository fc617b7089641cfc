"""Opens the access tokens of the service. In: the process's settings. Out: `AccessTokens` on Redis; needs no model."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from channelmem.server.lease import check_server, connect_url
from channelmem.settings import Settings
from channelmem.store.access import AccessTokens
from channelmem.store.connection import connect


@asynccontextmanager
async def open_access(settings: Settings, *, patient: bool = False) -> AsyncIterator[AccessTokens]:
    """`patient` opens while Redis is unreachable, too."""
    with connect_url(settings) as url:
        if not patient:
            check_server(url, timeout_s=settings.redis_timeout_s)
        redis = connect(url, settings)
        try:
            yield AccessTokens(redis, settings.key_prefix)
        finally:
            await redis.aclose()
