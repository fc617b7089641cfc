"""Undelivered: opt-outs that Redis could not write yet. In: an author who decided. Out: whether they must be hidden.

The outbox delivers them in order. Until then this process stores and shows nothing of these people; other processes
learn of it with the delivery.
"""

from __future__ import annotations

from collections.abc import Iterable


class Undelivered:
    def __init__(self) -> None:
        self._left: dict[tuple[int | None, int], set[int]] = {}
        """By guild (None: everywhere) and author, the buckets that do not know yet."""

    def __len__(self) -> int:
        return len(self._left)

    def people(self) -> frozenset[tuple[int | None, int]]:
        """Guild (None: everywhere) and author."""
        return frozenset(self._left)

    def names(self) -> set[str]:
        """As the set of opt-outs names them."""
        return {str(author) if guild is None else f"{guild}:{author}" for guild, author in self._left}

    def add(self, author_id: int, guild_id: int | None, buckets: Iterable[int]) -> None:
        self._left.setdefault((guild_id, author_id), set()).update(buckets)

    def delivered(self, bucket: int, member: str) -> None:
        """Takes the author as the set of opt-outs names them."""
        guild, _, author = member.rpartition(":")
        key = (int(guild) if guild else None, int(author))
        self._left.get(key, set()).discard(bucket)
        if not self._left.get(key):
            self._left.pop(key, None)

    def hides(self, guild_id: int, author_id: int) -> bool:
        return bool(self._left) and ((guild_id, author_id) in self._left or (None, author_id) in self._left)

    def concerns(self, author_id: int) -> bool:
        return any(author == author_id for _, author in self._left)
