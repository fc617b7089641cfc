"""`channelmem redis`: runs and inspects the embedded server; exit status 1 if none is running where one is needed."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import redis
import typer

from channelmem.display import json_text, visible
from channelmem.errors import RedisUnsuitableError, ServerError
from channelmem.secrets import is_cluster
from channelmem.server import lease as server
from channelmem.server.check import master_urls
from channelmem.server.lease import open_port, port_url, redis_cli
from channelmem.settings import Settings, load_settings

HELP = """Run and inspect the embedded Redis server.

\b
Examples:
  channelmem redis start
  channelmem redis cli FT._LIST
"""
app = typer.Typer(no_args_is_help=True, help=HELP)

NOTHING_RUNS = "The embedded server is not running; start it with `channelmem redis start`."


@app.command()
def start() -> None:
    """Start the embedded server and keep it running until `channelmem redis stop`.

    \b
    Example:
      channelmem redis start && channelmem redis url
    """
    settings = load_settings()
    if settings.redis_url is not None:
        typer.echo(
            "Note: REDIS_URL is set, so channelmem uses that server instead; unset it to use this one.", err=True
        )
    running = server.pin(settings)
    print(f"Running (pid {running.pid}), data in {running.data_dir}.")
    print("Open a port for RedisInsight with `channelmem redis url`; stop it with `channelmem redis stop`.")


@app.command()
def stop(
    force: Annotated[bool, typer.Option("--force", help="Stop it even if other processes are using it.")] = False,
) -> None:
    """Stop the embedded server. Its data is kept.

    \b
    Examples:
      channelmem redis stop
      channelmem redis stop --force
    """
    settings = load_settings()
    others = server.users(settings)
    if others and not force:
        server.unpin(settings)
        who = ", ".join(f"process {user.pid} ({user.command})" for user in others)
        raise ServerError(
            f"The embedded server is in use by {who}; it stops when they exit, "
            "or immediately with `channelmem redis stop --force`."
        )
    print("Stopped; the data is kept." if server.stop(settings) else "The embedded server was not running.")


@app.command()
def status(as_json: Annotated[bool, typer.Option("--json", help="Print JSON, without the password.")] = False) -> None:
    """Show whether the embedded server is running and which processes use it; exits with 1 if it is not running.

    \b
    Example:
      channelmem redis status --json
    """
    settings = load_settings()
    running = server.running(settings)
    report = _report(settings, running)
    if as_json:
        print(json.dumps(report, indent=2))
    elif running is None:
        print(NOTHING_RUNS)
    else:
        for name, value in report.items():
            print(f"{name:<15} {_shown(value)}")
    raise typer.Exit(0 if running else 1)


@app.command()
def url(
    socket: Annotated[
        bool, typer.Option("--socket", help="Print the URL of its socket instead, which needs no open port.")
    ] = False,
) -> None:
    """Open a loopback port until the server stops; print its URL with the password for redis-cli -u or RedisInsight.

    \b
    Examples:
      redis-cli -u "$(channelmem redis url)" INFO
      REDIS_URL="$(channelmem redis url --socket)" python my_script.py
    """
    settings = load_settings()
    if settings.redis_url is not None:
        print(settings.redis_url.get_secret_value())
        return
    running = _running(settings)
    print(running.url if socket else port_url(running))


@app.command(context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
def cli(
    arguments: Annotated[
        list[str] | None, typer.Argument(help="Redis command, such as FT._LIST. Omit it for a prompt.")
    ] = None,
) -> None:
    """Run a Redis command or open a prompt, using redis-cli if one works here and a built-in client otherwise.

    \b
    Examples:
      channelmem redis cli
      channelmem redis cli FT._LIST
    """
    settings = load_settings()
    address = _address(settings)
    options = ["-c"] if is_cluster(address) else []
    address = master_urls(address, timeout_s=settings.redis_timeout_s)[0]  # any node of a cluster leads to the others
    program = next((path for path in redis_cli() if _works(path)), None)
    if program is not None:
        raise typer.Exit(_run(program, address, [*options, *(arguments or [])]))
    with redis.Redis.from_url(address, protocol=2, decode_responses=True, encoding_errors="backslashreplace") as client:
        if arguments:
            raise typer.Exit(_say(client, arguments))
        _prompt(client)


# --- output ---


def _running(settings: Settings) -> server.Server:
    found = server.running(settings)
    if found is None:
        raise ServerError(NOTHING_RUNS)
    return found


def _address(settings: Settings) -> str:
    """The URL of a server that answers; one without the search module is accepted, since people want to look at it."""
    address = settings.redis_url.get_secret_value() if settings.redis_url else _running(settings).url
    with suppress(RedisUnsuitableError):
        server.check_server(address, timeout_s=settings.redis_timeout_s)
    return address


def _report(settings: Settings, running: server.Server | None) -> dict[str, object]:
    if running is None:
        return {"running": False}
    found = server.check_server(running.url)
    with redis.Redis.from_url(running.url, protocol=2, decode_responses=True) as client:
        port = open_port(client)
    return {
        "running": True,
        "socket": str(redis.connection.parse_url(running.url)["path"]),  # type: ignore[no-untyped-call]  # redis-py's gap
        "port": port or None,
        "pid": running.pid,
        "supervisor_pid": running.supervisor_pid,
        "data_dir": str(running.data_dir),
        "server": f"{found.name} {found.version}, {running.name}",
        "search": found.search_version,
        "json": found.json_version,
        "kept": server.pinned(settings),
        "users": [asdict(user) for user in server.users(settings)],
    }


def _shown(value: object) -> str:
    if isinstance(value, list):
        return visible("; ".join(f"{user['pid']} {user['command']}" for user in value)) or "none"
    return {True: "yes", False: "no"}[value] if isinstance(value, bool) else str(value)


# --- redis-cli, or the built-in client ---


def _works(program: Path) -> bool:
    """The wheel's client needs a library that many machines lack."""
    try:
        return subprocess.run([program, "--version"], capture_output=True, check=False).returncode == 0  # noqa: S603  (found by us)
    except OSError:
        return False


def _run(program: Path, address: str, arguments: list[str]) -> int:
    """Passes the password in the environment, since every user of the machine can read a command line."""
    options = redis.connection.parse_url(address)  # type: ignore[no-untyped-call]  # redis-py's gap
    command = [str(program), "-h", str(options.get("host", "127.0.0.1")), "-p", str(options.get("port", 6379))]
    if "path" in options:
        command = [str(program), "-s", str(options["path"])]
    if address.startswith("rediss"):
        command.append("--tls")
    if options.get("username"):
        command += ["--user", str(options["username"])]
    command += ["-n", str(options.get("db", 0)), *arguments]
    environment = os.environ | ({"REDISCLI_AUTH": str(options["password"])} if options.get("password") else {})
    return subprocess.run(command, env=environment, check=False).returncode  # noqa: S603  (found by us, no shell)


def _prompt(client: redis.Redis) -> None:
    print("redis-cli is not available, so this is a built-in prompt; press Enter on an empty line or Ctrl-D to leave.")
    while True:
        try:
            line = input("redis> ").strip()
        except (EOFError, KeyboardInterrupt):
            print()
            return
        if not line or line.lower() in {"quit", "exit"}:
            return
        try:
            words = shlex.split(line)
        except ValueError as error:
            print(f"(error) {error}")
            continue
        _say(client, words)


def _say(client: redis.Redis, words: list[str]) -> int:
    """Prints the reply in redis-cli's format; returns 1 for an error."""
    try:
        print(_formatted(_reply(client, words)))
    except redis.RedisError as error:  # rejected, or the server went away while the prompt was open
        print(f"(error) {visible(str(error))}")
        return 1
    return 0


def _reply(client: redis.Redis, words: list[str]) -> object:
    """Bypasses redis-py's parsers, which would convert the reply to Python types. Goes where a cluster sends it."""
    pool = client.connection_pool
    connection = pool.get_connection()
    try:
        return _asked(connection, words)
    except redis.exceptions.MovedError as moved:
        there = pool.connection_class(**{**pool.connection_kwargs, "host": moved.host, "port": moved.port})
        try:
            return _asked(there, words)
        finally:
            there.disconnect()
    finally:
        pool.release(connection)


def _asked(connection: Any, words: list[str]) -> object:
    connection.send_command(*words)
    return connection.read_response()


def _formatted(reply: object, indent: str = "") -> str:
    if reply is None:
        return "(nil)"
    if isinstance(reply, int):
        return f"(integer) {reply}"
    if not isinstance(reply, list):
        return json_text(json.dumps(reply, ensure_ascii=False)) if indent else visible(str(reply))
    if not reply:
        return "(empty array)"
    width = len(str(len(reply)))
    deeper = indent + " " * (width + 2)
    lines = [f"{n:>{width}}) {_formatted(item, deeper)}" for n, item in enumerate(reply, 1)]
    return f"\n{indent}".join(lines)
