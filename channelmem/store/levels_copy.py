"""A copy of the settings on disk, for a start while Redis is unreachable. In: documents and threads. Out: the same.

A channel that is off must stay off then: its past would be fetched from the platform otherwise. The file holds ids of
servers and channels and what is set there, for its owner's eyes only; who changed it stays in Redis.
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Mapping
from typing import Any, Final

from channelmem.settings import Settings
from channelmem.store.files import place_of, replace_file

VERSION: Final = 1
WITHOUT: Final = "changes"

log = logging.getLogger(__name__)


class LevelsCopy:
    """Never raises for a file: without one there is simply no copy."""

    def __init__(self, settings: Settings) -> None:
        place = hashlib.sha256(place_of(settings).encode()).hexdigest()[:12]
        self._path = settings.data_dir / f"levels-{place}.json"
        self._written = b""

    def write(self, documents: Mapping[str, Mapping[str, Any]], threads: Mapping[str, str]) -> None:
        kept = {place: {k: v for k, v in one.items() if k != WITHOUT} for place, one in documents.items()}
        data = json.dumps({"version": VERSION, "documents": kept, "threads": threads}).encode()
        if data == self._written:
            return
        try:
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            replace_file(self._path, data)
        except OSError as error:
            log.warning("Can't keep a local copy of settings in %s: %s", self._path.parent, error.strerror or error)
        else:
            self._written = data

    def read(self) -> tuple[dict[str, Mapping[str, Any]], dict[str, str]] | None:
        try:
            stored = json.loads(self._path.read_bytes())
            if stored["version"] != VERSION:
                return None
            return dict(stored["documents"]), dict(stored["threads"])
        except FileNotFoundError:
            return None
        except (OSError, ValueError, KeyError, TypeError) as error:
            log.warning("The local copy of settings is unusable: %s", type(error).__name__)
            return None
