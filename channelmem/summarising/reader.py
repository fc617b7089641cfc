"""The summaries of a channel that may be shown. In: a channel and its policy. Out: summaries on all levels.

Redis leaves out what was removed; what this process could not tell Redis yet is left out here.
"""

from __future__ import annotations

from collections.abc import Iterable

from channelmem.policy import Policy
from channelmem.store.connection import reads
from channelmem.store.summaries import SummaryStore
from channelmem.store.withdrawn import Withdrawn
from channelmem.summarising.documents import from_document
from channelmem.summarising.pyramid import Summary, affected_by, with_all_above


class SummaryReader:
    def __init__(self, store: SummaryStore, window_s: float) -> None:
        self._store, self._window_s = store, window_s

    @reads
    async def read(
        self, guild_id: int, channel_id: int, policy: Policy, since: float | None = None
    ) -> tuple[Summary, ...]:
        """Those that begin at `since` or later, or in the window that it divides, oldest first, in one round trip; none
        where the policy wants none."""
        if not (policy.enabled and policy.summaries):
            return ()
        withdrawn = self._store.withdrawn()
        start = None if since is None else since - self._window_s
        documents = await self._store.since(guild_id, channel_id, start, policy)
        return _shown(map(from_document, documents), guild_id, channel_id, withdrawn)

    @reads
    async def standing(self, guild_id: int, channel_id: int, ids: Iterable[str], policy: Policy) -> dict[str, Summary]:
        """These summaries as they are now, by id; without those that went."""
        withdrawn = self._store.withdrawn()
        documents = await self._store.some(guild_id, channel_id, ids, policy)
        return {one.id: one for one in _shown(map(from_document, documents), guild_id, channel_id, withdrawn)}


def _shown(summaries: Iterable[Summary], guild_id: int, channel_id: int, withdrawn: Withdrawn) -> tuple[Summary, ...]:
    found = tuple(summaries)
    if not withdrawn:
        return found
    messages, floor = withdrawn.hidden_in(guild_id, channel_id)
    hit = {one.id for one in affected_by(found, messages)}
    hit |= {
        one.id
        for one in found
        if one.start <= floor or withdrawn.hides_any(guild_id, (person.id for person in one.authors))
    }
    hidden = {one.id for one in with_all_above(found, hit)}
    return tuple(one for one in found if one.id not in hidden)
