"""channelmem as a package: what it exports, what it installs, and what it loads."""

import json
import re
import subprocess
import sys
import tomllib
from importlib.metadata import version
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import channelmem
from channelmem.embedding import weights

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
BASE = [Requirement(line) for line in PROJECT["dependencies"]]
EXTRAS = {name: [Requirement(line) for line in lines] for name, lines in PROJECT["optional-dependencies"].items()}
# Numbered by year, or with no promise about majors.
UNLOCKED = "peers"
"""An extra for one benchmark, whose packages do not go with the locked releases."""
NO_UPPER_BOUND = {"regex", "structlog", "packaging"}
MEDIA = {"PIL", "av", "cv2", "faster_whisper", "rapidocr", "channelmem.media.reader", "channelmem.llm.vision"}
HEAVY = MEDIA | {
    "torch", "sentence_transformers", "transformers", "discord", "pydantic_ai", "langchain_core", "aiohttp", "fastapi",
    "starlette", "uvicorn", "httpx", "jinja2", "prometheus_client",
}  # fmt: skip


def test_the_package_exports_these_names_and_no_other() -> None:
    assert channelmem.__all__ == sorted(
        [
            "Answer",
            "Attachment",
            "ChannelStatus",
            "ChannelmemError",
            "ContextRequest",
            "Gap",
            "History",
            "Hit",
            "Kind",
            "Memory",
            "Message",
            "Mode",
            "Origin",
            "Outcome",
            "Past",
            "Person",
            "Question",
            "Route",
            "Settings",
            "Source",
            "SourceReport",
            "Thread",
            "Timing",
            "Wants",
            "Window",
            "load_settings",
        ]
    )
    for name in channelmem.__all__:
        assert getattr(channelmem, name) is not None


@pytest.mark.process
def test_the_command_line_tells_its_version() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "channelmem", "--version"], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout == f"channelmem {version('channelmem')}\n"
    assert version("channelmem") == PROJECT["version"]


@pytest.mark.process
@pytest.mark.parametrize(
    "code",
    [
        "import channelmem.memory",
        "import channelmem.cli",
        "from channelmem.cli import chat, demo, doctor, serve, token",
    ],
)
def test_nothing_that_an_extra_brings_is_loaded_at_the_start(code: str) -> None:
    code = f"{code}; import json, sys; print(json.dumps(sorted(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert not HEAVY & set(json.loads(done.stdout))


def test_a_plain_installation_brings_neither_torch_nor_a_bot() -> None:
    names = {canonicalize_name(one.name) for one in BASE}
    extra = {
        canonicalize_name(one.name)
        for name in ("discord", "llm", "langchain", "service", "torch")
        for one in EXTRAS[name]
    }
    assert not names & extra
    assert {"torch", "sentence-transformers", "discord-py"} <= extra
    assert weights.PACKAGE in PROJECT["dependencies"]


def test_the_development_extra_has_all_the_others_but_the_peers_of_a_benchmark() -> None:
    (whole,) = [one for one in EXTRAS["dev"] if one.name == "channelmem"]
    assert whole.extras == set(EXTRAS) - {"dev", UNLOCKED}


def test_every_dependency_has_bounds() -> None:
    for one in [*BASE, *(one for lines in EXTRAS.values() for one in lines if one.name != "channelmem")]:
        operators = {specifier.operator for specifier in one.specifier}
        if one.name in NO_UPPER_BOUND:
            assert operators == {">="}, one
        else:
            assert operators in ({">=", "<"}, {"=="}), one


def test_what_the_security_page_names_exists() -> None:
    page = (ROOT / "SECURITY.md").read_text()
    tests = set(re.findall(r"`(test_\w+\.py)`", page))
    assert tests
    assert tests <= {path.name for path in (ROOT / "tests").rglob("test_*.py")}
    assert "## Reporting" in page
