"""Attachments of a message: cleaned and bounded on the way in, the same after Redis, free for messages without."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from typing import Any

import pytest
from conftest import CHANNEL, GUILD, message
from hypothesis import given
from hypothesis import strategies as st
from redis.asyncio import Redis
from stored import ARCHIVE, BUFFER

from channelmem.ingest.normalise import LAST_ID, normalise
from channelmem.policy.policy import Policy
from channelmem.settings import Settings
from channelmem.store.documents import pack, to_message, to_revision, to_stored, whole
from channelmem.store.keys import room
from channelmem.store.search import Search
from channelmem.store.store import Store
from channelmem.types import Attachment, Message

CAT = Attachment(2**63 + 1, "https://cdn.example/1/cat.png?ex=1", "image/png", "cat.png", 10_240, "a cat, asleep")
VOICE = Attachment(LAST_ID, "https://cdn.example/2/voice.ogg", "audio/ogg", "voice.ogg", 7, duration_s=12.345)
DESCRIBED = replace(CAT, id=3, text='the "grey" cat / on [a] sofa \\ ünd 🐢')

POLICY = Policy.of_settings(Settings())


def tidied(*attachments: Attachment) -> tuple[Attachment, ...]:
    tidy = normalise(message(1, "look", attachments=attachments), POLICY)
    assert tidy is not None
    return tidy.attachments


def read_again(one: Message) -> Message:
    """Through the bytes that Redis would hold."""
    fields = (b"5", one.searchable.encode(), repr(one.ts).encode(), None, pack(one))
    return to_message(one.guild_id, one.channel_id, str(one.id).encode(), fields)


@pytest.mark.parametrize("attachments", [(), (CAT,), (CAT, VOICE), (DESCRIBED, VOICE), (Attachment(0),)])
@pytest.mark.parametrize("mentions", [(), (2**64 - 1, 7)])
async def test_attachments_survive_redis(
    store: Store, search: Search, attachments: tuple[Attachment, ...], mentions: tuple[int, ...]
) -> None:
    said = message(1, "lóok", author="A[n]n", attachments=attachments, mentions=mentions, revision=7.5)
    said = replace(said, reply_to=5, parents=((3, 0.5), (0x1F1F1F, 0.25)))
    await store.add([said])
    for query in (BUFFER, ARCHIVE):
        assert await search.newest(query) == [said]
    assert await store.known(GUILD, CHANNEL, 5) == {1: 7.5}


async def test_redis_shows_attachments_as_json_and_only_where_there_are_some(store: Store, redis: Redis) -> None:
    await store.add([message(1), message(2, attachments=(CAT,))])
    names = [store.buckets.keys(0).message(GUILD, CHANNEL, number) for number in (1, 2)]
    documents: list[Any] = [await redis.hgetall(name) for name in names]
    plain, with_file = documents
    assert plain.keys() == with_file.keys() == {b"channel", b"author", b"text", b"ts", b"about"}
    assert plain[b"about"] == b"\x1fAnn\x1f\x1f\x1f"
    (item,) = json.loads(with_file[b"about"].split(b"\x1f")[3])
    assert item == {
        "id": str(CAT.id),
        "url": CAT.url,
        "type": "image/png",
        "name": "cat.png",
        "size": 10_240,
        "alt": "a cat, asleep",
    }


def test_a_document_from_before_attachments_still_reads() -> None:
    fields = (b"5", b"turtles [image: a.png]", b"17.5", b"own", b"3.5\x1fA[n]n\x1f7\x1f8 9\x1f" + bytes(range(16)))
    old = to_message(1, 2, b"4", fields)
    assert (old.content, old.attachments, old.revision) == ("turtles [image: a.png]", (), 3.5)
    assert (old.author, old.reply_to, old.mentions, len(old.parents)) == ("A[n]n", 7, (8, 9), 1)


def test_only_a_description_marks_the_revision() -> None:
    assert to_revision(message(1)) == to_revision(message(1, attachments=(CAT,))) == ""
    assert to_revision(message(1, "lóok", attachments=(DESCRIBED,), revision=7.5)).startswith("7.5~5~")


def test_tidy_attachments_stay_as_they_are() -> None:
    said = message(1, "look", attachments=(CAT, VOICE))
    assert normalise(said, POLICY) is said


def test_at_most_ten_attachments_are_kept_each_once_and_none_with_an_impossible_id() -> None:
    many = [Attachment(-1), Attachment(LAST_ID + 1), *(Attachment(n, name=f"{n}.png") for n in range(20))]
    assert [one.id for one in tidied(*many)] == list(range(10))
    assert tidied(CAT, replace(CAT, name="again.png")) == (CAT,)


def test_long_parts_are_cut_and_a_url_that_is_too_long_goes() -> None:
    long = "x" * 5_000
    (cut,) = tidied(Attachment(1, "https://" + long, long, long, 2**80, long, 5.0, long))
    assert (cut.url, len(cut.name), len(cut.alt), len(cut.text)) == ("", 256, 1_024, 2_000)
    assert cut.size == 2**40
    (whole,) = tidied(Attachment(1, "u" * 2_048))
    assert whole.url == "u" * 2_048


def test_control_characters_and_line_breaks_become_spaces() -> None:
    (clean,) = tidied(Attachment(1, name="a\x00b\x1f\x07c\r\nd\x9b.png", alt="\ud83d\ude00 one\ntwo \ud800"))
    assert (clean.name, clean.alt) == ("ab c d .png", "😀 one two �")


@pytest.mark.parametrize("seconds", [math.nan, math.inf, -1.0, 0.0])
def test_an_impossible_duration_is_unknown(seconds: float) -> None:
    assert tidied(Attachment(1, size=-5, duration_s=seconds)) == (Attachment(1),)


def test_a_message_of_attachments_alone_needs_words_that_name_them() -> None:
    assert normalise(message(1, "", attachments=(CAT,)), POLICY) is None
    assert normalise(message(1, "[image: cat.png]", attachments=(CAT,)), POLICY) is not None


FILES = st.builds(
    Attachment,
    id=st.integers(0, LAST_ID),
    url=st.text(),
    content_type=st.text(),
    name=st.text(),
    size=st.integers(),
    alt=st.text(),
    duration_s=st.none() | st.floats(),
    text=st.text(),
)


@given(files=st.lists(FILES, max_size=3), content=st.text(min_size=1), mentions=st.lists(st.integers(0, LAST_ID)))
def test_whatever_comes_is_read_back_as_it_was_tidied(files: list[Any], content: str, mentions: list[int]) -> None:
    tidy = normalise(message(1, "x" + content, attachments=tuple(files), mentions=tuple(mentions)), POLICY)
    assert tidy is not None
    assert read_again(tidy) == tidy


@pytest.mark.parametrize("attachments", [(), (DESCRIBED, VOICE)])
@pytest.mark.parametrize("flag", [None, b"own", b"addressed"])
def test_what_ranking_reads_of_a_document_is_what_the_whole_message_says(
    attachments: tuple[Attachment, ...], flag: bytes | None
) -> None:
    one = message(8, "look ünd see", attachments=attachments, reply_to=3, parents=((3, 0.75), (2, 0.1)), mentions=(4,))
    fields = (b"5", one.searchable.encode(), repr(one.ts).encode(), flag, pack(one))
    stored = to_stored((room(GUILD, CHANNEL).encode(), b"8", fields))
    for name in (
        "guild_id",
        "channel_id",
        "id",
        "author_id",
        "content",
        "ts",
        "reply_to",
        "own",
        "addressed",
        "parents",
    ):
        assert getattr(stored, name) == getattr(whole(stored), name), name
    assert stored.attachments == whole(stored).attachments
    assert stored.searchable == whole(stored).searchable
