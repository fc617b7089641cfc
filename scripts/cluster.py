"""Starts a real Redis Cluster on this machine, from the programs that the embedded server uses.

    python -m scripts.cluster start --dir D     prints its URL; it runs until you stop it
    python -m scripts.cluster status --dir D
    python -m scripts.cluster stop --dir D      ends it and removes its data

It has three masters with one replica each, on free loopback ports and with a password. To try channelmem on it:

    export REDIS_URL="$(python -m scripts.cluster start --dir /tmp/cluster)"
    channelmem doctor && channelmem demo
"""

from __future__ import annotations

import argparse
import contextlib
import json
import secrets
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from random import SystemRandom
from typing import Any

import psutil
import redis

from channelmem.errors import ChannelmemError, ServerError
from channelmem.server.lease import Candidate, candidates
from channelmem.server.supervisor import ask, loaded, quoted, taken, write_private

PORTS = range(12_000, 22_000)
"""Below those that the kernel gives to outgoing connections, as is the port of the cluster's bus."""
BUS = 10_000
"""How much higher the port of the bus is."""
SLOTS = 16_384
NODE_TIMEOUT_MS = 2_000
"""After this silence a master counts as failed. Redis's default of 15 s suits real networks."""
FORM_S = 60.0
STATE = "cluster.json"
_children: list[subprocess.Popen[bytes]] = []
"""Held, because Python complains about processes that are let go; these are to outlive it."""


@dataclass(slots=True)
class Node:
    port: int
    pid: int = 0


@dataclass(slots=True)
class Cluster:
    """The nodes of one directory; the first `masters` of them were masters at the start."""

    folder: Path
    masters: int
    password: str
    binary: str
    modules: list[str]
    nodes: list[Node] = field(default_factory=list)

    @property
    def url(self) -> str:
        hosts = ",".join(f"127.0.0.1:{node.port}" for node in self.nodes)
        return f"redis+cluster://:{self.password}@{hosts}"

    # --- processes ---

    def launch(self, node: Node) -> None:
        """Starts a node, or starts it again on its data."""
        folder = self.folder / str(node.port)
        folder.mkdir(mode=0o700, exist_ok=True)
        config = folder / "redis.conf"
        write_private(config, "\n".join(_config(self, node, folder)) + "\n")
        with (folder / "server.log").open("ab") as log:
            process = subprocess.Popen(
                [self.binary, str(config)], stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )
        _children.append(process)
        node.pid = process.pid
        self.save()
        deadline = time.monotonic() + FORM_S
        while not ask(node.port, self.password, "FT._LIST").startswith("*"):
            if process.poll() is not None or time.monotonic() > deadline:
                raise ServerError(f"A node did not start; look into {folder / 'server.log'}.")
            time.sleep(0.02)

    def kill(self, node: Node) -> None:
        """Like kill -9."""
        process = self._process(node)
        if process is not None:
            process.kill()
            with contextlib.suppress(psutil.TimeoutExpired):
                process.wait(10)

    def _process(self, node: Node) -> psutil.Process | None:
        """None if it is gone; its number may belong to another process by now."""
        try:
            process = psutil.Process(node.pid)
            command = " ".join(process.cmdline())  # a server replaces its arguments by what it listens to
        except psutil.NoSuchProcess:
            return None
        return process if f":{node.port} " in command or str(self.folder) in command else None

    def running(self) -> list[Node]:
        return [node for node in self.nodes if node.pid and self._process(node) is not None]

    def stop(self) -> None:
        for node in self.nodes:
            self.kill(node)
        shutil.rmtree(self.folder, ignore_errors=True)

    def save(self) -> None:
        state = {**asdict(self), "folder": str(self.folder)}
        write_private(self.folder / STATE, json.dumps(state, indent=1))

    # --- the cluster they form ---

    def client(self, node: Node) -> redis.Redis:
        return redis.Redis(port=node.port, password=self.password, protocol=2, decode_responses=True)

    def ask(self, node: Node, *command: str | int) -> Any:
        with self.client(node) as client:
            return client.execute_command(*command)

    def id_of(self, node: Node) -> str:
        return str(self.ask(node, "CLUSTER", "MYID"))

    def form(self) -> None:
        first, *others = self.nodes
        for number, node in enumerate(self.nodes, 1):
            self.ask(node, "CLUSTER", "SET-CONFIG-EPOCH", number)
        for number, node in enumerate(self.nodes[: self.masters]):
            begin, end = (SLOTS * at // self.masters for at in (number, number + 1))
            self.ask(node, "CLUSTER", "ADDSLOTSRANGE", begin, end - 1)
        for node in others:
            self.ask(node, "CLUSTER", "MEET", "127.0.0.1", first.port)
        self._await(lambda node: self._fact(node, "cluster_known_nodes") == str(len(self.nodes)))
        for number, node in enumerate(self.nodes[self.masters :]):
            self.ask(node, "CLUSTER", "REPLICATE", self.id_of(self.nodes[number % self.masters]))
        self.settled()

    def settled(self) -> None:
        """Waits until all nodes agree that all slots are served, and replicas have caught up."""
        self._await(lambda node: self._fact(node, "cluster_state") == "ok")
        self._await(self._is_linked)

    def _is_linked(self, node: Node) -> bool:
        with self.client(node) as client:
            facts: Any = client.info("replication")
        replicas = (len(self.nodes) - self.masters) // self.masters
        return bool(
            facts["connected_slaves"] >= replicas if facts["role"] == "master" else facts["master_link_status"] == "up"
        )

    def _fact(self, node: Node, name: str) -> str:
        facts = self.ask(node, "CLUSTER", "INFO")
        lines = facts.items() if isinstance(facts, dict) else (line.split(":", 1) for line in facts.split())
        return str(dict(lines)[name])

    def _await(self, holds: Callable[[Node], bool]) -> None:
        deadline = time.monotonic() + FORM_S
        for node in self.running():
            while not holds(node):
                if time.monotonic() > deadline:
                    raise ServerError(f"The nodes did not form a cluster; look into the logs below {self.folder}.")
                time.sleep(0.05)


def _config(cluster: Cluster, node: Node, folder: Path) -> Iterable[str]:
    """Holds the password, which must not be on a command line, where every user of the machine can read it."""
    yield from (
        "bind 127.0.0.1",
        f"port {node.port}",
        f"requirepass {cluster.password}",
        f"masterauth {cluster.password}",
        f"dir {quoted(folder)}",
        "cluster-enabled yes",
        f"cluster-node-timeout {NODE_TIMEOUT_MS}",
        "repl-diskless-sync-delay 0",
        "appendonly yes",
        'save ""',
        "maxmemory-policy noeviction",
        "hash-max-listpack-value 1024",
    )
    yield from (" ".join(["loadmodule", quoted(path), *rest]) for path, *rest in map(loaded, cluster.modules))


def start(folder: Path, *, masters: int = 3, replicas: int = 1) -> Cluster:
    """A cluster in a directory that is empty or does not exist."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if any(folder.iterdir()):
        raise ServerError(f"{folder} is not empty; stop the cluster in it, or name another directory.")
    program = _working(folder)
    modules = [str(module) for module in program.modules]
    cluster = Cluster(folder.resolve(), masters, secrets.token_urlsafe(24), str(program.binary), modules)
    cluster.nodes = [Node(port) for port in _free_ports(masters * (1 + replicas))]
    try:
        for node in cluster.nodes:
            cluster.launch(node)
        cluster.form()
    except BaseException:
        cluster.stop()
        raise
    return cluster


def load(folder: Path) -> Cluster:
    """The cluster that was started in a directory."""
    try:
        state = json.loads((folder / STATE).read_text())
    except (OSError, ValueError):
        raise ServerError(
            f"There is no cluster in {folder}; start one with: python -m scripts.cluster start --dir D"
        ) from None
    nodes = [Node(**node) for node in state.pop("nodes")]
    return Cluster(**{**state, "folder": Path(state["folder"])}, nodes=nodes)


def _working(folder: Path) -> Candidate:
    """The first program that runs here: the wheel's needs a library that many machines lack."""
    for candidate in candidates():
        done = subprocess.run([candidate.binary, "--version"], capture_output=True, check=False, cwd=folder)
        if done.returncode == 0:
            return candidate
    raise ServerError("No Redis program with the search module runs here; see docs/embedded-redis.md.")


def _free_ports(count: int) -> list[int]:
    ports: set[int] = set()
    while len(ports) < count:
        port = SystemRandom().choice(PORTS)
        if not taken(port) and not taken(port + BUS):
            ports.add(port)
    return sorted(ports)


def _status(cluster: Cluster) -> str:
    lines = [f"{len(cluster.running())} of {len(cluster.nodes)} nodes run in {cluster.folder}."]
    for node in cluster.running():
        with cluster.client(node) as client:
            facts: Any = {**client.info("replication"), **client.info("memory")}
        indexes = len(cluster.ask(node, "FT._LIST"))
        size = f"{int(facts['used_memory']) / 2**20:.0f} MB"
        role = "master" if facts["role"] == "master" else "replica"
        lines.append(f"  port {node.port}, pid {node.pid}: {role}, {indexes} indexes, {size}")
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        "scripts.cluster", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("action", choices=("start", "status", "stop"))
    parser.add_argument("--dir", type=Path, required=True, metavar="D", help="directory of the cluster, empty at first")
    parser.add_argument("--masters", type=int, default=3, help="at least 3, for a failover to find a majority")
    parser.add_argument("--replicas", type=int, default=1, help="of each master")
    options = parser.parse_args(arguments)
    try:
        if options.action == "start":
            print(start(options.dir, masters=options.masters, replicas=options.replicas).url)
        elif options.action == "status":
            print(_status(load(options.dir)))
        else:
            load(options.dir).stop()
            print("Stopped; its data is removed.")
    except ChannelmemError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
