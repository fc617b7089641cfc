"""The OpenAPI document is true: schemathesis sends what it allows and what it does not, and checks every answer."""

from __future__ import annotations

import asyncio
import threading
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Self, cast

import pytest
import schemathesis
from conftest import FakeEmbedder, make_settings
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis import GenerationMode
from schemathesis.specs.openapi.checks import (
    missing_required_header,
    negative_data_rejection,
    positive_data_acceptance,
)
from serving import described, serving

EXAMPLES = 3
MANY = 100
NOT_CHECKED = [negative_data_rejection, missing_required_header, positive_data_acceptance]
"""Unknown query parameters are ignored, as everywhere. The token is checked in test_api_gate.py. And to JSON Schema 5.0
is a whole number, but an id that was a float may have been rounded; nor can it say what a duration looks like."""


class Background:
    """The service in a thread of its own: schemathesis blocks."""

    def __init__(self, redis_url: str, folder: Path) -> None:
        self._settings = make_settings(redis_url, folder, key_prefix=f"t{uuid.uuid4().hex[:12]}")
        self._started = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run()))
        self.url, self.token = "", ""

    async def _run(self) -> None:
        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        async with serving(self._settings, FakeEmbedder()) as running:
            self.url, self.token = running.url, await running.token()
            self._started.set()
            await self._stop.wait()

    def __enter__(self) -> Self:
        self._thread.start()
        assert self._started.wait(60)
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(60)
        assert not self._thread.is_alive()


@pytest.fixture(scope="module")
def background(redis_url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Background]:
    with Background(redis_url, tmp_path_factory.mktemp("service")) as running:
        yield running


@pytest.fixture(scope="module")
def document(background: Background) -> schemathesis.BaseSchema:
    return schemathesis.openapi.from_url(f"{background.url}/openapi.json")


OPERATIONS = [
    (path, method, mode)
    for path, operations in cast("dict[str, dict[str, dict[str, object]]]", described()["paths"]).items()
    for method, operation in operations.items()
    for mode in GenerationMode
    if mode is GenerationMode.POSITIVE or {"parameters", "requestBody", "security"} & operation.keys()
]


@pytest.mark.parametrize("examples", [EXAMPLES, pytest.param(MANY, marks=pytest.mark.slow)])
@pytest.mark.parametrize(("path", "method", "mode"), OPERATIONS)
def test_every_answer_is_one_that_the_document_describes(
    path: str,
    method: str,
    mode: GenerationMode,
    examples: int,
    background: Background,
    document: schemathesis.BaseSchema,
) -> None:
    operation = document[path][method]
    headers = {"Authorization": f"Bearer {background.token}"}

    @given(case=operation.as_strategy(generation_mode=mode))
    @settings(
        max_examples=examples,
        derandomize=True,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    def check(case: schemathesis.Case[Any]) -> None:
        case.call_and_validate(headers=headers, excluded_checks=NOT_CHECKED)

    check()
