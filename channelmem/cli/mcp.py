"""`channelmem mcp`: the memory for agents that speak the Model Context Protocol."""

from __future__ import annotations

from functools import partial
from typing import Annotated

import typer
from rich.console import Console

from channelmem.cli.show import ModelProgress
from channelmem.extras import load

app = typer.Typer()

PURPOSE = "The MCP server"


@app.command()
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
    run = load("channelmem.mcp.http", "mcp", PURPOSE)
    bounds = run.Bounds.of_options(guild or (), channel or (), write=allow_write)
    bar = partial(ModelProgress, Console(stderr=True))
    if http:
        run.over_http(bounds, run.HttpAddress(host, port), bar, guarded=not no_auth)
    else:
        run.on_stdio(bounds, bar)
