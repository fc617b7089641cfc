"""The editor of `channelmem chat`: a private file, and a sentence whenever nothing was edited."""

from __future__ import annotations

import shlex
import signal
import sys
from pathlib import Path

import pytest

from channelmem.cli.chat_input import FAILED, NOT_SAVED, EditorError, edited

pytestmark = pytest.mark.process


def use(monkeypatch: pytest.MonkeyPatch, code: str) -> None:
    start = "import pathlib, sys; path = pathlib.Path(sys.argv[-1]); "
    monkeypatch.setenv("EDITOR", f"{shlex.quote(sys.executable)} -c {shlex.quote(start + code)}")


def test_what_was_saved_comes_back(monkeypatch: pytest.MonkeyPatch) -> None:
    use(monkeypatch, "path.write_bytes(path.read_bytes().upper())")
    assert edited("Ä line\n").decode() == "Ä LINE\n"


def test_the_file_is_private_and_nothing_is_left_behind(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    note = "[f'{one.stat().st_mode & 0o777:o}' for one in (path, path.parent)]"
    use(monkeypatch, f"(path.parent / 'context.txt~').touch(); path.write_text(str({note}))")
    assert edited("secret") == b"['600', '700']"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("code", "sentence"),
    [("path.read_text()", NOT_SAVED), ("raise SystemExit(3)", FAILED.format(status=3))],
    ids=["not saved", "failed"],
)
def test_without_a_saved_file_nothing_was_edited(monkeypatch: pytest.MonkeyPatch, code: str, sentence: str) -> None:
    use(monkeypatch, code)
    with pytest.raises(EditorError) as refused:
        edited("text")
    assert str(refused.value) == sentence


@pytest.mark.parametrize(
    ("editor", "problem"),
    [("no-such-editor --wait", "No such file or directory"), ("'unclosed", "No closing quotation")],
)
def test_an_editor_that_can_not_start_is_named(monkeypatch: pytest.MonkeyPatch, editor: str, problem: str) -> None:
    monkeypatch.setenv("EDITOR", editor)
    with pytest.raises(EditorError, match=problem) as refused:
        edited("text")
    assert repr(editor) in str(refused.value)


def test_without_an_editor_vi_is_used(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    vi = tmp_path / "vi"
    vi.write_text('#!/bin/sh\necho from vi > "$1"\n')
    vi.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setenv("EDITOR", " ")
    assert edited("text") == b"from vi\n"


def test_interrupts_are_the_editors_and_work_again_afterwards(monkeypatch: pytest.MonkeyPatch) -> None:
    before = signal.getsignal(signal.SIGINT)
    use(
        monkeypatch,
        "import os, signal; path.write_text(str(signal.getsignal(signal.SIGINT))); os.kill(os.getppid(), 2)",
    )
    assert b"default_int_handler" in edited("text"), "the editor does not inherit that interrupts are ignored"
    assert signal.getsignal(signal.SIGINT) is before
