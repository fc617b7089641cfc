"""Recaps of any span: by messages where little was said, by summaries where much was, with times and links."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from conftest import CHANNEL, GUILD, Clock, FakeEmbedder

from channelmem.memory import Memory
from channelmem.recalling.gist import MOST_POINTS
from channelmem.settings import Settings
from channelmem.telling.answer import LONGEST
from channelmem.types import History, Kind, Message, Mode, Outcome, Past, Person, Question, Window

HOUR, DAY = 3600.0, 86_400.0
NOW = datetime(2027, 1, 15, 18, 10, tzinfo=UTC).timestamp()
"""A Friday."""
PEOPLE = ((5, "Ann"), (6, "Bob"), (7, "Carol"))
TALK = (
    "I think {} is going fine so far",
    "we still have to call somebody about {}",
    "does anybody know more about {}?",
    "ok, I'll look at {} after lunch",
    "the {} costs {} euros in all",
)
TOPICS = ("release", "oven", "garden", "invoice", "concert", "server", "bicycle", "cake")


class Links(History):
    """A platform without a past, but with links."""

    async def fetch(self, question: Question, limit: int, max_age_s: float) -> Past:
        return Past()

    async def fetch_message(self, channel_id: int, message_id: int) -> Message | None:
        return None

    def jump_url(self, guild_id: int, channel_id: int, message_id: int) -> str:
        return f"https://chat.example/{channel_id}/{message_id}"


def said(number: int, ts: float, text: str, author: int = 0) -> Message:
    id_, name = PEOPLE[author]
    return Message(GUILD, CHANNEL, number, id_, name, text, ts)


def hour_of_talk(first: int, start: float, topic: str, count: int = 12) -> list[Message]:
    chance = random.Random(first)  # noqa: S311  (no secret)
    texts = [chance.choice(TALK).format(topic, chance.randint(10, 999)) for _ in range(count)]
    return [said(first + n, start + 240.0 * n, text, n % 3) for n, text in enumerate(texts)]


def week() -> list[Message]:
    """Five days, an hour of talk every two hours from 8 to 18, and one thing a day that matters."""
    messages: list[Message] = []
    for day in range(5):
        for slot in range(5):
            start = NOW - 18 * HOUR - 600 + (slot * 2 + 8) * HOUR - (4 - day) * DAY
            topic = TOPICS[(day * 5 + slot) % len(TOPICS)]
            messages += hour_of_talk(len(messages) + 1, start, topic)
        decided = f"we decided to move the {TOPICS[day]} to Friday the {20 + day}th at 10:30 in Lyon"
        messages.append(said(len(messages) + 1, messages[-1].ts + 60, decided, 1))
    return [one for one in messages if one.ts < NOW - 120]


@pytest.fixture
async def memory(settings: Settings, fake_embedder: FakeEmbedder) -> AsyncIterator[Memory]:
    opened = Memory.open(settings, clock=Clock(NOW), embedder=fake_embedder, history=Links())
    async with opened as memory:
        await memory.remember_many(week())
        await memory.summaries.update(GUILD, CHANNEL)
        yield memory


def ask(text: str, **changes: Any) -> Question:
    values = {"asker_id": 9, "asker": "Mark", **changes}
    return Question(
        GUILD, CHANNEL, 10**9, values.pop("asker_id"), values.pop("asker"), text, NOW, bot=Person(99, "Vivy"), **values
    )


@pytest.mark.parametrize(
    ("text", "days"),
    [
        ("what happened this week", {"11", "12", "13", "14", "15"}),
        ("what happened since Wednesday?", {"13", "14", "15"}),
        ("summarise the last 3 days", {"13", "14", "15"}),
        ("recap of the last two days please", {"14", "15"}),
    ],
)
async def test_a_recap_covers_the_span_it_is_asked_for(memory: Memory, text: str, days: set[str]) -> None:
    answer = await memory.ask(ask(text))
    assert answer.found
    assert answer.route.mode is Mode.RECAP
    assert answer.route.kind is not Kind.NONE
    assert len(answer.text) <= LONGEST
    heading, *parts = answer.text.splitlines()
    assert 2 <= len(parts) <= 5
    assert f"in {len(parts)} parts" in heading
    linked = [int(part.rpartition("/")[2]) for part in parts]
    by_id = {one.id: one for one in week()}
    begun = [datetime.fromtimestamp(by_id[id_].ts, UTC) for id_ in linked]
    assert begun == sorted(begun)  # in order of time, each part with a link to where it began
    assert {f"{one.day}" for one in begun} <= days
    inside = [one for one in week() if f"{datetime.fromtimestamp(one.ts, UTC).day}" in days]
    assert heading.startswith(f"{len(inside)} messages from ")


@pytest.mark.parametrize(("text", "day"), [("summary of yesterday", 14), ("recap of Tuesday please", 12)])
async def test_a_day_is_told_by_its_points(memory: Memory, text: str, day: int) -> None:
    answer = await memory.ask(ask(text))
    heading, *points = answer.text.splitlines()
    inside = [one for one in week() if datetime.fromtimestamp(one.ts, UTC).day == day]
    assert heading.startswith(f"{len(inside)} messages from ")
    assert heading.endswith(":")
    assert 3 <= len(points) <= MOST_POINTS
    assert any("we decided to move" in point for point in points)
    linked = {int(point.rpartition("/")[2]) for point in points}
    assert linked <= {one.id for one in inside} & {one.id for one in answer.origins}


async def test_what_was_decided_is_told(memory: Memory) -> None:
    answer = await memory.ask(ask("what happened since Wednesday?"))
    assert "we decided to move the invoice to Friday the 23th at 10:30 in Lyon" in answer.text
    assert "Bob: “" in answer.text
    assert answer.summarised
    assert set(answer.summarised) <= set(answer.origins)


async def test_somebody_who_was_away_is_told_everything_since(memory: Memory) -> None:
    left = NOW - 2 * DAY
    await memory.remember(Message(GUILD, CHANNEL, 10**8, 9, "Mark", "bye, see you on Friday", left))
    answer = await memory.ask(ask("what did I miss?"))
    count = sum(one.ts > left for one in week())
    assert answer.text.startswith(f"{count} messages ") or answer.text.startswith(f"{count + 1} messages ")
    assert "parts:" in answer.text.splitlines()[0]


async def test_you_are_you(memory: Memory) -> None:
    answer = await memory.ask(ask("what happened since Wednesday?", asker_id=6, asker="Bob"))
    assert "you: “" in answer.text
    assert "Bob: “" not in answer.text


async def test_little_is_told_message_by_message(memory: Memory) -> None:
    answer = await memory.ask(ask("what happened in the last 2 hours?"))
    assert answer.text.splitlines()[0] == "Since 16:12, 10 messages:"
    assert answer.summarised == ()


async def test_little_that_only_a_summary_still_has_is_told(settings: Settings, fake_embedder: FakeEmbedder) -> None:
    clock = Clock(NOW)
    async with Memory.open(settings, clock=clock, embedder=fake_embedder, history=Links()) as memory:
        await memory.remember(said(1, NOW - DAY, "the mill is sold to Petersen"))
        await memory.summaries.update(GUILD, CHANNEL)
        clock.now = NOW + 10 * DAY
        question = Question(GUILD, CHANNEL, 10**9, 9, "Mark", "what happened on January 14?", clock.now)
        assert "Ann: “the mill is sold to Petersen”" in (await memory.ask(question)).text


async def test_nothing_that_was_deleted_is_told(memory: Memory) -> None:
    gone = next(one for one in week() if "decided to move the invoice" in one.content)
    await memory.delete(GUILD, CHANNEL, [gone.id])
    assert "decided to move the invoice" not in (await memory.ask(ask("what happened yesterday?"))).text
    await memory.summaries.update(GUILD, CHANNEL)
    assert "decided to move the invoice" not in (await memory.ask(ask("what happened yesterday?"))).text


async def test_what_the_archive_no_longer_has_is_told_from_summaries(
    settings: Settings, fake_embedder: FakeEmbedder
) -> None:
    clock = Clock(NOW)
    async with Memory.open(settings, clock=clock, embedder=fake_embedder, history=Links()) as memory:
        await memory.remember_many(week())
        await memory.summaries.update(GUILD, CHANNEL)
        clock.now = NOW + 10 * DAY
        question = Question(GUILD, CHANNEL, 10**9, 9, "Mark", "what happened on January 14?", clock.now)
        answer = await memory.ask(question)
        assert "decided to move the invoice" in answer.text
        said = Message(GUILD, CHANNEL, 10**9 + 1, 99, "Bot", answer.text, clock.now, own=True)
        assert answer.origins  # all expired, so the answer is not kept: nobody could take these words back
        assert await memory.remember(replace(said, derived_from=answer.origins)) is Outcome.IGNORED
        assert answer.route.kind is not Kind.NONE


@pytest.mark.parametrize(
    "text", ["what did we decide about the invoice?", "what did Bob say about the invoice in Lyon?"]
)
async def test_a_decision_that_only_a_summary_still_has_is_quoted(
    settings: Settings, fake_embedder: FakeEmbedder, text: str
) -> None:
    clock = Clock(NOW)
    async with Memory.open(settings, clock=clock, embedder=fake_embedder, history=Links()) as memory:
        await memory.remember_many(week())
        await memory.summaries.update(GUILD, CHANNEL)
        clock.now = NOW + 10 * DAY
        answer = await memory.ask(Question(GUILD, CHANNEL, 10**9, 9, "Mark", text, clock.now))
        assert (
            "Bob said, 11 days ago: “we decided to move the invoice to Friday the 23th at 10:30 in Lyon”" in answer.text
        )
        assert answer.found
        assert answer.origins
        bob = next(one for one in week() if "invoice to Friday" in one.content)
        assert f"https://chat.example/{CHANNEL}/{bob.id}" in answer.text
        nobody = await memory.ask(
            Question(GUILD, CHANNEL, 10**9, 9, "Mark", "what did Ann say about zebras?", clock.now)
        )
        assert not nobody.found


EARLIER = (
    "we open the hall on sunday at 9",
    "I'll bring the coffee",
    "the key is with Petersen",
    "tickets are 5 euros each",
    "Carol does the till",
    "we close at 17:00 then",
)


async def told_of_few(settings: Settings, embedder: FakeEmbedder, text: str, *more: Message) -> list[str]:
    """The lines of a recap in a channel where six things were said the evening before, and what is given since."""
    async with Memory.open(settings, clock=Clock(NOW), embedder=embedder, history=Links()) as memory:
        start = NOW - DAY
        await memory.remember_many([said(n, start + 60 * n, one, n % 3) for n, one in enumerate(EARLIER, 1)])
        await memory.remember_many(more)
        return (await memory.ask(ask(text))).text.splitlines()


@pytest.mark.parametrize("text", ["recap of today please", "summary of the last 2 hours"])
async def test_a_window_that_holds_almost_nothing_reaches_back(
    settings: Settings, fake_embedder: FakeEmbedder, text: str
) -> None:
    heading, *points = await told_of_few(settings, fake_embedder, text, said(50, NOW - 600, "the oven is on, at 180"))
    assert heading == "Since yesterday 18:11, 7 messages:"
    assert any("the oven is on" in point for point in points)
    assert len(points) >= 4


@pytest.mark.parametrize("text", ["recap of sunday please", "catch me up on sunday"])
async def test_a_day_on_which_nothing_was_said_is_one_that_was_spoken_of(
    settings: Settings, fake_embedder: FakeEmbedder, text: str
) -> None:
    heading, *points = await told_of_few(settings, fake_embedder, text)
    assert heading == "For sunday, from what was said since yesterday 18:11:"
    assert any("we open the hall" in point for point in points)
    assert 3 <= len(points) <= MOST_POINTS


async def test_yesterday_without_a_word_is_not_told_by_other_days(
    settings: Settings, fake_embedder: FakeEmbedder
) -> None:
    lines = await told_of_few(settings, fake_embedder, "summary of the day before yesterday")
    assert not any("“" in line for line in lines)


async def test_what_was_said_since_the_asker_left_is_told_however_little(
    settings: Settings, fake_embedder: FakeEmbedder
) -> None:
    left = Message(GUILD, CHANNEL, 40, 9, "Mark", "bye", NOW - 2 * HOUR)
    new = said(50, NOW - 600, "the oven is on, at 180")
    heading, *points = await told_of_few(settings, fake_embedder, "what did I miss?", left, new)
    assert len(points) == 1
    assert "the oven is on" in points[0]
    assert "last 1" not in heading


async def test_a_busy_day_is_told_by_a_few_lines(settings: Settings, fake_embedder: FakeEmbedder) -> None:
    talk = [said(n, NOW - 6 * HOUR + 100 * n, f"my cat number {n} is asleep", n % 3) for n in range(1, 161)]
    talk[10] = said(11, talk[10].ts, "we decided to meet on Sunday at 9:30 in Lyon", 1)
    async with Memory.open(settings, clock=Clock(NOW), embedder=fake_embedder, history=Links()) as memory:
        await memory.remember_many(talk)
        await memory.summaries.update(GUILD, CHANNEL)
        heading, *points = (await memory.ask(ask("what have we decided so far?"))).text.splitlines()
    assert heading.startswith("Since 12:11, 160 messages")
    assert len(points) <= MOST_POINTS
    assert any("we decided to meet on Sunday" in point for point in points)


async def test_a_time_of_which_nothing_is_known_is_left_to_the_world(memory: Memory) -> None:
    answer = await memory.ask(ask("what happened in 1989?"))
    assert answer.route.kind is Kind.NONE
    assert not answer.found


async def test_a_span_may_be_asked_for_directly_within_any_length(memory: Memory) -> None:
    policy = memory.policy(GUILD, CHANNEL)
    for limit in (600, 1900, 6000):
        told = await memory.recaps.of_span(ask(""), Window(NOW - 2 * DAY, NOW), policy, limit)
        assert told is not None
        assert len(told.text) <= limit
    assert await memory.recaps.of_span(ask(""), Window(NOW - 90 * DAY, NOW - 80 * DAY), policy) is None
