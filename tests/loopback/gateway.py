"""The loopback's websocket side: sessions that identify, receive events, break off and resume.

What enters are dispatches of the world; what leaves are numbered frames, kept per session so that RESUME replays them.
"""

from __future__ import annotations

import asyncio
import itertools
import json
from dataclasses import dataclass, field

from aiohttp import WSMsgType, web

from . import payloads
from .payloads import Json, Member
from .world import World

DISPATCH, HEARTBEAT, IDENTIFY, RESUME, INVALID, HELLO, ACK = 0, 1, 2, 6, 9, 10, 11
PRIVILEGED = 4014
MESSAGE_CONTENT = 1 << 15


@dataclass(slots=True)
class Session:
    """One shard's session; it outlives its socket until it is dropped."""

    id: str
    shard: int
    shards: int
    intents: int
    frames: list[Json] = field(default_factory=list)
    socket: web.WebSocketResponse | None = None
    """None while the client is away: events are only kept."""

    def owns(self, guild_id: int | None) -> bool:
        return self.shard == ((guild_id >> 22) % self.shards if guild_id else 0)


def _is_called(member: Member, beginning: str) -> bool:
    names = (member.nick, member.user.global_name, member.user.username)
    return any(name.casefold().startswith(beginning) for name in names if name)


class Gateway:
    def __init__(self, world: World) -> None:
        self.world = world
        self.sessions: dict[str, Session] = {}
        self.identified: list[Json] = []
        self.resumed = 0
        self.refuse_privileged = False
        self.member_requests: list[Json] = []
        self.mute_members = False
        """Requests for members get no answer."""
        self.url = ""
        self._numbers = itertools.count(1)

    @property
    def connected(self) -> list[Session]:
        return [s for s in self.sessions.values() if s.socket is not None]

    async def handle(self, request: web.Request) -> web.WebSocketResponse:
        socket = web.WebSocketResponse()
        await socket.prepare(request)
        await socket.send_json({"op": HELLO, "d": {"heartbeat_interval": 41_250}})
        async for frame in socket:
            if frame.type is not WSMsgType.TEXT:
                break
            await self._receive(socket, json.loads(frame.data))
        for session in self.connected:
            if session.socket is socket:
                session.socket = None
        return socket

    async def _receive(self, socket: web.WebSocketResponse, frame: Json) -> None:
        match frame["op"]:
            case 1:
                await socket.send_json({"op": ACK, "d": None})
            case 2:
                await self._identify(socket, frame["d"])
            case 6:
                await self._resume(socket, frame["d"])
            case 8:
                await self._members(socket, frame["d"])
            case _:
                pass  # presence and voice updates change nothing that a test looks at

    async def _identify(self, socket: web.WebSocketResponse, data: Json) -> None:
        self.identified.append(data)
        if self.refuse_privileged and data["intents"] & MESSAGE_CONTENT:
            await socket.close(code=PRIVILEGED, message=b"Disallowed intent(s).")
            return
        shard, shards = data.get("shard", [0, 1])
        session = Session(f"session-{next(self._numbers)}", shard, shards, data["intents"], socket=socket)
        self.sessions[session.id] = session
        guilds = [g for g in self.world.guilds.values() if session.owns(g.id) and self.world.bot.id in g.members]
        await self._send(session, "READY", self._ready(session, [g.id for g in guilds]))
        for guild in guilds:
            await self._send(session, "GUILD_CREATE", payloads.guild(guild, self.world.bot.id))

    def _ready(self, session: Session, guild_ids: list[int]) -> Json:
        return {
            "v": 10,
            "user": payloads.me(self.world.bot),
            "guilds": [{"id": str(id_), "unavailable": True} for id_ in guild_ids],
            "session_id": session.id,
            "resume_gateway_url": self.url,
            "shard": [session.shard, session.shards],
            "application": {"id": str(self.world.bot.id), "flags": 0},
        }

    async def _resume(self, socket: web.WebSocketResponse, data: Json) -> None:
        session = self.sessions.get(data["session_id"])
        if session is None:
            await socket.send_json({"op": INVALID, "d": False})
            return
        session.socket = socket
        self.resumed += 1
        for frame in session.frames[data["seq"] or 0 :]:
            await socket.send_json(frame)
        await self._send(session, "RESUMED", {})

    async def _members(self, socket: web.WebSocketResponse, data: Json) -> None:
        """Members by id, or a few whose name begins with a query; neither needs a privileged intent."""
        self.member_requests.append(data)
        if self.mute_members:
            return
        guild = self.world.guilds[int(data["guild_id"])]
        wanted = {int(id_) for id_ in data.get("user_ids") or []}
        found = [m for id_, m in guild.members.items() if id_ in wanted]
        if query := (data.get("query") or "").casefold():
            found = [m for m in guild.members.values() if _is_called(m, query)][: data["limit"]]
        chunk = {
            "guild_id": str(guild.id),
            "members": [payloads.member(m) for m in found],
            "not_found": [str(id_) for id_ in wanted - set(guild.members)],
            "chunk_index": 0,
            "chunk_count": 1,
            "nonce": data.get("nonce"),
        }
        for session in self.connected:
            if session.socket is socket:
                await self._send(session, "GUILD_MEMBERS_CHUNK", chunk)

    async def dispatch(self, event: str, data: Json, guild_id: int | None) -> None:
        """Sends an event to the shard that owns the guild, or keeps it for that shard's RESUME."""
        for session in self.sessions.values():
            if session.owns(guild_id):
                await self._send(session, event, data)

    async def _send(self, session: Session, event: str, data: Json) -> None:
        frame = {"op": DISPATCH, "s": len(session.frames) + 1, "t": event, "d": data}
        session.frames.append(frame)
        if session.socket is not None and not session.socket.closed:
            await session.socket.send_json(frame)

    async def cut(self, *, resumable: bool) -> None:
        """Breaks every connection. Not resumable: the sessions are gone, what happens meanwhile is missed."""
        lost = self.connected
        sockets = [s.socket for s in lost if s.socket is not None]
        for session in lost:
            session.socket = None
            if not resumable:
                del self.sessions[session.id]
        await asyncio.gather(*(socket.close(code=4000, message=b"cut") for socket in sockets))
