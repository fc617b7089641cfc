"""The people and places that most of the bot's tests share."""

from __future__ import annotations

from dataclasses import dataclass

from .payloads import Channel, Guild, User
from .server import Loopback


@dataclass
class Scene:
    """A server, a guild with one channel, and two people in it."""

    server: Loopback
    guild: Guild
    general: Channel
    mark: User
    ann: User
