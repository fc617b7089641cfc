"""Discord's messages, channels and members as channelmem's values, and who may read which channel.

Messages from history carry no member, so their authors would lose their nicknames. One gateway request returns up to
a hundred members by id, or some whose name begins with a few letters; neither needs a privileged intent.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Protocol
from urllib.parse import urlsplit

import aiohttp
import discord

from channelmem.commands import is_command
from channelmem.media.kinds import of_preview
from channelmem.policy.policies import Policies
from channelmem.settings import Settings
from channelmem.types import Attachment, Message, Person

MessageChannel = discord.TextChannel | discord.VoiceChannel | discord.StageChannel | discord.Thread
MESSAGE_CHANNELS = (discord.TextChannel, discord.VoiceChannel, discord.StageChannel, discord.Thread)
CHANNEL_TIMEOUT_S = 4.0

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
        async with asyncio.timeout(CHANNEL_TIMEOUT_S):
            found = await client.fetch_channel(channel_id)
    except UNRESOLVED:
        return None
    return found if isinstance(found, MESSAGE_CHANNELS) else None


def thread_of(channel: object) -> int:
    """The channel that a thread belongs to; 0 if it isn't a thread."""
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


def is_for_a_bot(content: str, settings: Settings) -> bool:
    """Whether it is a command for some bot."""
    return is_command(content, settings.command_prefixes, settings.command_names)


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
        choices = " / ".join(answer.text for answer in message.poll.answers)
        parts.append(f"[poll: {message.poll.question} {choices}]")
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


# --- people ---


MEMBERS_TIMEOUT_S = 2.0
MAX_MEMBERS = 100
MAX_FOUND = 5
MAX_NAME_CHARS = 32
"""Discord has no longer names."""
CACHE_S = 60.0
MAX_HELD = 1_000

UNANSWERED = (TimeoutError, discord.DiscordException, ConnectionError, aiohttp.ClientError, RuntimeError)
"""Discord does not answer, or (RuntimeError) the shard is not connected."""


async def fetch_members(guild: discord.Guild, ids: Iterable[int]) -> Members:
    """Members that do not arrive in time are left out: their messages then show the global name."""
    wanted = list(dict.fromkeys(ids))[:MAX_MEMBERS]
    known = {id_: member for id_ in wanted if (member := guild.get_member(id_))}
    missing = [id_ for id_ in wanted if id_ not in known]
    if not missing:
        return known
    try:
        async with asyncio.timeout(MEMBERS_TIMEOUT_S):
            found = await guild.query_members(user_ids=missing, limit=MAX_MEMBERS, cache=False)
    except UNANSWERED:
        return known
    return known | {member.id: member for member in found}


class MemberSearch:
    """Finds members by name and keeps what it found for a minute: a gateway allows two requests per second."""

    def __init__(self) -> None:
        self.held: dict[tuple[int, str], tuple[Person, ...]] = {}

    async def find(self, guild: discord.Guild, beginning: str) -> tuple[Person, ...]:
        """People whose nickname, global name or user name begins like this; none if Discord does not answer."""
        name = beginning.strip()
        if not 0 < len(name) <= MAX_NAME_CHARS:
            return ()
        key = (guild.id, name.casefold())
        if key not in self.held:
            try:
                async with asyncio.timeout(MEMBERS_TIMEOUT_S):
                    found = await guild.query_members(name, limit=MAX_FOUND, cache=False)
            except UNANSWERED:
                return ()
            self._hold(key, tuple(to_person(member) for member in found if not member.bot)[:MAX_FOUND])
        return self.held[key]

    def _hold(self, key: tuple[int, str], people: tuple[Person, ...]) -> None:
        if len(self.held) >= MAX_HELD:
            self.held.clear()
        self.held[key] = people
        # Dropped even if nobody asks again: otherwise names would be held indefinitely.
        asyncio.get_running_loop().call_later(CACHE_S, self._drop, key, people)

    def _drop(self, key: tuple[int, str], people: tuple[Person, ...]) -> None:
        if self.held.get(key) is people:
            del self.held[key]

    def clear(self) -> None:
        self.held.clear()


# --- permissions ---


def is_remembered(channel: discord.abc.Snowflake, settings: Settings, policies: Policies) -> bool:
    """Whether the operator includes the channel and its memory is on, by what people set while the bot runs."""
    if not is_included(channel, settings):
        return False
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


# --- audience ---


VIEW = discord.Permissions(view_channel=True).value
PAST = discord.Permissions(read_message_history=True).value
CONNECT = discord.Permissions(connect=True).value
SOMEBODY = 0
"""In place of a member's id: anybody whom no overwrite names."""


@dataclass(frozen=True, slots=True)
class Overwrites:
    """What a channel allows and denies, as bits by the id of a role or member; @everyone has the guild's id."""

    needed: tuple[int, ...]
    """Who has all of these permissions can read the channel and its past."""
    allowed: dict[int, int]
    denied: dict[int, int]
    members: frozenset[int]


def overwrites_of(channel: MessageChannel) -> Overwrites:
    """Those of its parent for a thread, which has none of its own."""
    room = channel.parent if isinstance(channel, discord.Thread) else channel
    # The public property builds a value of fifty flags for each of them: too slow for all channels of a large server.
    raw = room._overwrites if room is not None else []  # noqa: SLF001
    voice = isinstance(channel, discord.VoiceChannel | discord.StageChannel)
    return Overwrites(
        needed=(VIEW, PAST, CONNECT) if voice else (VIEW, PAST),
        allowed={one.id: one.allow for one in raw},
        denied={one.id: one.deny for one in raw},
        members=frozenset(one.id for one in raw if one.is_member()),
    )


class Audience:
    """Everybody who can read a channel, except those whose permissions were `checked` one by one."""

    def __init__(self, here: MessageChannel, checked: Collection[int]) -> None:
        guild = here.guild
        self._here, self._everyone = overwrites_of(here), guild.id
        self._checked = {*checked, guild.owner_id}
        ordinary = [role for role in guild.roles if not role.permissions.administrator]
        self._roles = {role.id for role in ordinary} - {guild.id}
        self._granted = 0
        """What any role may grant in the whole guild."""
        for role in ordinary:
            self._granted |= role.permissions.value

    def can_read(self, source: MessageChannel) -> bool:
        """Whether all of them can read a channel that is open to @everyone."""
        there = overwrites_of(source)
        people = {SOMEBODY, *self._here.members, *there.members} - self._checked
        return not any(self._learns(person, there, bit) for person in people for bit in there.needed)

    def _learns(self, person: int, there: Overwrites, bit: int) -> bool:
        """Whether the person may read the answer, but lack this permission there."""
        if there.allowed.get(person, 0) & bit:
            return False
        if there.denied.get(person, 0) & bit:
            return self._can_read_here(person, self._roles)
        shut_out = [role for role, bits in there.denied.items() if bits & bit and role in self._roles]
        if not shut_out:
            return False
        # One role that allows it outweighs all that deny it.
        roles = self._roles - {role for role, bits in there.allowed.items() if bits & bit}
        return any(self._can_read_here(person, roles, role) for role in shut_out)

    def _can_read_here(self, person: int, roles: Collection[int], role: int | None = None) -> bool:
        """Whether somebody who certainly has `role`, and may have any of `roles`, can read the answer."""
        return all(self._has(bit, person, roles, role) for bit in self._here.needed)

    def _has(self, bit: int, person: int, roles: Collection[int], role: int | None) -> bool:
        """Discord's order, from the last word to the first: member, roles, @everyone, the guild's roles."""
        allowed, denied = self._here.allowed, self._here.denied
        if (allowed.get(person, 0) | denied.get(person, 0)) & bit:
            return bool(allowed[person] & bit)
        if any(bits & bit for id_, bits in allowed.items() if id_ in roles):
            return True
        if role is not None and denied.get(role, 0) & bit:
            return False
        if (allowed.get(self._everyone, 0) | denied.get(self._everyone, 0)) & bit:
            return bool(allowed[self._everyone] & bit)
        return bool(self._granted & bit)
