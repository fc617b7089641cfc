"""The options of /context, and the form of /context edit."""

from __future__ import annotations

import re
from collections.abc import Iterable
from enum import StrEnum
from typing import TYPE_CHECKING, Final, cast

import discord
from discord import app_commands

from channelmem.context_window import suggestions
from channelmem.display import listed, name

from ..commands import RefusedError
from ..messages.components import digest, given, shorten

if TYPE_CHECKING:
    from ..context import BotContext


OFFERED, LONGEST = 25, 100
"""How many options Discord takes, and how long one may be."""
NO_CHARACTER = "I have no character here. My operator can check CHANNELMEM_CHARACTER."


def chosen(typed: str | None, names: Iterable[str]) -> str:
    """The character that is meant, by default the first."""
    known = list(names)
    if not known:
        raise RefusedError(NO_CHARACTER)
    wanted = (typed or known[0]).strip().casefold()
    found = next((one for one in known if one.casefold() == wanted), None)
    if found is None:
        raise RefusedError(f"I don't know a character called {name(typed or '')}. I know {listed(known)}.")
    return found


async def offer_durations(_interaction: discord.Interaction, typed: str) -> list[app_commands.Choice[str]]:
    return _choices(suggestions(typed))


async def offer_characters(interaction: discord.Interaction, typed: str) -> list[app_commands.Choice[str]]:
    known = (one.name for one in cast("BotContext", interaction.client).characters)
    return _choices(one for one in known if typed.strip().casefold() in one.casefold())


def _choices(texts: Iterable[str]) -> list[app_commands.Choice[str]]:
    return [app_commands.Choice(name=one, value=one) for one in texts if len(one) <= LONGEST][:OFFERED]


# --- form ---


FORM_MAX: Final = 4000
OUTGROWN: Final = "There is too much for a form by now. Use `/context edit` again, and its file."
LABEL: Final = "Messages to start with"
ABOUT: Final = "Delete the lines you want to leave out. You can't change, add or move lines."


class EditAction(StrEnum):
    OPEN = "open"
    SAVE = "save"


_CUSTOM_ID: Final = re.compile(rf"context:({'|'.join(EditAction)}):([0-9a-f]+)")


def button(character: str) -> discord.ui.View:
    view = discord.ui.View(timeout=None)
    view.add_item(discord.ui.Button(label="Edit here", custom_id=_custom_id(EditAction.OPEN, character)))
    view.stop()  # clicks are read from custom ids, so discord.py need not keep the view
    return view


def form(character: str, lines: str) -> discord.ui.Modal:
    modal = discord.ui.Modal(
        title=shorten(f"What {character} starts with", 45), custom_id=_custom_id(EditAction.SAVE, character)
    )
    text: discord.ui.TextInput[discord.ui.Modal] = discord.ui.TextInput(
        custom_id="lines",
        style=discord.TextStyle.paragraph,
        default=lines,
        required=False,  # an empty one cancels
        max_length=FORM_MAX,
    )
    modal.add_item(discord.ui.Label(text=LABEL, description=ABOUT, component=text))
    modal.stop()
    return modal


def read(interaction: discord.Interaction, characters: Iterable[str]) -> tuple[EditAction, str, str] | None:
    """What is to be done, for which character, and what was typed; None if the click is not about this form."""
    data = dict(interaction.data or {})
    found = _CUSTOM_ID.fullmatch(str(data.get("custom_id", "")))
    if found is None:
        return None
    names = {digest(name): name for name in characters}
    return EditAction(found[1]), names.get(found[2], ""), given(data)


def _custom_id(action: EditAction, character: str) -> str:
    return f"context:{action}:{digest(character)}"
