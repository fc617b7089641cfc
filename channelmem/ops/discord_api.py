"""The one request of `doctor` to Discord (extra: discord)."""

from __future__ import annotations

import aiohttp

API = "https://discord.com/api/v10"
WAIT = aiohttp.ClientTimeout(total=5)


class UnreachableError(Exception):
    """Discord did not answer; the text names the kind of error."""


async def application(token: str, base: str | None) -> tuple[int, int]:
    headers = {"Authorization": f"Bot {token}"}
    try:
        async with (
            aiohttp.ClientSession(timeout=WAIT, headers=headers) as session,
            session.get(f"{(base or API).rstrip('/')}/applications/@me") as reply,
        ):
            body = await reply.json() if reply.ok else {}
            return reply.status, int(body.get("flags", 0))
    except (aiohttp.ClientError, TimeoutError) as error:
        raise UnreachableError(type(error).__name__) from error
