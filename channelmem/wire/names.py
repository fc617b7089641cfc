"""Names in JSON: what the platform calls a guild and its channels."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import Field

from channelmem.wire.scalars import Body, Id, Name, as_json

MOST_NAMED = 1_000


class NamedChannel(Body):
    id: Id
    name: Name


class NamesBody(Body):
    """An empty name changes nothing; names go with their channel or guild."""

    guild: Name = ""
    channels: Annotated[tuple[NamedChannel, ...], Field(max_length=MOST_NAMED)] = ()

    def by_channel(self) -> dict[int, str]:
        return {one.id: one.name for one in self.channels}


def names_json(guild: str, channels: Mapping[int, str]) -> dict[str, Any]:
    """For a request."""
    named = tuple(NamedChannel(id=channel_id, name=name) for channel_id, name in channels.items())
    return as_json(NamesBody(guild=guild, channels=named))
