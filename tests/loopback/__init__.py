"""A Discord of our own for the tests: REST v10 and the gateway on loopback sockets, for an unmodified discord.py."""

from .interactions import Interaction
from .payloads import DM, PUBLIC_THREAD, TEXT, VOICE, Channel, Guild, Json, Upload, User
from .server import Loopback, point_at

__all__ = [
    "DM",
    "PUBLIC_THREAD",
    "TEXT",
    "VOICE",
    "Channel",
    "Guild",
    "Interaction",
    "Json",
    "Loopback",
    "Upload",
    "User",
    "point_at",
]
