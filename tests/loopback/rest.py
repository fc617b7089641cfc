"""The loopback's REST v10: the routes that a bot of our kind calls, each with Discord's answers and error codes."""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from aiohttp import web

from . import openapi, payloads
from .payloads import Channel, Json

if TYPE_CHECKING:
    from .server import Loopback

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
EPHEMERAL = 64
LOADING = 128
BODY = web.RequestKey("body", object)
FILES = web.RequestKey("files", dict[str, bytes])


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


@dataclass(slots=True)
class Interaction:
    """A slash command on its way, and everything that the bot answered to it."""

    id: int
    token: str
    channel: Channel
    callbacks: list[Json] = field(default_factory=list)
    messages: list[Json] = field(default_factory=list)
    original: Json | None = None
    files: dict[str, bytes] = field(default_factory=dict)

    @property
    def ephemeral(self) -> bool:
        data = self.callbacks[0].get("data") or {}
        return bool(data.get("flags", 0) & EPHEMERAL)

    @property
    def text(self) -> str:
        return "\n".join(message["content"] for message in self.messages)


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


class Rest:
    """Handlers over the world's state; `calls` and `violations` are what tests look at."""

    def __init__(self, loopback: Loopback) -> None:
        self.loopback = loopback
        self.world = loopback.world
        self.faults: list[Fault] = []
        self.calls: list[Call] = []
        self.violations: list[str] = []
        self.interactions: dict[str, Interaction] = {}
        self.delay_s: dict[str, float] = {}
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
            ("POST", "/interactions/{interaction}/{token}/callback", self.callback),
            ("POST", "/webhooks/{application}/{token}", self.followup),
            ("GET", "/webhooks/{application}/{token}/messages/@original", self.get_original),
            ("PATCH", "/webhooks/{application}/{token}/messages/@original", self.edit_original),
            ("PATCH", "/webhooks/{application}/{token}/messages/{message}", self.edit_followup),
            ("DELETE", "/webhooks/{application}/{token}/messages/@original", self.delete_original),
        ]
        for method, path, handler in table:
            app.router.add_route(method, base + path, handler)
        app.router.add_get("/gw/", self.loopback.gateway.handle)
        app.router.add_route("*", "/{rest:.*}", self.unknown)
        return app

    # --- around every request ---

    @web.middleware
    async def _record(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        if request.path.startswith("/gw"):
            return await handler(request)
        path = request.path.removeprefix("/api/v10")
        body, files = await body_of(request)
        request[BODY], request[FILES] = body, files
        response = self._fault(request.method, path) or self._unauthorised(request)
        if response is None:
            await asyncio.sleep(self._delay(path))
            self._check(openapi.request_problems(request.method, path, body) if body is not None else [])
            made = await handler(request)
            assert isinstance(made, web.Response)
            response = made
            self._check_response(request.method, path, made)
        self.calls.append(Call(request.method, path, body, response.status, time.time()))
        self.loopback.changed()
        return response

    def _delay(self, path: str) -> float:
        return max((s for pattern, s in self.delay_s.items() if re.search(pattern, path)), default=0.0)

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

    # --- who am I, where to ---

    async def gateway(self, request: web.Request) -> web.Response:
        return reply({"url": self.loopback.gateway.url})

    async def gateway_bot(self, request: web.Request) -> web.Response:
        return reply(payloads.gateway_bot(self.loopback.gateway.url, self.loopback.shards))

    async def me(self, request: web.Request) -> web.Response:
        return reply(payloads.me(self.world.bot))

    async def application(self, request: web.Request) -> web.Response:
        return reply(payloads.application(self.world.bot, self.world.owner))

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
        await self._dispatch("MESSAGE_CREATE", made)
        return reply(_public(made))

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
        return reply(_public(found)) if found else error(404, 10_008, "Unknown Message")

    async def edit_message(self, request: web.Request) -> web.Response:
        channel = self._channel(request)
        if isinstance(channel, web.Response):
            return channel
        found = self.world.messages[channel.id].get(int(request.match_info["message"]))
        if found is None:
            return error(404, 10_008, "Unknown Message")
        return reply(_public(await self._revise(found, json_of(request))))

    async def _revise(self, found: Json, body: Json) -> Json:
        found["content"] = body.get("content") or found["content"]
        found["edited_timestamp"] = payloads.iso(time.time())
        found.setdefault("_versions", []).append(found["content"])
        await self._dispatch("MESSAGE_UPDATE", found)
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

    async def _dispatch(self, event: str, message: Json) -> None:
        channel = self.world.channels[int(message["channel_id"])]
        await self.loopback.gateway.dispatch(event, _public(self.world.event(message)), channel.guild_id)

    # --- interactions ---

    def _interaction(self, request: web.Request) -> Interaction | web.Response:
        found = self.interactions.get(request.match_info["token"])
        return found or error(404, 10_062, "Unknown interaction")

    async def callback(self, request: web.Request) -> web.Response:
        found = self._interaction(request)
        if isinstance(found, web.Response):
            return found
        if found.callbacks:
            return error(400, 40_060, "Interaction has already been acknowledged.")
        body = json_of(request)
        found.callbacks.append(body)
        found.files.update(files_of(request))
        data = body.get("data") or {}
        if body["type"] == 5:  # "is thinking": a message that is still loading
            data = {"flags": data.get("flags", 0) | LOADING}
        found.original = message = await self._respond(found, data)
        about = {"id": str(found.id), "type": 2, "response_message_id": message["id"]}
        shown = {"resource": {"type": 4, "message": _public(message)}} if body["type"] == 4 else {}
        return reply({"interaction": about} | shown)

    async def _respond(self, found: Interaction, data: Json) -> Json:
        hidden = bool(data.get("flags", 0) & EPHEMERAL)
        extra: Json = {
            "flags": data.get("flags", 0) & (EPHEMERAL | LOADING),
            "type": 20,
            "webhook_id": str(self.world.bot.id),
            "application_id": str(self.world.bot.id),
            "embeds": data.get("embeds") or [],
        }
        made = self.world.post(found.channel, self.world.bot, data.get("content") or "", extra=extra)
        made["_allowed_mentions"] = data.get("allowed_mentions")
        if hidden:
            del self.world.messages[found.channel.id][int(made["id"])]
        else:
            await self._dispatch("MESSAGE_CREATE", made)
        found.messages.append(made)
        return made

    async def followup(self, request: web.Request) -> web.Response:
        found = self._interaction(request)
        if isinstance(found, web.Response):
            return found
        found.files.update(files_of(request))
        if found.original and found.original["flags"] & LOADING:
            return reply(_public(await self._finish(found.original, json_of(request))))  # it takes the deferral's place
        return reply(_public(await self._respond(found, json_of(request))))

    async def get_original(self, request: web.Request) -> web.Response:
        found = self._interaction(request)
        if isinstance(found, web.Response):
            return found
        return reply(_public(found.original)) if found.original else error(404, 10_008, "Unknown Message")

    async def edit_original(self, request: web.Request) -> web.Response:
        found = self._interaction(request)
        if isinstance(found, web.Response):
            return found
        found.files.update(files_of(request))
        if found.original is None:
            return error(404, 10_008, "Unknown Message")
        return reply(_public(await self._finish(found.original, json_of(request))))

    async def _finish(self, message: Json, body: Json) -> Json:
        """An edit of an interaction's answer; the first one after "is thinking" is no edit in people's eyes."""
        message["content"] = body.get("content") or message["content"]
        message["_allowed_mentions"] = body.get("allowed_mentions")
        if message["flags"] & LOADING:
            message["flags"] &= ~LOADING
        else:
            message["edited_timestamp"] = payloads.iso(time.time())
        if not message["flags"] & EPHEMERAL:
            await self._dispatch("MESSAGE_UPDATE", message)
        return message

    async def edit_followup(self, request: web.Request) -> web.Response:
        found = self._interaction(request)
        if isinstance(found, web.Response):
            return found
        for message in found.messages:
            if message["id"] == request.match_info["message"]:
                message["content"] = json_of(request).get("content") or message["content"]
                return reply(_public(message))
        return error(404, 10_008, "Unknown Message")

    async def delete_original(self, request: web.Request) -> web.Response:
        return empty()


def rate_limit_body(retry_after_s: float) -> Json:
    return {"message": "You are being rate limited.", "retry_after": retry_after_s, "global": False, "code": 0}


def _public(message: Json) -> Json:
    """Without our own notes (leading underscore) and without a null nonce."""
    return {k: v for k, v in message.items() if not k.startswith("_") and not (k == "nonce" and v is None)}
