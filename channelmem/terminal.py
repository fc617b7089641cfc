"""Text for a terminal. In: what people, servers or libraries wrote. Out: the same, without any effect on the terminal.

Everything that channelmem prints or logs passes here: command line, errors and the bot's log alike.
"""

from __future__ import annotations

# All controls but tab and line feed (they start escape sequences), and the marks that change the direction of text.
_CONTROLS = {*range(32), *range(127, 160)} - {ord("\t"), ord("\n")}
_DIRECTIONS = {0x061C, 0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A)}
_OBEYED = dict.fromkeys(_CONTROLS | _DIRECTIONS)
_SPELT_OUT = {code: f"\\u{code:04x}" for code in _OBEYED}


def visible(text: str) -> str:
    """Without the characters that a terminal would obey."""
    return text.translate(_OBEYED)


def one_line(text: str) -> str:
    """The same on one line, so that nobody forges a line of a log."""
    return visible(text.replace("\r\n", "\n")).replace("\n", "\\n")


def json_text(dumped: str) -> str:
    """JSON with those characters escaped: a reader gets all of them back."""
    return dumped.translate(_SPELT_OUT)
