"""One suite for `Memory` and `Client`: whoever uses one can use the other."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import replace
from typing import Any

import pytest
from clock import mid_window, wall_now
from conftest import CHANNEL, GUILD, FakeEmbedder
from pydantic import SecretStr
from serving import EVERYTHING, Running, serving

from channelmem import ContextRequest, Memory, Message, Outcome, Past, Person, Question, Settings
from channelmem.client import Client
from channelmem.client.rooms import RemoteLoads, RemoteSpending, RemoteSummaries
from channelmem.ids import ChannelId
from channelmem.interface import ChannelMemory
from channelmem.media.kinds import of_preview
from channelmem.policy.cascade import AUTO, OFF, Boundary, Level, Place
from channelmem.store.channel_state import Loads, Spending
from channelmem.summaries.summaries import Summaries
from channelmem.types import Attachment, Gap, Kind, Load, Origin, RelatedChannel, Source, Window

ANN, BOB, CY = Person(5, "Ann", ("ann_77",)), Person(6, "Bob"), Person(7, "Cy")
HERE, FRODO = Place.channel(GUILD, CHANNEL), Place.of_character(GUILD, "Frodo")
KNOWN = 10_000
"""As many messages as `/history load` recognises."""
NOT_OFFERED = {"open"}
"""How it is opened differs."""


class Platform:
    """A chat platform with a past of its own."""

    def __init__(self) -> None:
        self.past = Past()
        self.members: tuple[Person, ...] = ()
        self.single: dict[int, Message] = {}
        self.fetched = 0

    async def fetch(self, question: Question, limit: int, max_age_s: float) -> Past:
        self.fetched += 1
        return replace(self.past, messages=self.past.messages[-limit:])

    async def fetch_message(self, channel_id: int, message_id: int) -> Message | None:
        return self.single.get(message_id)

    def jump_url(self, guild_id: int, channel_id: int, message_id: int) -> str:
        return f"https://chat.example/{guild_id}/{channel_id}/{message_id}"

    async def find_members(self, guild_id: int, prefix: str) -> tuple[Person, ...]:
        return tuple(one for one in self.members if one.name.startswith(prefix))


@pytest.fixture
def platform() -> Platform:
    return Platform()


@pytest.fixture(params=["in process", "service"])
async def memory(
    request: pytest.FixtureRequest, settings: Settings, fake_embedder: FakeEmbedder, platform: Platform
) -> AsyncIterator[ChannelMemory]:
    async with AsyncExitStack() as stack:
        if request.param == "in process":
            opened = Memory.open(settings, embedder=fake_embedder, history=platform)
            yield await stack.enter_async_context(opened)
        else:
            running = await stack.enter_async_context(serving(settings, fake_embedder))
            client = await stack.enter_async_context(Client.open(await using(running, settings), history=platform))
            yield client


async def using(running: Running, settings: Settings, *guild_ids: int) -> Settings:
    token = await running.token("bot", EVERYTHING, *guild_ids)
    return settings.model_copy(update={"service_url": running.url, "service_token": SecretStr(token)})


class Talk:
    def __init__(self, memory: ChannelMemory) -> None:
        self.memory, self.last = memory, 100

    def message(self, who: Person, text: str, *, ago_s: float = 60, **changes: Any) -> Message:
        self.last += 1
        plain = Message(GUILD, CHANNEL, self.last, who.id, who.name, text, wall_now() - ago_s, aliases=who.aliases)
        return replace(plain, **changes)

    async def say(self, who: Person, text: str, **changes: Any) -> Message:
        message = self.message(who, text, **changes)
        assert await self.memory.remember(message) is Outcome.STORED
        return message

    def question(self, text: str, **changes: Any) -> Question:
        self.last += 1
        return replace(
            Question(GUILD, CHANNEL, self.last, CY.id, CY.name, text, wall_now(), bot=Person(99, "Bot")), **changes
        )


@pytest.fixture
def talk(memory: ChannelMemory) -> Talk:
    return Talk(memory)


@pytest.mark.parametrize(
    ("in_process", "remote"),
    [(Memory, Client), (Summaries, RemoteSummaries), (Loads, RemoteLoads), (Spending, RemoteSpending)],
)
def test_a_client_has_the_methods_of_memory_with_the_same_parameters(in_process: type, remote: type) -> None:
    public = {name for name in dir(in_process) if not name.startswith("_")} - NOT_OFFERED
    for name in sorted(public):
        ours, theirs = getattr(in_process, name), getattr(remote, name, None)
        assert theirs is not None, name
        if inspect.isfunction(ours):
            same = inspect.signature(ours).parameters == inspect.signature(theirs).parameters
            assert same, name
            assert inspect.iscoroutinefunction(ours) == inspect.iscoroutinefunction(theirs), name
        else:
            assert isinstance(theirs, property), name


async def test_a_client_has_the_rooms_of_memory(memory: ChannelMemory) -> None:
    for name in ("policies", "summaries", "recaps", "loads", "spending", "media"):
        assert getattr(memory, name)


# --- a channel's past ---


async def test_a_span_is_recapped_with_links(talk: Talk) -> None:
    said = [await talk.say(ANN, f"turtle number {n} eats lettuce", ago_s=7_200 - 60 * n) for n in range(5)]
    question = talk.question("")
    policy = talk.memory.policies.of_question(question)
    window = Window(question.ts - 86_400, question.ts)
    told = await talk.memory.recaps.of_span(question, window, policy)
    assert told is not None
    assert told.text.startswith("5 messages from ")
    assert f"https://chat.example/{GUILD}/{CHANNEL}/{said[0].id}" in told.text
    assert await talk.memory.recaps.of_span(question, Window(1.0, 2.0), policy) is None


async def test_how_far_a_load_has_come_is_kept(memory: ChannelMemory) -> None:
    load = Load(CHANNEL, 100, 100, 2**62)
    assert await memory.loads.begin(GUILD, load)
    assert not await memory.loads.begin(GUILD, load)
    further = replace(load, done_id=2**61, stored=3, summarised=40)
    assert await memory.loads.advance(GUILD, further)
    assert await memory.loads.open(GUILD) == [further]
    await memory.loads.end(GUILD, CHANNEL)
    assert await memory.loads.open(GUILD) == []
    assert not await memory.loads.advance(GUILD, further)


async def test_the_spend_cap_holds(memory: ChannelMemory) -> None:
    here, today = ChannelId(GUILD, CHANNEL), int(wall_now() // 86_400)
    for day in (today, today + 1):  # midnight may pass before the last line
        assert await memory.spending.reserve(day, here, 700_000, 1_000_000)
        assert not await memory.spending.reserve(day, here, 400_000, 1_000_000)
        await memory.spending.settle(day, here, -600_000)
        assert await memory.spending.total(day) == 100_000
        assert await memory.spending.by_channel(day) == {here: 100_000}
    assert await memory.spending.usd_today() == {CHANNEL: 0.1}


async def test_summaries_of_related_channels_come_along_and_are_looked_up_again(talk: Talk) -> None:
    other = CHANNEL + 1
    for n in range(4):
        await talk.say(ANN, f"the safe opens with 4711, note {n}", channel_id=other, ago_s=10_800 - 1_800 * n)
    await talk.memory.summaries.update(GUILD, other)
    await talk.memory.policies.set(HERE, "related_channels", (other,))
    question = talk.question("what now?", related_channels=(RelatedChannel(other, "safe"),))
    answer = await talk.memory.ask(question)
    context = await talk.memory.context(question, answer)
    assert "[related channel: #safe]" in context.text
    before = await talk.memory.standing(question, answer, context)
    assert other in {one.channel_id for one in before}
    await talk.memory.delete(GUILD, other, [talk.last - 4])
    assert not before <= await talk.memory.standing(question, answer, context)


# --- the two flows ---


async def test_what_was_said_is_answered_with_a_link(talk: Talk) -> None:
    said = await talk.say(ANN, "turtles are slow", mentions=(6,), attachments=(Attachment(9, name="a.png", size=5),))
    answer = await talk.memory.ask(talk.question("what did Ann say about turtles?"))
    found = answer.hits[0].message
    assert replace(found, ts=said.ts) == replace(said, aliases=()), "aliases belong to people, not to messages"
    assert abs(found.ts - said.ts) < 1e-3
    assert answer.route.speakers == (ANN,)
    assert answer.route.kind is Kind.CHANNEL
    assert answer.found
    assert f"https://chat.example/{GUILD}/{CHANNEL}/{said.id}" in answer.text
    assert answer.origins == (found.origin,)
    assert answer.ms.total > 0
    assert answer.evidence is not None


async def test_many_messages_keep_their_order_and_have_an_outcome_each(talk: Talk) -> None:
    messages = [talk.message(ANN, f"number {n}" if n % 5 else " ") for n in range(50)]
    outcomes = await talk.memory.remember_many(messages)
    assert [one is Outcome.STORED for one in outcomes] == [bool(n % 5) for n in range(50)]


async def test_what_is_called_first_happens_first(talk: Talk) -> None:
    """An edit and a delete right behind their message, without waiting for it."""
    first, second = talk.message(ANN, "snails"), talk.message(ANN, "slugs")
    edited = replace(first, content="turtles are slow", revision=wall_now())
    memory = talk.memory
    await asyncio.gather(
        memory.remember(first),
        memory.remember(second),
        memory.edit(edited),
        memory.delete(GUILD, CHANNEL, [second.id]),
        memory.remember(second),
    )
    assert [one.content for one in await memory.recent(GUILD, CHANNEL, 10)] == ["turtles are slow"]


async def test_flush_waits_until_everything_is_searchable(talk: Talk) -> None:
    await talk.say(ANN, "turtles are slow")
    assert await talk.memory.flush()
    assert (await talk.memory.pending(), await talk.memory.lag_s(), talk.memory.queued, talk.memory.dropped) == (
        0,
        0,
        0,
        0,
    )
    assert talk.memory.available


async def test_the_platforms_history_answers_what_nobody_stored_and_is_not_stored(
    talk: Talk, platform: Platform
) -> None:
    await talk.say(BOB, "the deploy is green again")
    platform.past = Past((talk.message(ANN, "llamas spit", ago_s=300),))
    answer = await talk.memory.ask(talk.question("what did people say about llamas?"))
    assert "llamas spit" in answer.text
    assert answer.hits[0].source is Source.HISTORY
    assert [one.content for one in await talk.memory.recent(GUILD, CHANNEL, 10)] == ["the deploy is green again"]
    assert platform.fetched


async def test_a_stored_answer_needs_no_history(talk: Talk, platform: Platform) -> None:
    await talk.say(ANN, "turtles are slow")
    await talk.memory.ask(talk.question("what did Ann say about turtles?"))
    assert not platform.fetched


async def test_why_there_is_no_history_is_part_of_the_answer(talk: Talk, platform: Platform) -> None:
    await talk.say(BOB, "the deploy is green again")
    platform.past = Past(problem="I may not read this channel's past.")
    answer = await talk.memory.ask(talk.question("what did people say about llamas?"))
    assert answer.text.endswith("I may not read this channel's past.")


async def test_members_who_never_spoke_are_known(talk: Talk, platform: Platform) -> None:
    await talk.say(BOB, "turtles are slow")
    platform.members = (Person(77, "Zed"),)
    answer = await talk.memory.ask(talk.question("what did Zed say about turtles?"))
    assert [one.id for one in answer.route.speakers] == [77]


async def test_a_follow_up_is_understood(talk: Talk) -> None:
    await talk.say(ANN, "the meeting is on Tuesday")
    await talk.memory.ask(talk.question("when is the meeting?"))
    assert (await talk.memory.ask(talk.question("who said that?"))).route.anchors


# --- for a language model ---


async def test_context_says_what_it_was_made_of_and_whether_that_stands(talk: Talk, platform: Platform) -> None:
    said, near = await talk.say(ANN, "turtles are slow"), await talk.say(BOB, "lunch at noon?")
    question = talk.question("what did Ann say about turtles?", reply_to=4711)
    platform.single[4711] = talk.message(BOB, "an old remark", id=4711)
    answer = await talk.memory.ask(question)
    context = await talk.memory.context(question, answer)
    assert "turtles are slow" in context.text
    assert "an old remark" in context.text, "the platform fills a hole in the reply chain"
    assert Origin(CHANNEL, said.id) in context.shown
    stands = await talk.memory.standing(question, answer, context)
    assert {Origin(CHANNEL, said.id), Origin(CHANNEL, near.id)} <= stands
    await talk.memory.delete(GUILD, CHANNEL, [near.id])
    assert await talk.memory.standing(question, answer, context) == stands - {Origin(CHANNEL, near.id)}


async def test_the_tool_looks_and_what_it_showed_is_noted(talk: Talk) -> None:
    said = await talk.say(ANN, "turtles are slow")
    question = talk.question("")
    found = await talk.memory.look(ContextRequest(question, "turtles", "Ann", 3600.0, 5))
    assert "turtles are slow" in found.text
    assert found.shown >= {Origin(CHANNEL, said.id)}


async def test_an_answer_that_quotes_what_is_gone_is_to_be_redacted(talk: Talk) -> None:
    said = await talk.say(ANN, "turtles are slow")
    own = await talk.say(Person(99, "Bot"), "Ann said so", own=True, derived_from=(said.origin,))
    await talk.memory.delete(GUILD, CHANNEL, [said.id])
    assert await talk.memory.recent(GUILD, CHANNEL, 10) == []
    assert await talk.memory.to_redact() == [(GUILD, CHANNEL, own.id)]
    await talk.memory.redacted(GUILD, CHANNEL, own.id)
    assert await talk.memory.to_redact() == []


# --- changes ---


async def test_edits_replace_and_an_empty_one_removes(talk: Talk) -> None:
    said = await talk.say(ANN, "snails", reply_to=50, mentions=(6,))
    now = wall_now()
    assert await talk.memory.edit(replace(said, content="hares", revision=now, reply_to=None)) is Outcome.STORED
    await talk.memory.edit(replace(said, content="slugs", revision=now - 5))
    (found,) = await talk.memory.recent(GUILD, CHANNEL, 10)
    assert (found.content, found.reply_to, found.mentions, found.author) == ("hares", None, (6,), "Ann")
    await talk.memory.edit(replace(said, content="", revision=now + 5))
    assert await talk.memory.recent(GUILD, CHANNEL, 10) == []


async def test_messages_channels_and_guilds_are_deleted(talk: Talk) -> None:
    said = [await talk.say(ANN, f"number {n}") for n in range(4)]
    memory = talk.memory
    assert await memory.delete(GUILD, CHANNEL, [said[0].id, 999]) == 1
    assert await memory.delete(GUILD, CHANNEL, []) == 0
    assert await memory.delete_channel(GUILD, CHANNEL) == 3
    await talk.say(ANN, "elsewhere", channel_id=CHANNEL + 1)
    assert await memory.delete_guild(GUILD) == 1


async def test_a_description_makes_an_attachment_findable(talk: Talk) -> None:
    said = await talk.say(ANN, "look", attachments=(Attachment(9, name="a.png"),))
    assert await talk.memory.enrich(GUILD, CHANNEL, said.id, 9, "a red bicycle")
    assert not await talk.memory.enrich(GUILD, CHANNEL, 999, 9, "a red bicycle")
    assert (await talk.memory.ask(talk.question("did anyone mention a bicycle?"))).hits[0].message.id == said.id


# --- what people decide ---


async def test_people_are_hidden_shown_again_and_forgotten(talk: Talk) -> None:
    await talk.say(ANN, "turtles are slow")
    memory = talk.memory
    await memory.opt_out(ANN.id)
    assert await memory.recent(GUILD, CHANNEL, 10) == []
    assert await memory.opted_out(ANN.id, GUILD)
    assert await memory.opt_in(ANN.id) is None
    assert not await memory.opted_out(ANN.id, GUILD)
    assert len(await memory.recent(GUILD, CHANNEL, 10)) == 1
    assert [one.content async for one in memory.export(ANN.id)] == ["turtles are slow"]
    await memory.forget(ANN.id)
    assert await memory.remember(talk.message(ANN, "hello?")) is Outcome.IGNORED
    assert await memory.returning(ANN.id) is None


async def test_decisions_can_be_for_one_guild(talk: Talk) -> None:
    await talk.say(ANN, "here")
    await talk.say(ANN, "there", guild_id=GUILD + 1)
    await talk.memory.opt_out(ANN.id, GUILD)
    assert await talk.memory.recent(GUILD, CHANNEL, 10) == []
    assert [await talk.memory.opted_out(ANN.id, guild) for guild in (GUILD, GUILD + (1 << 22))] == [True, False]
    assert len(await talk.memory.recent(GUILD + 1, CHANNEL, 10)) == 1
    assert await talk.memory.opt_in(ANN.id, GUILD) is None


async def test_a_channel_is_paused_resumed_cleared_and_described(talk: Talk) -> None:
    memory = talk.memory
    await talk.say(ANN, "turtles are slow")
    await memory.flush()
    await memory.pause(GUILD, CHANNEL)
    assert await memory.remember(talk.message(ANN, "psst", ago_s=0)) is Outcome.IGNORED
    status = await memory.status(GUILD, CHANNEL)
    assert (status.messages, status.pending, status.paused, status.archive) == (1, 0, True, True)
    assert status.newest_ts == status.oldest_ts
    await memory.resume(GUILD, CHANNEL)
    assert await memory.clear(GUILD, CHANNEL) == 1
    assert (await memory.status(GUILD, CHANNEL)).messages == 0


# --- for back-fill ---


async def test_back_fill_finds_where_it_was(talk: Talk) -> None:
    memory = talk.memory
    assert await memory.last_seen(GUILD, CHANNEL) is None
    said = [await talk.say(ANN, f"number {n}", ago_s=60 - n) for n in range(3)]
    assert await memory.last_seen(GUILD, CHANNEL) == said[-1].id
    assert list(await memory.known(GUILD, CHANNEL, 2)) == [said[2].id, said[1].id]
    await memory.note_gap(GUILD, CHANNEL, None, 7)
    await memory.note_gap(GUILD, CHANNEL + 1, 9, 8)
    assert await memory.gaps(GUILD) == [Gap(CHANNEL, None, 7), Gap(CHANNEL + 1, 9, 8)]
    await memory.close_gap(GUILD, CHANNEL)
    assert await memory.gaps(GUILD) == [Gap(CHANNEL + 1, 9, 8)]


# --- settings ---


async def test_settings_are_in_force_at_once_and_say_who_changed_them(talk: Talk) -> None:
    policies = talk.memory.policies
    change = await policies.set(HERE, "context_messages", 7, by=ANN.id)
    assert change is not None
    assert (change.setting, change.old, change.new, change.by) == ("context_messages", None, 7, ANN.id)
    assert await policies.set(HERE, "context_messages", 7) is None
    assert policies.of(GUILD, CHANNEL).context_messages == 7
    found = policies.effective(GUILD, CHANNEL)["context_messages"]
    assert (found.value, found.source) == (7, Level.CHANNEL)
    own = await policies.read(HERE)
    assert own.values == {"context_messages": 7}
    assert [(one.by, one.new) for one in own.changes] == [(ANN.id, 7)]
    await policies.set(FRODO, "context_max_age", OFF)
    assert policies.of(GUILD, CHANNEL, "frodo").context_max_age_s is None
    assert (await policies.set(HERE, "context_messages", AUTO)) is not None
    assert policies.of(GUILD, CHANNEL).context_messages == 20
    await policies.set_many(Place.everywhere(), {"context_messages": 30, "max_images": 2})
    assert {one.setting for one in await policies.reset(Place.everywhere())} == {"context_messages", "max_images"}
    assert talk.memory.policy(GUILD, CHANNEL).context_messages == 20


async def test_the_service_says_what_a_setting_would_take_away(talk: Talk) -> None:
    await talk.say(ANN, "the old plan", ago_s=7200)
    policies = talk.memory.policies
    assert (await policies.preview(HERE, {"archive": False})).messages == 1
    assert not await policies.preview(HERE, {"context_messages": 7})
    await policies.set(HERE, "archive", True)
    await policies.set(Place.everywhere(), "archive", False)
    assert (await policies.preview(HERE, {"archive": AUTO})).messages == 1
    assert (await policies.preview(HERE, None)).messages == 1


async def test_a_channel_that_is_off_is_neither_stored_nor_shown(talk: Talk) -> None:
    await talk.say(ANN, "turtles are slow")
    await talk.memory.policies.set(HERE, "enabled", False)
    assert not talk.memory.policies.storing(GUILD, CHANNEL).enabled
    assert talk.memory.policies.any_closed(GUILD)
    assert await talk.memory.remember(talk.message(ANN, "psst")) is Outcome.IGNORED
    assert (await talk.memory.ask(talk.question("what did Ann say?"))).off


async def test_a_thread_follows_its_channel(talk: Talk) -> None:
    await talk.memory.policies.set(HERE, "context_messages", 7)
    await talk.say(ANN, "in a thread", channel_id=77, thread_of=CHANNEL)
    policy = talk.memory.policies.of(GUILD, 77, thread_of=CHANNEL)
    assert policy.context_messages == 7


async def test_a_fresh_start_limits_what_a_model_is_given_unasked(talk: Talk) -> None:
    await talk.say(ANN, "turtles are slow", ago_s=120)
    await talk.memory.policies.begin(GUILD, CHANNEL, Boundary(wall_now() - 60), by=ANN.id)
    question = talk.question("good morning")
    assert "turtles" not in (await talk.memory.context(question, await talk.memory.ask(question))).text
    begun = talk.memory.policies.boundary(GUILD, CHANNEL)
    assert begun is not None
    assert begun.kept == ()


# --- summaries ---

HOUR_S = 3_600.0


async def past_of(talk: Talk) -> None:
    """Two windows that closed hours ago."""
    for middle in (mid_window(5.0 * HOUR_S), mid_window(3.0 * HOUR_S)):
        for number in range(4):
            who, text = (ANN, BOB)[number % 2], f"I will bring {number + 2} turtles to the meeting on Tuesday at noon"
            await talk.say(who, text, ts=middle + number)


async def test_summaries_are_made_read_and_go_with_their_messages(talk: Talk) -> None:
    await past_of(talk)
    assert await talk.memory.summaries.update(GUILD, CHANNEL) >= 2
    found = await talk.memory.summaries.of(GUILD, CHANNEL)
    low = [one for one in found if one.level == 1]
    assert len(low) == 2
    assert "turtles" in low[0].text
    assert {one.name for one in low[0].authors} == {"Ann", "Bob"}
    assert low[0].lines
    assert await talk.memory.summaries.of(GUILD, CHANNEL, Window(end=low[0].end)) == (low[0],)
    await talk.memory.delete(GUILD, CHANNEL, [low[0].origins[0].id])
    assert [one for one in await talk.memory.summaries.of(GUILD, CHANNEL) if one.level == 1] == [low[1]]
    assert await talk.memory.summaries.rebuild(GUILD, CHANNEL) >= 1


async def test_a_model_is_given_summaries_and_told_when_they_no_longer_stand(talk: Talk) -> None:
    await past_of(talk)
    await talk.memory.summaries.update(GUILD, CHANNEL)
    await talk.memory.policies.set(HERE, "context_messages", 1)
    question = talk.question("good morning")
    shown = await talk.memory.summaries.breakdown(question)
    assert shown.summaries
    assert 0 < shown.chars <= shown.limit
    answer = await talk.memory.ask(question)
    context = await talk.memory.context(question, answer)
    assert "turtles" in context.text
    stands = await talk.memory.standing(question, answer, context)
    assert [one for one in stands if one.id < 0], "summaries count as sources"
    first = (await talk.memory.summaries.of(GUILD, CHANNEL))[0]
    await talk.memory.delete(GUILD, CHANNEL, [one.id for one in first.origins or ()] or [101])
    assert await talk.memory.standing(question, answer, context) < stands


async def test_a_past_that_is_too_old_to_be_stored_is_summarised(talk: Talk) -> None:
    middle = mid_window(10 * 86_400)
    old = [talk.message((ANN, BOB)[n % 2], f"the harvest of {n} pumpkins was good", ts=middle + n) for n in range(6)]
    left = await talk.memory.summaries.absorb(GUILD, CHANNEL, old, more=True)
    assert len(left) == 6, "the window may be incomplete"
    assert await talk.memory.summaries.absorb(GUILD, CHANNEL, left) == ()
    (made,) = await talk.memory.summaries.of(GUILD, CHANNEL)
    assert "pumpkins" in made.text
    assert await talk.memory.recent(GUILD, CHANNEL, 10) == []


async def test_a_link_preview_is_added_to_its_message(talk: Talk) -> None:
    said = await talk.say(ANN, "look https://example.org/frog")
    preview = of_preview("https://images-ext-1.discordapp.net/external/x/frog.png")
    await talk.memory.media.attach(replace(said, attachments=(preview,)))
    (kept,) = await talk.memory.recent(GUILD, CHANNEL, 1)
    assert kept.attachments == (preview,)
    assert kept.revision == 0.0
    assert talk.memory.media.uses(GUILD, CHANNEL, 1) == ()


async def test_more_messages_are_read_than_the_service_shows_at_once(talk: Talk) -> None:
    said = [talk.message(ANN, f"turtle {number}") for number in range(230)]
    await talk.memory.remember_many(said)
    found = await talk.memory.recent(GUILD, CHANNEL, 20_000)
    assert [one.id for one in found] == [one.id for one in said]


async def test_all_that_a_load_compares_is_known_at_once(talk: Talk) -> None:
    said = await talk.say(ANN, "turtles are slow")
    assert await talk.memory.known(GUILD, CHANNEL, KNOWN) == {said.id: 0.0}
