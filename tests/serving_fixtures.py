"""Fixtures for the tests of the service: one on Redis with a quick embedder, and who may do everything there.

For `pytest_plugins = ["serving_fixtures"]`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator

import httpx
import pytest
from conftest import FakeEmbedder
from serving import Running, serving

from channelmem import Settings


@pytest.fixture
async def service(settings: Settings, fake_embedder: FakeEmbedder) -> AsyncIterator[Running]:
    async with serving(settings, fake_embedder) as running:
        yield running


@pytest.fixture
async def http(service: Running) -> httpx.AsyncClient:
    return await service.operator()
