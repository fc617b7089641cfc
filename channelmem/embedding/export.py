"""All that needs torch (extra: torch): the export of other models from sentence-transformers to verified ONNX files,
with transformer, pooling and L2 normalisation in one graph, and the back end that runs sentence-transformers itself.
Loaded only for that back end, or when the cache has no export yet."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnx
import torch
from numpy.typing import NDArray
from onnxruntime.transformers.fusion_options import FusionOptions
from onnxruntime.transformers.optimizer import optimize_model
from sentence_transformers import SentenceTransformer
from tokenizers import Tokenizer
from transformers import PretrainedConfig, PreTrainedModel
from transformers.utils import logging as transformers_logging

from channelmem.embedding.embed import clean
from channelmem.embedding.model import Manifest, ModelSource, Progress
from channelmem.embedding.write import SENTENCES, verified
from channelmem.errors import ModelError

_USE_TORCH = "set CHANNELMEM_EMBEDDING_BACKEND=torch to run it with sentence-transformers itself"


def load_reference(source: ModelSource) -> SentenceTransformer:
    """sentence-transformers' own model, on the CPU and without its progress bars."""
    transformers_logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    try:
        return SentenceTransformer(str(source.path), device="cpu")
    except (OSError, ValueError, KeyError, ImportError, RuntimeError) as error:
        raise ModelError(f"sentence-transformers cannot load {source.path}: {error}") from error


def prefixes(reference: SentenceTransformer) -> tuple[str, str]:
    """The prompts the model expects before a question and before a message; both empty for most models."""
    prompts = {name: prompt or "" for name, prompt in (reference.prompts or {}).items()}
    default = prompts.get(reference.default_prompt_name or "", "")
    documents = (prompts[name] for name in ("document", "passage", "corpus") if prompts.get(name))
    return prompts.get("query") or default, next(documents, default)


def export(source: ModelSource, into: Path, report: Progress) -> Manifest:
    """Write model.onnx and tokenizer.json; raise unless they give the reference's vectors."""
    if source.pooling not in {"mean", "cls"}:
        raise ModelError(f"{source.name} is not a transformer with mean or cls pooling; {_USE_TORCH}.")
    report("loading the model with sentence-transformers", 0.1)
    reference = load_reference(source)
    report("exporting to ONNX", 0.5)
    _write_tokenizer(reference, into / "tokenizer.json")
    _write_graph(reference, source.pooling, into / "model.onnx")
    report("comparing with sentence-transformers", 0.8)
    question_prefix, message_prefix = prefixes(reference)
    traits = {
        "dims": int(reference.encode([""]).shape[1]),
        "max_tokens": int(reference.max_seq_length or 512),
        "pad_id": int(reference.tokenizer.pad_token_id or 0),
        "question_prefix": question_prefix,
        "message_prefix": message_prefix,
    }
    texts = [message_prefix + text for text in SENTENCES]
    theirs = np.asarray(reference.encode(texts, normalize_embeddings=True, prompt=""), dtype=np.float32)
    problem = f"The exported model differs from the original by {{worst:.1e}}; {_USE_TORCH}."
    return verified(source, into, theirs, problem, **traits)


class _Graph(torch.nn.Module):
    """Transformer, pooling and normalisation as one module with plain tensors in and out."""

    def __init__(self, transformer: torch.nn.Module, names: list[str], pooling: str) -> None:
        super().__init__()
        self.transformer = transformer
        self.names = names
        self.pooling = pooling

    def forward(self, *tensors: torch.Tensor) -> torch.Tensor:
        inputs = dict(zip(self.names, tensors, strict=True))
        hidden = self.transformer(**inputs).last_hidden_state
        if self.pooling == "cls":
            vector = hidden[:, 0]
        else:
            weight = inputs["attention_mask"].unsqueeze(-1).to(hidden.dtype)
            vector = (hidden * weight).sum(dim=1) / weight.sum(dim=1).clamp(min=1e-9)
        return torch.nn.functional.normalize(vector, p=2, dim=1)


def _write_graph(reference: SentenceTransformer, pooling: str, file: Path) -> None:
    encoded = reference.tokenizer(["two rows", "of unequal length each"], padding=True, return_tensors="pt")
    transformer = reference[0].auto_model
    if not isinstance(transformer, PreTrainedModel):
        raise ModelError(f"The model has no transformer to export; {_USE_TORCH}.")
    # ONNX Runtime's fusion recognises attention only if spelled out; torch's own operator exports to more nodes.
    transformer.set_attn_implementation("eager")
    # Some tokenizers return more than their model accepts.
    taken = inspect.signature(transformer.forward).parameters
    names = [name for name in ("input_ids", "attention_mask", "token_type_ids") if name in encoded and name in taken]
    graph = _Graph(transformer, names, pooling).eval()
    axes = {name: {0: "batch", 1: "tokens"} for name in names}
    with warnings.catch_warnings(), torch.inference_mode():
        # The tracer's and the exporter's warnings are for developers; the verification below is what counts.
        warnings.simplefilter("ignore")
        torch.onnx.export(
            graph,
            tuple(encoded[name] for name in names),
            str(file),
            input_names=names,
            output_names=["vector"],
            dynamic_axes={**axes, "vector": {0: "batch"}},
            opset_version=17,
            dynamo=False,  # the newer exporter needs onnxscript and gains nothing for these graphs
        )
    onnx.checker.check_model(str(file))
    _fuse_attention(file, transformer.config)


def _fuse_attention(file: Path, config: PretrainedConfig) -> None:
    """One operator per layer instead of about thirty: 12 to 15 % less time for a question, 4 % for batches. An
    unrecognised shape stays as it is. The other fusions are left out because they make batches slower."""
    wanted = FusionOptions("bert")
    wanted.enable_embed_layer_norm = wanted.enable_skip_layer_norm = wanted.enable_bias_skip_layer_norm = False
    heads, width = getattr(config, "num_attention_heads", 0), getattr(config, "hidden_size", 0)
    if heads and width:
        fused = optimize_model(str(file), "bert", heads, width, optimization_options=wanted, opt_level=1)
        fused.save_model_to_file(str(file))


def _write_tokenizer(reference: SentenceTransformer, file: Path) -> None:
    backend = getattr(reference.tokenizer, "backend_tokenizer", None)
    if not isinstance(backend, Tokenizer):
        raise ModelError(f"The model's tokenizer has no fast form; {_USE_TORCH}.")
    backend.save(str(file))


# --- the reference back end ---


class TorchEncoder:
    """Rows are texts with their prompts; sentence-transformers tokenises them itself."""

    def __init__(self, source: ModelSource, threads: int) -> None:
        if threads:
            torch.set_num_threads(threads)
        self._model = load_reference(source)
        self._question_prefix, self._message_prefix = prefixes(self._model)
        self.dims = int(self._model.encode([""]).shape[1])
        # The same vectors as the fp32 export to within 1e-4, so the same identity: users can switch back ends freely.
        self.identity = source.identity("fp32")

    def tokenise_question(self, text: str) -> list[str]:
        return [self._question_prefix + clean(text)]

    def tokenise_messages(self, texts: Sequence[str]) -> list[str]:
        return [self._message_prefix + clean(text) for text in texts]

    def infer(self, rows: Sequence[str]) -> NDArray[np.float32]:
        vectors = self._model.encode(list(rows), prompt="", normalize_embeddings=True, show_progress_bar=False)
        return np.asarray(vectors, dtype=np.float32)
