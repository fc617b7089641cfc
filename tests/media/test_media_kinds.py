"""What an attachment is, and under which key what is known of it is kept."""

from __future__ import annotations

import hashlib
from dataclasses import replace

import pytest
from conftest import message

from channelmem.media.kinds import MediaKind, cache_key, kind_of, of_preview, readable, unread
from channelmem.types import Attachment, Unread

PROXY = "https://images-ext-1.discordapp.net/external/abc/https/example.org/cat.png"


@pytest.mark.parametrize(
    ("one", "kind"),
    [
        (Attachment(1, content_type="image/png"), MediaKind.PICTURE),
        (Attachment(1, content_type="IMAGE/JPEG"), MediaKind.PICTURE),
        (Attachment(1, name="Cat.PNG"), MediaKind.PICTURE),
        (Attachment(1, content_type="audio/ogg", duration_s=3.0), MediaKind.VOICE),
        (Attachment(1, content_type="audio/ogg"), MediaKind.AUDIO),
        (Attachment(1, content_type="video/mp4", duration_s=3.0), MediaKind.VIDEO),
        (Attachment(1, content_type="application/pdf", name="cat.png"), MediaKind.FILE),
        (Attachment(1, name="notes"), MediaKind.FILE),
        (Attachment(1), MediaKind.FILE),
    ],
)
def test_a_voice_message_is_audio_and_has_a_duration(one: Attachment, kind: MediaKind) -> None:
    assert kind_of(one) is kind


def test_the_key_is_the_id_whatever_the_link() -> None:
    one = Attachment(77, "https://cdn.discordapp.com/77/cat.png?ex=1&hm=2")
    assert cache_key(one) == cache_key(replace(one, url="https://cdn.discordapp.com/77/cat.png?ex=9&hm=8"))
    assert cache_key(one) == f"{77:020d}"


def test_a_preview_is_known_by_the_hash_of_its_address_without_the_signature() -> None:
    plain, signed = of_preview(PROXY), of_preview(f"{PROXY}?ex=1&hm=2#x")
    assert cache_key(plain) == cache_key(signed) == hashlib.sha256(PROXY.encode()).hexdigest()
    assert plain.id == signed.id < 2**63
    assert plain.name == "cat.png"


def test_only_hosts_that_are_known_to_sign_lose_their_query() -> None:
    one, other = of_preview("https://else.example/pic?id=1"), of_preview("https://else.example/pic?id=2")
    assert cache_key(one) != cache_key(other)
    assert cache_key(one, ["else.example"]) == cache_key(other, ["else.example"])


def test_videos_and_files_are_not_read() -> None:
    files = (Attachment(1, name="a.mp4"), Attachment(2, name="b.zip"), Attachment(3, name="c.png"))
    assert [item.attachment.id for item in readable([message(1, attachments=files)])] == [3]


def test_alt_text_counts_as_read() -> None:
    files = (
        Attachment(1, name="a.png"),
        Attachment(2, name="b.png", alt="a boat"),
        Attachment(3, name="c.png", text="a cat"),
        Attachment(4, content_type="audio/ogg", duration_s=2.0),
        Attachment(5, name="d.mp4"),
    )
    assert unread([message(1, attachments=files), message(2)]) == Unread(1, 1)
