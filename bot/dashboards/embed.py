"""The picture: a dashboard as an embed. In: a `Reading`. Out: an embed within Discord's limits."""

from __future__ import annotations

import discord

from channelmem.cascade.levels import Change, Level

from ..messages.fit import clip, shorten
from .reading import Reading, Row
from .texts import THREAD

TITLE_MAX, FIELD_MAX = 256, 1024
DESCRIPTION_MAX = 3000
"""Less than Discord's 4096: all of an embed may have 6000."""
CHANGES_SHOWN = 5
FOOTER = "Auto inherits: default ← global ← channel ← character"

IN_FORCE = {
    Level.GLOBAL: "In force unless a channel or character says otherwise",
    Level.CHANNEL: "In force here unless a character says otherwise",
    Level.CHARACTER: "In force here",
}


def picture(reading: Reading, *, in_thread: bool) -> discord.Embed:
    about = [_subject(reading), *([THREAD] if in_thread and reading.address.level is not Level.GLOBAL else []), ""]
    lines = [*about, *(_line(row, reading.address.level) for row in reading.rows)]
    embed = discord.Embed(title=_title(reading), description=clip(lines, DESCRIPTION_MAX))
    in_force = clip((_in_force(row) for row in reading.rows), FIELD_MAX)
    embed.add_field(name=IN_FORCE[reading.address.level], value=in_force, inline=False)
    embed.add_field(name="Last changes", value=_changes(reading), inline=False)
    return embed.set_footer(text=FOOTER)


def _title(reading: Reading) -> str:
    titles = {Level.GLOBAL: "Global settings", Level.CHANNEL: "Channel settings"}
    return titles.get(reading.address.level) or shorten(f"Settings of {reading.character}", TITLE_MAX)


def _subject(reading: Reading) -> str:
    if reading.address.level is Level.GLOBAL:
        return "All servers"
    where = f"<#{reading.address.channel_id}>"
    return where if reading.address.level is Level.CHANNEL else f"In this server, shown for {where}"


def _line(row: Row, level: Level) -> str:
    if row.own is None:
        return f"{row.setting.label}: Auto ({row.inherited.source}: {row.inherited.text})"
    return f"{row.setting.label}: **{row.setting.show(row.own)}** ← {level} override"


def _in_force(row: Row) -> str:
    why = f", {row.effective.why}" if row.effective.why else ""
    return f"{row.setting.label}: {row.effective.text} ({row.effective.source}{why})"


def _changes(reading: Reading) -> str:
    settings = {row.setting.name: row for row in reading.rows}
    known = [one for one in reading.changes if one.setting in settings][:CHANGES_SHOWN]
    lines = [_change(one, settings[one.setting]) for one in known]
    return clip(lines, FIELD_MAX) or "None yet"


def _change(change: Change, row: Row) -> str:
    who = f"<@{change.by}>" if change.by else "the operator"
    show = row.setting.show
    return f"<t:{int(change.at)}:R> {who}: {row.setting.label} {show(change.old)} → {show(change.new)}"
