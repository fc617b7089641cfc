"""The bot itself: discord.py's client with our cogs. In: settings, Memory. Out: a running bot that leaves in order."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import AsyncIterator

import discord
import structlog
import yarl
from discord.ext import commands

from bot.asking.cog import Ask
from bot.asking.traces import Traces
from bot.backfill.cog import Backfill
from bot.backfill.session_gaps import Sessions
from bot.errors import WITHOUT_LOGIN, Tree
from bot.history.discord_history import DiscordHistory
from bot.listening.cog import Listen
from bot.ops.metrics import Door, Metrics
from bot.privacy.cog import Privacy
from channelmem.errors import ConfigError, RedisUnavailableError
from channelmem.llm.opening import open_llm
from channelmem.llm.responder import Speaker
from channelmem.memory import Memory
from channelmem.settings import Settings

DRAIN_S = 5.0

log = structlog.get_logger(__name__)


def intents() -> discord.Intents:
    """The least that serves: no member list, no presences."""
    return discord.Intents(
        guilds=True, guild_messages=True, dm_messages=True, guild_reactions=True, message_content=True
    )


def redirect(settings: Settings) -> None:
    """Sends discord.py to a REST proxy or another gateway where the settings say so."""
    if settings.discord_api_base:
        discord.http.Route.BASE = settings.discord_api_base.rstrip("/")
    if settings.discord_gateway:
        discord.gateway.DiscordWebSocket.DEFAULT_GATEWAY = yarl.URL(settings.discord_gateway)


class Bot(commands.AutoShardedBot):
    def __init__(
        self,
        settings: Settings,
        memory: Memory,
        history: DiscordHistory,
        *,
        llm: Speaker | None = None,
        guild_ready_timeout: float = 2.0,
    ) -> None:
        self.settings, self.memory, self.history, self.llm = settings, memory, history, llm
        self.metrics = Metrics()
        self.sessions = Sessions(memory)
        self.traces = Traces()
        super().__init__(
            command_prefix=commands.when_mentioned,
            help_command=None,
            intents=intents(),
            tree_cls=Tree,
            chunk_guilds_at_startup=False,
            allowed_mentions=discord.AllowedMentions.none(),
            http_trace=self.metrics.trace(),
            guild_ready_timeout=guild_ready_timeout,
            max_messages=None,
        )
        history.attach(self)
        self.listen_cog, self._ask = Listen(self), Ask(self)
        self._door = Door(self.metrics, self.health, self._refresh)

    @property
    def me(self) -> discord.ClientUser:
        if self.user is None:
            raise RuntimeError("no event comes before log-in")
        return self.user

    async def setup_hook(self) -> None:
        for cog in (self.listen_cog, self._ask, Privacy(self), Backfill(self)):
            await self.add_cog(cog)
        await self.tree.sync()
        if self.settings.metrics_port:
            await self._open_door(self.settings.metrics_port)
            log.info("metrics and health", port=self._door.port)

    async def _open_door(self, port: int) -> None:
        try:
            await self._door.open(port)
        except OSError as error:
            raise ConfigError(f"CHANNELMEM_METRICS_PORT {port} cannot be opened: {error.strerror or error}") from error

    async def on_ready(self) -> None:
        log.info("ready", guilds=len(self.guilds), shards=self.shard_count)

    async def on_message(self, message: discord.Message, /) -> None:
        """The cogs hear messages; there are no prefix commands to look for."""

    def health(self) -> dict[str, bool]:
        # Once ready, discord.py stays so while it reconnects; only the shards tell.
        connected = self.is_ready() and not any(shard.is_closed() for shard in self.shards.values())
        return {"discord": connected, "redis": self.memory.available}

    async def _refresh(self) -> None:
        """Figures that are asked for only when somebody looks."""
        metrics, memory = self.metrics, self.memory
        metrics.redis.set(memory.available)
        metrics.queued.set(memory.queued)
        metrics.dropped.set(memory.dropped)
        with contextlib.suppress(RedisUnavailableError):
            metrics.pending.set(await memory.pending())
            metrics.lag.set(await memory.lag_s())

    async def leave(self) -> None:
        """Finishes the answers that are under way, then goes."""
        await self._ask.drain(DRAIN_S)
        if self.llm is not None:
            await self.llm.close()
        await self.close()

    async def close(self) -> None:
        await self._door.close()
        await super().close()


@contextlib.asynccontextmanager
async def stopping(stop: asyncio.Event) -> AsyncIterator[None]:
    """SIGTERM and SIGINT set the event while this is open."""
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    try:
        yield
    finally:
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.remove_signal_handler(number)


async def run(settings: Settings, *, guild_ready_timeout: float = 2.0) -> None:
    """Runs until a signal comes; raises what keeps it from starting."""
    if settings.discord_token is None:
        raise ConfigError(WITHOUT_LOGIN)
    redirect(settings)
    history = DiscordHistory(settings)
    stop = asyncio.Event()
    async with stopping(stop), Memory.open(settings, history=history, patient=True) as memory:
        llm = open_llm(settings, memory)
        bot = Bot(settings, memory, history, llm=llm, guild_ready_timeout=guild_ready_timeout)
        if llm is not None:
            llm.on_tokens = lambda direction, count: bot.metrics.tokens.labels(direction=direction).inc(count)
        await _until(stop, bot, settings.discord_token.get_secret_value())
        # Not for long: supervisors kill. What has no vector gets it next time, what Redis never saw is fetched again.
        with contextlib.suppress(RedisUnavailableError):
            await memory.flush(DRAIN_S)
    log.info("left")


async def _until(stop: asyncio.Event, bot: Bot, token: str) -> None:
    async with bot:
        running = asyncio.create_task(bot.start(token))
        asked = asyncio.create_task(stop.wait())
        await asyncio.wait({running, asked}, return_when=asyncio.FIRST_COMPLETED)
        asked.cancel()
        if not running.done():
            log.info("leaving")
            await bot.leave()
            running.cancel()  # it may still be logging in, and fails then because we left
            await asyncio.gather(running, return_exceptions=True)
            return
        await running
