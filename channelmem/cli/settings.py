"""`channelmem settings`: shows and changes what is set for all servers, a channel or a character, as dashboards do.

A running bot follows at once.
"""

from __future__ import annotations

import asyncio
import difflib
import re
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import typer
from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table
from typer.core import TyperCommand

from channelmem.cli.show import to_json
from channelmem.display import visible
from channelmem.durations import human_age
from channelmem.errors import ChannelmemError, ConfigError, UnknownSettingError
from channelmem.ids import LARGEST_ID
from channelmem.ops import open_policies
from channelmem.policy import cascade as declared
from channelmem.policy.cascade import (
    UNDO,
    Auto,
    Change,
    Effective,
    Json,
    Level,
    Overrides,
    Place,
    Setting,
    Value,
    current,
)
from channelmem.policy.policies import Policies
from channelmem.settings import load_settings

HELP = """Show or change what people set in dashboards: for all servers, in a channel, or for a character.

Without options this is the global level. --guild with --channel is a
channel, --guild with --character is a character in a server. A running
bot follows at once. `channelmem config` shows the environment instead.

\b
Examples:
  channelmem settings show
  channelmem settings set context_messages 50
  channelmem settings set context_max_age 24h --guild 811111111111111111 --channel 922222222222222222
  channelmem settings set summaries auto --guild 811111111111111111 --character Frodo
  channelmem settings reset --guild 811111111111111111 --channel 922222222222222222
"""
app = typer.Typer(no_args_is_help=True, help=HELP)

CHANGES = 5

Guild = Annotated[int | None, typer.Option(min=1, max=LARGEST_ID, help="Server id.")]
Channel = Annotated[int | None, typer.Option(min=1, max=LARGEST_ID, help="Channel id; needs --guild.")]
Character = Annotated[str | None, typer.Option(help="Name of a character; needs --guild.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask before messages are hidden.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON: ids are strings, null is Auto.")]


@dataclass(frozen=True, slots=True)
class SettingsTarget:
    """What the options name: a level, and for `show` the channel in which a character is looked at."""

    guild_id: int = 0
    channel_id: int = 0
    character: str = ""

    @property
    def level(self) -> Level:
        if self.character:
            return Level.CHARACTER
        return Level.CHANNEL if self.channel_id else Level.GLOBAL

    @property
    def place(self) -> Place:
        if self.level is Level.CHARACTER:
            return Place.of_character(self.guild_id, self.character)
        return Place.channel(self.guild_id, self.channel_id) if self.channel_id else Place.everywhere()

    @property
    def text(self) -> str:
        if self.level is Level.GLOBAL:
            return "all servers"
        where = f"channel {self.channel_id} of " if self.channel_id else ""
        return f"{f'{self.character} in ' if self.character else ''}{where}server {self.guild_id}"

    def to_json(self) -> dict[str, str | None]:
        return {
            "level": self.level.value,
            "guild": str(self.guild_id) if self.guild_id else None,
            "channel": str(self.channel_id) if self.channel_id else None,
            "character": self.character or None,
        }


@app.command()
def show(guild: Guild = None, channel: Channel = None, character: Character = None, as_json: AsJson = False) -> None:
    """Show every setting: its own value at this level, what is effective and why, and the last changes.

    With --channel and --character, show what is effective for that character in that channel.

    \b
    Examples:
      channelmem settings show
      channelmem settings show --guild 811111111111111111 --channel 922222222222222222
      channelmem settings show --guild 811111111111111111 --channel 922222222222222222 --character Frodo
    """
    asyncio.run(_show(_target(guild, channel, character), as_json=as_json))


class SignedCommand(TyperCommand):
    """Takes "-5m" for a value, so that the answer says what is allowed and not "No such option"."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        return super().parse_args(ctx, [f" {one}" if re.match(r"-\d", one) else one for one in args])


@app.command("set", cls=SignedCommand)
def set_(
    name: Annotated[str, typer.Argument(help="Name of a setting, such as context_messages.")],
    value: Annotated[list[str], typer.Argument(help='New value; "auto" inherits.')],
    guild: Guild = None,
    channel: Channel = None,
    character: Character = None,
    yes: Yes = False,
    as_json: AsJson = False,
) -> None:
    """Change one setting at one level; "auto" clears it, so that it is inherited.

    A change that takes messages away says how many and asks first. They are
    hidden at once, and removed an hour later: until then, setting it back
    brings them back.

    \b
    Examples:
      channelmem settings set context_messages 50
      channelmem settings set context_max_age 2h 30m --guild 811111111111111111 --character Frodo
      channelmem settings set enabled off --guild 811111111111111111 --channel 922222222222222222
      channelmem settings set archive off --yes
    """
    target = _one_level(_target(guild, channel, character))
    setting = _named(name)
    if target.level not in setting.levels:
        levels = " or ".join(setting.levels)
        raise UnknownSettingError(f"{setting.label} has no {target.level} level; set it at the {levels} level.")
    try:
        wanted = setting.parse(" ".join(value).strip())
    except ValueError as error:
        raise ConfigError(str(error)) from None
    asyncio.run(_set(target, setting, wanted, yes=yes, as_json=as_json))


@app.command()
def reset(
    guild: Guild = None,
    channel: Channel = None,
    character: Character = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")] = False,
    as_json: AsJson = False,
) -> None:
    """Clear everything that is set at one level, so that it is inherited. Other levels keep their values.

    \b
    Examples:
      channelmem settings reset
      channelmem settings reset --guild 811111111111111111 --channel 922222222222222222 --yes
    """
    target = _one_level(_target(guild, channel, character))
    asyncio.run(_reset(target, yes=yes, as_json=as_json))


# --- what the options mean ---


def _target(guild: int | None, channel: int | None, character: str | None) -> SettingsTarget:
    name = " ".join((character or "").split())
    if character is not None and not name:
        raise ChannelmemError("--character needs a name, such as --character Frodo.")
    if guild is None and (channel is not None or name):
        option = "--character" if channel is None else "--channel"
        raise ChannelmemError(f"{option} needs the id of its server; add --guild ID.")
    if guild is not None and channel is None and not name:
        raise ChannelmemError("--guild needs --channel ID or --character NAME; leave --guild out for all servers.")
    return SettingsTarget(guild or 0, channel or 0, name)


def _one_level(target: SettingsTarget) -> SettingsTarget:
    if target.channel_id and target.character:
        raise ChannelmemError(
            "--channel and --character are two levels; leave one of them out to say which one to change."
        )
    return target


def _named(name: str) -> Setting:
    """By name or label, however they are spelt."""
    known = {_plain(spelling): one for one in declared.SETTINGS for spelling in (one.label, one.name)}
    if found := known.get(current(_plain(name))):
        return found
    near = difflib.get_close_matches(_plain(name), known, n=3)
    names = dict.fromkeys(known[one].name for one in near)
    hint = (
        f"did you mean {' or '.join(names)}?" if names else f"use {', '.join(one.name for one in declared.SETTINGS)}."
    )
    raise UnknownSettingError(f"There is no setting {name[:40]!r}; {hint}")


def _plain(name: str) -> str:
    return "_".join(name.casefold().replace("-", " ").replace("_", " ").split())


# --- on Redis ---


async def _show(target: SettingsTarget, *, as_json: bool) -> None:
    async with open_policies(load_settings()) as policies:
        target = _of_channel(target, policies)
        own = await policies.read(target.place)
        effective = policies.effective(target.guild_id, target.channel_id, target.character)
    changes = own.changes[:CHANGES]
    if as_json:
        settings = [_row(target, own, one) for one in effective.values()]
        changed = [_change(one) for one in changes]
        print(to_json({**target.to_json(), "settings": settings, "changes": changed}, indent=2))
        return
    console = Console()
    console.print(escape(visible(f"Settings for {target.text}")), style="bold", highlight=False, soft_wrap=True)
    table = Table("name", "setting", "own value", "effective", "from", "why", box=box.SIMPLE_HEAD, pad_edge=False)
    for one in effective.values():
        value = own.values.get(one.setting.name)
        mine = one.setting.show(value) if target.level in one.setting.levels else "-"
        cells = (one.setting.name, one.setting.label, mine, one.text, one.source.value, one.why)
        table.add_row(*map(escape, cells), style="" if value is None else "bold")
    console.print(table)
    console.print("Last changes, newest first:" if changes else "Nobody has changed anything here.")
    for change in changes:
        age = human_age(max(0.0, time.time() - change.at))
        line = f"  {age} by {change.by or 'operator'}: {_sentence(change)}"
        console.print(escape(line), highlight=False, soft_wrap=True)


async def _set(target: SettingsTarget, setting: Setting, wanted: Value | Auto, *, yes: bool, as_json: bool) -> None:
    async with open_policies(load_settings()) as policies:
        target = _of_channel(target, policies)
        loss = await policies.preview(target.place, {setting.name: wanted})
        shown = setting.show(None if isinstance(wanted, Auto) else wanted)
        if loss and not yes:
            _confirm(f"{setting.label} {shown} for {target.text} hides {loss}. {UNDO} Go on?")
        change = await policies.set(target.place, setting.name, wanted)
    if as_json:
        _print_changed(target, () if change is None else (change,))
    elif change is None:
        print(f"{setting.label} is {shown} already; nothing changed.")
    else:
        print(_sentence(change))


async def _reset(target: SettingsTarget, *, yes: bool, as_json: bool) -> None:
    async with open_policies(load_settings()) as policies:
        target = _of_channel(target, policies)
        if not yes:
            loss = await policies.preview(target.place, None)
            hides = f" That hides {loss}. {UNDO}" if loss else ""
            _confirm(f"Reset everything that is set for {target.text} to Auto?{hides}")
        changes = await policies.reset(target.place)
    if as_json:
        _print_changed(target, changes)
        return
    for change in changes:
        print(_sentence(change))
    if not changes:
        print(visible(f"Nothing was set for {target.text}."))


def _confirm(question: str) -> None:
    typer.confirm(visible(question), abort=True, err=True)


def _of_channel(target: SettingsTarget, policies: Policies) -> SettingsTarget:
    """A thread follows its channel. Says so on stderr, so that stdout stays parseable."""
    if not target.channel_id:
        return target
    channel_id = policies.channel_of(target.guild_id, target.channel_id)
    if channel_id != target.channel_id:
        typer.echo(f"Note: {target.channel_id} is a thread and follows its channel {channel_id}.", err=True)
    return SettingsTarget(target.guild_id, channel_id, target.character)


# --- output ---


def _print_changed(target: SettingsTarget, changes: Sequence[Change]) -> None:
    print(to_json({**target.to_json(), "changes": [_change(one) for one in changes]}, indent=2))


def _sentence(change: Change) -> str:
    setting = _declared(change)
    return f"{setting.label}: {setting.show(change.old)} -> {setting.show(change.new)}"


def _row(target: SettingsTarget, own: Overrides, one: Effective) -> dict[str, Any]:
    return {
        "name": one.setting.name,
        "label": one.setting.label,
        "settable": target.level in one.setting.levels,
        "own": _json(one.setting, own.values.get(one.setting.name)),
        "effective": _json(one.setting, one.value),
        "source": one.source.value,
        "why": one.why,
    }


def _change(change: Change) -> dict[str, Json | None]:
    setting = _declared(change)
    return {
        "at": change.at,
        "by": str(change.by),
        "setting": change.setting,
        "old": _json(setting, change.old),
        "new": _json(setting, change.new),
    }


def _declared(change: Change) -> Setting:
    return next(one for one in declared.SETTINGS if one.name == change.setting)


def _json(setting: Setting, value: Value | None) -> Json | None:
    return None if value is None else setting.to_json(value)
