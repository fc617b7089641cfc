"""mem0 and chromadb as bench_peers uses them. They run in processes of their own, since they load torch."""

from __future__ import annotations

import os
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
from conftest import CACHE_DIR
from processes import run

ROOT = Path(__file__).parents[2]
LIMIT_S = 600.0
"""Against a hang only; importing torch takes long beside busy cores."""
pytestmark = [pytest.mark.slow, pytest.mark.timeout(LIMIT_S + 60)]

OFFLINE = """
import socket, sys
real = socket.socket.connect
def connect(self, address):
    assert self.family == socket.AF_UNIX, f"a connection to {address}"
    return real(self, address)
socket.socket.connect = connect
"""
FIND = """
from pathlib import Path
from channelmem.embedding.model import as_directory, find_source
from channelmem.settings import Settings
from scripts.measure import conversation
from scripts.peers import Model
from scripts.peers_on_disk import KINDS
name, folder, cache = sys.argv[1:]
settings = Settings(_env_file=None, cache_dir=Path(cache))
model = Model(str(as_directory(find_source(settings), settings.cache_dir).path))
peer = KINDS[name](folder, "said", model)
texts = ["turtles live very long", "the invoice is late"]
model.given = {text: model.embed(text) for text in texts}
peer.add_given(conversation(texts, first_id=1, channel=0))
model.given = {}
peer.add(conversation(["the train to Basel broke down"], first_id=10, channel=7))
asked = "what did anyone say about turtles?"
print(peer.ask(1000, asked), peer.ask(1007, asked), peer.ask(1007, "is the train late?"))
peer.drop()
"""
LEFT_OUT = """
import sys
from scripts.peers_on_disk import left_out, missing
sys.modules["mem0"] = sys.modules["chromadb"] = None
print(left_out(missing()))
"""


def printed(code: str, *arguments: str, home: Path) -> str:
    command = [sys.executable, "-c", code, *arguments]
    done = run(command, env={**os.environ, "HOME": str(home)}, cwd=ROOT, timeout_s=LIMIT_S)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()[-1]


@pytest.mark.parametrize("name", ["mem0", "chromadb"])
def test_an_optional_peer_finds_what_a_channel_said_without_a_network(name: str, tmp_path: Path) -> None:
    if find_spec(name) is None:
        pytest.skip(f"{name} is not installed; to test it, run pip install -e '.[peers]' in an environment of its own")
    home = tmp_path / "home"
    home.mkdir()
    assert printed(OFFLINE + FIND, name, str(tmp_path / "data"), str(CACHE_DIR), home=home) == "1 0 1"
    assert not list(home.glob(".mem0*")), "it writes to the home directory"


def test_one_line_names_the_peers_that_are_not_installed_and_how_to_install_them(tmp_path: Path) -> None:
    said = printed(LEFT_OUT, home=tmp_path)
    assert said == "Not installed and left out: mem0, chromadb. To include them: pip install -e '.[peers]'"
