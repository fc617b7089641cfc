"""What people write reaches no terminal as an escape sequence, whichever command prints it."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import sys
from pathlib import Path

import pytest
import structlog
from clock import wall_now
from conftest import CHANNEL, GUILD, make_settings
from processes import run as run_process

from bot.client import configure_logging
from channelmem.cli.redis import _formatted
from channelmem.cli.show import to_json
from channelmem.display import visible
from channelmem.memory import Memory
from channelmem.settings import Settings
from channelmem.types import Message

HOSTILE = "\x1b]0;owned\x07 \x1b[31mred\x1b[0m \x9b31m \x08\x7f \u202egnp.exe\u2066 \u200fturtles"


def is_safe(text: str) -> bool:
    return visible(text) == text


def test_text_keeps_its_letters_tabs_and_lines() -> None:
    assert visible("a\tb\nç 🐢 日本") == "a\tb\nç 🐢 日本"
    assert visible(HOSTILE) == "]0;owned [31mred[0m 31m  gnp.exe turtles"


def test_json_escapes_what_a_terminal_would_obey_and_loses_nothing() -> None:
    text = to_json({"author": HOSTILE, "text": "ç 🐢"})
    assert is_safe(text)
    assert "ç 🐢" in text
    assert json.loads(text) == {"author": HOSTILE, "text": "ç 🐢"}


def test_a_reply_of_redis_is_printed_without_escape_sequences() -> None:
    assert is_safe(_formatted(HOSTILE))
    assert is_safe(_formatted([HOSTILE, [HOSTILE]]))


def run(*arguments: str, cwd: Path, **environment: str) -> str:
    command = [sys.executable, "-m", "channelmem", *arguments]
    done = run_process(command, env={**os.environ, **environment}, cwd=cwd, timeout_s=120)
    return done.stdout + done.stderr


@pytest.fixture
def env(redis_url: str, tmp_path: Path) -> dict[str, str]:
    prefix = f"terminal-{tmp_path.name}"
    settings = make_settings(redis_url, tmp_path, key_prefix=prefix)

    async def fill() -> None:
        async with Memory.open(settings) as memory:
            now = wall_now()
            await memory.remember(Message(GUILD, CHANNEL, 1, 5, HOSTILE, f"{HOSTILE} are slow", now))
            assert await memory.flush(60)

    asyncio.run(fill())
    return {"REDIS_URL": redis_url, "CHANNELMEM_KEY_PREFIX": prefix, "CHANNELMEM_REDIS_TIMEOUT_S": "60"}


@pytest.mark.process
@pytest.mark.parametrize(
    "arguments",
    [
        ["inspect", str(CHANNEL)],
        ["inspect", str(CHANNEL), "--json"],
        ["inspect", str(CHANNEL), "--near", "1"],
        ["route", f"what did {HOSTILE} say?", "--roster", HOSTILE],
        ["route", f"what did {HOSTILE} say about {HOSTILE}?", "--roster", HOSTILE, "--json"],
        ["route", "what?", "--now", HOSTILE],
        ["settings", "show", "--guild", "1", "--character", HOSTILE],
        ["settings", "reset", "--guild", "1", "--character", HOSTILE, "--yes"],
        ["settings", "set", "context_messages", HOSTILE],
    ],
    ids=[
        "inspect",
        "inspect --json",
        "inspect --near",
        "route",
        "route --json",
        "an error",
        "settings show",
        "settings reset",
        "settings set",
    ],
)
def test_no_command_passes_an_escape_sequence(arguments: list[str], env: dict[str, str], tmp_path: Path) -> None:
    printed = run(*arguments, cwd=tmp_path, **env)
    assert "owned" in printed
    assert is_safe(printed)


@pytest.mark.parametrize("as_json", [True, False])
def test_no_log_line_passes_an_escape_sequence_or_forges_another_line(
    as_json: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    try:
        configure_logging(Settings(_env_file=None, log_json=as_json))
        structlog.get_logger("bot").info("joined", guild=f"{HOSTILE}\n2026 [error] forged")
        logging.getLogger("discord").warning("channel %s", f"{HOSTILE}\nforged")
        logging.getLogger("discord").info("said\r\nforged")
        written = capsys.readouterr().err
    finally:
        root.handlers[:], root.level = handlers, level
        structlog.reset_defaults()
    assert is_safe(written)
    assert len(written.splitlines()) == 3
