"""Attachments as text: placeholders, descriptions and transcripts, each in a note that nothing in it can end."""

from __future__ import annotations

from dataclasses import replace

import pytest
from conftest import message

from channelmem.telling.references import bare, clock, not_read, note, notes, told
from channelmem.types import Attachment, Unread

CAT = Attachment(1, content_type="image/png", name="cat.png")
VOICE = Attachment(2, content_type="audio/ogg", name="voice-message.ogg", duration_s=12.9)


@pytest.mark.parametrize(
    ("one", "shown"),
    [
        (CAT, "[image: cat.png]"),
        (replace(CAT, text="a grey cat on a sofa"), "[image: cat.png: a grey cat on a sofa]"),
        (replace(CAT, alt="Minka"), "[image: cat.png: Minka]"),
        (replace(CAT, alt="Minka", text="a grey cat"), "[image: cat.png: Minka; a grey cat]"),
        (replace(CAT, alt="A grey cat", text="a grey cat on a sofa"), "[image: cat.png: a grey cat on a sofa]"),
        (replace(CAT, name=""), "[image]"),
        (VOICE, "[voice 0:12]"),
        (replace(VOICE, text="on my way"), "[voice 0:12: on my way]"),
        (replace(VOICE, duration_s=3_725.0), "[voice 62:05]"),
        (replace(VOICE, duration_s=None), "[audio: voice-message.ogg]"),
        (Attachment(3, content_type="video/mp4", name="a.mp4"), "[video: a.mp4]"),
        (Attachment(3, name="a.zip"), "[file: a.zip]"),
        (replace(CAT, name="x]\n[question]", text="a]\n\n[b\u202e"), "[image: x) (question): a) (b]"),
    ],
)
def test_a_note_names_the_file_and_what_is_known_of_it(one: Attachment, shown: str) -> None:
    assert note(one) == shown


def test_a_long_description_is_cut() -> None:
    assert len(note(replace(CAT, text="x" * 5_000))) < 160


@pytest.mark.parametrize(
    ("content", "left"),
    [
        ("look\n[image: cat.png]", "look"),
        ("look\n[image: cat.png (Minka)]", "look"),
        ("[image: cat.png] and [image: cat.png]", "and [image: cat.png]"),
        ("[image: other.png]", "[image: other.png]"),
        ("[voice message]", "[voice message]"),
        ("", ""),
    ],
)
def test_what_the_adapter_wrote_for_a_file_gives_way_to_its_note(content: str, left: str) -> None:
    one = replace(CAT, alt="Minka" if "Minka" in content else "")
    assert bare(message(1, content, attachments=(one,))).strip() == left


def test_a_message_is_told_with_notes_after_its_words() -> None:
    files = (replace(CAT, text="a cat"), VOICE)
    said = message(1, "look\n[image: cat.png]\n[voice message]", attachments=files)
    assert told(said) == "look [image: cat.png: a cat] [voice 0:12]"
    assert notes(message(1)) == ""


@pytest.mark.parametrize(("seconds", "shown"), [(0.4, "0:00"), (59.9, "0:59"), (60.0, "1:00"), (600.0, "10:00")])
def test_a_duration_reads_as_in_a_player(seconds: float, shown: str) -> None:
    assert clock(seconds) == shown


def test_what_nobody_has_read_is_counted_in_words() -> None:
    assert not_read(Unread(2, 0)) == "2 pictures not read"
    assert not_read(Unread(1, 1)) == "1 picture and 1 voice message not read"
    assert not_read(Unread()) == ""
