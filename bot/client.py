"""The bot: discord.py's client with our cogs, its log, and its way from a start to a shutdown in order.

What people write is never passed to a logger. What libraries write is logged without secrets, without effect on a
terminal, and on one line.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable

import aiohttp
import discord
import structlog
import yarl
from discord.ext import commands

from channelmem.display import one_line, visible
from channelmem.errors import ChannelmemError, ConfigError, RedisUnavailableError
from channelmem.extras import load
from channelmem.interface import ChannelMemory
from channelmem.llm import Responder
from channelmem.llm.opening import open_responder, summariser_of
from channelmem.llm.prompts import known_characters
from channelmem.memory import Memory
from channelmem.settings import Settings, hide, load_settings

from .answers import OwnAnswers, Redacting, Traces
from .asking import Asking
from .backfill import Backfill, SessionGaps
from .commands import NO_PINGS, ErrorReportingTree, Help
from .contexts import Contexts
from .dashboards import Dashboards
from .history import DiscordHistory
from .listening import Listening, Naming
from .metrics import Metrics, StatusServer
from .past import HistoryCommands, SummaryCommands
from .privacy import ChannelPrivacy, Privacy

log = structlog.get_logger(__name__)

DRAIN_S = 5.0


def intents() -> discord.Intents:
    """The minimum: no member list, no presences."""
    return discord.Intents(
        guilds=True, guild_messages=True, dm_messages=True, guild_reactions=True, message_content=True
    )


def use_endpoints(settings: Settings) -> None:
    """Points discord.py at a REST proxy or another gateway if the settings name one."""
    if settings.discord_api_base:
        discord.http.Route.BASE = settings.discord_api_base.rstrip("/")
    if settings.discord_gateway:
        discord.gateway.DiscordWebSocket.DEFAULT_GATEWAY = yarl.URL(settings.discord_gateway)


class Bot(commands.AutoShardedBot):
    """Implements bot.context.BotContext."""

    def __init__(
        self,
        settings: Settings,
        memory: ChannelMemory,
        history: DiscordHistory,
        *,
        responder: Responder | None = None,
        metrics: Metrics | None = None,
        guild_ready_timeout: float = 2.0,
    ) -> None:
        self.settings, self.memory, self.history, self.responder = settings, memory, history, responder
        self.characters = known_characters(settings)
        self.metrics = metrics or Metrics()
        self.gaps = SessionGaps(memory)
        self.traces = Traces()
        memory.media.on_read = lambda kind, outcome: self.metrics.media.labels(kind=kind, outcome=outcome).inc()
        memory.media.on_spent = self.metrics.media_usd.inc
        super().__init__(
            command_prefix=commands.when_mentioned,
            help_command=None,
            intents=intents(),
            tree_cls=ErrorReportingTree,
            chunk_guilds_at_startup=False,
            allowed_mentions=NO_PINGS,
            http_trace=self.metrics.trace(),
            guild_ready_timeout=guild_ready_timeout,
            max_messages=None,
        )
        history.attach(self)
        own_answers = OwnAnswers()
        self._listening = Listening(self, self.gaps, own_answers)
        self.until_stored: Callable[[int], Awaitable[None]] = self._listening.until_stored
        self._asking = Asking(self, self.traces, own_answers, responder)
        self._status_server = StatusServer(self.metrics, self.health, self._refresh_metrics)

    @property
    def me(self) -> discord.ClientUser:
        if self.user is None:
            raise RuntimeError("no event arrives before login")
        return self.user

    async def setup_hook(self) -> None:
        privacy = (Privacy(self, self.traces), ChannelPrivacy(self))
        people = (self._asking, *privacy, Contexts(self), Dashboards(self), Help(self.tree))
        past = (HistoryCommands(self), SummaryCommands(self))
        upkeep = (Backfill(self, self.gaps), Redacting(self), Naming(self))
        for cog in (self._listening, *people, *past, *upkeep):
            await self.add_cog(cog)
        await self.tree.sync()
        if self.settings.metrics_port:
            await self._start_status_server(self.settings.metrics_port)
            log.info("serving metrics and health", port=self._status_server.port)

    async def _start_status_server(self, port: int) -> None:
        try:
            await self._status_server.start(port)
        except OSError as error:
            raise ConfigError(f"Can't open CHANNELMEM_METRICS_PORT {port}: {error.strerror or error}") from error

    async def on_ready(self) -> None:
        log.info("ready", guilds=len(self.guilds), shards=self.shard_count)

    async def on_message(self, message: discord.Message, /) -> None:
        """The cogs handle messages; there are no prefix commands to look for."""

    def health(self) -> dict[str, bool]:
        # discord.py stays "ready" while it reconnects; only the shards tell.
        connected = self.is_ready() and not any(shard.is_closed() for shard in self.shards.values())
        return {"discord": connected, "redis": self.memory.available}

    async def _refresh_metrics(self) -> None:
        """Gauges that are read only when somebody scrapes them."""
        metrics, memory = self.metrics, self.memory
        metrics.redis.set(memory.available)
        metrics.queued.set(memory.queued)
        metrics.dropped.set(memory.dropped)
        with contextlib.suppress(RedisUnavailableError):
            metrics.pending.set(await memory.pending())
            metrics.lag.set(await memory.lag_s())
            metrics.spent_today(await memory.spending.usd_today())

    async def shut_down(self) -> None:
        """Finishes the answers in progress, then disconnects."""
        await self._asking.drain(DRAIN_S)
        if self.responder is not None:
            await self.responder.close()
        await self.close()

    async def close(self) -> None:
        await self._status_server.stop()
        await super().close()


@contextlib.asynccontextmanager
async def stop_signals(stop: asyncio.Event) -> AsyncIterator[None]:
    """While this is open, SIGTERM and SIGINT set the event."""
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    try:
        yield
    finally:
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.remove_signal_handler(number)


@contextlib.asynccontextmanager
async def open_memory(settings: Settings, history: DiscordHistory, metrics: Metrics) -> AsyncIterator[ChannelMemory]:
    """A memory in this process, with whoever writes its summaries, or in the service that the settings name: several
    shards, one memory."""
    if settings.service_url is not None:
        client = load("channelmem.client", "service", "CHANNELMEM_SERVICE_URL").Client
        async with client.open(settings, history=history, patient=True) as memory:
            yield memory
        return
    async with (
        summariser_of(settings) as summariser,
        Memory.open(settings, history=history, summariser=summariser, patient=True) as memory,
    ):
        if summariser is not None:
            summariser.attach(memory.spending)
            summariser.on_tokens = metrics.tokens_used
        yield memory


async def run(settings: Settings) -> None:
    """Runs until a stop signal; raises whatever keeps the bot from starting."""
    if settings.discord_token is None:
        raise ConfigError(LOGIN_MISSING)
    use_endpoints(settings)
    history = DiscordHistory(settings)
    stop = asyncio.Event()
    metrics = Metrics()
    async with stop_signals(stop), open_memory(settings, history, metrics) as memory:
        gc.freeze()  # what is loaded by now stays; walking it in search of garbage takes a tenth of a second
        responder = open_responder(settings, memory)
        bot = Bot(settings, memory, history, responder=responder, metrics=metrics)
        if responder is not None:
            responder.until_stored = bot.until_stored
            responder.on_tokens = bot.metrics.tokens_used
        await _run_until(stop, bot, settings.discord_token.get_secret_value())
        # Only briefly, because supervisors kill: missing embeddings follow after the next start, and what Redis never
        # got is fetched from Discord again.
        with contextlib.suppress(RedisUnavailableError):
            await memory.flush(DRAIN_S)
    log.info("stopped")


async def _run_until(stop: asyncio.Event, bot: Bot, token: str) -> None:
    async with bot:
        running = asyncio.create_task(bot.start(token))
        stopping = asyncio.create_task(stop.wait())
        await asyncio.wait({running, stopping}, return_when=asyncio.FIRST_COMPLETED)
        stopping.cancel()
        if not running.done():
            log.info("shutting down")
            await bot.shut_down()
            running.cancel()  # it may still be logging in, which now fails because the bot has closed
            await asyncio.gather(running, return_exceptions=True)
            return
        await running


# --- logs ---


LIBRARIES_THAT_LOG_MESSAGES = ("discord", "aiohttp")
"""At DEBUG these log what people write, so they stay at INFO or above."""
OURS = {"level", "logger", "timestamp"}
LONG = {"exception", "stack"}


def configure_logging(settings: Settings) -> None:
    shared: list[structlog.typing.Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    structlog.configure(
        processors=[
            *shared,
            structlog.processors.StackInfoRenderer(),
            structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
        ],
        wrapper_class=structlog.stdlib.BoundLogger,
        logger_factory=structlog.stdlib.LoggerFactory(),
        cache_logger_on_first_use=False,
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(structlog.stdlib.ProcessorFormatter(foreign_pre_chain=shared, processors=_rendering(settings)))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(settings.log_level)
    for name in LIBRARIES_THAT_LOG_MESSAGES:
        logging.getLogger(name).setLevel(max(logging.INFO, logging.getLevelName(settings.log_level)))


def _rendering(settings: Settings) -> list[structlog.typing.Processor]:
    bare = structlog.stdlib.ProcessorFormatter.remove_processors_meta
    # structlog's default traceback shows local variables wherever rich is installed: messages, keys, tokens.
    plain = structlog.dev.ConsoleRenderer(colors=False, exception_formatter=structlog.dev.plain_traceback)
    renderer = structlog.processors.JSONRenderer() if settings.log_json else plain

    def safe(_logger: object, _method: str, event: structlog.typing.EventDict) -> structlog.typing.EventDict:
        return {name: value if name in OURS else _safe(name, value, settings) for name, value in event.items()}

    return [bare, structlog.processors.format_exc_info, safe, renderer]


def _safe(name: str, value: object, settings: Settings) -> object:
    """Numbers stay numbers; a traceback keeps its lines."""
    if value is None or isinstance(value, int | float):
        return value
    text = hide(str(value), settings)
    return visible(text) if name in LONG else one_line(text)


# --- start ---


LOGIN_MISSING = (
    "DISCORD_TOKEN is not set. Create a bot at https://discord.com/developers/applications (New Application, then Bot, "
    "then Reset Token), enable its Message Content Intent there, and add DISCORD_TOKEN=... to .env."
)
LOGIN_REJECTED = (
    "Discord rejected DISCORD_TOKEN. Copy the token again from https://discord.com/developers/applications "
    "(your application, then Bot, then Reset Token)."
)
INTENT_DISABLED = (
    "Discord refused the connection because the Message Content Intent is disabled; without it the bot can't read "
    "messages. Enable it at https://discord.com/developers/applications "
    "(your application, then Bot, then Privileged Gateway Intents, then Message Content Intent)."
)
UNREACHABLE = "Can't reach Discord ({problem}). Check the network, and DISCORD_API_BASE if it is set."
CLOSED = (
    "Discord permanently closed the connection (code {code}). See "
    "https://discord.com/developers/docs/topics/opcodes-and-status-codes for what the code means."
)
INVALID_TOKEN_CODE = 4004


def startup_sentence(error: Exception) -> str:
    """For failures that keep the bot from starting or continuing."""
    if isinstance(error, discord.LoginFailure):
        return LOGIN_REJECTED
    if isinstance(error, discord.ConnectionClosed):
        return LOGIN_REJECTED if error.code == INVALID_TOKEN_CODE else CLOSED.format(code=error.code)
    if isinstance(error, discord.PrivilegedIntentsRequired):
        return INTENT_DISABLED
    if isinstance(error, ChannelmemError):
        return str(error)
    return UNREACHABLE.format(problem=error or type(error).__name__)


STARTUP_ERRORS = (
    discord.LoginFailure,
    discord.PrivilegedIntentsRequired,
    discord.ConnectionClosed,
    discord.HTTPException,
    discord.GatewayNotFound,
    ChannelmemError,
    aiohttp.ClientError,
    OSError,
)


def main() -> int:
    settings = None
    try:
        settings = load_settings()
        configure_logging(settings)
        asyncio.run(run(settings))
    except STARTUP_ERRORS as error:
        sentence = startup_sentence(error)  # errors of libraries may quote a secret
        sys.stderr.write(f"{visible(hide(sentence, settings) if settings else sentence)}\n")
        return 1
    return 0
