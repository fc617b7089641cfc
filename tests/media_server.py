"""A content host on loopback, and small real pictures. It counts what is fetched and can misbehave in every way."""

from __future__ import annotations

import asyncio
import io
import ssl
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import web
from PIL import Image, ImageDraw

from channelmem.types import Attachment


def picture(colour: str = "grey", size: tuple[int, int] = (64, 48), kind: str = "PNG", **options: Any) -> bytes:
    out = io.BytesIO()
    Image.new("RGB", size, colour).save(out, kind, **options)
    return out.getvalue()


def text_picture(*lines: str) -> bytes:
    """A screenshot, with Pillow's own font."""
    image = Image.new("RGB", (640, 40 + 40 * len(lines)), "white")
    draw = ImageDraw.Draw(image)
    for at, line in enumerate(lines):
        draw.text((20, 20 + 40 * at), line, fill="black", font_size=28)
    out = io.BytesIO()
    image.save(out, "PNG")
    return out.getvalue()


class MediaServer:
    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.statuses: dict[str, int] = {}
        self.redirects: dict[str, str] = {}
        self.gates: dict[str, asyncio.Event] = {}
        self.endless: set[str] = set()
        self.compressed: set[str] = set()
        self.fetched: Counter[str] = Counter()
        self.sent: Counter[str] = Counter()
        """Bytes of endless files that were written."""
        self.queries: list[str] = []
        self.hosts: list[str] = []
        """The names under which it was asked."""
        self.host = ""

    def serves(self, id_: int, name: str, content: bytes, query: str = "") -> Attachment:
        """The file, as a message carries it."""
        self.files[f"/{id_}/{name}"] = content
        kind = {"png": "image/png", "jpg": "image/jpeg", "gif": "image/gif", "ogg": "audio/ogg"}.get(name[-3:], "")
        return Attachment(id_, self.url(f"/{id_}/{name}") + query, kind, name, len(content))

    def url(self, path: str) -> str:
        return f"http://{self.host}{path}"

    async def handle(self, request: web.Request) -> web.StreamResponse:
        path = request.path
        self.fetched[path] += 1
        self.queries.append(request.query_string)
        self.hosts.append(request.headers["Host"])
        if path in self.gates:
            await self.gates[path].wait()
        if path in self.redirects:
            return web.Response(status=302, headers={"Location": self.redirects[path]})
        if path in self.statuses:
            return web.Response(status=self.statuses[path], text="secret words of a server")
        if path in self.endless:
            return await self._stream(request)
        if path not in self.files:
            return web.Response(status=404)
        response = web.Response(body=self.files[path])
        if path in self.compressed:
            response.enable_compression(web.ContentCoding.gzip, 0)
        return response

    async def _stream(self, request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        while True:
            await response.write(b"\0" * 65_536)
            self.sent[request.path] += 65_536


@asynccontextmanager
async def media_server(tls: ssl.SSLContext | None = None) -> AsyncIterator[MediaServer]:
    server = MediaServer()
    app = web.Application()
    app.router.add_get("/{path:.*}", server.handle)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls).start()
    server.host = f"127.0.0.1:{runner.addresses[0][1]}"
    yield server
    await runner.cleanup()


class VoiceServer:
    """OpenAI's transcription endpoint."""

    def __init__(self) -> None:
        self.text: object = "on my way"
        self.status = 200
        self.breaks = False
        """The connection is cut instead of an answer."""
        self.heard: list[tuple[bytes, str, str]] = []
        """Content, type and model of each recording."""
        self.keys: list[str] = []
        self.url = ""

    async def transcribe(self, request: web.Request) -> web.Response:
        form: Any = await request.post()
        file = form["file"]
        self.heard.append((file.file.read(), file.content_type, form["model"]))
        self.keys.append(request.headers.get("Authorization", ""))
        if self.breaks and request.transport is not None:
            request.transport.abort()
        if self.status != 200:
            return web.json_response({"error": {"message": "secret words"}}, status=self.status)
        return web.json_response({"text": self.text})


@asynccontextmanager
async def voice_server() -> AsyncIterator[VoiceServer]:
    server = VoiceServer()
    app = web.Application(client_max_size=30_000_000)
    app.router.add_post("/v1/audio/transcriptions", server.transcribe)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    server.url = f"http://127.0.0.1:{runner.addresses[0][1]}/v1"
    yield server
    await runner.cleanup()
