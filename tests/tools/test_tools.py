"""get_channel_context: one schema for all, and a text for whatever a model asks."""

import json
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from typing import Any, cast

import jsonschema
import pytest
from conftest import CHANNEL, GUILD, NOW, Clock, FakeEmbedder, message
from hypothesis import given
from hypothesis import strategies as st

from channelmem import tool
from channelmem.errors import RedisUnavailableError
from channelmem.memory import Memory
from channelmem.settings import Settings
from channelmem.types import Context, ContextRequest, Person, Question

MARK = Question(GUILD, CHANNEL, 10_000, 7, "Mark", "what about turtles?", NOW, bot=Person(99, "Vivy"))


class Looked:
    """Keeps what was looked for."""

    def __init__(self) -> None:
        self.looks: list[ContextRequest] = []

    async def look(self, look: ContextRequest) -> Context:
        self.looks.append(look)
        return Context("found")


@pytest.fixture
def looked() -> Looked:
    return Looked()


async def called(looked: Looked, **arguments: object) -> str:
    return await tool.call(cast("Memory", looked), MARK, arguments)


# --- the schema ---


def test_both_providers_get_the_same_schema_under_their_own_names() -> None:
    openai: dict[str, Any] = tool.openai_tool()
    anthropic: dict[str, Any] = tool.anthropic_tool()
    assert openai["type"] == "function"
    assert openai["function"]["parameters"] == anthropic["input_schema"] == tool.schema()
    assert openai["function"]["name"] == anthropic["name"] == "get_channel_context"
    assert json.loads(json.dumps(openai)) == openai


def test_the_schema_is_valid_and_asks_for_nothing() -> None:
    schema: dict[str, Any] = tool.schema()
    jsonschema.Draft202012Validator.check_schema(schema)
    assert set(schema["properties"]) == {"query", "limit", "speaker", "since"}
    assert schema["properties"]["limit"]["default"] == 15
    assert schema["required"] == []
    assert all(field["description"] for field in schema["properties"].values())


@pytest.mark.parametrize("given_", [{}, {"query": "turtles"}, {"limit": 100, "speaker": "Ann", "since": "2h"}])
async def test_what_the_schema_allows_is_looked_for(looked: Looked, given_: dict[str, object]) -> None:
    jsonschema.validate(given_, tool.schema())
    assert await called(looked, **given_) == "found"


# --- arguments ---


async def test_without_arguments_the_newest_fifteen_are_wanted(looked: Looked) -> None:
    await called(looked)
    assert looked.looks == [ContextRequest(MARK, "", "", None, 15)]


async def test_arguments_reach_the_memory(looked: Looked) -> None:
    await called(looked, query=" turtles ", limit="5", speaker="Ann", since="yesterday")
    assert looked.looks == [ContextRequest(MARK, "turtles", "Ann", 86_400.0, 5)]


@pytest.mark.parametrize("speaker", ["@", " @ ", "@@"])
async def test_a_lone_at_sign_names_nobody_in_particular(
    settings: Settings, fake_embedder: FakeEmbedder, clock: Clock, speaker: str
) -> None:
    async with Memory.open(settings, embedder=fake_embedder, clock=clock) as memory:
        await memory.remember(message(1, "it is turtles", author="Ann"))
        assert "it is turtles" in await tool.call(memory, MARK, {"speaker": speaker})


async def test_a_complaint_is_short_whatever_was_written(looked: Looked) -> None:
    complaint = await called(looked, **{f"{'x' * 10_000}{n}": n for n in range(100)})
    assert "there is no argument 'xxx" in complaint
    assert len(complaint) < 1000
    assert looked.looks == []


async def test_null_and_empty_mean_nothing_given(looked: Looked) -> None:
    await called(looked, query=None, limit=None, speaker="", since=None)
    assert looked.looks == [ContextRequest(MARK)]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"limit": 0}, "limit: input should be greater than or equal to 1"),
        ({"limit": 101}, "limit"),
        ({"limit": "many"}, "limit"),
        ({"query": ["turtles"]}, "query"),
        ({"since": "30"}, "since: '30' is not a duration such as 24h, 2h 30m or 1 week"),
        ({"since": "the dawn of time"}, "since"),
        ({"channel_id": 5}, "there is no argument 'channel_id', only query, limit, speaker, since"),
        ({"query": "x" * 501}, "query"),
    ],
)
async def test_a_wrong_argument_is_a_sentence_for_the_model(
    looked: Looked, arguments: dict[str, object], words: str
) -> None:
    said = await called(looked, **arguments)
    assert words in said
    assert said.startswith("get_channel_context was not called: ")
    assert looked.looks == []


@given(st.dictionaries(st.text(max_size=10), st.none() | st.text() | st.integers() | st.floats() | st.lists(st.text())))
async def test_no_arguments_whatsoever_raise(arguments: dict[str, object]) -> None:
    assert await tool.call(cast("Memory", Looked()), MARK, arguments)


async def test_a_direct_message_has_no_channel_to_look_at(looked: Looked) -> None:
    said = await tool.call(cast("Memory", looked), replace(MARK, is_dm=True), {})
    assert said == tool.NO_CHANNEL
    assert looked.looks == []


async def test_an_absent_redis_is_a_sentence_too() -> None:
    class Away:
        async def look(self, look: ContextRequest) -> Context:
            raise RedisUnavailableError("no")

    assert await tool.call(cast("Memory", Away()), MARK, {}) == tool.UNREACHABLE


# --- with a real memory ---


@pytest.fixture
async def memory(settings: Settings, fake_embedder: FakeEmbedder, clock: Clock) -> AsyncIterator[Memory]:
    async with Memory.open(settings, embedder=fake_embedder, clock=clock) as opened:
        mark: Callable[..., Any] = lambda number, text: message(number, text, author_id=7, author="Mark")  # noqa: E731
        await opened.remember_many(
            [
                mark(1, "it is turtles all the way down"),
                message(2, "the release is on friday"),
                message(3, "turtles like lettuce"),
            ]
        )
        assert await opened.flush()
        yield opened


async def test_a_topic_is_found_in_the_channel(memory: Memory) -> None:
    found = await tool.call(memory, MARK, {"query": "turtles lettuce", "limit": 1})
    assert "- Ann (9m ago) [answers]: turtles like lettuce" in found
    assert "all the way down" not in found


async def test_a_speaker_narrows_it_down_and_me_is_who_asks(memory: Memory) -> None:
    of_ann = await tool.call(memory, MARK, {"speaker": "Ann"})
    assert "lettuce" in of_ann
    assert "all the way down" not in of_ann
    assert "all the way down" in await tool.call(memory, MARK, {"query": "turtles", "speaker": "me"})
    assert "Zoe" in await tool.call(memory, MARK, {"speaker": "Zoe"})


async def test_nothing_found_is_said(memory: Memory) -> None:
    assert "No relevant recent messages" in await tool.call(memory, MARK, {"since": "1s"})


async def test_langchain_calls_the_same_tool(memory: Memory) -> None:
    made = tool.langchain_tool(memory, MARK)
    assert made.name == "get_channel_context"
    found = await made.ainvoke({"query": "turtles", "since": "2h"})
    assert found == await tool.call(memory, MARK, {"query": "turtles", "since": "2h"})
    assert "was not called: limit" in await made.ainvoke({"limit": 0})
