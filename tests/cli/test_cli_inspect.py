"""`channelmem inspect` as people read it in a terminal."""

from __future__ import annotations

import io
from dataclasses import replace
from typing import Any

import pytest
from rich.console import Console

from channelmem.cli import inspect as cli_inspect
from channelmem.types import Attachment, Hit, Message, Stored

TALK = "the bridge opens in may, or so they say in the office; " * 4
GUILD, CHANNEL = 811_111_111_111_111_111, 922_222_222_222_222_222
LONG = Message(GUILD, CHANNEL, 1_428_000_000_000_000_001, 5, "a name as long as Discord allows", TALK, 1_700_000_000.0)
BUFFERED = cli_inspect._buffered(Stored(LONG, embedded=True, ttl_s=6 * 86_400 + 3_700))
SIMILAR = cli_inspect._similar(Hit(LONG, 0.9, similarity=0.9, age_s=86_400.0 * 3))


def printed(row: dict[str, Any], columns: int) -> str:
    console = Console(file=io.StringIO(), width=columns)
    with console.capture() as captured:
        console.print(cli_inspect._table([row]))
    return captured.get()


@pytest.mark.parametrize("columns", [80, 60, 40])
def test_an_id_is_never_cut(columns: int) -> None:
    for row in (BUFFERED, SIMILAR):
        assert str(LONG.id) in printed(row, columns)


def test_author_and_text_give_way_and_no_column_is_lost_at_80_columns() -> None:
    for row in (BUFFERED, SIMILAR):
        shown = printed(row, 80)
        assert "…" not in shown
        assert all(name in shown for name in row)
        assert all(word in shown for word in f"{LONG.author} {LONG.content} {row['age']}".split())


def test_what_is_known_of_attachments_is_shown_with_the_message() -> None:
    one = Attachment(1, name="cat.png", text="a grey cat")
    seen = replace(LONG, content="look\n[image: cat.png]", attachments=(one,))
    row = cli_inspect._buffered(Stored(seen, embedded=True, ttl_s=60.0))
    assert row["text"] == "look [image: cat.png: a grey cat]"


def test_the_list_of_channels_shows_whole_ids_in_a_narrow_terminal() -> None:
    shown = printed({"guild": GUILD, "channel": CHANNEL, "messages": 50, "pending": 12}, 50)
    assert str(GUILD) in shown
    assert str(CHANNEL) in shown
