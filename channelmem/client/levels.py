"""The client's copy of what people set, in place of the store's `Levels`.

A policy is looked up for every message, so the client keeps a copy of all documents and asks every few seconds whether
something changed. The service applies its own settings to whatever it is sent, so an old copy stores and shows nothing
that it must not.
"""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from types import SimpleNamespace
from typing import Any
from urllib.parse import quote

from channelmem.client.connection import Connection, channel_path
from channelmem.errors import ChannelmemError, RedisUnavailableError
from channelmem.policy.cascade import Auto, Loss, Place, Value, renamed
from channelmem.policy.policies import Policies, name_of
from channelmem.policy.policy import Policy
from channelmem.settings import Settings
from channelmem.wire.channels import DocumentsShown, LevelShown

FOLLOW_S = 2.0
OURS = frozenset({"cross_channel"})
"""Settings that stay with the adapter, whatever the service's are: it knows who may read what."""

log = logging.getLogger(__name__)

Document = Mapping[str, Any]


class RemoteLevels:
    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self.documents: dict[str, Document] = {}
        self.threads: dict[str, str] = {}
        self.known = False
        self.on_change: Callable[[], None] = lambda: None
        self.on_defaults: Callable[[dict[str, Any]], None] = lambda _: None
        self._tag = ""

    async def load(self) -> None:
        """Reads everything, unless nothing changed since the last time."""
        headers = {"If-None-Match": self._tag} if self._tag else None
        response = await self._connection.call("GET", "/v1/settings/documents", headers=headers, tries=1)
        if response.status_code == 304:
            return
        shown = DocumentsShown.model_validate(response.json())
        self._tag = response.headers.get("etag", "")
        self._connection.answers = shown.redis
        self.documents, self.threads, self.known = dict(shown.documents), shown.threads, shown.known
        self.on_defaults(shown.defaults)
        self.on_change()

    async def follow(self) -> None:
        """Keeps the copy current until it is cancelled."""
        while True:
            await asyncio.sleep(FOLLOW_S)
            try:
                await self.load()
            except RedisUnavailableError as error:
                log.debug("Settings are not followed: %s", error)
            except (ChannelmemError, ValueError) as error:  # a revoked token, a service of another version
                log.warning("The service's settings can't be read: %s", error)

    async def read(self, guild_id: int, place: str) -> Document:
        del guild_id
        shown = await self.level("GET", place)
        return _document(shown) | {"changes": [one.model_dump(mode="json") for one in shown.changes]}

    async def change(
        self, place: str, guild_id: int, room_: str, by: int, values: Sequence[tuple[str, str]] | None
    ) -> list[tuple[str, str, str]]:
        """Sets names to JSON texts ('' clears); None clears everything. Returns name, old and new of what changed."""
        del guild_id, room_
        body = {name: json.loads(text) if text else None for name, text in values or ()}
        shown = await self.level("PUT" if values is None else "PATCH", place, body, by)
        self.documents[place] = _document(shown)
        self.on_change()
        return [(one.setting, _text(one.old), _text(one.new)) for one in shown.changes]

    async def begin(self, guild_id: int, channel_id: int, document: Document, life_s: float) -> None:
        del life_s
        path = f"{channel_path(guild_id, channel_id)}/boundary"
        await self._connection.call("PUT", path, dict(document))
        self.documents[f"boundary:{guild_id}c{channel_id}"] = document
        self.on_change()

    async def learn_threads(self, guild_id: int, parents: Mapping[str, str]) -> None:
        """The service learns of threads with their messages."""
        del guild_id
        self.threads = {**parents, **self.threads}
        self.on_change()

    def now(self) -> float:
        return time.time()

    async def rooms(self, guild_id: int = 0) -> list[tuple[int, int]]:
        """None: the service itself trims archives that are switched off."""
        del guild_id
        return []

    async def level(self, method: str, place: str, body: object = None, by: int = 0, **more: str) -> LevelShown:
        params = more | ({"by": str(by)} if by else {})
        shown = await self._connection.call(method, _path(place), body, params=params)
        return LevelShown.model_validate(shown.json())


class RemotePolicies(Policies):
    """What is in force, by the service's own defaults."""

    def __init__(self, settings: Settings, levels: RemoteLevels) -> None:
        store: Any = SimpleNamespace(levels=levels, channels=levels)  # as much of one as `Policies` needs
        super().__init__(settings, store)
        self._remote = levels
        levels.on_defaults = self.adopt

    async def preview(self, place: Place, values: Mapping[str, Value | Auto] | None) -> Loss:
        body = {name: self.json_of(name, value) for name, value in renamed(values or {}).items()}
        method = "PUT" if values is None else "PATCH"
        found = (await self._remote.level(method, name_of(place), body, preview="true")).loss
        return Loss(found.messages, found.channels, found.newest, found.kept_s) if found else Loss(0, 0, 0, 0)

    def adopt(self, defaults: dict[str, Any]) -> None:
        known = {name: value for name, value in defaults.items() if name in Settings.model_fields and name not in OURS}
        self._settings = Settings.model_validate({**self._settings.model_dump(), **known})
        self._default = Policy.of_settings(self._settings)


def _document(shown: LevelShown) -> dict[str, Any]:
    return {"values": {one.name: one.own for one in shown.settings if one.own is not None}}


def _path(place: str) -> str:
    level, _, rest = place.partition(":")
    if level == "channel":
        guild, _, channel = rest.partition("c")
        return f"/v1/settings/guilds/{guild}/channels/{channel}"
    if level == "character":
        guild, _, name = rest.partition(":")
        return f"/v1/settings/guilds/{guild}/characters/{quote(name, safe='', errors='replace')}"
    return "/v1/settings/global"


def _text(value: object) -> str:
    return "" if value is None else json.dumps(value)
