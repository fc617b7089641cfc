"""Text in pictures without any provider: screenshots are found by what is written in them."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from conftest import CHANNEL, GUILD
from media_server import picture, text_picture
from picturing import Studio, idle, post, studio

from channelmem.embedding.embed import Embedder
from channelmem.policy.cascade import Place
from channelmem.settings import Settings

pytestmark = pytest.mark.process  # files are decoded in a process of their own

HERE = Place.channel(GUILD, CHANNEL)


@pytest.fixture
async def room(settings: Settings, embedder: Embedder) -> AsyncIterator[Studio]:
    async with studio(settings, embedder=embedder, vision_model="off") as one:
        yield one


async def test_a_screenshot_is_found_by_its_text_without_any_provider(room: Studio) -> None:
    await room.memory.policies.set(HERE, "read_media", True)
    error = text_picture("ImportError: libssl.so.1.1:", "cannot open shared object file")
    await room.memory.remember_many(
        [post(1, room.cdn.serves(71, "screenshot.png", error)), post(2, text="lunch at noon?")]
    )
    await idle(room.memory)
    await room.memory.flush()
    answer, context = await room.ask("find the screenshot with the libssl error")
    assert answer.hits[0].message.id == 1
    assert "[image: screenshot.png: Text: ImportError: libssl.so.1.1: cannot open shared object file]" in context
    assert room.model.requests == []


async def test_a_picture_without_text_is_looked_at_once_and_stays_a_name(room: Studio) -> None:
    await room.memory.policies.set(HERE, "max_images", 3)
    await room.memory.remember(post(1, room.cdn.serves(71, "cat.png", picture())))
    for at in range(2):
        _, context = await room.ask("what is going on here?", 5_000 + at)
        assert "[image: cat.png]" in context
    assert room.cdn.fetched["/71/cat.png"] == 1


async def test_what_is_no_picture_is_refused_offline_too(room: Studio) -> None:
    await room.memory.remember(post(1, room.cdn.serves(71, "cat.png", b"<html></html>")))
    answer, _ = await room.ask("what's in this picture?", reply_to=1)
    assert "could not make out" in answer.text
    (use,) = room.memory.media.uses(GUILD, CHANNEL, 5_000)
    assert use.how == "not read: it is not a picture"
