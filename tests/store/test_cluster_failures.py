"""A cluster under load loses a master, or gives slots to another node: what was acknowledged stays, and it heals."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from clusters import holders
from conftest import make_settings

from channelmem.settings import Settings
from scripts.bench_cluster import HEALED_S, failover, move
from scripts.cluster import Cluster, start

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]
RATE = 100
SECONDS = 18.0
REPLICATION_S = 1.0
"""Replication is asynchronous: what a master acknowledged right before it died may not have reached its replica."""


@pytest.fixture
def own_cluster(tmp_path: Path) -> Iterator[Cluster]:
    started = start(tmp_path / "nodes")
    try:
        yield started
    finally:
        started.stop()


@pytest.fixture
def settings(own_cluster: Cluster, tmp_path: Path) -> Settings:
    return make_settings(own_cluster.url, tmp_path, redis_timeout_s=1.0)


async def test_a_master_that_is_killed_costs_no_acknowledged_message(own_cluster: Cluster, settings: Settings) -> None:
    seen = await failover(own_cluster, settings, seconds=SECONDS, rate=RATE)
    assert seen.acknowledged + seen.queued == SECONDS * RATE
    assert seen.queued > 0, "nothing was written to the master that died"
    assert seen.dropped == seen.unembedded == 0
    assert seen.lost == 0 or seen.lost_before_s < REPLICATION_S
    assert seen.lost <= RATE * REPLICATION_S
    assert seen.healed_s < HEALED_S
    assert min(holders(own_cluster, settings.key_prefix)) >= 2


async def test_slots_that_move_under_load_lose_nothing(own_cluster: Cluster, settings: Settings) -> None:
    seen = await move(own_cluster, settings, seconds=SECONDS, rate=RATE)
    assert seen.acknowledged + seen.queued == SECONDS * RATE
    assert seen.lost == seen.dropped == seen.unembedded == 0
    assert min(holders(own_cluster, settings.key_prefix)) >= 2
    sizes = [own_cluster.ask(node, "DBSIZE") for node in own_cluster.nodes[: own_cluster.masters]]
    assert sizes[2] > 2 * max(1, sizes[1]), "the slots did not move"
