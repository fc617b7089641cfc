"""Writes the packaged model's ONNX graph and int8 models without torch, and verifies exports. The packaged model is
compared with stored vectors of sentence-transformers (`python -m scripts.reference_vectors`), other models with
sentence-transformers."""

from __future__ import annotations

import json
import logging
import shutil
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from importlib import resources
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper
from onnxruntime.quantization import QuantType, quantize_dynamic
from safetensors.numpy import load

from channelmem.embedding import weights
from channelmem.embedding.embed import OnnxEncoder
from channelmem.embedding.model import FORMAT, Manifest, Model, ModelSource, Progress, sha256
from channelmem.errors import ModelError
from channelmem.extras import how_to_install

TOLERANCE = 1e-4
STORED = "reference.npz"
_MAKERS = ("torch", "sentence-transformers", "onnx", "onnxruntime", "tokenizers")

SENTENCES = (
    "ok",
    "",
    "what did I just say about turtles?",
    "The deploy failed again: see https://example.org/build/42 @here \U0001f600",
    "\u05e9\u05dc\u05d5\u05dd \u05dc\u05db\u05d5\u05dc\u05dd, \u05de\u05d4 \u05e9\u05dc\u05d5\u05de\u05db\u05dd?",
    "\u65e5\u672c\u8a9e\u306e\u30e1\u30c3\u30bb\u30fc\u30b8\u3002 \u00dcbergr\u00f6\u00dfentr\u00e4ger",
    "a longer message that goes on about nothing in particular " * 40,
)

OPSET = 17
IR_VERSION = 8  # as old as the operators, so that older releases of ONNX Runtime can read both
FUSED = "com.microsoft"  # ONNX Runtime's own operators

WRONG = (
    "The model's vectors are wrong on this machine (by {worst:.1e}); please report this with the output of "
    f"`pip freeze`. Meanwhile, {how_to_install('torch')} and set CHANNELMEM_EMBEDDING_BACKEND=torch."
)

Tensors = dict[str, NDArray[np.float32]]


def encode(model: Model) -> NDArray[np.float32]:
    """The sentences in one padded batch, so that padding is verified too."""
    encoder = OnnxEncoder(model)
    return encoder.infer(encoder.tokenise_messages(SENTENCES))


def agreement(ours: NDArray[np.float32], theirs: NDArray[np.float32]) -> float:
    """The lowest cosine between two sets of unit vectors."""
    return float((ours * theirs).sum(axis=1).min())


def stored_vectors() -> NDArray[np.float32]:
    """The packaged model's vectors for the sentences, computed by sentence-transformers."""
    with resources.files(__package__).joinpath(STORED).open("rb") as file, np.load(file, allow_pickle=False) as stored:
        vectors: NDArray[np.float32] = stored["vectors"]
        return vectors


def versions() -> dict[str, str]:
    """The versions of the packages that take part in an export, if installed."""
    found = {}
    for name in _MAKERS:
        with suppress(PackageNotFoundError):
            found[name] = version(name)
    return found


def write(source: ModelSource, into: Path, report: Progress) -> Manifest:
    """Write model.onnx and tokenizer.json; raise unless they give the same vectors as sentence-transformers."""
    report("reading the packaged weights", 0.1)
    config = json.loads(weights.read("config.json"))
    tensors = load(weights.read(weights.WEIGHTS))
    report("writing the ONNX graph", 0.5)
    onnx.save(bert(tensors, config), str(into / "model.onnx"))
    (into / "tokenizer.json").write_bytes(weights.read("tokenizer.json"))
    report("comparing with stored vectors", 0.8)
    traits = {
        "dims": int(config["hidden_size"]),
        "max_tokens": int(json.loads(weights.read("sentence_bert_config.json"))["max_seq_length"]),
        "pad_id": int(config["pad_token_id"]),
    }
    return verified(source, into, stored_vectors(), WRONG, **traits)


def verified(source: ModelSource, into: Path, theirs: NDArray[np.float32], problem: str, **traits: Any) -> Manifest:
    """The manifest of a new export; raises ModelError with the problem if it does not give the reference's vectors."""
    onnx_file, tokenizer = into / "model.onnx", into / "tokenizer.json"
    found: dict[str, Any] = {"onnx_sha256": sha256(onnx_file), "tokenizer_sha256": sha256(tokenizer)}
    found |= {"identity": source.identity("fp32"), "question_prefix": "", "message_prefix": ""} | traits
    manifest = Manifest(format=FORMAT, agreement=0.0, versions=versions(), **found)
    ours = encode(Model(manifest, onnx_file, tokenizer))
    worst = float(np.abs(ours - theirs).max())
    if not worst <= TOLERANCE:
        raise ModelError(problem.format(worst=worst))
    return replace(manifest, agreement=agreement(ours, theirs))


class _Bert:
    """Writes the layers as nodes and constants, in the order they are added. A tensor's name in the graph is its name
    in the file; every node has one output, which has the node's name."""

    def __init__(self, tensors: Tensors, config: dict[str, Any]) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = []
        self._tensors = tensors
        self._heads = int(config["num_attention_heads"])
        self._epsilon = float(config["layer_norm_eps"])

    def embeddings(self) -> str:
        at = "embeddings"
        positions = (
            self._tensors[f"{at}.position_embeddings.weight"] + self._tensors[f"{at}.token_type_embeddings.weight"][0]
        )
        table = self._constant(f"{at}.positions", positions)
        words = self._add("Gather", [self._tensor(f"{at}.word_embeddings.weight"), "input_ids"], f"{at}.words")
        zero = self._constant("zero", np.array([0], np.int64))
        length = self._add("Shape", ["input_ids"], f"{at}.length", start=1, end=2)
        used = self._add("Slice", [table, zero, length], f"{at}.used")
        return self._norm(self._add("Add", [words, used], f"{at}.sum"), f"{at}.LayerNorm")

    def layer(self, number: int, hidden: str, lengths: str) -> str:
        at = f"encoder.layer.{number}"
        seen = self._attention(f"{at}.attention.self", hidden, lengths)
        hidden = self._residual(seen, hidden, f"{at}.attention.output")
        wide = self._times(hidden, f"{at}.intermediate.dense")
        bias = self._tensor(f"{at}.intermediate.dense.bias")
        return self._residual(self._add("BiasGelu", [wide, bias], f"{at}.gelu", FUSED), hidden, f"{at}.output")

    def lengths(self) -> str:
        """Tokens per row. Rows are padded on the right, so this says as much as the mask."""
        mask = self._add("Cast", ["attention_mask"], "mask.int32", to=TensorProto.INT32)
        axis = self._constant("mask.axis", np.array([1], np.int64))
        return self._add("ReduceSum", [mask, axis], "mask.lengths", keepdims=0)

    def pooled(self, hidden: str) -> str:
        """The mean of a row's tokens, scaled to length 1."""
        axis = self._constant("pool.axis", np.array([1], np.int64))
        last = self._constant("pool.last", np.array([-1], np.int64))
        tiny = self._constant("pool.tiny", np.array(1e-9, np.float32))
        column = self._add("Unsqueeze", ["attention_mask", last], "pool.column")
        weight = self._add("Cast", [column], "pool.weight", to=TensorProto.FLOAT)
        total = self._add(
            "ReduceSum", [self._add("Mul", [hidden, weight], "pool.masked"), axis], "pool.total", keepdims=0
        )
        count = self._add("ReduceSum", [weight, axis], "pool.count", keepdims=0)
        mean = self._add("Div", [total, self._add("Max", [count, tiny], "pool.some")], "pool.mean")
        norm = self._add("ReduceL2", [mean], "pool.norm", axes=[1], keepdims=1)
        return self._add("Div", [mean, self._add("Max", [norm, tiny], "pool.positive")], "vector")

    def _attention(self, at: str, hidden: str, lengths: str) -> str:
        parts = [f"{at}.{part}" for part in ("query", "key", "value")]
        matrix = np.concatenate([self._tensors[f"{part}.weight"].T for part in parts], axis=1)
        bias = np.concatenate([self._tensors[f"{part}.bias"] for part in parts])
        inputs = [self._constant(f"{at}.weight", matrix), self._constant(f"{at}.bias", bias), lengths]
        return self._add("Attention", [hidden, *inputs], at, FUSED, num_heads=self._heads)

    def _residual(self, value: str, before: str, at: str) -> str:
        moved = self._add("Add", [self._times(value, f"{at}.dense"), self._tensor(f"{at}.dense.bias")], f"{at}.moved")
        return self._norm(self._add("Add", [moved, before], f"{at}.sum"), f"{at}.LayerNorm")

    def _norm(self, value: str, at: str) -> str:
        inputs = [value, self._tensor(f"{at}.weight"), self._tensor(f"{at}.bias")]
        return self._add("LayerNormalization", inputs, at, axis=-1, epsilon=self._epsilon)

    def _times(self, value: str, at: str) -> str:
        matrix = self._constant(f"{at}.weight", self._tensors[f"{at}.weight"].T)
        return self._add("MatMul", [value, matrix], f"{at}.product")

    def _tensor(self, name: str) -> str:
        return self._constant(name, self._tensors[name])

    def _constant(self, name: str, value: NDArray[Any]) -> str:
        self.constants.append(numpy_helper.from_array(np.ascontiguousarray(value), name))
        return name

    def _add(self, operator: str, inputs: Sequence[str], name: str, domain: str = "", **attributes: Any) -> str:
        self.nodes.append(helper.make_node(operator, inputs, [name], name=name, domain=domain, **attributes))
        return name


def bert(tensors: Tensors, config: dict[str, Any]) -> onnx.ModelProto:
    """Transformer, mean pooling and normalisation: token ids and mask enter, unit vectors leave."""
    model = _Bert(tensors, config)
    lengths = model.lengths()
    hidden = model.embeddings()
    for number in range(int(config["num_hidden_layers"])):
        hidden = model.layer(number, hidden, lengths)
    vector = model.pooled(hidden)
    inputs = [
        helper.make_tensor_value_info(name, TensorProto.INT64, ["batch", "tokens"])
        for name in ("input_ids", "attention_mask")
    ]
    output = helper.make_tensor_value_info(vector, TensorProto.FLOAT, ["batch", int(config["hidden_size"])])
    graph = helper.make_graph(model.nodes, "bert", inputs, [output], model.constants)
    opsets = [helper.make_opsetid("", OPSET), helper.make_opsetid(FUSED, 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=IR_VERSION, producer_name="channelmem")


# --- int8 ---


# Below this, a quantised model is broken, not merely less accurate.
FLOOR = 0.90


def quantise(source: ModelSource, base: Model, into: Path, report: Progress) -> Manifest:
    """Write model.onnx with int8 weights; the manifest records its lowest cosine to fp32."""
    report("quantising to int8", 0.85)
    shutil.copyfile(base.tokenizer, into / "tokenizer.json")
    # It logs advice to the root logger about a preprocessing step that changes nothing for these graphs.
    logging.getLogger().addFilter(_drop_advice)
    try:
        # One scale per channel: with one per matrix, the lowest cosine falls from 0.97 to 0.86 at the same speed.
        quantize_dynamic(
            base.onnx,
            into / "model.onnx",
            weight_type=QuantType.QInt8,
            per_channel=True,
            # The types behind a fused operator cannot be inferred; they are all the same.
            extra_options={"DefaultTensorType": TensorProto.FLOAT},
        )
    finally:
        logging.getLogger().removeFilter(_drop_advice)
    report("comparing with fp32", 0.95)
    digest = sha256(into / "model.onnx")
    manifest = replace(base.manifest, identity=source.identity("int8"), onnx_sha256=digest, versions=versions())
    least = agreement(encode(base), encode(Model(manifest, into / "model.onnx", into / "tokenizer.json")))
    if not least >= FLOOR:
        raise ModelError(
            f"{source.name} loses too much accuracy in int8 (cosine {least:.2f} to fp32); "
            "set CHANNELMEM_EMBEDDING_PRECISION=fp32."
        )
    return replace(manifest, agreement=least)


def _drop_advice(record: logging.LogRecord) -> bool:
    return "pre-process" not in record.getMessage()
