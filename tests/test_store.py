"""The store on real Redis: what is kept, replaced, pruned, refused and removed."""

from __future__ import annotations

from conftest import GUILD, NOW, FakeEmbedder

from channelmem.ingest import Worker
from channelmem.search import Query, Search
from channelmem.store import Store
from channelmem.types import Message, Outcome, Source

CHANNEL = 922_222_222_222_222_222


def message(number: int, text: str = "turtles are slow") -> Message:
    return Message(GUILD, CHANNEL, number, 5, "Ann", text, NOW - 100 + number)


async def test_a_message_is_visible_at_once_and_searchable_when_embedded(
    store: Store, search: Search, worker: Worker, fake_embedder: FakeEmbedder
) -> None:
    sent = [message(1), message(2, "cats are fast"), message(3, " \n")]
    assert await store.add(sent) == [Outcome.STORED, Outcome.STORED, Outcome.IGNORED]
    assert [one.id for one in await search.newest(Query(GUILD, (CHANNEL,)))] == [2, 1]
    assert await store.flush(5)
    vector = await fake_embedder.embed_question("turtles")
    for source in (Source.BUFFER, Source.ARCHIVE):
        found = await search.nearest(Query(GUILD, (CHANNEL,), vector=vector, source=source))
        assert found.hits[0].message == sent[0]
