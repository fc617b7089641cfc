"""/context and /new in `channelmem chat`, with an editor of one's own at a real terminal."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import pytest
from llm_server import LlmServer, say
from terminals import CTRL_C, CTRL_D, ENTER, LIMIT_S
from test_cli_chat import Env, at_terminal, env, flat, model, piped

from channelmem.context_window import BEGUN, CANCELLED, FUTURE, NOTHING_STORED, TOO_MUCH, UNREADABLE

pytestmark = [pytest.mark.process, pytest.mark.timeout(3 * LIMIT_S)]
__all__ = ["env", "model"]  # fixtures


def editor(env: Env, tmp_path: Path, code: str) -> None:
    """$EDITOR becomes a program that runs this code on the file at `path`."""
    script = tmp_path / "editor.py"
    start = (
        f"import pathlib, sys\npath = pathlib.Path(sys.argv[-1])\nnotes = pathlib.Path({str(tmp_path)!r}) / 'notes'\n"
    )
    script.write_text(start + code)
    env["EDITOR"] = f"'{sys.executable}' '{script}'"


async def test_the_window_is_shown_and_changed(env: Env) -> None:
    lines = ("/context", "/context 24h", "/context add 8h", "/context sub 4h", "/context set 2 days", "/context")
    more = (
        "/context tomorrow",
        "/context set banana",
        "/context 3 weeks",
        "/context default",
        "/context reset",
        "/help",
        "/context 1h",
    )
    shown = flat((await asyncio.to_thread(piped, env, *lines, *more)).stdout)
    assert "Context window: 8h (default: 8h). This is the default. Right now: 0 summaries, " in shown
    assert "Context window set to 24h." in shown
    assert "Context window set to 32h." in shown
    assert "Context window set to 28h." in shown
    assert "Context window: 48h (default: 8h). This is set for Librarian in this server." in shown
    assert FUTURE in shown
    assert UNREADABLE in shown
    assert f"Context window set to 168h. {TOO_MUCH}" in shown
    assert shown.count("Context window reset to default (8h).") == 2
    assert shown.count("/new starts fresh without forgetting anything") == 2
    assert "Context window: 1h" in (await asyncio.to_thread(piped, env, "/context")).stdout, "in the next run too"


async def test_a_fresh_start_and_the_way_back(env: Env, model: LlmServer, tmp_path: Path) -> None:
    model.will(say("Fine."))
    editor(
        env,
        tmp_path,
        "notes.write_text(f'{path.stat().st_mode & 0o777:o} {path.parent.stat().st_mode & 0o777:o} {path}')\n"
        "path.write_text(''.join(line for line in path.open() if 'hungry' not in line))\n",
    )
    asking = "@bot how are you today?"
    lines = ("mark: The dragon appeared.", "ann: I am hungry.", asking, "/new", asking, "/context edit", asking)
    done = await asyncio.to_thread(piped, env, *lines)
    assert done.returncode == 0, done.stderr
    before, between, after = (request.user for request in model.requests)
    assert "The dragon appeared." in before
    assert "The dragon appeared." not in between
    assert "The dragon appeared." in after
    assert "hungry" not in after
    assert "[PRIOR_CONTEXT_PROVIDED]" in after
    shown = flat(done.stdout)
    assert BEGUN in shown
    assert '"The dragon appeared." Librarian starts with these messages' in shown
    mode, folder_mode, path = (tmp_path / "notes").read_text().split(" ", 2)
    assert (mode, folder_mode) == ("600", "700")
    assert not Path(path).parent.exists(), "nothing is left behind"


def test_what_is_not_a_shortened_copy_changes_nothing(env: Env, tmp_path: Path) -> None:
    editor(
        env,
        tmp_path,
        "turn = len(notes.read_text()) if notes.exists() else 0\n"
        "notes.write_text('x' * (turn + 1))\n"
        "text = path.read_text()\n"
        "path.write_bytes([text.replace('dragon', 'wizard').encode(), b'', b'\\xff\\xfe'][turn])\n",
    )
    done = piped(env, "mark: The dragon appeared.", *["/context edit"] * 3, "/context")
    assert done.returncode == 0, done.stderr
    shown = flat(done.stdout)
    assert "is not a line of my file" in shown
    assert CANCELLED in shown
    assert "not UTF-8" in shown
    assert "fresh start here" not in shown


def test_without_an_editor_or_messages_a_sentence_says_so(env: Env) -> None:
    env["EDITOR"] = "no-such-editor --wait"
    shown = flat(piped(env, "/context edit", "mark: The dragon appeared.", "/context edit").stdout)
    assert NOTHING_STORED in shown
    assert "Can't start the editor 'no-such-editor --wait': No such file or directory." in shown


def test_the_editor_gets_the_terminal_and_its_ctrl_c(env: Env, tmp_path: Path) -> None:
    editor(
        env,
        tmp_path,
        # Held back until it is waited for: a signal just before a read would be noticed after that read only.
        "import signal\nsignal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])\n"
        "print('editing> ', end='', flush=True)\nsignal.sigwait([signal.SIGINT])\nprint('interrupted')\n"
        "answer = input('keep?> ')\npath.write_text(path.read_text() if answer == 'yes' else '')\n",
    )
    with at_terminal(env) as chat:
        chat.type(f"mark: The dragon appeared.{ENTER}")
        chat.until("mark> ")
        chat.type(f"/context edit{ENTER}")
        chat.until("editing> ")
        chat.type(CTRL_C)
        chat.until("interrupted")
        chat.until("keep?> ")
        chat.type(f"yes{ENTER}")
        chat.until("[PRIOR_CONTEXT_PROVIDED] 1 message")
        chat.until("mark> ")
        chat.type(f"/new{ENTER}")
        chat.until("Fresh start!")
        chat.until("mark> ")
        chat.type(CTRL_D)
        code, shown = chat.end()
    assert code == 0
    assert "Traceback" not in shown
