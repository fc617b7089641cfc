"""Refusals. In: a question, where it was asked and by whom. Out: why it is not looked up, or an empty string."""

from __future__ import annotations

import discord

from channelmem.settings import Settings
from channelmem.types import Kind, Question

from ..messages.channels import MESSAGE_CHANNELS
from ..messages.permissions import can_read, can_see, is_included

EMPTY_QUESTION = 'Ask me about this channel, for example: "what did Ann say about the release?" or "catch me up".'
EXCLUDED_CHANNEL = "My settings exclude this channel, so I don't remember it."
BOT_CANT_SEE = "I can't see this channel, so I can't share what was said here."
ASKER_CANT_READ = "You're missing the Read Message History permission here, so I can't share what was said."
DIRECT_MESSAGE = "I can't look up a channel from a direct message. Ask me in a server channel."

Asker = discord.User | discord.Member


def refusal(question: Question, channel: discord.abc.Snowflake | None, asker: Asker, settings: Settings) -> str:
    """For questions in a server."""
    if not is_included(channel or discord.Object(question.channel_id), settings):
        return EXCLUDED_CHANNEL
    if question.kind is not Kind.NONE and (closed := _closed(channel, asker)):  # in isolation nothing is shared
        return closed
    return "" if question.text else EMPTY_QUESTION


def _closed(channel: discord.abc.Snowflake | None, asker: Asker) -> str:
    if not isinstance(channel, MESSAGE_CHANNELS) or not can_see(channel, channel.guild.me):
        return BOT_CANT_SEE  # slash commands arrive even from there; and nobody knows who may read an unknown place
    return "" if isinstance(asker, discord.Member) and can_read(channel, asker) else ASKER_CANT_READ
