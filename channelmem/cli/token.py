"""`channelmem token`: makes, lists and revokes access tokens; a running service knows of changes within a second."""

from __future__ import annotations

import asyncio
import re
import time
from datetime import UTC, datetime
from typing import Annotated

import typer
from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from channelmem.access import AccessToken, Scope, new_token
from channelmem.cli.show import to_json
from channelmem.durations import parse
from channelmem.errors import ChannelmemError
from channelmem.ids import LARGEST_ID
from channelmem.ops import open_access
from channelmem.settings import load_settings

HELP = """Make, list and revoke access tokens of the service.

A token has scopes: read (ask, search, look at what is stored), write
(remember, edit, delete, forget), export (everything of a person, also what
is hidden) and admin (change settings). Bind it to guilds with --guild, so
that bots that share a service can't see each other. What concerns all
guilds (global settings, /metrics) needs a token that is not bound.

\b
Examples:
  channelmem token add my-bot --scopes read,write --guild 811111111111111111
  channelmem token add operator --scopes read,write,export,admin --expires 90d
  channelmem token list
  channelmem token revoke my-bot
"""
app = typer.Typer(no_args_is_help=True, help=HELP)

_NAME = re.compile(r"[\w.-]{1,64}")


@app.command()
def add(
    name: Annotated[str, typer.Argument(help="A name to recognise it by: letters, digits, dots and hyphens.")],
    scopes: Annotated[str, typer.Option(help="Any of read, write, export and admin, separated by commas.")] = "read",
    guild: Annotated[
        list[int] | None, typer.Option(min=0, max=LARGEST_ID, help="Bind it to this guild; may be repeated.")
    ] = None,
    expires: Annotated[str, typer.Option(help='When it ends, such as "90d"; without this, never.')] = "",
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Make a token and show it once; only a digest of it is kept.

    \b
    Examples:
      channelmem token add my-bot --scopes read,write --guild 811111111111111111
      channelmem token add prometheus --scopes read --expires 90d
    """
    if not _NAME.fullmatch(name):
        raise ChannelmemError("A token's name has up to 64 letters, digits, dots and hyphens.")
    try:
        life_s = parse(expires) if expires else None
    except ValueError as error:
        raise ChannelmemError(f"--expires: {error}") from None
    guilds = frozenset(guild) if guild else None
    text, kept = new_token(name, _scopes(scopes), guilds, now=time.time(), life_s=life_s)
    asyncio.run(_add(kept))
    if as_json:
        print(to_json({"token": text, **_row(kept)}, indent=2))
        return
    print(text)
    Console(stderr=True).print("Keep it safe: it is not shown again.", style="dim")


@app.command("list")
def list_(as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False) -> None:
    """List all tokens, without their secrets."""
    found = asyncio.run(_all())
    if as_json:
        print(to_json([_row(one) for one in found], indent=2))
        return
    if not found:
        print("There are no tokens. Make one with: channelmem token add NAME --scopes read,write")
        return
    table = Table("id", "name", "scopes", "guilds", "made", "expires", box=box.SIMPLE_HEAD, pad_edge=False)
    for one in found:
        guilds = "all" if one.guild_ids is None else " ".join(map(str, sorted(one.guild_ids)))
        row = (one.id, one.name, ",".join(sorted(one.scopes)), guilds, _day(one.created_at), _until(one))
        table.add_row(*map(escape, row))
    Console().print(table)


@app.command()
def revoke(
    name: Annotated[str, typer.Argument(help="Name or id of a token; a name revokes all tokens of that name.")],
) -> None:
    """End a token; a running service refuses it within a second."""
    count = asyncio.run(_revoke(name))
    if not count:
        raise ChannelmemError(f"There is no token {name[:64]!r}; `channelmem token list` shows all.")
    print(f"Revoked {count} token{'' if count == 1 else 's'}.")


async def _add(token: AccessToken) -> None:
    async with open_access(load_settings()) as tokens:
        if any(one.name == token.name and not one.is_expired(time.time()) for one in await tokens.all()):
            raise ChannelmemError(f"There is a token {token.name!r} already; revoke it first, or use another name.")
        await tokens.add(token)


async def _all() -> list[AccessToken]:
    async with open_access(load_settings()) as tokens:
        return await tokens.all()


async def _revoke(name: str) -> int:
    async with open_access(load_settings()) as tokens:
        meant = [one.id for one in await tokens.all() if name in {one.id, one.name}]
        return sum([await tokens.remove(id_) for id_ in meant])


def _scopes(text: str) -> frozenset[Scope]:
    try:
        found = frozenset(Scope(part.strip().lower()) for part in text.split(",") if part.strip())
    except ValueError:
        found = frozenset()
    if not found:
        raise ChannelmemError("--scopes takes read, write, export and admin, separated by commas.")
    return found


def _row(one: AccessToken) -> dict[str, object]:
    return {
        "id": one.id,
        "name": one.name,
        "scopes": sorted(one.scopes),
        "guilds": None if one.guild_ids is None else sorted(map(str, one.guild_ids)),
        "created_at": one.created_at,
        "expires_at": one.expires_at,
    }


def _day(ts: float) -> str:
    return datetime.fromtimestamp(ts, UTC).strftime("%Y-%m-%d")


def _until(one: AccessToken) -> str:
    if one.expires_at is None:
        return "never"
    return f"{_day(one.expires_at)}{' (ended)' if one.is_expired(time.time()) else ''}"
