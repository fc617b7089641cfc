"""The loopback Discord: a real HTTP and websocket server, and the hands with which a test plays the people in it."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from typing import Self, TypeVar

import discord
import yarl
from aiohttp import web
from clock import wall_now

from . import payloads
from .gateway import Gateway
from .hands import Hands
from .payloads import Channel, Guild, Json, User
from .rest import Call, Fault, Rest
from .wire import rate_limit_body
from .world import World

T = TypeVar("T")

PATIENCE_S = 60.0
"""A bound for tests that hang; nothing is expected to take this long."""


class Loopback(Hands):
    """`async with Loopback() as discord_`: people speak with `say`, `slash`, `click`; answers are awaited."""

    def __init__(self, *, shards: int = 1) -> None:
        self.shards = shards
        self.world = World()
        self.gateway = Gateway(self.world)
        self.rest = Rest(self)
        self.messages_per_s = 0
        self._changed = asyncio.Event()
        self._runner: web.AppRunner | None = None
        self.port = 0

    async def __aenter__(self) -> Self:
        self._runner = web.AppRunner(self.rest.app(), shutdown_timeout=0.2)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        self.port = self._runner.addresses[0][1]
        self.gateway.url = self.gateway_url
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.gateway.cut(resumable=False)
        if self._runner is not None:
            await self._runner.cleanup()

    @property
    def api_base(self) -> str:
        return f"http://127.0.0.1:{self.port}/api/v10"

    @property
    def gateway_url(self) -> str:
        return f"ws://127.0.0.1:{self.port}/gw/"

    # --- waiting ---

    def changed(self) -> None:
        self._changed.set()

    async def until(self, probe: Callable[[], T | None], timeout_s: float = PATIENCE_S) -> T:
        """Waits until the probe gives something; looks after every request of the bot, and now and then."""
        async with asyncio.timeout(timeout_s):
            while not (found := probe()):
                self._changed.clear()
                try:
                    await asyncio.wait_for(self._changed.wait(), 0.02)
                except TimeoutError:
                    continue
        return found

    async def ready(self, shards: int | None = None) -> None:
        """Until every shard is connected and has synced its commands."""
        await self.until(lambda: len(self.gateway.connected) >= (shards or self.shards))

    def calls(self, method: str, path: str) -> list[Call]:
        return [c for c in self.rest.calls if c.method == method and re.search(path, c.path)]

    # --- faults ---

    def fail(self, method: str, path: str, status: int, *, times: int = 1, via: bool = True, spare: int = 0) -> None:
        """The next requests fail; a 429 carries what discord.py needs in order to wait and try again."""
        limited = status == 429
        body = rate_limit_body(0.1) if limited else {"code": 0, "message": f"{status}: injected"}
        headers = {"Retry-After": "0.1"} | ({"Via": "1.1 loopback"} if via else {}) if limited else {}
        self.rest.faults.append(Fault(method, re.compile(path), status, body, headers, times, spare))

    def hold(self, path: str) -> asyncio.Event:
        """Requests to this path wait until the event is set."""
        gate = self.rest.gates[path] = asyncio.Event()
        return gate

    async def until_held(self, path: str, count: int = 1) -> None:
        await self.until(lambda: len([one for one in self.rest.waiting if re.search(path, one)]) >= count)

    # --- what people do ---

    async def say(
        self,
        channel: Channel,
        author: User,
        text: str,
        *,
        reply_to: Json | None = None,
        extra: Json | None = None,
        at: float | None = None,
    ) -> Json:
        """Somebody writes; the bot hears it if it is connected, and may fetch it later in any case."""
        if at is None:
            await _next_millisecond()
        target = int(reply_to["id"]) if reply_to else None
        message = self.world.post(channel, author, text, reply_to=target, extra=extra, at=at)
        await self.gateway.dispatch("MESSAGE_CREATE", self.world.event(message), channel.guild_id)
        return message

    def wrote(self, channel: Channel, author: User, text: str, *, ago_s: float = 0) -> Json:
        """Was written while the bot was not there: history only, no event."""
        return self.world.post(channel, author, text, at=wall_now() - ago_s)

    async def edit(self, message: Json, text: str, *, unfurl: bool = False) -> None:
        """An edit, or the update that Discord sends on its own when it has unfurled a link."""
        message["content"] = text
        if not unfurl:
            message["edited_timestamp"] = payloads.iso(wall_now())
        await self._event("MESSAGE_UPDATE", message)

    async def _event(self, event: str, message: Json) -> None:
        channel = self.world.channels[int(message["channel_id"])]
        await self.gateway.dispatch(event, self.world.event(message), channel.guild_id)

    async def delete(self, channel: Channel, *ids: int) -> None:
        for id_ in ids:
            self.world.messages[channel.id].pop(id_, None)
        base = {"channel_id": str(channel.id)} | ({"guild_id": str(channel.guild_id)} if channel.guild_id else {})
        if len(ids) == 1:
            await self.gateway.dispatch("MESSAGE_DELETE", base | {"id": str(ids[0])}, channel.guild_id)
        else:
            bulk = base | {"ids": [str(id_) for id_ in ids]}
            await self.gateway.dispatch("MESSAGE_DELETE_BULK", bulk, channel.guild_id)

    async def react(self, message: Json, person: User, emoji: str) -> None:
        channel = self.world.channels[int(message["channel_id"])]
        body: Json = {
            "user_id": str(person.id),
            "channel_id": message["channel_id"],
            "message_id": message["id"],
            "message_author_id": message["author"]["id"],
            "emoji": {"id": None, "name": emoji},
            "burst": False,
            "type": 0,
        }
        if channel.guild_id:
            body |= {"guild_id": str(channel.guild_id), "member": self._member(channel, person)}
        await self.gateway.dispatch("MESSAGE_REACTION_ADD", body, channel.guild_id)

    def _member(self, channel: Channel, person: User) -> Json:
        assert channel.guild_id is not None
        return payloads.member(self.world.guilds[channel.guild_id].members[person.id])

    async def add_thread(self, parent: Channel, name: str) -> Channel:
        assert parent.guild_id is not None
        guild = self.world.guilds[parent.guild_id]
        thread = self.world.add_channel(guild, name, payloads.PUBLIC_THREAD, parent=parent)
        await self.gateway.dispatch("THREAD_CREATE", payloads.channel(thread) | {"newly_created": True}, guild.id)
        return thread

    async def remove_channel(self, channel: Channel) -> None:
        assert channel.guild_id is not None
        self.world.guilds[channel.guild_id].channels.pop(channel.id)
        self.world.channels.pop(channel.id)
        event = "THREAD_DELETE" if channel.type == payloads.PUBLIC_THREAD else "CHANNEL_DELETE"
        await self.gateway.dispatch(event, payloads.channel(channel), channel.guild_id)

    async def remove_bot(self, guild: Guild) -> None:
        guild.members.pop(self.world.bot.id)
        await self.gateway.dispatch("GUILD_DELETE", {"id": str(guild.id)}, guild.id)

    async def invite_bot(self, guild: Guild) -> None:
        guild.members[self.world.bot.id] = payloads.Member(self.world.bot)
        body = payloads.guild(guild, self.world.bot.id)
        del body["unavailable"]  # this is what tells a join from a guild that comes back
        await self.gateway.dispatch("GUILD_CREATE", body, guild.id)

    # --- what the bot did ---

    def sent(self, channel: Channel) -> list[Json]:
        mine = str(self.world.bot.id)
        return [m for _, m in sorted(self.world.messages[channel.id].items()) if m["author"]["id"] == mine]

    def replies(self, to: Json) -> list[Json]:
        channel = self.world.channels[int(to["channel_id"])]
        refers = (m for m in self.sent(channel) if m.get("message_reference", {}).get("message_id") == to["id"])
        return list(refers)

    async def reply(self, to: Json, timeout_s: float = PATIENCE_S) -> Json:
        """The bot's answer to a message."""
        return (await self.until(lambda: self.replies(to), timeout_s))[0]

    async def ask(self, channel: Channel, person: User, text: str, *, reply_to: Json | None = None) -> str:
        """Mentions the bot and returns what it answers."""
        asked = await self.say(channel, person, f"{self.world.bot.mention} {text}", reply_to=reply_to)
        return str((await self.reply(asked))["content"])


def point_at(api_base: str, gateway: str) -> tuple[str, yarl.URL]:
    """Sends an unmodified discord.py to the loopback; returns what was there before."""
    before = (discord.http.Route.BASE, discord.gateway.DiscordWebSocket.DEFAULT_GATEWAY)
    discord.http.Route.BASE = api_base
    discord.gateway.DiscordWebSocket.DEFAULT_GATEWAY = yarl.URL(gateway)
    return before


async def _next_millisecond() -> None:
    """Ids count whole milliseconds: whoever speaks right after a decision must not seem to have spoken before it."""
    before = wall_now() * 1000
    while int(wall_now() * 1000) <= before:  # noqa: ASYNC110  (nothing to wait for)
        await asyncio.sleep(0.0005)
