"""Changes to a running cluster, as an operator makes them: moving slots from one node to another."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from redis.crc import key_slot

from scripts.cluster import Cluster, Node


def slot_of_bucket(bucket: int) -> int:
    return key_slot(b"%d" % bucket)


def master_of(cluster: Cluster, slot: int) -> Node:
    """The node that serves a slot."""
    for begin, end, master, *_ in cluster.ask(cluster.running()[0], "CLUSTER", "SLOTS"):
        if begin <= slot <= end:
            return next(node for node in cluster.nodes if node.port == int(master[1]))
    raise AssertionError(f"nobody serves slot {slot}")


def masters(cluster: Cluster) -> list[Node]:
    ports = {int(master[1]) for _, _, master, *_ in cluster.ask(cluster.running()[0], "CLUSTER", "SLOTS")}
    return [node for node in cluster.nodes if node.port in ports]


@dataclass
class Move:
    """One slot on its way, key by key, in the order that `redis-cli --cluster reshard` uses."""

    cluster: Cluster
    slot: int
    source: Node
    target: Node

    def begin(self, *, keys: int = 0) -> None:
        """Opens the move, if it is not open, and takes some keys along."""
        ask = self.cluster.ask
        ask(self.target, "CLUSTER", "SETSLOT", self.slot, "IMPORTING", self.cluster.id_of(self.source))
        ask(self.source, "CLUSTER", "SETSLOT", self.slot, "MIGRATING", self.cluster.id_of(self.target))
        if keys:
            self._take(keys)

    def count(self) -> int:
        return int(self.cluster.ask(self.source, "CLUSTER", "COUNTKEYSINSLOT", self.slot))

    def finish(self) -> None:
        while self.count():
            self._take(100)
        for node in (self.target, self.source):
            self.cluster.ask(node, "CLUSTER", "SETSLOT", self.slot, "NODE", self.cluster.id_of(self.target))

    def _take(self, keys: int) -> None:
        with self.cluster.client(self.source) as client:
            names: list[Any] = client.execute_command("CLUSTER", "GETKEYSINSLOT", self.slot, keys)
            route = ("127.0.0.1", self.target.port, "", 0, 5000, "AUTH", self.cluster.password)
            if names:
                client.execute_command("MIGRATE", *route, "KEYS", *names)


@contextmanager
def moved(cluster: Cluster, slot: int) -> Iterator[Move]:
    """A move to another master; finished at the end, whatever happened."""
    source = master_of(cluster, slot)
    target = next(node for node in masters(cluster) if node != source)
    move = Move(cluster, slot, source, target)
    try:
        yield move
    finally:
        move.finish()
