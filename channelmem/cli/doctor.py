"""`channelmem doctor`: checks the setup; exit status 1 if any check fails.

Checks are independent: a failed one never hides the others.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import psutil
import redis
import typer
from rich.console import Console
from rich.markup import escape

from channelmem.display import visible
from channelmem.durations import human_age
from channelmem.embedding.model import find_source, ready
from channelmem.errors import ChannelmemError, ConfigError
from channelmem.extras import load
from channelmem.secrets import is_cluster
from channelmem.server.check import master_urls, where_is
from channelmem.server.lease import check_server, connect_url
from channelmem.settings import Settings, load_settings, unknown, variable
from channelmem.store.index import chosen
from channelmem.store.keys import keys_of


class Health(StrEnum):
    OK = "ok"
    NOTE = "note"
    BAD = "bad"


@dataclass(frozen=True, slots=True)
class Check:
    name: str
    health: Health
    says: str


MARK = {Health.OK: "[green]OK  [/]", Health.NOTE: "[yellow]note[/]", Health.BAD: "[bold red]BAD [/]"}


def doctor(
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON: one object per check.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print failed checks only.")] = False,
) -> None:
    """Check server, index, model, Discord token, clock, disk and memory, and say how to fix what is wrong.

    Exits with status 1 if a check fails.

    \b
    Examples:
      channelmem doctor
      channelmem doctor --quiet && channelmem bot
    """
    console, found = Console(), []
    for check in _checks(load_settings()):
        found.append(check)
        if not as_json and (check.health is Health.BAD or not quiet):
            console.print(
                f"{MARK[check.health]} {check.name:<13} {escape(visible(check.says))}", highlight=False, soft_wrap=True
            )
    if as_json:
        print(json.dumps([{"name": c.name, "health": c.health.value, "says": c.says} for c in found], indent=2))
    raise typer.Exit(int(any(check.health is Health.BAD for check in found)))


def _checks(settings: Settings) -> Iterator[Check]:
    yield Check("settings", Health.OK, "loaded")
    for sentence in unknown(settings):  # a misspelt one breaks nothing, but nobody would notice it otherwise
        yield Check("settings", Health.NOTE, sentence)
    yield from check_settings_and_server(settings)
    yield check_model(settings)
    yield from asyncio.run(check_discord(settings))
    yield from check_machine(settings)


# --- checks ---


MESSAGE_CONTENT = 1 << 18 | 1 << 19  # granted after review, or without review to a small bot
DISCORD_API, DISCORD_S = "https://discord.com/api/v10", 5
CLOCK_DRIFT_S = 2.0
DISK_FREE = 500 * 2**20
MEMORY_FREE = 300 * 2**20
RESULTS = 10_000  # the most that channelmem asks a search for at once; Redis Stack's image allows just that
FULL_SHARE = 0.9
MESSAGE_BYTES = 2_900
LOAD_MS = {"hnsw": 0.3, "flat": 0.06}
"""Milliseconds per message to load (docs/scaling.md): an estimate, since machines differ and graphs slow down."""
LONGEST_LOAD_S = 60.0


def check_settings_and_server(settings: Settings) -> Iterator[Check]:
    """Index, clock and memory need a connection; without one, only the reason is reported."""
    with contextlib.ExitStack() as stack:
        try:
            url = stack.enter_context(connect_url(settings))
            info = check_server(url, timeout_s=settings.redis_timeout_s)
        except ChannelmemError as error:
            yield Check("server", Health.BAD, str(error))
            return
        where = "embedded" if settings.redis_url is None else "REDIS_URL"
        yield Check("server", Health.OK, f"{info.name} {info.version} ({where}), RediSearch {info.search_version}")
        for node in master_urls(url, timeout_s=settings.redis_timeout_s):
            client = stack.enter_context(redis.Redis.from_url(node, socket_timeout=settings.redis_timeout_s))
            which = f" ({where_is(node)})" if is_cluster(url) else ""
            if _serves_first_bucket(client, settings):
                yield _guarded("index", _index, client, settings)
            for name, look in NODE_CHECKS.items():
                yield _guarded(name + which, look, client, settings)


def _serves_first_bucket(client: redis.Redis, settings: Settings) -> bool:
    """Always true but for some nodes of a cluster."""
    try:
        client.exists(keys_of(settings.key_prefix, 0).one("meta"))
    except redis.exceptions.MovedError:
        return False
    except redis.RedisError:
        return True  # the check itself says what is wrong
    return True


Finding = tuple[Health, str]
Look = Callable[["redis.Redis", Settings], Finding]


def _guarded(name: str, look: Look, client: redis.Redis, settings: Settings) -> Check:
    try:
        return Check(name, *look(client, settings))
    except (redis.RedisError, ChannelmemError) as error:
        return Check(name, Health.BAD, str(error))


def _index(client: redis.Redis, settings: Settings) -> Finding:
    keys = keys_of(settings.key_prefix, 0)
    meta = {_text(name): _text(value) for name, value in client.hgetall(keys.one("meta")).items()}
    if not meta:
        return Health.NOTE, "none yet; the first message creates it"
    there = meta["buckets"]
    if there != str(settings.buckets):
        fix = f"set CHANNELMEM_BUCKETS={there}, or run `channelmem rebucket {settings.buckets}`"
        return Health.BAD, f"holds {there} bucket(s); {fix}"
    wanted = find_source(settings).identity(settings.embedding_precision)
    if settings.embedding_backend == "onnx" and meta["model"] != wanted:
        return Health.BAD, f"built with {meta['model']}, not {wanted}; run `channelmem reindex`"
    index: Any = client.ft(keys.one("idx"))
    info = index.info()
    return Health.OK, f"{int(info['num_docs'])} messages in the first of {settings.buckets} bucket(s)"


def _text(value: bytes | str) -> str:
    return value.decode() if isinstance(value, bytes) else value


def _clock(client: redis.Redis, _settings: Settings) -> Finding:
    before = time.time()
    seconds, micros = client.time()
    theirs, after = seconds + micros / 1e6, time.time()
    drift = max(0.0, before - theirs, theirs - after)  # a slow round trip is not drift
    if drift > CLOCK_DRIFT_S:
        says = f"differs from Redis by {drift:.0f} s, so ages are wrong; turn on time synchronisation on both machines"
        return Health.BAD, says
    return Health.OK, f"within {drift * 1000:.0f} ms of Redis"


def _search_limits(client: redis.Redis, _settings: Settings) -> Finding:
    info = client.info("modules")
    limits = {name: int(info.get(f"search_max_{name}_results", -1)) for name in ("search", "aggregate")}
    low = [f"MAX{name.upper()}RESULTS" for name, limit in limits.items() if 0 <= limit < RESULTS]
    told = ", ".join(f"{name} {'unlimited' if limit < 0 else f'{limit:,}'}" for name, limit in limits.items())
    if low:
        says = f"at most {told} results; set {' and '.join(low)} to {RESULTS} in the arguments of the search module"
        return Health.BAD, says
    return Health.OK, f"results at most: {told}"


def _persistence(client: redis.Redis, _settings: Settings) -> Finding:
    info = client.info("persistence")
    for name, problem in FAILED.items():
        if info.get(name, "ok") != "ok":
            return Health.BAD, problem
    saved = f"last snapshot {human_age(max(0.0, time.time() - int(info['rdb_last_save_time'])))}"
    if int(info["aof_enabled"]):
        return Health.OK, f"append-only file, last write ok; {saved}"
    if _saves(client):
        says = f"snapshots only ({saved}): a crash loses what came after the last one; set appendonly to yes"
        return Health.NOTE, says
    return Health.BAD, "Redis saves nothing, so a restart loses everything; set appendonly to yes"


FAILED = {
    "aof_last_write_status": "Redis cannot write its append-only file and refuses new messages; free space on its disk",
    "rdb_last_bgsave_status": "the last snapshot failed, so Redis may refuse new messages; look at its log, and free "
    "space on its disk",
    "aof_last_bgrewrite_status": "the append-only file could not be rewritten and keeps growing; look at the log of "
    "Redis, and free space on its disk",
}
"""What INFO says of the last attempt to save."""


def _saves(client: redis.Redis) -> bool:
    """Whether snapshots are on; assumed where asking is not allowed."""
    try:
        return client.config_get("save").get("save", "on") != ""
    except redis.ResponseError:
        return True


def _redis_memory(client: redis.Redis, _settings: Settings) -> Finding:
    info = client.info("memory")
    used, limit, host = (int(info.get(name, 0)) for name in ("used_memory", "maxmemory", "total_system_memory"))
    policy = str(info.get("maxmemory_policy", "noeviction"))
    if limit and policy != "noeviction":
        return Health.BAD, f"Redis may evict messages ({policy}); set maxmemory-policy to noeviction"
    if limit and used > FULL_SHARE * limit:
        return Health.BAD, f"{_mb(used)} of {_mb(limit)} used; raise maxmemory"
    if host and int(info.get("used_memory_rss", used)) > FULL_SHARE * host:
        return Health.BAD, f"Redis takes up almost all of its host's {_mb(host)} and may be killed; add memory"
    if host and limit > host:
        return Health.BAD, f"maxmemory ({_mb(limit)}) exceeds the host's {_mb(host)}, so Redis may be killed; lower it"
    left = f"{_mb(limit - used)} left of maxmemory {_mb(limit)}" if limit else "no maxmemory"
    return Health.OK, f"{_mb(used)} used, {left}, host {_mb(host)}"


def _restart(client: redis.Redis, settings: Settings) -> Finding:
    """How long Redis would load its data after a crash: it rebuilds the index, message by message."""
    used = int(client.info("memory")["used_memory"])
    messages = used // MESSAGE_BYTES
    seconds = messages * LOAD_MS[chosen(settings, messages=messages // settings.buckets).index_algorithm] / 1000
    if seconds <= LONGEST_LOAD_S:
        return Health.OK, f"about {max(1, round(seconds))} s to load {_mb(used)}"
    says = (
        f"about {seconds / 60:.0f} min to load {_mb(used)}, during which the bot answers from Discord's history only; "
        "use CHANNELMEM_INDEX_ALGORITHM=flat, a replica, or a cluster (docs/scaling.md)"
    )
    return Health.NOTE, says


NODE_CHECKS: dict[str, Look] = {
    "search limits": _search_limits,
    "clock": _clock,
    "persistence": _persistence,
    "redis memory": _redis_memory,
    "restart": _restart,
}
"""What is asked of every node."""


def check_model(settings: Settings) -> Check:
    try:
        model = ready(settings) if settings.embedding_backend == "onnx" else None
        name = find_source(settings).identity(settings.embedding_precision)
    except ChannelmemError as error:
        return Check("model", Health.BAD, str(error))
    if settings.embedding_backend == "torch":
        return Check("model", Health.OK, f"{name}, running on torch")
    if model is None:
        return Check("model", Health.NOTE, f"{name} is not exported yet or is damaged; the next start exports it")
    return Check("model", Health.OK, f"{name}, exported and intact")


def check_machine(settings: Settings) -> Iterator[Check]:
    yield _disk("disk (data)", settings.data_dir, variable("data_dir"))
    yield _disk("disk (cache)", settings.cache_dir, variable("cache_dir"))
    free = psutil.virtual_memory().available
    enough = free >= MEMORY_FREE
    says = f"{_mb(free)} free" + ("" if enough else f"; channelmem needs {_mb(MEMORY_FREE)}: close another program")
    yield Check("memory", Health.OK if enough else Health.BAD, says)


def _disk(name: str, folder: Path, setting: str) -> Check:
    try:
        existing = next(path for path in (folder, *folder.absolute().parents) if path.exists())
        # Try it: permissions alone do not tell (root may write to /proc, yet cannot create anything there).
        with tempfile.TemporaryDirectory(dir=existing):
            free = shutil.disk_usage(existing).free
    except OSError as error:
        wrong = "is not writable" if os.path.lexists(folder) else "cannot be created"
        says = f"{folder} {wrong} ({error.strerror}); set {setting} to a writable directory"
        return Check(name, Health.BAD, says)
    enough = free >= DISK_FREE
    says = f"{_mb(free)} free in {folder}" + ("" if enough else f"; channelmem needs {_mb(DISK_FREE)}: free some space")
    return Check(name, Health.OK if enough else Health.BAD, says)


async def check_discord(settings: Settings) -> list[Check]:
    """Checks the token and the message-content intent with one request to Discord, if a token is set."""
    if settings.discord_token is None:
        says = "DISCORD_TOKEN is not set; only the bot needs it (Developer Portal -> your application -> Bot)"
        return [Check("token", Health.NOTE, says)]
    try:
        aiohttp = load("aiohttp", "discord", "The Discord bot")
    except ConfigError as error:
        return [Check("token", Health.BAD, str(error))]
    address = f"{(settings.discord_api_base or DISCORD_API).rstrip('/')}/applications/@me"
    headers = {"Authorization": f"Bot {settings.discord_token.get_secret_value()}"}
    try:
        async with (
            aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=DISCORD_S), headers=headers) as session,
            session.get(address) as reply,
        ):
            body = await reply.json() if reply.ok else {}
            return _judge_token(reply.status, int(body.get("flags", 0)))
    except (aiohttp.ClientError, TimeoutError) as error:
        says = f"could not reach Discord to check it ({type(error).__name__}); check the network and the proxy"
        return [Check("token", Health.BAD, says)]


def _judge_token(status: int, flags: int) -> list[Check]:
    if status == 401:
        says = "Discord rejects DISCORD_TOKEN; reset it under Developer Portal -> Bot and copy it again"
        return [Check("token", Health.BAD, says)]
    if status != 200:
        return [Check("token", Health.BAD, f"Discord answered HTTP {status} to the token check; try again later")]
    if flags & MESSAGE_CONTENT:
        intent = Check("intents", Health.OK, "message content is enabled")
    else:
        says = "the message-content intent is off; enable Developer Portal -> Bot -> Message Content Intent"
        intent = Check("intents", Health.BAD, says)
    return [Check("token", Health.OK, "accepted by Discord"), intent]


def _mb(size: int) -> str:
    return f"{size / 2**20:,.0f} MB"
