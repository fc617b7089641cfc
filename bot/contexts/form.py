"""The form of /context edit, for channels that fit into one. In: the file's text. Out: discord.py's button and form.

Nothing is kept in the process: the custom ids name the character, and the place is where the click came from.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from enum import StrEnum
from typing import Final

import discord

from ..messages.components import digest, given
from ..messages.fit import shorten

FORM_MAX: Final = 4000
OUTGROWN: Final = "There is too much for a form by now. Use `/context edit` again, and its file."
LABEL: Final = "Messages to start with"
ABOUT: Final = "Delete the lines you want to leave out. You can't change, add or move lines."


class Action(StrEnum):
    OPEN = "open"
    SAVE = "save"


_CUSTOM_ID: Final = re.compile(rf"context:({'|'.join(Action)}):([0-9a-f]+)")


def button(character: str) -> discord.ui.View:
    view = discord.ui.View(timeout=None)
    view.add_item(discord.ui.Button(label="Edit here", custom_id=_custom_id(Action.OPEN, character)))
    view.stop()  # clicks are read from custom ids, so discord.py need not keep the view
    return view


def form(character: str, lines: str) -> discord.ui.Modal:
    modal = discord.ui.Modal(
        title=shorten(f"What {character} starts with", 45), custom_id=_custom_id(Action.SAVE, character)
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


def read(interaction: discord.Interaction, characters: Iterable[str]) -> tuple[Action, str, str] | None:
    """What is to be done, for which character, and what was typed; None if the click is not about this form."""
    data = dict(interaction.data or {})
    found = _CUSTOM_ID.fullmatch(str(data.get("custom_id", "")))
    if found is None:
        return None
    names = {digest(name): name for name in characters}
    return Action(found[1]), names.get(found[2], ""), given(data)


def _custom_id(action: Action, character: str) -> str:
    return f"context:{action}:{digest(character)}"
