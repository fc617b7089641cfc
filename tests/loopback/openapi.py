"""Checks bodies against Discord's own OpenAPI document, where that is at hand.

What enters: method, path, body. What leaves: a list of sentences, empty when all is well or no document is there.
"""

from __future__ import annotations

import functools
import gzip
import json
import os
import re
from pathlib import Path
from typing import Any

import jsonschema

Json = dict[str, Any]


def document_path() -> Path:
    default = Path(__file__).resolve().parents[3] / "shared" / "data"
    return Path(os.environ.get("CHANNELMEM_DATA_DIR", str(default))) / "discord-openapi.json.gz"


@functools.cache
def document() -> Json | None:
    path = document_path()
    if not path.is_file():
        return None
    loaded: Json = json.loads(gzip.decompress(path.read_bytes()))
    # discord.py sends snowflakes as integers, which Discord takes although its document says string.
    loaded["components"]["schemas"]["SnowflakeType"] = {"type": ["string", "integer"]}
    return loaded


@functools.cache
def templates() -> list[tuple[re.Pattern[str], str]]:
    """Every path as a pattern; the literal ones first, so that `@original` is not taken for an id."""
    paths = (document() or {"paths": {}})["paths"]
    ranked = sorted(paths, key=lambda path: (path.count("{"), path))
    return [(re.compile(re.sub(r"\{[^}]+\}", r"[^/]+", path) + "$"), path) for path in ranked]


@functools.cache
def operation(method: str, path: str) -> Json | None:
    for pattern, template in templates():
        if pattern.match(path):
            found: Json | None = (document() or {})["paths"][template].get(method.lower())
            return found
    return None


def request_problems(method: str, path: str, body: object) -> list[str]:
    found = operation(method, path)
    if found is None:
        return [] if document() is None else [f"{method} {path} is not in Discord's document"]
    content = found.get("requestBody", {}).get("content", {}).get("application/json")
    return _problems(f"{method} {path} request", content["schema"], body) if content else []


def response_problems(method: str, path: str, status: int, body: object) -> list[str]:
    found = operation(method, path)
    if found is None:
        return []
    answers = found["responses"]
    answer = answers.get(str(status)) or answers.get(f"{status // 100}XX")
    if answer is None:
        return [f"{method} {path} never answers {status}"] if status < 500 else []
    content = answer.get("content", {}).get("application/json")
    return _problems(f"{method} {path} {status} response", content["schema"], body) if content else []


def _problems(where: str, schema: Json, body: object) -> list[str]:
    return [
        f"{where}: {'.'.join(map(str, error.absolute_path)) or 'body'}: {_deepest(error).message[:300]}"
        for error in _validator(json.dumps(schema, sort_keys=True)).iter_errors(body)
    ]


def _deepest(error: jsonschema.ValidationError) -> jsonschema.ValidationError:
    deepest: jsonschema.ValidationError = jsonschema.exceptions.best_match([error])
    return deepest


@functools.cache
def _validator(schema: str) -> Any:
    root = json.loads(schema) | {"components": (document() or {})["components"]}
    return jsonschema.Draft202012Validator(root)
