"""Finding a model, exporting it once, and trusting the cache only while it is whole."""

import json
import os
import shutil
import subprocess
import sys
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import onnx
import pytest
from safetensors.numpy import load

from channelmem.embedding import model as model_module
from channelmem.embedding import write as model_write
from channelmem.embedding.model import (
    FORMAT,
    Manifest,
    Model,
    ModelSource,
    Progress,
    as_directory,
    find_source,
    prepare,
    ready,
)
from channelmem.errors import ModelError
from channelmem.settings import Settings

WRITING = "writing the ONNX graph"

# A machine without torch, sentence-transformers and what they bring along.
FIRST_START = """
import asyncio, sys
sys.modules.update(dict.fromkeys(("torch", "sentence_transformers", "transformers", "scipy", "sklearn")))
import numpy as np
from channelmem.embedding.embed import open_embedder
from channelmem.settings import Settings
embedder = open_embedder(Settings(_env_file=None))
np.save(sys.argv[1], asyncio.run(embedder.embed_messages(["a turtle", "release notes"])))
embedder.close()
"""

PREPARE = """
import json, sys
from channelmem.embedding.model import prepare
from channelmem.settings import Settings
stages = []
model = prepare(Settings(_env_file=None), lambda stage, fraction: stages.append(stage))
print(json.dumps({"stages": stages, "identity": model.manifest.identity, "agreement": model.manifest.agreement}))
"""


@pytest.fixture(scope="module")
def warm() -> Model:
    """The packaged model in the user's own cache, written there once per machine."""
    return prepare(Settings(_env_file=None))


@pytest.fixture
def own_cache(warm: Model, tmp_path: Path) -> Settings:
    """A cache of this test's own that starts with a whole fp32 entry."""
    entry = tmp_path / "models" / warm.onnx.parent.name
    shutil.copytree(warm.onnx.parent, entry)
    return Settings(_env_file=None, cache_dir=tmp_path)


@pytest.fixture
def small(tmp_path: Path) -> tuple[Path, Manifest]:
    """An entry as a finished export leaves it, but with a few bytes instead of a model."""
    entry = tmp_path / "models" / "small"
    entry.mkdir(parents=True)
    (entry / "model.onnx").write_bytes(b"weights")
    (entry / "tokenizer.json").write_bytes(b"tokens")
    manifest = Manifest(
        format=FORMAT,
        identity="small",
        dims=3,
        max_tokens=8,
        pad_id=0,
        question_prefix="",
        message_prefix="",
        agreement=1.0,
        onnx_sha256=model_module._digest(entry / "model.onnx", tmp_path),
        tokenizer_sha256=model_module._digest(entry / "tokenizer.json", tmp_path),
        versions={},
    )
    (entry / "manifest.json").write_text(json.dumps(asdict(manifest)))
    return entry, manifest


def test_an_untouched_entry_is_trusted(small: tuple[Path, Manifest], tmp_path: Path) -> None:
    entry, manifest = small
    found = model_module._whole(entry, tmp_path)
    assert found is not None
    assert found.manifest == manifest


@pytest.mark.parametrize("name", ["model.onnx", "tokenizer.json", "manifest.json"])
@pytest.mark.parametrize("damage", ["missing", "cut", "other"])
def test_a_damaged_file_makes_the_entry_count_as_none(
    small: tuple[Path, Manifest], tmp_path: Path, name: str, damage: str
) -> None:
    entry, _ = small
    file = entry / name
    if damage == "missing":
        file.unlink()
    elif damage == "cut":
        file.write_bytes(file.read_bytes()[:-1])
    else:
        file.write_bytes(b"x" * file.stat().st_size)
    assert model_module._whole(entry, tmp_path) is None


def test_an_entry_of_an_older_format_counts_as_none(small: tuple[Path, Manifest], tmp_path: Path) -> None:
    entry, manifest = small
    (entry / "manifest.json").write_text(json.dumps(asdict(replace(manifest, format=FORMAT - 1))))
    assert model_module._whole(entry, tmp_path) is None


def test_the_identity_names_model_weights_pooling_and_precision() -> None:
    source = ModelSource("org/some model", Path("anywhere"), "0123456789abcdef", "mean")
    assert source.identity("fp32") == "org--some--model@0123456789ab-mean-fp32"
    assert source.identity("int8") != source.identity("fp32")


def test_the_identity_does_not_depend_on_where_the_model_lies(warm: Model, tmp_path: Path) -> None:
    packaged = find_source(Settings(_env_file=None))
    copy = tmp_path / "all-MiniLM-L6-v2"
    shutil.copytree(as_directory(packaged, warm.onnx.parents[2]).path, copy)
    moved = find_source(Settings(_env_file=None, embedding_model=str(copy), cache_dir=tmp_path / "cache"))
    assert moved.identity("fp32") == packaged.identity("fp32") == warm.manifest.identity


def test_the_packaged_model_agreed_with_the_stored_vectors(warm: Model) -> None:
    assert warm.manifest.agreement > 0.9999
    assert (warm.manifest.dims, warm.manifest.max_tokens) == (384, 256)


def test_other_weights_at_the_same_path_are_another_model(tmp_path: Path) -> None:
    (tmp_path / "model.safetensors").write_bytes(b"one")
    settings = Settings(_env_file=None, embedding_model=str(tmp_path), cache_dir=tmp_path / "cache")
    first = find_source(settings).identity("fp32")
    (tmp_path / "model.safetensors").write_bytes(b"three")
    assert find_source(settings).identity("fp32") != first


@pytest.mark.parametrize(
    ("modules", "pooling", "expected"),
    [
        (["Transformer", "Pooling", "Normalize"], {"pooling_mode_mean_tokens": True}, "mean"),
        (["Transformer", "Pooling"], {"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": False}, "cls"),
        (["Transformer", "Pooling"], {"pooling_mode": "cls"}, "cls"),
        (["Transformer", "Pooling"], {"pooling_mode_mean_tokens": True, "pooling_mode_max_tokens": True}, "other"),
        (["Transformer", "Pooling", "Dense"], {"pooling_mode_mean_tokens": True}, "other"),
        (["StaticEmbedding"], {}, "other"),
    ],
)
def test_the_shape_is_read_without_loading_the_model(
    tmp_path: Path, modules: list[str], pooling: dict[str, object], expected: str
) -> None:
    (tmp_path / "model.safetensors").write_bytes(b"weights")
    (tmp_path / "1_Pooling").mkdir()
    (tmp_path / "1_Pooling" / "config.json").write_text(json.dumps(pooling))
    listed = [{"type": f"sentence_transformers.models.{kind}", "path": "1_Pooling"} for kind in modules]
    (tmp_path / "modules.json").write_text(json.dumps(listed))
    settings = Settings(_env_file=None, embedding_model=str(tmp_path), cache_dir=tmp_path / "cache")
    assert find_source(settings).pooling == expected


def test_a_missing_directory_is_named(tmp_path: Path) -> None:
    missing = tmp_path / "nowhere"
    with pytest.raises(ModelError, match=rf"{missing}.*no such directory"):
        prepare(Settings(_env_file=None, embedding_model=str(missing), cache_dir=tmp_path))


def test_a_directory_without_weights_is_named(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="has no weights"):
        prepare(Settings(_env_file=None, embedding_model=str(tmp_path), cache_dir=tmp_path))


def test_a_hub_name_that_cannot_be_fetched_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    with pytest.raises(ModelError, match="nobody/no-such-model is not a directory and cannot be fetched"):
        prepare(Settings(_env_file=None, embedding_model="nobody/no-such-model", cache_dir=tmp_path))


def test_a_cache_that_cannot_be_written_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(ModelError, match="CHANNELMEM_CACHE_DIR"):
        prepare(Settings(_env_file=None, cache_dir=tmp_path / "file"))


def test_int8_is_made_from_fp32_and_says_how_well_it_agrees(own_cache: Settings) -> None:
    stages: list[str] = []
    settings = own_cache.model_copy(update={"embedding_precision": "int8"})
    made = prepare(settings, lambda stage, fraction: stages.append(stage))
    assert made.manifest.identity.endswith("-int8")
    assert made.manifest.agreement > 0.95
    assert stages[-1] == "ready"
    assert WRITING not in stages


def test_making_int8_in_an_empty_cache_leaves_fp32_ready_too(
    warm: Model, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    export = model_module._export

    def copied(source: ModelSource, into: Path, base: Model | None, report: Progress) -> Manifest:
        if base is not None:
            return export(source, into, base, report)
        for file in (warm.onnx, warm.tokenizer):
            shutil.copy(file, into)
        return warm.manifest

    # Writing the graph takes seconds and has tests of its own.
    monkeypatch.setattr(model_module, "_export", copied)
    prepare(Settings(_env_file=None, cache_dir=tmp_path, embedding_precision="int8"))
    assert ready(Settings(_env_file=None, cache_dir=tmp_path)) is not None


@pytest.mark.parametrize("missing", ["onnx", "onnxruntime.quantization"])
def test_int8_without_the_package_that_makes_it_is_one_sentence(
    own_cache: Settings, monkeypatch: pytest.MonkeyPatch, missing: str
) -> None:
    monkeypatch.setitem(sys.modules, missing, None)
    monkeypatch.delitem(sys.modules, "channelmem.embedding.write", raising=False)
    with pytest.raises(ModelError, match=r"pip install onnx.*CHANNELMEM_EMBEDDING_PRECISION=fp32"):
        prepare(own_cache.model_copy(update={"embedding_precision": "int8"}))


@pytest.fixture
def own_model(tmp_path: Path) -> Settings:
    """A model of the user's own that nobody exported yet."""
    folder = tmp_path / "my-model"
    folder.mkdir()
    (folder / "model.safetensors").write_bytes(b"weights")
    return Settings(_env_file=None, embedding_model=str(folder), cache_dir=tmp_path / "cache")


@pytest.mark.parametrize("missing", ["torch", "sentence_transformers"])
def test_another_model_without_the_extra_that_exports_it_is_one_sentence(
    own_model: Settings, monkeypatch: pytest.MonkeyPatch, missing: str
) -> None:
    monkeypatch.setitem(sys.modules, missing, None)
    monkeypatch.delitem(sys.modules, "channelmem.embedding.export", raising=False)
    with pytest.raises(ModelError, match=rf"my-model needs {missing}.*pip install '\.\[torch\]'"):
        prepare(own_model)


def test_a_hub_model_is_not_downloaded_where_nothing_can_export_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    monkeypatch.setattr(model_module, "find_spec", lambda name: None)
    with pytest.raises(ModelError, match=r"some/model needs torch.*pip install '\.\[torch\]'"):
        prepare(Settings(_env_file=None, embedding_model="some/model", cache_dir=tmp_path))


@pytest.mark.process
def test_a_first_start_needs_no_torch(warm: Model, tmp_path: Path) -> None:
    environment = os.environ | {"CHANNELMEM_CACHE_DIR": str(tmp_path)}
    command = [sys.executable, "-c", FIRST_START, str(tmp_path / "vectors.npy")]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    vectors = np.load(tmp_path / "vectors.npy")
    assert np.linalg.norm(vectors, axis=1) == pytest.approx([1, 1], abs=1e-5)
    made = ready(Settings(_env_file=None, cache_dir=tmp_path))
    assert made is not None
    assert made.manifest.onnx_sha256 == warm.manifest.onnx_sha256, "the same graph on every start"


def test_a_graph_that_gives_other_vectors_is_never_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def altered(content: bytes) -> dict[str, np.ndarray]:
        tensors = load(content)
        bias = tensors["encoder.layer.3.output.dense.bias"].copy()
        bias[7] += 0.1  # one of 22 million numbers
        tensors["encoder.layer.3.output.dense.bias"] = bias
        return tensors

    monkeypatch.setattr(model_write, "load", altered)
    settings = Settings(_env_file=None, cache_dir=tmp_path)
    with pytest.raises(ModelError, match="vectors are wrong on this machine"):
        prepare(settings)
    assert ready(settings) is None


def test_a_whole_entry_is_not_made_again(own_cache: Settings) -> None:
    stages: list[str] = []
    prepare(own_cache, lambda stage, fraction: stages.append(stage))
    assert stages == []


@pytest.mark.process
@pytest.mark.timeout(300)
def test_two_starts_on_a_corrupt_cache_make_one_whole_export(own_cache: Settings) -> None:
    """Both processes find the entry cut off; one of them makes it again, and both end with it."""
    entry = next((own_cache.cache_dir / "models").glob(f"*-fp32-v{model_module.FORMAT}"))
    os.truncate(entry / "model.onnx", 1000)
    environment = os.environ | {"CHANNELMEM_CACHE_DIR": str(own_cache.cache_dir)}
    both = [
        subprocess.Popen([sys.executable, "-c", PREPARE], env=environment, stdout=subprocess.PIPE) for _ in range(2)
    ]
    answers = [json.loads(process.communicate()[0]) for process in both]
    assert [f"{answer['identity']}-v{model_module.FORMAT}" for answer in answers] == [entry.name] * 2
    assert sum(WRITING in answer["stages"] for answer in answers) == 1
    assert all(answer["agreement"] > 0.9999 for answer in answers)
    assert model_module._whole(entry, own_cache.cache_dir) is not None
    assert not list(entry.parent.glob(".making-*"))


def test_attention_is_one_operator_per_layer_in_the_graph(warm: Model) -> None:
    """Spelled out, attention makes questions a sixth slower without any error."""
    graph = onnx.load(warm.onnx, load_external_data=False).graph
    operators = [node.op_type for node in graph.node]
    assert operators.count("Attention") == 6
    assert "Softmax" not in operators
