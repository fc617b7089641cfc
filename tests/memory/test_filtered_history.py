"""The platform's history as questions get it: without people who opted out, and cut as the policy says."""

from __future__ import annotations

import math
from typing import cast

import pytest
from conftest import CHANNEL, GUILD, NOW, message

from channelmem.browse import FilteredHistory
from channelmem.policy.policies import Policies
from channelmem.settings import Settings
from channelmem.store.store import Store
from channelmem.types import History, Message, Past, Person, Question

ASKED = Question(GUILD, CHANNEL, 9_000, 77, "Zoe", "what did I miss?", NOW)


def policies(store: Store) -> Policies:
    store.levels.known = True
    return Policies(Settings(history_content_chars=10), store)


class Platform:
    async def fetch(self, question: Question, limit: int, max_age_s: float) -> Past:
        return Past((message(1, "x" * 1000, author_id=5), message(2, "short", author_id=6)))

    async def fetch_message(self, channel_id: int, message_id: int) -> Message | None:
        return message(message_id, "y" * 1000, author_id=5)

    def jump_url(self, guild_id: int, channel_id: int, message_id: int) -> str:
        return f"{guild_id}/{channel_id}/{message_id}"


class PlatformWithMembers(Platform):
    async def find_members(self, guild_id: int, prefix: str) -> tuple[Person, ...]:
        return (Person(5, f"{prefix}a"), Person(6, f"{prefix}b"))


@pytest.fixture
def history(store: Store) -> FilteredHistory:
    return FilteredHistory(PlatformWithMembers(), store.decisions, policies(store))


async def test_fetched_messages_with_an_impossible_time_are_left_out(
    history: FilteredHistory, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fetch(self: Platform, question: Question, limit: int, max_age_s: float) -> Past:
        return Past(tuple(message(number, ts=ts) for number, ts in enumerate([math.nan, math.inf, -1.0, 1e300, NOW])))

    monkeypatch.setattr(Platform, "fetch", fetch)
    assert [one.ts for one in (await history.fetch(ASKED, 20, 60)).messages] == [NOW]


async def test_fetched_messages_are_cut_as_the_policy_says(history: FilteredHistory) -> None:
    past = await history.fetch(ASKED, 20, 60)
    assert [one.content for one in past.messages] == ["x" * 10, "short"]
    single = await history.fetch_message(CHANNEL, 3)
    assert single is not None
    assert single.content == "y" * 10


async def test_people_who_opted_out_are_left_out(history: FilteredHistory, store: Store) -> None:
    await store.consent.opt_out(5)
    past = await history.fetch(ASKED, 20, 60)
    assert [one.author_id for one in past.messages] == [6]
    assert await history.fetch_message(CHANNEL, 3) is None


async def test_members_who_opted_out_are_not_found(history: FilteredHistory, store: Store) -> None:
    await store.consent.opt_out(5)
    assert await history.find_members(GUILD, "Bo") == (Person(6, "Bob"),)


async def test_a_platform_may_have_no_search_for_members(store: Store) -> None:
    plain = FilteredHistory(cast("History", Platform()), store.decisions, policies(store))
    assert await plain.find_members(GUILD, "Bo") == ()


async def test_links_are_the_platforms_own(history: FilteredHistory) -> None:
    assert history.jump_url(1, 2, 3) == "1/2/3"
