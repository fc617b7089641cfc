"""`channelmem summaries`, on real Redis with the real model: show, rebuild and export a channel's past."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest
from clock import wall_now
from conftest import CACHE_DIR, CHANNEL, GUILD
from typer.testing import CliRunner, Result

from channelmem.cli import app
from channelmem.embedding.embed import Embedder
from channelmem.errors import ConfigError
from channelmem.memory import Memory
from channelmem.settings import Settings
from channelmem.types import Message

HERE = ("--guild", str(GUILD), "--channel", str(CHANNEL))
HOUR_S = 3600.0


@pytest.fixture(autouse=True)
def of_the_test(settings: Settings, embedder: Embedder, monkeypatch: pytest.MonkeyPatch) -> None:
    """Six hours of talk in the Redis of this test."""
    assert settings.redis_url is not None
    monkeypatch.setenv("REDIS_URL", settings.redis_url.get_secret_value())
    monkeypatch.setenv("CHANNELMEM_KEY_PREFIX", settings.key_prefix)
    monkeypatch.setenv("CHANNELMEM_DATA_DIR", str(settings.data_dir))
    monkeypatch.setenv("CHANNELMEM_CACHE_DIR", str(CACHE_DIR))
    monkeypatch.setenv("COLUMNS", "160")
    asyncio.run(_talk(settings, embedder))


async def _talk(settings: Settings, embedder: Embedder) -> None:
    now = wall_now()
    said = [
        Message(
            GUILD, CHANNEL, n + 1, 5, "Ann\x1b[31m", f"part {n} of the oven is \x1b[2J here", now - 7 * HOUR_S + 600 * n
        )
        for n in range(36)
    ]
    async with Memory.open(settings.model_copy(update={"embed_in_process": False}), embedder=embedder) as memory:
        await memory.remember_many(said)
        await memory.summaries.update(GUILD, CHANNEL)


def run(*arguments: str, answer: str = "") -> Result:
    return CliRunner().invoke(app, ["summaries", *arguments], input=answer)


def test_a_span_is_shown_in_words_and_as_json() -> None:
    told = run("show", *HERE, "--span", "24h").stdout
    assert told.startswith("36 messages from ")
    assert "A language model would be given" in told
    assert "\x1b" not in told
    rows = json.loads(run("show", *HERE, "--json").stdout)
    assert sum(row["messages"] for row in rows if row["level"] == 1) == 36
    assert {row["model"] for row in rows} == {"extractive"}
    assert rows[0]["authors"][0]["id"] == "5"


def test_what_is_no_time_is_one_sentence() -> None:
    found = run("show", *HERE, "--span", "banana").exception
    assert isinstance(found, ConfigError)
    assert "can't read that as a time" in str(found)


def test_an_empty_channel_says_so() -> None:
    assert run("show", "--guild", str(GUILD), "--channel", "77").stdout.startswith("There is nothing from that time.")


def test_a_rebuild_asks_first() -> None:
    before = json.loads(run("show", *HERE, "--json").stdout)
    refused = run("rebuild", *HERE, answer="n\n")
    assert refused.exit_code == 1
    assert json.loads(run("show", *HERE, "--json").stdout) == before
    done = run("rebuild", *HERE, answer="y\n")
    assert f"Rebuilt {len(before)} summaries." in done.stdout
    again = json.loads(run("show", *HERE, "--json").stdout)
    assert [row["id"] for row in again] == [row["id"] for row in before]


def test_an_export_goes_to_a_file_or_to_the_terminal(tmp_path: Path) -> None:
    path = tmp_path / "past.md"
    assert run("export", *HERE, "--out", str(path)).stdout == f"Wrote {path}.\n"
    text = path.read_text("utf-8")
    assert text.startswith(f"# Channel {CHANNEL} of server {GUILD}\n")
    assert text.count("- **") == 36
    assert "> **Summary, " in text
    shown = run("export", *HERE, "--from", "3h").stdout
    assert 6 < shown.count("- **") < 30
    assert "\x1b" not in shown
