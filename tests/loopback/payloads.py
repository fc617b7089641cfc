"""Discord's wire formats, made from the world's state: what enters are our small values, what leaves is JSON.

Each payload carries every field that Discord's OpenAPI document requires and discord.py reads.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

Json = dict[str, Any]

EPOCH_MS = 1_420_070_400_000
TEXT, DM, VOICE, PUBLIC_THREAD = 0, 1, 2, 11
ATTACHMENT = "attachments"


@dataclass(slots=True)
class User:
    id: int
    username: str
    global_name: str | None = None
    bot: bool = False

    @property
    def mention(self) -> str:
        return f"<@{self.id}>"


@dataclass(slots=True)
class Member:
    user: User
    nick: str | None = None
    roles: list[int] = field(default_factory=list)
    joined_at: str = "2024-01-01T00:00:00.000000+00:00"


@dataclass(slots=True)
class Role:
    id: int
    name: str
    permissions: int
    bot_id: int | None = None
    """Set for the role that Discord makes for a bot."""


@dataclass(slots=True)
class Overwrite:
    """What a role (type 0) or a member (type 1) may or may not do in one channel."""

    id: int
    type: int
    allow: int = 0
    deny: int = 0


@dataclass(slots=True)
class Channel:
    id: int
    name: str
    type: int = TEXT
    guild_id: int | None = None
    position: int = 0
    parent_id: int | None = None
    overwrites: list[Overwrite] = field(default_factory=list)
    owner_id: int = 0
    recipients: list[User] = field(default_factory=list)
    last_message_id: int | None = None
    nsfw: bool = False


@dataclass(slots=True)
class Guild:
    id: int
    name: str
    owner_id: int
    roles: list[Role] = field(default_factory=list)
    channels: dict[int, Channel] = field(default_factory=dict)
    members: dict[int, Member] = field(default_factory=dict)
    system_channel_id: int | None = None


@dataclass(frozen=True, slots=True)
class Upload:
    """A file that somebody attaches."""

    name: str
    content: bytes
    content_type: str = "text/plain; charset=utf-8"


@dataclass(slots=True)
class Team:
    """Owns the application together; each member with a role ("admin", "developer", "read_only")."""

    id: int
    owner_id: int
    members: list[tuple[User, str]]


def timestamp(id_: int) -> str:
    """The moment a snowflake was made, as Discord writes it."""
    return iso(((id_ >> 22) + EPOCH_MS) / 1000)


def iso(epoch_s: float) -> str:
    return datetime.fromtimestamp(epoch_s, UTC).isoformat(timespec="microseconds")


def user(value: User) -> Json:
    return {
        "id": str(value.id),
        "username": value.username,
        "global_name": value.global_name,
        "discriminator": "0",
        "avatar": None,
        "bot": value.bot,
        "public_flags": 0,
        "flags": 0,
        "primary_guild": None,
    }


def me(value: User) -> Json:
    return user(value) | {"mfa_enabled": False, "locale": "en-US", "verified": True, "email": None}


def member(value: Member, *, with_user: bool = True) -> Json:
    body: Json = {
        "nick": value.nick,
        "roles": [str(id_) for id_ in value.roles],
        "joined_at": value.joined_at,
        "premium_since": None,
        "communication_disabled_until": None,
        "avatar": None,
        "banner": None,
        "flags": 0,
        "deaf": False,
        "mute": False,
        "pending": False,
    }
    return body | {"user": user(value.user)} if with_user else body


def role(value: Role) -> Json:
    return {
        "id": str(value.id),
        "name": value.name,
        "permissions": str(value.permissions),
        "position": 0,
        "color": 0,
        "colors": {"primary_color": 0, "secondary_color": None, "tertiary_color": None},
        "hoist": False,
        "managed": False,
        "mentionable": False,
        "flags": 0,
        "tags": {"bot_id": str(value.bot_id)} if value.bot_id else {},
    }


def channel(value: Channel) -> Json:
    if value.type == DM:
        return {
            "id": str(value.id),
            "type": DM,
            "flags": 0,
            "last_message_id": None,
            "recipients": [user(person) for person in value.recipients],
        }
    base: Json = {
        "id": str(value.id),
        "type": value.type,
        "guild_id": str(value.guild_id),
        "name": value.name,
        "flags": 0,
        "parent_id": None if value.parent_id is None else str(value.parent_id),
        "last_message_id": str(value.last_message_id) if value.last_message_id else None,
        "rate_limit_per_user": 0,
    }
    return base | (_thread(value) if value.type == PUBLIC_THREAD else _room(value))


def _room(value: Channel) -> Json:
    return {
        "position": value.position,
        "nsfw": value.nsfw,
        "topic": None,
        "bitrate": 64_000,
        "user_limit": 0,
        "permission_overwrites": [
            {"id": str(o.id), "type": o.type, "allow": str(o.allow), "deny": str(o.deny)} for o in value.overwrites
        ],
    }


def _thread(value: Channel) -> Json:
    made = timestamp(value.id)
    return {
        "owner_id": str(value.owner_id),
        "message_count": 0,
        "member_count": 1,
        "total_message_sent": 0,
        "thread_metadata": {
            "archived": False,
            "auto_archive_duration": 1440,
            "archive_timestamp": made,
            "create_timestamp": made,
            "locked": False,
        },
    }


def guild(value: Guild, bot_id: int) -> Json:
    """GUILD_CREATE without the members intent: only the bot's own member is listed."""
    rooms = [c for c in value.channels.values() if c.type != PUBLIC_THREAD]
    threads = [c for c in value.channels.values() if c.type == PUBLIC_THREAD]
    return {
        "id": str(value.id),
        "name": value.name,
        "icon": None,
        "splash": None,
        "discovery_splash": None,
        "banner": None,
        "description": None,
        "owner_id": str(value.owner_id),
        "afk_channel_id": None,
        "afk_timeout": 300,
        "verification_level": 0,
        "default_message_notifications": 0,
        "explicit_content_filter": 0,
        "features": [],
        "mfa_level": 0,
        "nsfw_level": 0,
        "application_id": None,
        "system_channel_id": None if value.system_channel_id is None else str(value.system_channel_id),
        "system_channel_flags": 0,
        "rules_channel_id": None,
        "public_updates_channel_id": None,
        "preferred_locale": "en-US",
        "premium_tier": 0,
        "premium_subscription_count": 0,
        "premium_progress_bar_enabled": False,
        "vanity_url_code": None,
        "roles": [role(r) for r in value.roles],
        "emojis": [],
        "stickers": [],
        "channels": [channel(c) for c in rooms],
        "threads": [channel(c) for c in threads],
        "members": [member(m) for m in value.members.values() if m.user.id == bot_id],
        "presences": [],
        "voice_states": [],
        "stage_instances": [],
        "guild_scheduled_events": [],
        "soundboard_sounds": [],
        "member_count": len(value.members),
        "large": False,
        "unavailable": False,
        "joined_at": "2024-01-01T00:00:00.000000+00:00",
    }


def message(id_: int, channel_id: int, author: User, content: str, extra: Json | None = None) -> Json:
    body: Json = {
        "id": str(id_),
        "channel_id": str(channel_id),
        "author": user(author),
        "content": content,
        "timestamp": timestamp(id_),
        "edited_timestamp": None,
        "tts": False,
        "mention_everyone": False,
        "mentions": [],
        "mention_roles": [],
        "attachments": [],
        "embeds": [],
        "components": [],
        "pinned": False,
        "type": 0,
        "flags": 0,
    }
    return body | (extra or {})


def reference(to: Json, guild_id: int | None, *, forward: bool = False) -> Json:
    body: Json = {"type": int(forward), "message_id": to["id"], "channel_id": to["channel_id"]}
    return body | ({"guild_id": str(guild_id)} if guild_id else {})


def application(bot: User, owner: User, owners: Team | None = None) -> Json:
    return {
        "id": str(bot.id),
        "name": bot.username,
        "icon": None,
        "description": "",
        "type": None,
        "verify_key": "0" * 64,
        "bot_public": True,
        "bot_require_code_grant": False,
        "flags": 0,
        "flags_new": "0",
        "redirect_uris": [],
        "interactions_endpoint_url": None,
        "role_connections_verification_url": None,
        "owner": user(owner),
        "approximate_guild_count": 1,
        "approximate_user_install_count": 0,
        "approximate_user_authorization_count": 0,
        "explicit_content_filter": 0,
        "team": team(owners) if owners else None,
        "eligible_oauth2_scopes": [],
    }


def team(value: Team) -> Json:
    members = [
        {"user": user(one), "team_id": str(value.id), "membership_state": 2, "role": role_, "permissions": ["*"]}
        for one, role_ in value.members
    ]
    return {"id": str(value.id), "icon": None, "name": "Team", "owner_user_id": str(value.owner_id), "members": members}


def command(body: Json, id_: int, application_id: int) -> Json:
    permissions = body.get("default_member_permissions")
    return {
        "id": str(id_),
        "application_id": str(application_id),
        "version": str(id_),
        "type": body.get("type", 1),
        "name": body["name"],
        "name_localizations": None,
        "description": body.get("description", ""),
        "description_localizations": None,
        "options": body.get("options", []),
        "default_member_permissions": None if permissions is None else str(permissions),
        "contexts": body.get("contexts"),
        "integration_types": body.get("integration_types") or [0],
        "nsfw": False,
    }


def gateway_bot(url: str, shards: int) -> Json:
    limit = {"total": 1000, "remaining": 999, "reset_after": 0, "max_concurrency": 16}
    return {"url": url, "shards": shards, "session_start_limit": limit}


def attachment(id_: int, filename: str, content_type: str, description: str | None = None) -> Json:
    url = f"https://cdn.example/{id_}/{filename}?ex=1"
    body: Json = {"id": str(id_), "filename": filename, "size": 10, "url": url, "proxy_url": url}
    return body | {"content_type": content_type} | ({"description": description} if description else {})


def options(values: Json, specs: Sequence[Json]) -> list[Json]:
    """A slash command's options as the client sends them, typed by the registered command."""
    kinds = {spec["name"]: spec["type"] for spec in specs}
    return [{"name": name, "type": kinds[name], "value": value} for name, value in values.items()]


def interaction(id_: int, token: str, kind: int, data: Json, place: Channel, application_id: int) -> Json:
    """Without the one who did it."""
    return {
        "id": str(id_),
        "application_id": str(application_id),
        "type": kind,
        "token": token,
        "version": 1,
        "data": data,
        "channel_id": str(place.id),
        "channel": channel(place),
        "locale": "en-US",
        "entitlements": [],
        "authorizing_integration_owners": {},
        "context": 0 if place.guild_id else 1,
        "attachment_size_limit": 10_000_000,
    }
