"""What is not installed is named with the command that installs it; our own mistakes are not dressed up as that."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from pydantic import SecretStr

from channelmem.errors import ConfigError
from channelmem.extras import load
from channelmem.ops.doctor import Health, check_discord
from channelmem.settings import Settings

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


@pytest.mark.parametrize("missing", BOT_PACKAGES)
def test_the_bot_without_one_of_its_packages_is_one_sentence(missing: str) -> None:
    done = without((missing,), "bot")
    assert done.returncode == 1
    expected = f"The Discord bot needs {missing}, which is not installed: pip install 'channelmem[discord]'"
    assert " ".join(done.stderr.split()) == f"channelmem: {expected}"


def test_every_help_works_without_any_extra() -> None:
    done = without(EXTRA_PACKAGES, "--help")
    assert done.returncode == 0, done.stderr
    assert "Start the Discord bot" in done.stdout


def test_a_route_is_explained_without_any_extra() -> None:
    done = without(EXTRA_PACKAGES, "route", "what did Ann just say?", "--json")
    assert done.returncode == 0, done.stderr


async def test_doctor_says_that_a_token_alone_is_not_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "aiohttp", None)
    monkeypatch.delitem(sys.modules, "channelmem.ops.discord_api", raising=False)
    (check,) = await check_discord(Settings(_env_file=None, discord_token=SecretStr("x")))
    assert check.health is Health.BAD
    assert "pip install 'channelmem[discord]'" in check.says


def test_a_mistake_of_ours_is_not_called_a_missing_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mistaken.py").write_text("import channelmem.no_such_module\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ModuleNotFoundError):
        load("mistaken", "discord", "Nothing")
    with pytest.raises(ConfigError, match=r"Something needs no_such_package.*channelmem\[discord\]"):
        load("no_such_package.inner", "discord", "Something")
