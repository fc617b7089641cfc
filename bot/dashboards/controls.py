"""Controls: the buttons, selects and forms below a dashboard. In: an address and settings. Out: discord.py's views.

The views are only layouts. They are stopped before they are sent, so discord.py keeps none of them: clicks are read
from their custom ids (address.py), by whichever process hears them.
"""

from __future__ import annotations

from collections.abc import Sequence

import discord

from channelmem.cascade.declared import Setting

from ..messages.fit import shorten
from .address import Action, Address

OPTIONS_MAX, SELECTS_MAX = 25, 4
LABEL_MAX, DESCRIPTION_MAX, MODAL_TITLE_MAX = 45, 100, 45
INPUT = "value"

Style = discord.ButtonStyle


def home(address: Address) -> discord.ui.View:
    return _layout(
        _button("Configure", address.custom_id(Action.CONFIGURE), Style.primary),
        _button("Reset to Auto", address.custom_id(Action.RESET), Style.danger),
        _button("Close", address.custom_id(Action.CLOSE)),
    )


def settings_menu(address: Address, settings: Sequence[Setting]) -> discord.ui.View:
    """One select, or several where there are more settings than one can offer."""
    chunks = [settings[at : at + OPTIONS_MAX] for at in range(0, len(settings), OPTIONS_MAX)][:SELECTS_MAX]
    selects = [
        _select(
            "Choose a setting",
            address.custom_id(Action.CHOOSE, str(number)),
            [_option(one.label, one.name, one.help) for one in chunk],
        )
        for number, chunk in enumerate(chunks)
    ]
    return _layout(*selects, *_back(address))


def choice(address: Address, setting: Setting, current: str) -> discord.ui.View:
    """For a setting with a short list of values; the one that is set is marked."""
    options = [_option(one.capitalize(), one, default=one == current.casefold()) for one in setting.choices]
    select = _select(setting.label, address.custom_id(Action.SWITCH, setting.name), options)
    return _layout(select, *_back(address))


def confirm_reset(address: Address) -> discord.ui.View:
    return _layout(_button("Yes, reset", address.custom_id(Action.CONFIRM), Style.danger), *_back(address))


def confirm_loss(address: Address, setting: Setting, value: str) -> discord.ui.View:
    agree = address.custom_id(Action.AGREE, setting.name, value.lower())
    return _layout(_button("Yes, hide them", agree, Style.danger), *_back(address))


def form(address: Address, setting: Setting, current: str) -> discord.ui.Modal:
    """For a value that is typed; the one that is set is filled in."""
    modal = discord.ui.Modal(
        title=shorten(setting.label, MODAL_TITLE_MAX), custom_id=address.custom_id(Action.SAVE, setting.name)
    )
    # Not required: Discord would refuse an empty value without saying what is allowed.
    typed: discord.ui.TextInput[discord.ui.Modal] = discord.ui.TextInput(
        custom_id=INPUT, default=current, required=False, max_length=100
    )
    text = shorten(setting.allowed[:1].upper() + setting.allowed[1:], DESCRIPTION_MAX)
    modal.add_item(discord.ui.Label(text=shorten(setting.label, LABEL_MAX), description=text, component=typed))
    modal.stop()
    return modal


def _layout(*items: discord.ui.Item[discord.ui.View]) -> discord.ui.View:
    view = discord.ui.View(timeout=None)
    for item in items:
        view.add_item(item)
    view.stop()
    return view


def _back(address: Address) -> tuple[discord.ui.Button[discord.ui.View], ...]:
    home_, close = address.custom_id(Action.HOME), address.custom_id(Action.CLOSE)
    return _button("Back", home_), _button("Close", close)


def _button(label: str, custom_id: str, style: Style = Style.secondary) -> discord.ui.Button[discord.ui.View]:
    return discord.ui.Button(label=label, custom_id=custom_id, style=style)


def _select(
    placeholder: str, custom_id: str, options: list[discord.SelectOption]
) -> discord.ui.Select[discord.ui.View]:
    return discord.ui.Select(placeholder=shorten(placeholder, 150), custom_id=custom_id, options=options)


def _option(label: str, value: str, help_: str = "", *, default: bool = False) -> discord.SelectOption:
    description = shorten(help_, DESCRIPTION_MAX) or None
    return discord.SelectOption(label=shorten(label, 100), value=value, description=description, default=default)
