"""What a client of the MCP server may reach. In: the options of the operator, the token of a request. Out: `Bounds`.

Both apply: a token never reaches beyond what the operator opened, and nothing else can be named at all.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Final


@dataclass(frozen=True, slots=True)
class Bounds:
    """Guilds and channels that can be named; None: all of them."""

    guilds: frozenset[int] | None = None
    channels: frozenset[int] | None = None
    write: bool = False
    client: str = ""
    """Who asks, if a token says so."""

    @classmethod
    def of_options(cls, guilds: Collection[int], channels: Collection[int], *, write: bool) -> Bounds:
        """No option for guilds or channels leaves them open."""
        return cls(frozenset(guilds) or None, frozenset(channels) or None, write)

    def allows(self, guild_id: int, channel_id: int) -> bool:
        return (self.guilds is None or guild_id in self.guilds) and (
            self.channels is None or channel_id in self.channels
        )

    def of_token(self, client: str, guilds: Collection[int] | None, *, write: bool) -> Bounds:
        """The same for one token: bound to some guilds, or to none (None) if it may reach all."""
        narrowed = self.guilds
        if guilds is not None:
            narrowed = frozenset(guilds) if narrowed is None else narrowed & frozenset(guilds)
        return replace(self, guilds=narrowed, write=self.write and write, client=client)


NOTHING: Final = Bounds(frozenset(), frozenset())
