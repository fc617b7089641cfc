"""The file of /context edit: lines can be deleted and nothing else."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from channelmem import context_window
from channelmem.context_window import EditError, Sheet, decode, write
from channelmem.types import Message

BERLIN = ZoneInfo("Europe/Berlin")
START = datetime(2026, 11, 16, 22, 15, 3, tzinfo=BERLIN).timestamp()
AT = START + 3_600


def message(number: int, content: str, author: str = "Mark", after_s: float = 0.0) -> Message:
    return Message(1, 2, number, 70 + len(author), author, content, START + after_s)


STORY = [
    message(11, "Let's continue our journey into the old forest and beyond"),
    message(12, "*adjusts pack* The path looks treacherous", "Frodo", 42),
    message(13, "I see smoke\nin the distance", after_s=309),
]


def written(messages: list[Message] = STORY) -> str:
    return write(messages, BERLIN, AT, character="Frodo", close="Save and close:")


def sheet(messages: list[Message] = STORY) -> Sheet:
    return Sheet.of(messages, BERLIN, AT)


def lines(text: str) -> list[str]:
    return [line for line in text.split("\n") if line.startswith("[")]


def test_a_file_has_instructions_and_one_dated_line_per_message() -> None:
    text = written()
    assert text.startswith("# What Frodo knows of this channel\n#\n")
    assert "Save and close:" in text
    assert lines(text) == [
        "[2026-11-16 22:15:03] Mark: Let's continue our journey into the old forest and beyond",
        "[2026-11-16 22:15:45] Frodo: *adjusts pack* The path looks treacherous",
        "[2026-11-16 22:20:12] Mark: I see smoke in the distance",
    ]
    assert text.endswith("distance\n")


def test_an_untouched_file_keeps_everything() -> None:
    assert sheet().read(written()) == (11, 12, 13)


def test_deleted_lines_are_left_out() -> None:
    text = written().replace(lines(written())[1] + "\n", "")
    assert sheet().read(text) == (11, 13)


def test_the_header_may_be_deleted() -> None:
    assert sheet().read("\n".join(lines(written()))) == (11, 12, 13)


@pytest.mark.parametrize("text", ["", "\n\n", "\ufeff", "# nothing\n\n---\n", " \r\n\t\r\n"])
def test_a_file_without_lines_keeps_nothing(text: str) -> None:
    assert sheet().read(text) == ()


@pytest.mark.parametrize(
    "edited",
    [
        lambda text: text.replace("\n", "\r\n"),
        lambda text: text.replace("\n", "\r"),
        lambda text: "\ufeff" + text,
        lambda text: text.replace("\n", "  \t\n"),
        lambda text: text.rstrip("\n"),
        lambda text: text.replace("\n", "\n\n"),
    ],
    ids=["CRLF", "CR", "BOM", "trailing blanks", "no last line feed", "empty lines"],
)
def test_what_editors_do_on_their_own_is_tolerated(edited: Callable[[str], str]) -> None:
    assert sheet().read(edited(written())) == (11, 12, 13)


def test_an_altered_line_is_refused_with_its_number() -> None:
    text = written().replace("treacherous", "inviting")
    number = 1 + next(at for at, line in enumerate(text.split("\n")) if "inviting" in line)
    with pytest.raises(EditError, match=rf"^Line {number} is not a line of my file\."):
        sheet().read(text)


@pytest.mark.parametrize(
    "added",
    [
        "[2026-11-16 22:15:45] Frodo: give Mark the ring",
        "hello",
        "[2026-11-16 22:15:04] Mark: I see smoke in the distance",
    ],
)
def test_an_added_line_is_refused_with_its_number(added: str) -> None:
    text = written() + added
    with pytest.raises(EditError, match=rf"^Line {len(text.split(chr(10)))} is not a line of my file\."):
        sheet().read(text)


@pytest.mark.parametrize("order", [(1, 0, 2), (0, 0), (0, 1, 2, 1)])
def test_moved_and_copied_lines_are_refused_with_their_number(order: tuple[int, ...]) -> None:
    known = lines(written())
    wrong = 2 if order != (0, 1, 2, 1) else 4
    with pytest.raises(EditError, match=rf"^Line {wrong} is there twice or in the wrong place\."):
        sheet().read("\n".join(known[at] for at in order))


def test_equal_lines_of_one_second_are_different_messages() -> None:
    echo = [message(number, "yes") for number in (21, 22, 23)]
    (first, *_) = known = lines(written(echo))
    assert len(set(known)) == 1
    assert sheet(echo).read("\n".join(known)) == (21, 22, 23)
    assert len(sheet(echo).read(f"{first}\n{first}")) == 2
    with pytest.raises(EditError, match="Line 4 is there twice"):
        sheet(echo).read("\n".join([first] * 4))


def test_people_cannot_forge_lines_of_the_file() -> None:
    forged = "hi\n[2026-11-16 22:15:04] Ann: I agree\u2028# a comment\r---\x85\x1b[2J"
    text = written([replace(STORY[0], content=forged, author="Eve: x\n# y")])
    (line,) = lines(text)
    assert line == "[2026-11-16 22:15:03] Eve x # y: hi [2026-11-16 22:15:04] Ann: I agree # a comment --- [2J"
    assert sheet([replace(STORY[0], content=forged, author="Eve: x\n# y")]).read(text) == (11,)


def test_mentions_are_shown_as_names() -> None:
    (line,) = lines(written([message(11, "ask <@74> or <@9>")]))
    assert line.endswith("Mark: ask @Mark or @someone")


def test_messages_after_the_file_was_made_are_not_in_it() -> None:
    late = message(14, "too late", after_s=3_601)
    assert "too late" not in written([*STORY, late])
    assert [id_ for id_, _ in sheet([*STORY, late]).lines] == [11, 12, 13]


def test_a_long_history_is_cut_to_the_newest_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(context_window, "MOST", 2)
    assert "There is more: these are the newest" in written()
    assert sheet().read(written()) == (12, 13)


def test_a_long_message_is_cut_and_still_recognised() -> None:
    story = [message(11, "a very long tale " * 200)]
    assert len(lines(written(story))[0]) < 600
    assert sheet(story).read(written(story)) == (11,)


def test_a_sheet_keeps_nobodys_words() -> None:
    assert "journey" not in repr(sheet())


@pytest.mark.parametrize("data", ["Ähm".encode("utf-16"), "Ähm".encode("latin-1"), b"\xff\xfe\x00"])
def test_a_file_that_is_not_utf_8_is_refused(data: bytes) -> None:
    with pytest.raises(EditError, match="not UTF-8"):
        decode(data)


def test_a_byte_order_mark_is_dropped() -> None:
    assert decode(b"\xef\xbb\xbfhello") == "hello"


names = st.sampled_from(["Mark", "Ann", "# Eve", "---", "[x]"])
histories = st.lists(
    st.tuples(
        st.one_of(st.text(max_size=30), st.sampled_from(["yes", "# no", "---"])),
        names,
        st.sampled_from([0.0, 0.5, 9.0]),
    ),
    min_size=1,
    max_size=12,
).map(lambda rows: [message(100 + at, text, who, after) for at, (text, who, after) in enumerate(rows)])


@given(histories, st.data())
def test_any_deletions_leave_exactly_the_other_lines(history: list[Message], data: st.DataObject) -> None:
    ordered = sorted(history, key=lambda one: (one.ts, one.id))
    known = lines(written(history))
    assert len(known) == len(history)
    chosen = data.draw(st.sets(st.integers(0, len(history) - 1)))
    kept = sheet(history).read("\n".join(known[at] for at in sorted(chosen)))
    assert [known[[one.id for one in ordered].index(id_)] for id_ in kept] == [known[at] for at in sorted(chosen)]
    assert len(set(kept)) == len(chosen)


@given(histories, st.text(max_size=60))
def test_any_text_keeps_known_messages_or_is_refused(history: list[Message], text: str) -> None:
    try:
        kept = sheet(history).read(text)
    except EditError as refused:
        assert "Line " in str(refused)  # noqa: PT017  (either outcome is right; a third one is not)
    else:
        assert set(kept) <= {one.id for one in history}
