"""The file of /context edit: one line per message, and read back, the ids of those kept. The lines are other people's
words, so deleting them is all that an editor can do; reading yields ids and never words, so that not even a forged line
could put words into anybody's mouth."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, tzinfo
from hashlib import blake2b
from typing import Final

from channelmem.display import cut, flatten, named, plain_name
from channelmem.types import Message

MOST: Final = 2_000  # messages in one file; a model is given far fewer
WORDS: Final = 500  # characters of one message: enough to recognise it, and the file stays small
COMMENT: Final = "#"
RULE: Final = "---"
CHANGED: Final = (
    "Line {number} is not a line of my file. You can delete lines, but not change or add any, because they are other "
    "people's words. Nothing was changed."
)
MOVED: Final = (
    "Line {number} is there twice or in the wrong place. You can delete lines, but not copy or move them. "
    "Nothing was changed."
)

_HEADER: Final = """\
# What {character} knows of this channel
#
# These are the messages I have of this channel, oldest first. {close}
#   1. {character} starts fresh at the moment this file was made.
#   2. The messages that are still in this file stay in {character}'s context.
#
# Delete the lines you want to leave out. You can't change, add or move lines.
# To cancel, delete everything.
"""
_CUT: Final = f"# There is more: these are the newest {MOST:,} messages.\n"


class EditError(ValueError):
    """The file is not a shortened copy; the sentence names the line."""


@dataclass(frozen=True, slots=True)
class Sheet:
    """What a file was made of: ids and digests. People's words must not stay here while somebody edits."""

    at: float  # when it was made: what is said later is not in it, and not left out either
    lines: tuple[tuple[int, bytes], ...]

    @classmethod
    def of(cls, messages: Iterable[Message], tz: tzinfo, at: float) -> Sheet:
        chosen = _chosen(messages, at)
        digests = map(_digest, _lines(chosen, tz))
        return cls(at, tuple(zip((one.id for one in chosen), digests, strict=True)))

    def read(self, text: str) -> tuple[int, ...]:
        """The ids of the messages whose lines are left, none if the file is empty; EditError if it is no shortened
        copy. Equal lines are told apart by their order alone, so any of them may stand for any other."""
        kept: list[int] = []
        at = 0
        for number, line in _numbered(text):
            digest = _digest(line)
            found = next((place for place in range(at, len(self.lines)) if self.lines[place][1] == digest), None)
            if found is None:
                is_ours = any(digest == known for _, known in self.lines)
                raise EditError((MOVED if is_ours else CHANGED).format(number=number))
            kept.append(self.lines[found][0])
            at = found + 1
        return tuple(kept)


def write(messages: Sequence[Message], tz: tzinfo, at: float, *, character: str, close: str) -> str:
    """The whole file; `close` says how to hand it back."""
    chosen = _chosen(messages, at)
    header = _HEADER.format(character=flatten(character), close=close)
    more = _CUT if len(chosen) < sum(one.ts <= at for one in messages) else ""
    return "\n".join([f"{header}{more}", RULE, "", *_lines(chosen, tz), ""])


def lines_of(text: str) -> str:
    """The lines of a file without its header."""
    return text.split(f"\n{RULE}\n", 1)[1].strip("\n")


def decode(data: bytes) -> str:
    """The text of a file as editors save it, with or without a byte order mark."""
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise EditError("That file is not UTF-8 text. Save it as UTF-8 and send it again.") from error


def _chosen(messages: Iterable[Message], at: float) -> list[Message]:
    return sorted((one for one in messages if one.ts <= at), key=lambda one: (one.ts, one.id))[-MOST:]


def _lines(messages: Sequence[Message], tz: tzinfo) -> list[str]:
    people = _people(messages)
    return [_line(message, tz, people) for message in messages]


def _line(message: Message, tz: tzinfo, people: Mapping[int, str]) -> str:
    time = datetime.fromtimestamp(message.ts, tz).strftime("%Y-%m-%d %H:%M:%S")
    return f"[{time}] {plain_name(message.author)}: {cut(flatten(named(message.content, people)), WORDS)}"


def _people(messages: Iterable[Message]) -> dict[int, str]:
    return {one.author_id: plain_name(one.author) for one in messages}


def _numbered(text: str) -> Iterable[tuple[int, str]]:
    """The lines of messages, numbered as an editor numbers them."""
    plain = text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")
    for number, line in enumerate(plain.split("\n"), 1):
        bare = line.strip()
        if bare and bare != RULE and not bare.startswith(COMMENT):
            yield number, line


def _digest(line: str) -> bytes:
    return blake2b(line.strip().encode("utf-8", "surrogatepass"), digest_size=12).digest()
