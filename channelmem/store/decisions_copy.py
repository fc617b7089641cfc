"""A copy of people's decisions on disk, for when Redis is unreachable. In: everything recorded. Out: the same later on,
even after a restart.

One small file in the data directory, for its owner's eyes only. It names nobody: ids are replaced by HMACs with a
random secret of this machine, because a plain hash of an id can be reversed by trying all ids. A copy that is damaged,
too large to be complete, or made with another secret counts as no copy.
"""

from __future__ import annotations

import hmac
import json
import logging
import os
import secrets
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from channelmem.settings import Settings
from channelmem.store.files import place_of, replace_file
from channelmem.types import Window

KEY_FILE: Final = "decisions.key"
SECRET_BYTES: Final = 32
MOST: Final = 100_000
"""People and channels in a copy. Beyond that it would be incomplete, so there is none and nothing is shown."""
VERSION: Final = 1

log = logging.getLogger(__name__)


@dataclass(slots=True)
class Recorded:
    """What was decided, by the names that Redis uses: `<author>`, `<guild>:<author>`, or a room."""

    hidden: set[str] = field(default_factory=set)
    """People who opted out."""
    windows: dict[str, tuple[Window, ...]] = field(default_factory=dict)
    """When nothing of a person or room may be stored or shown."""


class DecisionsCopy:
    """Never raises for a file: without one there is simply no copy."""

    def __init__(self, settings: Settings) -> None:
        self._folder, self._place = settings.data_dir, place_of(settings)
        self._secret = b""
        self._known: Recorded | None = None
        """By HMAC instead of by name."""
        self._loaded = False

    def of(self, names: Iterable[str]) -> Recorded | None:
        """What was decided about these people and rooms; None without a copy."""
        known = self._load()
        if known is None:
            return None
        keyed = {name: self._key(name) for name in names}
        windows = {name: known.windows[key] for name, key in keyed.items() if key in known.windows}
        return Recorded({name for name, key in keyed.items() if key in known.hidden}, windows)

    def replace(self, recorded: Recorded) -> bool:
        """Keeps everything that is recorded, instead of what was kept before; False if that has to be tried again."""
        if not self._load_secret():
            return False
        if len(recorded.hidden) + len(recorded.windows) > MOST:
            log.warning("Too many opt-outs for a local copy; without Redis, nothing of the platform's history is shown")
            return self._forget()
        windows = {self._key(name): windows for name, windows in recorded.windows.items()}
        return self._keep(Recorded({self._key(name) for name in recorded.hidden}, windows))

    def restrict(self, *, hidden: str = "", room: str = "", window: Window | None = None) -> None:
        """Adds one decision before Redis hears of it; nothing if there is no copy to add it to."""
        known = self._load()
        if known is None:
            return
        people, windows = known.hidden | ({self._key(hidden)} if hidden else set()), dict(known.windows)
        if room and window is not None:
            windows[self._key(room)] = (*windows.get(self._key(room), ()), window)
        self._keep(Recorded(people, windows))

    def _keep(self, known: Recorded) -> bool:
        self._known, self._loaded = known, True
        try:
            self._write(known)
        except OSError as error:
            log.warning("Can't keep a local copy of opt-outs in %s: %s", self._folder, error.strerror or error)
            return False
        return True

    def _forget(self) -> bool:
        self._known, self._loaded = None, True
        try:
            self._path().unlink(missing_ok=True)
        except OSError as error:
            log.warning("Can't remove the local copy of opt-outs in %s: %s", self._folder, error.strerror or error)
            return False
        return True

    def _key(self, name: str) -> str:
        return hmac.new(self._secret, name.encode(), "sha256").hexdigest()[:32]

    def _path(self) -> Path:
        return self._folder / f"decisions-{self._key(self._place)[:12]}.json"

    # --- files ---

    def _load(self) -> Recorded | None:
        if not self._loaded and self._load_secret():
            self._known, self._loaded = self._read(), True
        return self._known

    def _load_secret(self) -> bool:
        """Reads the secret, or makes one; False if neither is possible."""
        if not self._secret:
            try:
                self._secret = _secret(self._folder / KEY_FILE)
            except OSError as error:
                log.warning("Can't keep a local copy of opt-outs in %s: %s", self._folder, error.strerror or error)
        return bool(self._secret)

    def _read(self) -> Recorded | None:
        try:
            stored = json.loads(self._path().read_bytes())
            if stored["version"] != VERSION or stored["check"] != self._key("check"):
                return None
            windows = {key: tuple(Window(*ends) for ends in some) for key, some in stored["windows"].items()}
            return Recorded(set(stored["hidden"]), windows)
        except FileNotFoundError:
            return None
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            log.warning("The local copy of opt-outs is unusable: %s", type(error).__name__)
            return None

    def _write(self, known: Recorded) -> None:
        windows = {key: [[one.start, one.end] for one in some] for key, some in known.windows.items()}
        stored: dict[str, Any] = {"version": VERSION, "check": self._key("check"), "windows": windows}
        replace_file(self._path(), json.dumps({**stored, "hidden": sorted(known.hidden)}).encode())


def _secret(path: Path) -> bytes:
    """The same one for all processes: the first to come makes it."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    try:
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(secrets.token_bytes(SECRET_BYTES))
    except FileExistsError:
        if path.stat().st_size != SECRET_BYTES:  # cut off by a crash; copies made with it are lost anyway
            replace_file(path, secrets.token_bytes(SECRET_BYTES))
    return path.read_bytes()
