"""The loopback's REST v10: the routes that a bot of our kind calls, each with Discord's answers and error codes."""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from aiohttp import web
from clock import wall_now

from . import openapi, payloads
from .interactions import Interactions
from .payloads import Channel, Json, Upload
from .wire import BODY, FILES, Handler, body_of, empty, error, json_of, public, rate_limit_body, reply

if TYPE_CHECKING:
    from .server import Loopback


@dataclass(slots=True)
class Fault:
    """The next `times` requests that match are answered like this."""

    method: str
    path: re.Pattern[str]
    status: int
    body: Json
    headers: dict[str, str]
    times: int
    spare: int
    """So many matching requests pass before."""


@dataclass(frozen=True, slots=True)
class Call:
    """One request of the bot, as it arrived."""

    method: str
    path: str
    body: Any
    status: int
    at: float


class Rest:
    """Handlers over the world's state; `calls` and `violations` are what tests look at."""

    def __init__(self, loopback: Loopback) -> None:
        self.loopback = loopback
        self.world = loopback.world
        self.faults: list[Fault] = []
        self.calls: list[Call] = []
        self.violations: list[str] = []
        self.interactions = Interactions(self.world, self.dispatch, self.upload)
        self.gates: dict[str, asyncio.Event] = {}
        """By path: matching requests wait for the event."""
        self.waiting: list[str] = []
        """Paths of the requests that wait at a gate."""
        self.on_the_way: dict[str, Callable[[], Awaitable[None]]] = {}
        """By path: what happens once, after the next answer was made and before it arrives."""
        self.uploads: dict[str, Upload] = {}
        """By path: the files that people and the bot attached."""
        self.downloaded: list[str] = []
        """Paths of the files that were fetched, with their signatures."""
        self.token = "loopback-token"
        self._slots: dict[int, tuple[int, float]] = {}

    def app(self) -> web.Application:
        app = web.Application(middlewares=[self._record], client_max_size=30_000_000)
        base = "/api/v10"
        table: list[tuple[str, str, Handler]] = [
            ("GET", "/gateway", self.gateway),
            ("GET", "/gateway/bot", self.gateway_bot),
            ("GET", "/users/@me", self.me),
            ("POST", "/users/@me/channels", self.open_dm),
            ("GET", "/oauth2/applications/@me", self.application),
            ("GET", "/applications/{application}/commands", self.list_commands),
            ("PUT", "/applications/{application}/commands", self.put_commands),
            ("GET", "/channels/{channel}", self.get_channel),
            ("GET", "/channels/{channel}/messages", self.list_messages),
            ("POST", "/channels/{channel}/messages", self.create_message),
            ("GET", "/channels/{channel}/messages/{message}", self.get_message),
            ("PATCH", "/channels/{channel}/messages/{message}", self.edit_message),
            ("DELETE", "/channels/{channel}/messages/{message}", self.delete_message),
            ("POST", "/channels/{channel}/typing", self.typing),
            ("PUT", "/channels/{channel}/messages/{message}/reactions/{emoji}/@me", self.react),
            ("GET", "/guilds/{guild}/members/{user}", self.get_member),
        ]
        for method, path, handler in (*table, *self.interactions.table()):
            app.router.add_route(method, base + path, handler)
        app.router.add_get("/gw/", self.loopback.gateway.handle)
        app.router.add_get("/attachments/{id}/{name}", self.download)
        app.router.add_route("*", "/{rest:.*}", self.unknown)
        return app

    # --- around every request ---

    @web.middleware
    async def _record(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        if not request.path.startswith("/api"):
            return await handler(request)
        path = request.path.removeprefix("/api/v10")
        body, files = await body_of(request)
        request[BODY], request[FILES] = body, files
        response = self._fault(request.method, path) or self._unauthorised(request)
        if response is None:
            await self._gate(path)
            self._check(openapi.request_problems(request.method, path, body) if body is not None else [])
            made = await handler(request)
            assert isinstance(made, web.Response)
            response = made
            self._check_response(request.method, path, made)
        await self._meanwhile(path)
        self.calls.append(Call(request.method, path, body, response.status, wall_now()))
        self.loopback.changed()
        return response

    async def _gate(self, path: str) -> None:
        for gate in [gate for pattern, gate in self.gates.items() if re.search(pattern, path)]:
            self.waiting.append(path)
            self.loopback.changed()
            await gate.wait()

    async def _meanwhile(self, path: str) -> None:
        for pattern in [pattern for pattern in self.on_the_way if re.search(pattern, path)]:
            await self.on_the_way.pop(pattern)()

    def _fault(self, method: str, path: str) -> web.Response | None:
        for fault in self.faults:
            if fault.times > 0 and fault.method == method and fault.path.search(path):
                if fault.spare:
                    fault.spare -= 1
                    continue
                fault.times -= 1
                return reply(fault.body, fault.status, fault.headers)
        return None

    def _unauthorised(self, request: web.Request) -> web.Response | None:
        if "/webhooks/" in request.path or "/interactions/" in request.path:
            return None
        known = request.headers.get("Authorization") == f"Bot {self.token}"
        return None if known else error(401, 0, "401: Unauthorized")

    def _check_response(self, method: str, path: str, response: web.Response) -> None:
        if isinstance(response.body, bytes) and response.content_type == "application/json":
            body = json.loads(response.body)
            self._check(openapi.response_problems(method, path, response.status, body))

    def _check(self, problems: list[str]) -> None:
        self.violations.extend(problems)

    async def unknown(self, request: web.Request) -> web.Response:
        self.violations.append(f"{request.method} {request.path} is not served by the loopback")
        return error(404, 0, "404: Not Found")

    # --- files ---

    def upload(self, file: Upload) -> Json:
        """The attachment that a file becomes; the bot can download it."""
        id_ = self.world.snowflake()
        path = f"/attachments/{id_}/{file.name}"
        self.uploads[path] = file
        url = f"http://127.0.0.1:{self.loopback.port}{path}"
        return payloads.attachment(id_, file.name, file.content_type) | {
            "size": len(file.content),
            "url": url,
            "proxy_url": url,
        }

    async def download(self, request: web.Request) -> web.Response:
        file = self.uploads.get(request.path)
        self.downloaded.append(request.path_qs)
        return web.Response(body=file.content) if file else web.Response(status=404)

    # --- who am I, where to ---

    async def gateway(self, request: web.Request) -> web.Response:
        return reply({"url": self.loopback.gateway.url})

    async def gateway_bot(self, request: web.Request) -> web.Response:
        return reply(payloads.gateway_bot(self.loopback.gateway.url, self.loopback.shards))

    async def me(self, request: web.Request) -> web.Response:
        return reply(payloads.me(self.world.bot))

    async def application(self, request: web.Request) -> web.Response:
        return reply(payloads.application(self.world.bot, self.world.owner, self.world.team))

    async def open_dm(self, request: web.Request) -> web.Response:
        person = self.world.users[int(json_of(request)["recipient_id"])]
        return reply(payloads.channel(self.world.add_dm(person)))

    async def list_commands(self, request: web.Request) -> web.Response:
        return reply(self.world.commands)

    async def put_commands(self, request: web.Request) -> web.Response:
        bot = self.world.bot.id
        given = request[BODY]
        assert isinstance(given, list)
        self.world.commands = [payloads.command(c, self.world.snowflake(), bot) for c in given]
        return reply(self.world.commands)

    async def get_member(self, request: web.Request) -> web.Response:
        guild = self.world.guilds.get(int(request.match_info["guild"]))
        member = guild.members.get(int(request.match_info["user"])) if guild else None
        return reply(payloads.member(member)) if member else error(404, 10_007, "Unknown Member")

    # --- channels and messages ---

    def _channel(self, request: web.Request, *needs: str) -> Channel | web.Response:
        channel = self.world.channels.get(int(request.match_info["channel"]))
        if channel is None:
            return error(404, 10_003, "Unknown Channel")
        held = self.world.permissions(channel, self.world.bot.id)
        if not held.view_channel:
            return error(403, 50_001, "Missing Access")
        if not all(getattr(held, need) for need in needs):
            return error(403, 50_013, "Missing Permissions")
        return channel

    async def get_channel(self, request: web.Request) -> web.Response:
        channel = self._channel(request)
        return channel if isinstance(channel, web.Response) else reply(payloads.channel(channel))

    async def list_messages(self, request: web.Request) -> web.Response:
        channel = self._channel(request)
        if isinstance(channel, web.Response):
            return channel
        if not self.world.permissions(channel, self.world.bot.id).read_message_history:
            return reply([])  # as Discord does: no error, nothing to read
        ask = request.query
        limit = int(ask.get("limit", 50))
        if not 1 <= limit <= 100:
            return error(400, 50_035, "Invalid Form Body")
        before, after = int(ask.get("before", 2**63)), int(ask.get("after", 0))
        return reply(self.world.page(channel.id, before=before, after=after, limit=limit))

    async def create_message(self, request: web.Request) -> web.Response:
        channel = self._channel(request, "send_messages")
        if isinstance(channel, web.Response):
            return channel
        body = json_of(request)
        if len(body.get("content") or "") > 2000 or not (body.get("content") or body.get("embeds")):
            return error(400, 50_035, "Invalid Form Body")
        if limited := self._rate_limited(channel.id):
            return limited
        target = (body.get("message_reference") or {}).get("message_id")
        extra: Json = {"embeds": body.get("embeds") or [], "nonce": body.get("nonce")}
        made = self.world.post(
            channel, self.world.bot, body.get("content") or "", reply_to=int(target) if target else None, extra=extra
        )
        made["_allowed_mentions"] = body.get("allowed_mentions")
        await self.dispatch("MESSAGE_CREATE", made)
        return reply(public(made))

    def _rate_limited(self, channel_id: int) -> web.Response | None:
        """With `messages_per_s` set, a channel takes that many posts per second, the rest get Discord's 429."""
        allowed = self.loopback.messages_per_s
        now = time.monotonic()
        used, since = self._slots.get(channel_id, (0, now))
        if now - since >= 1:
            used, since = 0, now
        self._slots[channel_id] = (used + 1, since)
        if not allowed or used < allowed:
            return None
        wait = max(0.05, 1 - (now - since))
        return reply(rate_limit_body(wait), 429, {"Via": "1.1 loopback", "Retry-After": str(wait)})

    async def get_message(self, request: web.Request) -> web.Response:
        channel = self._channel(request, "read_message_history")
        if isinstance(channel, web.Response):
            return channel
        found = self.world.messages[channel.id].get(int(request.match_info["message"]))
        return reply(public(found)) if found else error(404, 10_008, "Unknown Message")

    async def edit_message(self, request: web.Request) -> web.Response:
        channel = self._channel(request)
        if isinstance(channel, web.Response):
            return channel
        found = self.world.messages[channel.id].get(int(request.match_info["message"]))
        if found is None:
            return error(404, 10_008, "Unknown Message")
        return reply(public(await self._revise(found, json_of(request))))

    async def _revise(self, found: Json, body: Json) -> Json:
        found["content"] = body.get("content") or found["content"]
        found["edited_timestamp"] = payloads.iso(wall_now())
        found.setdefault("_versions", []).append(found["content"])
        await self.dispatch("MESSAGE_UPDATE", found)
        return found

    async def delete_message(self, request: web.Request) -> web.Response:
        channel = self._channel(request)
        if isinstance(channel, web.Response):
            return channel
        await self.loopback.delete(channel, int(request.match_info["message"]))
        return empty()

    async def typing(self, request: web.Request) -> web.Response:
        channel = self._channel(request, "send_messages")
        return channel if isinstance(channel, web.Response) else empty()

    async def react(self, request: web.Request) -> web.Response:
        channel = self._channel(request, "add_reactions")
        if isinstance(channel, web.Response):
            return channel
        found = self.world.messages[channel.id].get(int(request.match_info["message"]))
        if found is None:
            return error(404, 10_008, "Unknown Message")
        found.setdefault("_reactions", []).append(request.match_info["emoji"])
        return empty()

    async def dispatch(self, event: str, message: Json) -> None:
        channel = self.world.channels[int(message["channel_id"])]
        await self.loopback.gateway.dispatch(event, public(self.world.event(message)), channel.guild_id)
