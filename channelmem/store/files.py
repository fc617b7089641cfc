"""Small files next to the embedded server's data. In: a path and bytes. Out: a file for its owner only, whole or not at
all."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from urllib.parse import urlsplit

from channelmem.redis_urls import is_cluster
from channelmem.settings import Settings


def place_of(settings: Settings) -> str:
    """Which Redis a copy belongs to. Passwords and the embedded server's port change, so they are no part of it."""
    if settings.redis_url is None:
        return f"embedded {settings.key_prefix}"
    where = settings.redis_url.get_secret_value()
    url = urlsplit(where)
    if is_cluster(where):
        return f"cluster {url.netloc.rpartition('@')[2]} {settings.key_prefix}"
    return f"{url.hostname}:{url.port}{url.path} {settings.key_prefix}"


def replace_file(path: Path, data: bytes) -> None:
    """Even if the machine stops meanwhile, the old or the new content is there."""
    fd, fresh = tempfile.mkstemp(prefix=f"{path.name}.", dir=path.parent)  # with mode 0600
    try:
        with os.fdopen(fd, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        Path(fresh).replace(path)
    except OSError:
        Path(fresh).unlink(missing_ok=True)
        raise
