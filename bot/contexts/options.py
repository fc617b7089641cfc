"""The options of /context. In: what somebody types. Out: what Discord offers them, and the character they mean."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, cast

import discord
from discord import app_commands

from channelmem.context_window.reach import suggestions
from channelmem.telling.quote import listed, name

if TYPE_CHECKING:
    from ..context import BotContext

OFFERED = 25
NO_CHARACTER = "I have no character here. My operator can check CHANNELMEM_CHARACTER."


class UnknownCharacterError(app_commands.CheckFailure):
    """Nobody is called that."""


def chosen(typed: str | None, names: Iterable[str]) -> str:
    """The character that is meant, by default the first."""
    known = list(names)
    if not known:
        raise UnknownCharacterError(NO_CHARACTER)
    wanted = (typed or known[0]).strip().casefold()
    found = next((one for one in known if one.casefold() == wanted), None)
    if found is None:
        raise UnknownCharacterError(f"I don't know a character called {name(typed or '')}. I know {listed(known)}.")
    return found


async def offer_durations(_interaction: discord.Interaction, typed: str) -> list[app_commands.Choice[str]]:
    return _choices(suggestions(typed))


async def offer_characters(interaction: discord.Interaction, typed: str) -> list[app_commands.Choice[str]]:
    known = (one.name for one in cast("BotContext", interaction.client).characters)
    return _choices(one for one in known if typed.strip().casefold() in one.casefold())


def _choices(texts: Iterable[str]) -> list[app_commands.Choice[str]]:
    return [app_commands.Choice(name=one, value=one) for one in texts][:OFFERED]
