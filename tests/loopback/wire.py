"""What the loopback's HTTP handlers share: bodies in, answers and errors out."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from typing import Any

from aiohttp import web

from .payloads import Json

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
BODY = web.RequestKey("body", object)
FILES = web.RequestKey("files", dict[str, bytes])


def error(status: int, code: int, message: str) -> web.Response:
    return reply({"code": code, "message": message}, status)


def reply(body: object, status: int = 200, headers: dict[str, str] | None = None) -> web.Response:
    # discord.py parses JSON only under exactly this content type, without a charset.
    return web.Response(
        body=json.dumps(body).encode(), status=status, headers={"Content-Type": "application/json"} | (headers or {})
    )


def empty() -> web.Response:
    return web.Response(status=204)


def json_of(request: web.Request) -> Json:
    body = request[BODY]
    assert isinstance(body, dict)
    return body


def files_of(request: web.Request) -> dict[str, bytes]:
    return request[FILES]


async def body_of(request: web.Request) -> tuple[Any, dict[str, bytes]]:
    """JSON, or a multipart upload with its files."""
    if request.content_type == "multipart/form-data":
        form = await request.post()
        files = {part.filename: part.file.read() for part in form.values() if isinstance(part, web.FileField)}
        return json.loads(str(form.get("payload_json", "{}"))), files
    raw = await request.read()
    return (json.loads(raw) if raw else None), {}


def rate_limit_body(retry_after_s: float) -> Json:
    return {"message": "You are being rate limited.", "retry_after": retry_after_s, "global": False, "code": 0}


def public(message: Json) -> Json:
    """Without our own notes (leading underscore) and without a null nonce."""
    return {k: v for k, v in message.items() if not k.startswith("_") and not (k == "nonce" and v is None)}
