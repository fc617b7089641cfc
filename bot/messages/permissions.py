"""Permissions: which channels the bot remembers and who may read them. In: channels, people, settings. Out: yes or no,
and lists of channel ids."""

from __future__ import annotations

import discord

from channelmem.policies import Policies
from channelmem.settings import Settings

from .audience import Audience
from .channels import MESSAGE_CHANNELS, MessageChannel, guild_of, thread_of


def is_remembered(channel: discord.abc.Snowflake, settings: Settings, policies: Policies) -> bool:
    """Whether the operator includes the channel and its memory is on."""
    return is_included(channel, settings) and is_on(channel, policies)


def is_on(channel: discord.abc.Snowflake, policies: Policies) -> bool:
    """Whether the settings that people change while the bot runs let the channel be remembered."""
    guild_id = guild_of(channel)
    if isinstance(channel, discord.PartialMessageable) and policies.any_closed(guild_id):
        return False  # a thread Discord has not announced yet: its parent may be off
    return policies.storing(guild_id, channel.id, thread_of(channel)).enabled


def is_included(channel: discord.abc.Snowflake, settings: Settings) -> bool:
    """Applies the allow and block lists; a thread follows its parent unless it is listed itself."""
    if isinstance(channel, discord.PartialMessageable) and settings.channels_block:
        return False  # a thread Discord has not announced yet: its parent may be blocked
    ids = {channel.id} | ({channel.parent_id} if isinstance(channel, discord.Thread) else set())
    if ids & set(settings.channels_block):
        return False
    return not settings.channels_allow or bool(ids & set(settings.channels_allow))


def can_see(channel: MessageChannel, member: discord.Member) -> bool:
    """Whether the member receives what is said there now."""
    if isinstance(channel, discord.Thread) and channel.parent is None:
        return False
    return channel.permissions_for(member).view_channel


def can_read(channel: MessageChannel, reader: discord.Member | discord.Role) -> bool:
    """Whether the reader sees the channel and its past; the chat of a voice channel requires Connect, too."""
    if isinstance(channel, discord.Thread) and channel.parent is None:
        return False
    granted = channel.permissions_for(reader)
    voice = isinstance(channel, discord.VoiceChannel | discord.StageChannel)
    return granted.view_channel and granted.read_message_history and (granted.connect or not voice)


def message_channels(guild: discord.Guild) -> list[MessageChannel]:
    """Every channel of the guild where people write, threads included."""
    return [c for c in (*guild.channels, *guild.threads) if isinstance(c, MESSAGE_CHANNELS)]


def readable_channel_ids(
    here: MessageChannel, asker: discord.Member, settings: Settings, policies: Policies, *, private: bool
) -> tuple[int, ...]:
    """Other channels a question may search: asker and bot can both read them right now.

    Everybody in the channel sees a public answer, so a public question only searches channels that are open to the
    whole guild, and to everybody who can read the answer. Age-restricted channels are searched only from
    age-restricted ones.
    """
    guild = here.guild
    readers: list[discord.Member | discord.Role] = [asker, guild.me]
    if not private:
        readers.append(guild.default_role)
    audience = None if private else Audience(here, checked=(asker.id, guild.me.id))
    return tuple(
        channel.id
        for channel in message_channels(guild)
        if channel.id != here.id
        and is_remembered(channel, settings, policies)
        and not (isinstance(channel, discord.Thread) and channel.is_private())
        and (here.is_nsfw() or not channel.is_nsfw())
        and all(can_read(channel, reader) for reader in readers)
        and (audience is None or audience.can_read(channel))
    )
