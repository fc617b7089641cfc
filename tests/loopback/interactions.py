"""The loopback's interactions: how a bot answers commands, clicks and forms, from "is thinking" to follow-ups."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from aiohttp import web
from clock import wall_now

from . import components, payloads
from .payloads import Channel, Json, Upload, User
from .wire import Handler, empty, error, files_of, json_of, public, reply
from .world import World

EPHEMERAL, LOADING = 64, 128
COMMAND, COMPONENT, COMPLETION, FORM = 2, 3, 4, 5
"""What people do."""
MESSAGE, THINKING, LATER, UPDATE, CHOICES, MODAL = 4, 5, 6, 7, 8, 9
"""How a bot acknowledges it."""


@dataclass(slots=True)
class Interaction:
    """What somebody did, and everything that the bot answered to it."""

    id: int
    token: str
    channel: Channel
    person: User
    kind: int = COMMAND
    source: Json | None = None
    """The message that the component or the form belongs to."""
    callbacks: list[Json] = field(default_factory=list)
    messages: list[Json] = field(default_factory=list)
    """New messages only; an update changes the source."""
    original: Json | None = None
    files: dict[str, bytes] = field(default_factory=dict)
    began: float = field(default_factory=time.monotonic)
    acknowledged_s: float | None = None
    """How long the bot took for its callback; Discord gives it 3 s."""

    @property
    def ephemeral(self) -> bool:
        data = self.callbacks[0].get("data") or {}
        return bool(data.get("flags", 0) & EPHEMERAL)

    @property
    def text(self) -> str:
        return "\n".join(message["content"] for message in self.messages)

    @property
    def modal(self) -> Json:
        """The form that the bot opened."""
        assert self.callbacks[0]["type"] == MODAL
        shown: Json = self.callbacks[0]["data"]
        return shown

    @property
    def allowed(self) -> set[int]:
        """Which callbacks Discord takes for this."""
        if self.kind == COMPLETION:
            return {CHOICES}
        updates = {LATER, UPDATE} if self.source else set()
        return {MESSAGE, THINKING} | updates | (set() if self.kind == FORM else {MODAL})


class Interactions:
    """Handlers for the callback and for the webhook that follows it; `open` holds them by token."""

    def __init__(
        self,
        world: World,
        dispatch: Callable[[str, Json], Awaitable[None]],
        upload: Callable[[Upload], Json],
    ) -> None:
        self._world, self._dispatch, self._upload = world, dispatch, upload
        self.open: dict[str, Interaction] = {}

    def table(self) -> list[tuple[str, str, Handler]]:
        one = "/webhooks/{application}/{token}/messages/{message}"  # @original included
        return [
            ("POST", "/interactions/{interaction}/{token}/callback", self.callback),
            ("POST", "/webhooks/{application}/{token}", self.followup),
            ("GET", one, self.get_message),
            ("PATCH", one, self.edit_message),
            ("DELETE", one, self.delete_message),
        ]

    def _interaction(self, request: web.Request) -> Interaction | web.Response:
        found = self.open.get(request.match_info["token"])
        return found or error(404, 10_062, "Unknown interaction")

    # --- the callback ---

    async def callback(self, request: web.Request) -> web.Response:
        found = self._interaction(request)
        if isinstance(found, web.Response):
            return found
        if found.callbacks:
            return error(400, 40_060, "Interaction has already been acknowledged.")
        body = json_of(request)
        data = body.get("data") or {}
        if body["type"] not in found.allowed or components.problem(data):
            return error(400, 50_035, "Invalid Form Body")
        found.acknowledged_s = time.monotonic() - found.began
        found.callbacks.append(body)
        found.original = await self._take(found, body["type"], data, files_of(request))
        return reply(_acknowledgement(found, body["type"]))

    async def _take(self, found: Interaction, kind: int, data: Json, files: dict[str, bytes]) -> Json | None:
        """The message that `@original` means from now on."""
        found.files.update(files)
        if kind == THINKING:  # a message that is still loading
            data = {"flags": data.get("flags", 0) | LOADING}
        if kind in {MESSAGE, THINKING}:
            return await self._respond(found, data, files)
        if kind == UPDATE and found.source is not None:
            await self._revise(found.source, data, files)
        return found.source if kind in {LATER, UPDATE} else None

    async def _respond(self, found: Interaction, data: Json, files: dict[str, bytes]) -> Json:
        hidden = bool(data.get("flags", 0) & EPHEMERAL)
        extra: Json = {
            "flags": data.get("flags", 0) & (EPHEMERAL | LOADING),
            "type": 20,
            "webhook_id": str(self._world.bot.id),
            "application_id": str(self._world.bot.id),
            "embeds": data.get("embeds") or [],
            "components": components.numbered(data.get("components") or []),
            "attachments": self._attached(files),
        }
        made = self._world.post(found.channel, self._world.bot, data.get("content") or "", extra=extra)
        made["_allowed_mentions"] = data.get("allowed_mentions")
        if hidden:
            del self._world.messages[found.channel.id][int(made["id"])]
        else:
            await self._dispatch("MESSAGE_CREATE", made)
        found.messages.append(made)
        return made

    def _attached(self, files: dict[str, bytes]) -> list[Json]:
        return [self._upload(Upload(name, content)) for name, content in files.items()]

    async def _revise(self, message: Json, body: Json, files: dict[str, bytes]) -> Json:
        """An edit of an interaction's answer; the first one after "is thinking" is no edit in people's eyes."""
        components.apply(message, body)
        message["attachments"] += self._attached(files)
        message["_allowed_mentions"] = body.get("allowed_mentions")
        if message["flags"] & LOADING:
            message["flags"] &= ~LOADING
        else:
            message["edited_timestamp"] = payloads.iso(wall_now())
        if not message["flags"] & EPHEMERAL:
            await self._dispatch("MESSAGE_UPDATE", message)
        return message

    # --- afterwards ---

    async def followup(self, request: web.Request) -> web.Response:
        found, body, files = self._interaction(request), json_of(request), files_of(request)
        if isinstance(found, web.Response):
            return found
        if components.problem(body):
            return error(400, 50_035, "Invalid Form Body")
        found.files.update(files)
        if found.original and found.original["flags"] & LOADING:
            return reply(public(await self._revise(found.original, body, files)))  # it takes the deferral's place
        return reply(public(await self._respond(found, body, files)))

    def _message(self, request: web.Request) -> tuple[Interaction, Json] | web.Response:
        found, id_ = self._interaction(request), request.match_info["message"]
        if isinstance(found, web.Response):
            return found
        original = [found.original] if found.original else []
        wanted = original if id_ == "@original" else [m for m in (*original, *found.messages) if m["id"] == id_]
        there = [message for message in wanted if not message.get("_deleted")]
        return (found, there[0]) if there else error(404, 10_008, "Unknown Message")

    async def get_message(self, request: web.Request) -> web.Response:
        found = self._message(request)
        return found if isinstance(found, web.Response) else reply(public(found[1]))

    async def edit_message(self, request: web.Request) -> web.Response:
        found, body, files = self._message(request), json_of(request), files_of(request)
        if isinstance(found, web.Response):
            return found
        if components.problem(body):
            return error(400, 50_035, "Invalid Form Body")
        found[0].files.update(files)
        return reply(public(await self._revise(found[1], body, files)))

    async def delete_message(self, request: web.Request) -> web.Response:
        found = self._message(request)
        if isinstance(found, web.Response):
            return found
        interaction, message = found
        message["_deleted"] = True
        self._world.messages[interaction.channel.id].pop(int(message["id"]), None)
        return empty()


def _acknowledgement(found: Interaction, kind: int) -> Json:
    about: Json = {"id": str(found.id), "type": found.kind}
    if found.original is None:
        return {"interaction": about}
    about["response_message_id"] = found.original["id"]
    shown = {"resource": {"type": kind, "message": public(found.original)}} if kind in {MESSAGE, UPDATE} else {}
    return {"interaction": about} | shown
