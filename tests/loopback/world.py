"""The state behind the loopback Discord: guilds, channels, people, messages, and who may do what."""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass, field

import discord
from clock import wall_now

from . import payloads
from .payloads import Channel, Guild, Json, Member, Overwrite, Role, Team, User

MENTION = re.compile(r"<@!?(\d+)>")
EVERYONE = (
    discord.Permissions(
        view_channel=True,
        send_messages=True,
        read_message_history=True,
        add_reactions=True,
        embed_links=True,
        send_messages_in_threads=True,
        use_application_commands=True,
    )
).value


@dataclass
class World:
    """Everything that exists; no sockets here."""

    users: dict[int, User] = field(default_factory=dict)
    guilds: dict[int, Guild] = field(default_factory=dict)
    channels: dict[int, Channel] = field(default_factory=dict)
    messages: dict[int, dict[int, Json]] = field(default_factory=lambda: defaultdict(dict))
    commands: list[Json] = field(default_factory=list)
    team: Team | None = None
    """Owns the application; without one its owner does."""
    _last_ms: int = 0
    _serial: int = 0

    def __post_init__(self) -> None:
        self.bot = self.add_user("channelmem", "Memo", bot=True)
        self.owner = self.add_user("owner", "Owner")

    def snowflake(self, at: float | None = None) -> int:
        """A fresh id: of now, strictly rising, or of the given moment."""
        self._serial += 1
        ms = int((wall_now() if at is None else at) * 1000) - payloads.EPOCH_MS
        if at is None:
            ms = self._last_ms = max(ms, self._last_ms)
        return (ms << 22) | (self._serial & 0x3FFFFF)

    def add_user(self, username: str, global_name: str | None = None, *, bot: bool = False) -> User:
        person = User(self.snowflake(), username, global_name, bot)
        self.users[person.id] = person
        return person

    def add_guild(self, name: str, *people: User, id_: int | None = None) -> Guild:
        guild = Guild(id_ or self.snowflake(), name, self.owner.id)
        guild.roles.append(Role(guild.id, "@everyone", EVERYONE))
        self.guilds[guild.id] = guild
        for person in (self.bot, self.owner, *people):
            guild.members[person.id] = Member(person)
        return guild

    def add_channel(
        self, guild: Guild, name: str, kind: int = payloads.TEXT, *, parent: Channel | None = None
    ) -> Channel:
        channel = Channel(
            self.snowflake(),
            name,
            kind,
            guild.id,
            position=len(guild.channels),
            parent_id=parent.id if parent else None,
            owner_id=self.owner.id,
        )
        guild.channels[channel.id] = self.channels[channel.id] = channel
        return channel

    def add_dm(self, person: User) -> Channel:
        for channel in self.channels.values():
            if channel.type == payloads.DM and channel.recipients == [person]:
                return channel
        channel = Channel(self.snowflake(), person.username, payloads.DM, recipients=[person])
        self.channels[channel.id] = channel
        return channel

    def hide(self, channel: Channel, person: User) -> None:
        """One person may no longer see the channel."""
        deny = discord.Permissions(view_channel=True).value
        channel.overwrites.append(Overwrite(person.id, 1, deny=deny))

    def hide_from_everyone(self, channel: Channel) -> None:
        """Only those who are let in by name may see the channel."""
        assert channel.guild_id is not None
        deny = discord.Permissions(view_channel=True).value
        channel.overwrites.append(Overwrite(channel.guild_id, 0, deny=deny))

    def allow(self, channel: Channel, person: User, **permissions: bool) -> None:
        channel.overwrites.append(Overwrite(person.id, 1, allow=discord.Permissions(**permissions).value))

    def deny(self, channel: Channel, person: User, **permissions: bool) -> None:
        channel.overwrites.append(Overwrite(person.id, 1, deny=discord.Permissions(**permissions).value))

    def grant(self, guild: Guild, person: User, **permissions: bool) -> Role:
        """A role of its own for one member, in every channel."""
        role = Role(self.snowflake(), "granted", discord.Permissions(**permissions).value)
        guild.roles.append(role)
        guild.members[person.id].roles.append(role.id)
        return role

    def revoke(self, guild: Guild, person: User, role: Role) -> None:
        guild.roles.remove(role)
        guild.members[person.id].roles.remove(role.id)

    def found_team(self, *members: User, role: str = "developer") -> Team:
        """From now on a team owns the application: its owner, and these people."""
        admin = (self.owner, "admin")
        self.team = Team(self.snowflake(), self.owner.id, [admin, *((member, role) for member in members)])
        return self.team

    def permissions(self, channel: Channel, user_id: int) -> discord.Permissions:
        """Discord's own order: everyone, roles, then overwrites from wide to narrow."""
        if channel.guild_id is None:
            return discord.Permissions.all()
        guild = self.guilds[channel.guild_id]
        member = guild.members.get(user_id)
        if member is None:
            return discord.Permissions.none()
        if user_id == guild.owner_id:
            return discord.Permissions.all()
        mine = {guild.id, *member.roles}
        value = 0
        for role in guild.roles:
            value |= role.permissions if role.id in mine else 0
        if discord.Permissions(value).administrator:
            return discord.Permissions.all()
        room = channel if channel.parent_id is None else self.channels[channel.parent_id]
        for overwrite in sorted(room.overwrites, key=lambda o: (o.type, o.id != guild.id)):
            if overwrite.id in mine or overwrite.id == user_id:
                value = (value & ~overwrite.deny) | overwrite.allow
        return discord.Permissions(value)

    def post(
        self,
        channel: Channel,
        author: User,
        content: str,
        *,
        reply_to: int | None = None,
        at: float | None = None,
        extra: Json | None = None,
    ) -> Json:
        """Puts a message into a channel and returns it as REST shows it."""
        id_ = self.snowflake(at)
        body = payloads.message(id_, channel.id, author, content, extra)
        body["mentions"] = [
            payloads.user(self.users[int(found)]) for found in MENTION.findall(content) if int(found) in self.users
        ]
        if reply_to is not None:
            self._refer(body, channel, reply_to)
        self.messages[channel.id][id_] = body
        channel.last_message_id = max(id_, channel.last_message_id or 0)
        return body

    def _refer(self, body: Json, channel: Channel, reply_to: int) -> None:
        target = self.messages[channel.id].get(reply_to)
        body["type"] = 19
        body["message_reference"] = payloads.reference(
            target or {"id": str(reply_to), "channel_id": str(channel.id)}, channel.guild_id
        )
        if target is not None:
            flat = {k: v for k, v in target.items() if k != "referenced_message"}
            body["referenced_message"] = flat
            if all(person["id"] != target["author"]["id"] for person in body["mentions"]):
                body["mentions"].append(target["author"])

    def event(self, body: Json) -> Json:
        """The message as the gateway sends it: with its guild and the author's member."""
        channel = self.channels[int(body["channel_id"])]
        if channel.guild_id is None:
            return dict(body)
        guild = self.guilds[channel.guild_id]
        event = body | {"guild_id": str(guild.id)}
        member = guild.members.get(int(body["author"]["id"]))
        if member is not None and "webhook_id" not in body:
            event["member"] = payloads.member(member, with_user=False)
        event["mentions"] = [self._mentioned(person, guild) for person in body["mentions"]]
        return event

    def _mentioned(self, person: Json, guild: Guild) -> Json:
        member = guild.members.get(int(person["id"]))
        return person | {"member": payloads.member(member, with_user=False)} if member else person

    def page(self, channel_id: int, *, before: int, after: int, limit: int) -> list[Json]:
        """Newest first. With `after` the *oldest* n after it are meant, as Discord does."""
        ids = sorted(i for i in self.messages[channel_id] if after < i < before)
        chosen = ids[:limit] if after else ids[-limit:]
        return [self.messages[channel_id][i] for i in reversed(chosen)]
