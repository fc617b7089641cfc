"""Discord's messages and channels as channelmem's values."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable, Iterator
from pathlib import PurePosixPath
from typing import Protocol
from urllib.parse import urlsplit

import aiohttp
import discord

from channelmem.media.kinds import of_preview
from channelmem.types import Attachment, Message, Person

MessageChannel = discord.TextChannel | discord.VoiceChannel | discord.StageChannel | discord.Thread
MESSAGE_CHANNELS = (discord.TextChannel, discord.VoiceChannel, discord.StageChannel, discord.Thread)
TIMEOUT_S = 4.0

UNRESOLVED = (discord.HTTPException, discord.InvalidData, aiohttp.ClientError, OSError)
"""Discord refuses or does not answer; a TimeoutError is an OSError."""


class ChannelFetcher(Protocol):
    async def fetch_channel(
        self, channel_id: int, /
    ) -> discord.abc.GuildChannel | discord.abc.PrivateChannel | discord.Thread: ...


async def resolve(client: ChannelFetcher, channel: object, channel_id: int) -> MessageChannel | None:
    """The channel itself if it is known. A thread that Discord has not announced yet is fetched, because its
    permissions are those of its parent."""
    if isinstance(channel, MESSAGE_CHANNELS):
        return channel
    try:
        async with asyncio.timeout(TIMEOUT_S):
            found = await client.fetch_channel(channel_id)
    except UNRESOLVED:
        return None
    return found if isinstance(found, MESSAGE_CHANNELS) else None


def thread_of(channel: object) -> int:
    """The channel that a thread belongs to; 0 if it is no thread."""
    return channel.parent_id if isinstance(channel, discord.Thread) else 0


def is_age_restricted(channel: object) -> bool:
    """Also where nobody knows, as for a thread that Discord has not announced yet."""
    if isinstance(channel, discord.DMChannel):
        return False
    return channel.is_nsfw() if isinstance(channel, MESSAGE_CHANNELS) else True


def guild_of(channel: object) -> int:
    """0 for a private conversation, or an unknown place."""
    if isinstance(channel, discord.PartialMessageable):
        return channel.guild_id or 0
    guild = getattr(channel, "guild", None)
    return guild.id if guild is not None else 0


# --- convert ---


MARKUP = re.compile(
    r"<(?:@!?(?P<user>\d+)|@&(?P<role>\d+)|#(?P<channel>\d+)|a?:(?P<emoji>\w+):\d+|/(?P<slash>[^:>]+):\d+)>"
)
JUMP_URL = re.compile(r" ?https://discord\.com/channels/[\d/]+")
PEOPLE_TYPES = {discord.MessageType.default, discord.MessageType.reply}
OWN_TYPES = PEOPLE_TYPES | {discord.MessageType.chat_input_command}
PREVIEW_CHARS = 200
PICTURE_EMBEDS = {"image", "gifv"}

Members = dict[int, discord.Member]
"""Looked up for messages that arrive without them: fetched history carries no nicknames."""


def to_message(message: discord.Message, me: discord.ClientUser, members: Members | None = None) -> Message | None:
    """What Memory keeps; None for bots, webhooks, system messages and DMs."""
    if message.guild is None or not _is_kept(message, me):
        return None
    author = (members or {}).get(message.author.id, message.author)
    content = plain_text(message, members)
    if author.id == me.id:
        content = JUMP_URL.sub("", content)  # our links are for clicking; as words they would only bury the quote
    return Message(
        guild_id=message.guild.id,
        channel_id=message.channel.id,
        id=message.id,
        author_id=author.id,
        author=author.display_name,
        content=content,
        ts=message.created_at.timestamp(),
        reply_to=replied_to(message),
        mentions=tuple(person.id for person in message.mentions),
        own=author.id == me.id,
        addressed=author.id != me.id and is_addressed(message, me),
        revision=message.edited_at.timestamp() if message.edited_at else 0.0,
        aliases=aliases_of(author),
        attachments=files_of(message),
        thread_of=thread_of(message.channel),
        age_restricted=is_age_restricted(message.channel),
    )


def files_of(message: discord.Message) -> tuple[Attachment, ...]:
    """Attachments and the pictures of link previews, those of forwarded messages too."""
    parts: list[discord.Message | discord.MessageSnapshot] = [message, *message.message_snapshots]
    files = [_file(one) for part in parts for one in part.attachments]
    return (*files, *(one for part in parts for one in map(_preview_picture, part.embeds) if one))


def _preview_picture(embed: discord.Embed) -> Attachment | None:
    """By Discord's own proxy: the address in the embed is anybody's. Small pictures beside a text only decorate it."""
    media = embed.image if embed.image.proxy_url else embed.thumbnail if embed.type in PICTURE_EMBEDS else None
    if media is None or not media.proxy_url:
        return None
    return of_preview(media.proxy_url, PurePosixPath(urlsplit(media.url or "").path).name)


def _file(one: discord.Attachment) -> Attachment:
    return Attachment(
        id=one.id,
        url=one.url,
        content_type=one.content_type or "",
        name=one.filename,
        size=one.size,
        alt=one.description or "",
        duration_s=one.duration,
    )


def _is_kept(message: discord.Message, me: discord.ClientUser) -> bool:
    if message.author.id == me.id:
        return message.type in OWN_TYPES and not message.flags.loading and not message.flags.ephemeral
    return message.type in PEOPLE_TYPES and not message.author.bot and message.webhook_id is None


def aliases_of(author: discord.User | discord.Member) -> tuple[str, ...]:
    """The author's other names: a nickname hides the global name, and both hide the username."""
    known = (author.global_name, author.name)
    return tuple(dict.fromkeys(name for name in known if name and name != author.display_name))


def to_person(member: discord.User | discord.Member) -> Person:
    return Person(member.id, member.display_name, aliases_of(member))


def replied_to(message: discord.Message) -> int | None:
    """The id of the message this one replies to; a forward references a message too, but is not a reply."""
    reference = message.reference
    return reference.message_id if reference and message.type is discord.MessageType.reply else None


def is_addressed(message: discord.Message, me: discord.ClientUser) -> bool:
    """Whether it mentions the bot or its role, replies to it, or is a direct message."""
    if message.guild is None:
        # A guild missing from the cache looks the same, and there the bot would answer every message.
        return isinstance(message.channel, discord.DMChannel)
    if any(person.id == me.id for person in message.mentions):
        return True
    role = message.guild.self_role
    if role is not None and role in message.role_mentions:
        return True
    target = message.reference.resolved if message.reference and replied_to(message) else None
    return isinstance(target, discord.Message) and target.author.id == me.id


def plain_text(message: discord.Message, members: Members | None = None) -> str:
    """Everything the message says, as one text."""
    parts = [_with_names(message.content, message, members), *_extras(message)]
    if message.poll is not None:
        parts.append(_poll(message.poll))
    for snapshot in message.message_snapshots:
        inner = [_with_names(snapshot.content, message, members), *_extras(snapshot)]
        parts.append(f"[forwarded: {_join(inner)}]")
    return _join(parts)


def question_text(message: discord.Message, me: discord.ClientUser) -> str:
    """The message without the mention of the bot."""
    role = message.guild.self_role if message.guild else None
    content = re.sub(rf"<@!?{me.id}>", " ", message.content)
    if role is not None:
        content = content.replace(role.mention, " ")
    return " ".join(_with_names(content, message, None).split())


def _join(parts: Iterable[str]) -> str:
    return "\n".join(part for part in (part.strip() for part in parts) if part)


def _with_names(content: str, message: discord.Message, members: Members | None) -> str:
    people: dict[int, discord.User | discord.Member] = {p.id: p for p in message.mentions}
    people |= members or {}
    return MARKUP.sub(lambda found: _name(found, message.guild, people), content)


def _name(found: re.Match[str], guild: discord.Guild | None, people: dict[int, discord.User | discord.Member]) -> str:
    kind, value = found.lastgroup, found[found.lastgroup or 0]
    if kind == "user":
        who = people.get(int(value)) or (guild.get_member(int(value)) if guild else None)
        return f"@{who.display_name}" if who else "@someone"
    if kind == "role":
        role = guild.get_role(int(value)) if guild else None
        return f"@{role.name}" if role else "@role"
    if kind == "channel":
        channel = guild.get_channel_or_thread(int(value)) if guild else None
        return f"#{channel.name}" if channel else "#channel"
    return f":{value}:" if kind == "emoji" else f"/{value}"


def _extras(message: discord.Message | discord.MessageSnapshot) -> Iterator[str]:
    for sticker in message.stickers:
        yield f"[sticker: {sticker.name}]"
    for attachment in message.attachments:
        yield _attachment(attachment)
    for embed in message.embeds:
        yield _preview(embed)


def _attachment(attachment: discord.Attachment) -> str:
    if attachment.is_voice_message():
        return "[voice message]"
    kind = (attachment.content_type or "").split("/")[0]
    word = kind if kind in {"image", "video", "audio"} else "file"
    about = f" ({attachment.description})" if attachment.description else ""
    return f"[{word}: {attachment.filename}{about}]"


def _preview(embed: discord.Embed) -> str:
    text = ": ".join(part for part in (embed.title, embed.description) if part)
    return f"[link: {text[:PREVIEW_CHARS]}]" if text else ""


def _poll(poll: discord.Poll) -> str:
    choices = " / ".join(answer.text for answer in poll.answers)
    return f"[poll: {poll.question} {choices}]"
