"""The loopback's slash commands: how a bot answers an interaction, from "is thinking" to follow-ups."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from aiohttp import web

from . import payloads
from .payloads import Channel, Json
from .wire import Handler, empty, error, files_of, json_of, public, reply
from .world import World

EPHEMERAL = 64
LOADING = 128


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


class Interactions:
    """Handlers for the callback and for the webhook that follows it; `open` holds them by token."""

    def __init__(self, world: World, dispatch: Callable[[str, Json], Awaitable[None]]) -> None:
        self._world, self._dispatch = world, dispatch
        self.open: dict[str, Interaction] = {}

    def table(self) -> list[tuple[str, str, Handler]]:
        return [
            ("POST", "/interactions/{interaction}/{token}/callback", self.callback),
            ("POST", "/webhooks/{application}/{token}", self.followup),
            ("GET", "/webhooks/{application}/{token}/messages/@original", self.get_original),
            ("PATCH", "/webhooks/{application}/{token}/messages/@original", self.edit_original),
            ("PATCH", "/webhooks/{application}/{token}/messages/{message}", self.edit_followup),
            ("DELETE", "/webhooks/{application}/{token}/messages/@original", self.delete_original),
        ]

    def _interaction(self, request: web.Request) -> Interaction | web.Response:
        found = self.open.get(request.match_info["token"])
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
        shown = {"resource": {"type": 4, "message": public(message)}} if body["type"] == 4 else {}
        return reply({"interaction": about} | shown)

    async def _respond(self, found: Interaction, data: Json) -> Json:
        hidden = bool(data.get("flags", 0) & EPHEMERAL)
        extra: Json = {
            "flags": data.get("flags", 0) & (EPHEMERAL | LOADING),
            "type": 20,
            "webhook_id": str(self._world.bot.id),
            "application_id": str(self._world.bot.id),
            "embeds": data.get("embeds") or [],
        }
        made = self._world.post(found.channel, self._world.bot, data.get("content") or "", extra=extra)
        made["_allowed_mentions"] = data.get("allowed_mentions")
        if hidden:
            del self._world.messages[found.channel.id][int(made["id"])]
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
            return reply(public(await self._finish(found.original, json_of(request))))  # it takes the deferral's place
        return reply(public(await self._respond(found, json_of(request))))

    async def get_original(self, request: web.Request) -> web.Response:
        found = self._interaction(request)
        if isinstance(found, web.Response):
            return found
        return reply(public(found.original)) if found.original else error(404, 10_008, "Unknown Message")

    async def edit_original(self, request: web.Request) -> web.Response:
        found = self._interaction(request)
        if isinstance(found, web.Response):
            return found
        found.files.update(files_of(request))
        if found.original is None:
            return error(404, 10_008, "Unknown Message")
        return reply(public(await self._finish(found.original, json_of(request))))

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
                return reply(public(message))
        return error(404, 10_008, "Unknown Message")

    async def delete_original(self, request: web.Request) -> web.Response:
        return empty()
