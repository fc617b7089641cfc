"""`channelmem bot`, `mcp` and `serve`: the memory for Discord, for agents and for bots in any language, until a signal.

What they run is loaded by the call, since `channelmem --help` looks at every command, whatever is installed.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Annotated

import typer
from rich.console import Console

from channelmem.access import Scope, new_token
from channelmem.cli.demo import CHANNEL, GUILD, conversation
from channelmem.cli.show import ModelProgress
from channelmem.durations import DAY_S
from channelmem.extras import BOT, load
from channelmem.memory import Memory
from channelmem.settings import load_settings
from channelmem.store.access import AccessTokens


def bot() -> None:
    """Start the Discord bot. DISCORD_TOKEN comes from the environment or .env; Ctrl-C or SIGTERM stops it cleanly."""
    raise typer.Exit(load(f"{BOT}.client", "discord", "The Discord bot").main())


def mcp(
    guild: Annotated[
        list[int] | None, typer.Option(help="Only this server; repeat for more. Default: all.", min=0)
    ] = None,
    channel: Annotated[
        list[int] | None, typer.Option(help="Only this channel; repeat for more. Default: all.", min=0)
    ] = None,
    allow_write: Annotated[
        bool, typer.Option("--allow-write", help="Offer the tool `remember`; without it, nothing can be changed.")
    ] = False,
    http: Annotated[bool, typer.Option("--http", help="Serve streamable HTTP instead of stdio.")] = False,
    host: Annotated[str, typer.Option(help="With --http: address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="With --http: port to listen on.", min=0, max=65535)] = 8766,
    no_auth: Annotated[bool, typer.Option("--no-auth", help="With --http on loopback: ask for no token.")] = False,
) -> None:
    """Give agents such as Claude Desktop or VS Code the memory of your channels, over MCP.

    On stdio the client starts this command itself. With --http, clients send a token of `channelmem token add`.
    Nothing outside --guild and --channel can be reached, and tokens can be bound to guilds as well.

    \b
    Examples:
      channelmem mcp --guild 811111111111111111
      channelmem mcp --channel 922222222222222222 --allow-write
      channelmem mcp --http --port 8766
    """
    run = load("channelmem.mcp.http", "mcp", "The MCP server")
    bounds = run.Bounds.of_options(guild or (), channel or (), write=allow_write)
    bar = partial(ModelProgress, Console(stderr=True))
    if http:
        run.over_http(bounds, run.HttpAddress(host, port), bar, guarded=not no_auth)
    else:
        run.on_stdio(bounds, bar)


DEMO = """
A demo channel is ready. Look at it: {url} (log in with the token, which works until the service stops). Or ask:

  export TOKEN={token}
  curl -s {url}/v1/ask -H "Authorization: Bearer $TOKEN" -H "Content-Type: application/json" \\
    -d '{{"guild_id": "{guild}", "channel_id": "{channel}", "asker_id": "7", "asker": "Mark", "text": "did anyone mention reptiles?"}}'
"""  # noqa: E501  (to be pasted as it is)


def serve(
    host: Annotated[str, typer.Option(help="Address to listen on; by default CHANNELMEM_SERVICE_HOST.")] = "",
    port: Annotated[
        int | None, typer.Option(min=0, max=65535, help="Port; by default CHANNELMEM_SERVICE_PORT. 0 takes a free one.")
    ] = None,
    demo: Annotated[bool, typer.Option("--demo", help="Fill a demo channel, and make a token for it.")] = False,
    no_auth: Annotated[
        bool, typer.Option("--no-auth", help="Ask for no token; only on loopback, for trying things out.")
    ] = False,
) -> None:
    """Serve the memory over HTTP, for bots in any language.

    Every request needs a token (`channelmem token add`). /docs on the running
    service lists what there is. Without REDIS_URL the embedded Redis is used.
    Ctrl-C or SIGTERM stops it: requests in progress are finished, and what is
    queued is written.

    \b
    Examples:
      channelmem serve --demo
      channelmem token add my-bot --scopes read,write
      channelmem serve
      channelmem serve --host 0.0.0.0 --port 8410
    """
    settings = load_settings()
    changes: dict[str, object] = {"service_host": host or settings.service_host}
    if port is not None:
        changes["service_port"] = port
    serving = load("channelmem.api.app", "service", "The service")
    settings = settings.model_copy(update=changes)
    serving.configure_logging(settings)
    asyncio.run(serving.serve(settings, guarded=not no_auth, beside=_demo if demo else None))


@asynccontextmanager
async def _demo(memory: Memory, tokens: AccessTokens | None, url: str) -> AsyncIterator[None]:
    """The demo's conversation in a channel of its own; channel and token go when the service ends."""
    channel_id = CHANNEL + time.time_ns()
    await memory.remember_many(conversation(channel_id))
    await memory.flush()  # the first question must find all of it, however slow the machine is
    await memory.overview.tell_names(GUILD, "Demo", {channel_id: "demo"})
    text, kept = new_token("demo", frozenset(Scope), frozenset({GUILD}), now=time.time(), life_s=DAY_S)
    if tokens is not None:
        await tokens.add(kept)
    print(DEMO.format(token=text, url=url, guild=GUILD, channel=channel_id), flush=True)
    try:
        yield
    finally:
        if tokens is not None:
            await tokens.remove(kept.id)
        await memory.delete_channel(GUILD, channel_id)
