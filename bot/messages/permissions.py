"""Who may be heard and what may be read. In: settings, channels, people. Out: yes or no, and lists of channel ids."""

from __future__ import annotations

import discord

from channelmem.settings import Settings

Room = discord.TextChannel | discord.VoiceChannel | discord.StageChannel | discord.Thread
ROOMS = (discord.TextChannel, discord.VoiceChannel, discord.StageChannel, discord.Thread)


def remembered(channel: discord.abc.Snowflake, settings: Settings) -> bool:
    """By the allow and block lists; a thread follows its parent unless it is listed itself."""
    if not settings.enabled:
        return False
    if isinstance(channel, discord.PartialMessageable) and settings.channels_block:
        return False  # a thread that Discord has not told us of: its parent may be a blocked one
    ids = {channel.id} | ({channel.parent_id} if isinstance(channel, discord.Thread) else set())
    if ids & set(settings.channels_block):
        return False
    return not settings.channels_allow or bool(ids & set(settings.channels_allow))


def may_see(channel: Room, who: discord.Member) -> bool:
    """Hears what is said there now."""
    if isinstance(channel, discord.Thread) and channel.parent is None:
        return False
    return channel.permissions_for(who).view_channel


def may_read(channel: Room, who: discord.Member | discord.Role) -> bool:
    """Sees the channel and its past; in a voice channel the chat also needs the right to connect."""
    if isinstance(channel, discord.Thread) and channel.parent is None:
        return False
    held = channel.permissions_for(who)
    voice = isinstance(channel, discord.VoiceChannel | discord.StageChannel)
    return held.view_channel and held.read_message_history and (held.connect or not voice)


def rooms(guild: discord.Guild) -> list[Room]:
    """Every place of the guild where people write, threads included."""
    return [c for c in (*guild.channels, *guild.threads) if isinstance(c, ROOMS)]


def readable_channel_ids(here: Room, asker: discord.Member, settings: Settings, *, private: bool) -> tuple[int, ...]:
    """Further channels that a question may look at: asker and bot can both read them at this moment.

    An answer that everybody here sees must not carry words out of a room that some of them cannot enter, so a public
    question is kept to rooms that are open to all of the guild. Age-restricted rooms only feed age-restricted ones.
    """
    if not settings.cross_channel:
        return ()
    guild = here.guild
    readers: list[discord.Member | discord.Role] = [asker, guild.me]
    if not private:
        readers.append(guild.default_role)
    return tuple(
        room.id
        for room in rooms(guild)
        if room.id != here.id
        and remembered(room, settings)
        and not (isinstance(room, discord.Thread) and room.is_private())
        and (here.is_nsfw() or not room.is_nsfw())
        and all(may_read(room, reader) for reader in readers)
    )
