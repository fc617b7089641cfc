"""What is in force in each conversation, on real Redis: changes, other processes, outages, threads, old documents."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from conftest import Clock, FakeEmbedder, OwnServer, make_settings
from test_memory import ANN, BOB, CHANNEL, GUILD, MARK, OTHER, Shelf, Talk
from waiting import until_true

from channelmem import ContextRequest, Memory, Message, Outcome, Person, Question, Settings
from channelmem.errors import RedisUnavailableError, UnknownSettingError
from channelmem.policy import cascade as declared
from channelmem.policy.cascade import (
    AUTO,
    GRACE_S,
    OFF,
    SETTINGS,
    Auto,
    Boundary,
    Level,
    Number,
    Place,
    Setting,
)
from channelmem.policy.policies import Policies
from channelmem.store.buckets import Changes
from channelmem.store.levels import Levels
from channelmem.store.store import Store
from channelmem.types import MEMORY_OFF, Past

HERE = Place.channel(GUILD, CHANNEL)
EVERYWHERE = Place.everywhere()
PIRATE = Place.of_character(GUILD, "Pirate")
THREAD = 77


class Present(Talk):
    """Everything is said at the moment of the clock."""

    def message(self, who: Person, text: str, *, ago_s: float = 0, **changes: object) -> Message:
        return super().message(who, text, ago_s=ago_s, **changes)

    async def say(self, who: Person, text: str, *, ago_s: float = 0, **changes: object) -> Message:
        return await super().say(who, text, ago_s=ago_s, **changes)


@asynccontextmanager
async def opened(settings: Settings, clock: Clock, embedder: FakeEmbedder, *past: Message) -> AsyncIterator[Talk]:
    shelf = Shelf(past)
    async with Memory.open(settings, clock=clock, embedder=embedder, history=shelf, patient=True) as memory:
        yield Present(memory, clock)


@pytest.fixture
async def talk(settings: Settings, clock: Clock, fake_embedder: FakeEmbedder) -> AsyncIterator[Talk]:
    async with opened(settings, clock, fake_embedder) as talk:
        yield talk


async def test_a_change_is_in_force_at_once_and_says_what_it_changed(talk: Talk) -> None:
    policies = talk.memory.policies
    change = await policies.set(HERE, "context_messages", 50, by=ANN.id)
    assert change is not None
    assert (change.setting, change.old, change.new, change.by) == ("context_messages", None, 50, ANN.id)
    assert policies.of(GUILD, CHANNEL).context_messages == 50
    assert policies.of(GUILD, OTHER).context_messages == 20
    found = policies.effective(GUILD, CHANNEL)["context_messages"]
    assert (found.value, found.source) == (50, Level.CHANNEL)


async def test_what_changes_nothing_is_no_change(talk: Talk) -> None:
    policies = talk.memory.policies
    await policies.set(HERE, "context_messages", 50)
    assert await policies.set(HERE, "context_messages", 50) is None
    assert await policies.set(HERE, "max_images", AUTO) is None
    assert len((await policies.read(HERE)).changes) == 1


async def test_every_setting_can_be_set_off_and_cleared_everywhere(talk: Talk) -> None:
    policies = talk.memory.policies
    for place in (EVERYWHERE, HERE, PIRATE):
        for setting in SETTINGS:
            if place.level not in setting.levels:
                continue
            value = 7 if isinstance(setting.kind, Number) else setting.kind.parse("off")
            await policies.set(place, setting.name, value)
            assert (await policies.read(place)).values[setting.name] == value
            assert policies.overrides(place)[setting.name] == value
            await policies.set(place, setting.name, AUTO)
            assert setting.name not in (await policies.read(place)).values
            assert setting.name not in policies.overrides(place)


async def test_the_last_changes_are_kept_newest_first(talk: Talk) -> None:
    policies = talk.memory.policies
    for number in range(1, 31):
        await policies.set(HERE, "context_messages", number, by=number)
    changes = (await policies.read(HERE)).changes
    assert [one.by for one in changes[:3]] == [30, 29, 28]
    assert (changes[0].old, changes[0].new) == (29, 30)
    assert len(changes) == 20


async def test_reset_clears_everything_of_a_place(talk: Talk) -> None:
    policies = talk.memory.policies
    await policies.set(HERE, "context_messages", 50)
    await policies.set(HERE, "context_max_age", OFF)
    await policies.set(EVERYWHERE, "max_images", 3)
    changes = await policies.reset(HERE, by=5)
    assert {(one.setting, one.new) for one in changes} == {("context_messages", None), ("context_max_age", None)}
    assert policies.overrides(HERE) == {}
    assert policies.of(GUILD, CHANNEL).context_images == 3


async def test_an_unknown_setting_or_level_is_refused(talk: Talk) -> None:
    with pytest.raises(UnknownSettingError, match="no setting 'colour'"):
        await talk.memory.policies.set(HERE, "colour", 1)
    with pytest.raises(UnknownSettingError, match="character level"):
        await talk.memory.policies.set(PIRATE, "archive", False)


async def test_characters_are_capped_by_the_channel_and_known_by_any_spelling(talk: Talk) -> None:
    policies = talk.memory.policies
    await policies.set(PIRATE, "context_messages", 60)
    await policies.set(HERE, "context_messages", 30)
    assert policies.of(GUILD, CHANNEL, "PIRATE").context_messages == 30
    assert policies.of(GUILD, OTHER, "pirate").context_messages == 60
    assert policies.of(GUILD, OTHER).context_messages == 20


async def test_guilds_do_not_share_settings(talk: Talk) -> None:
    policies = talk.memory.policies
    await policies.set(HERE, "enabled", False)
    await policies.set(PIRATE, "context_messages", 5)
    assert policies.of(GUILD + 1, CHANNEL).enabled
    assert policies.of(GUILD + 1, CHANNEL, "pirate").context_messages == 20


# --- channel OFF ---


async def test_an_off_channel_is_neither_stored_nor_shown_and_comes_back_with_on(talk: Talk) -> None:
    await talk.say(BOB, "the vault code is 4711")
    await talk.memory.policies.set(HERE, "enabled", False)
    assert await talk.memory.remember(talk.message(BOB, "said while off")) is Outcome.IGNORED
    answer = await talk.ask(MARK, "who mentioned the vault code?")
    assert answer.text == MEMORY_OFF
    assert answer.off
    asked = talk.question(MARK, "who mentioned the vault code?")
    assert "4711" not in (await talk.memory.context(asked, answer)).text
    assert (await talk.memory.look(ContextRequest(asked, query="vault"))).text == MEMORY_OFF
    await talk.memory.policies.set(HERE, "enabled", AUTO)
    assert "4711" in (await talk.ask(MARK, "who mentioned the vault code?")).text
    assert "while off" not in (await talk.ask(MARK, "what did Bob say?")).text


async def test_what_was_said_while_off_is_not_stored_later(talk: Talk, clock: Clock) -> None:
    policies = talk.memory.policies
    await policies.set(HERE, "enabled", False)
    clock.now += 60
    missed = talk.message(BOB, "said while off")
    clock.now += 60
    await policies.set(HERE, "enabled", True)
    assert await talk.memory.remember(missed) is Outcome.IGNORED
    clock.now += 60
    assert await talk.memory.remember(talk.message(BOB, "said after")) is Outcome.STORED


async def test_an_edit_while_off_removes_the_old_text(talk: Talk) -> None:
    said = await talk.say(BOB, "the vault code is 4711")
    await talk.memory.policies.set(HERE, "enabled", False)
    await talk.memory.edit(replace(said, content="never mind", revision=talk.clock()))
    await talk.memory.policies.set(HERE, "enabled", True)
    told = (await talk.ask(MARK, "what did Bob say?")).text
    assert "4711" not in told
    assert "never mind" not in told


async def test_redis_itself_refuses_messages_of_an_off_channel(
    settings: Settings, clock: Clock, fake_embedder: FakeEmbedder, talk: Talk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Levels, "follow", lambda _self: asyncio.Event().wait())  # a process that hears nothing
    async with opened(settings, clock, fake_embedder) as deaf:
        await talk.memory.policies.set(HERE, "enabled", False)
        assert await deaf.memory.remember(deaf.message(BOB, "hello?")) is Outcome.IGNORED


async def test_a_thread_follows_its_channel_and_other_processes_know_it(
    talk: Talk, settings: Settings, clock: Clock, fake_embedder: FakeEmbedder
) -> None:
    said = replace(talk.message(BOB, "the vault code is 4711"), channel_id=THREAD, thread_of=CHANNEL)
    assert await talk.memory.remember(said) is Outcome.STORED
    await talk.memory.policies.set(HERE, "enabled", False)
    assert not talk.memory.policy(GUILD, THREAD).enabled
    later = replace(talk.message(BOB, "more"), channel_id=THREAD, thread_of=CHANNEL)
    assert await talk.memory.remember(later) is Outcome.IGNORED
    async with opened(settings, clock, fake_embedder) as other:
        assert not other.memory.policy(GUILD, THREAD).enabled


async def test_a_thread_that_is_learned_while_everything_is_read_stays_known(
    talk: Talk, monkeypatch: pytest.MonkeyPatch
) -> None:
    levels = talk.memory._store.levels
    run = levels._buckets.run

    async def read_first(*arguments: Any) -> Any:
        await levels.load()
        return await run(*arguments)

    monkeypatch.setattr(levels._buckets, "run", read_first)
    await levels.learn_threads(GUILD, {f"{GUILD}c{THREAD}": f"{GUILD}c{CHANNEL}"})
    assert f"{GUILD}c{THREAD}" in levels.threads


async def test_a_character_that_is_on_keeps_an_auto_channel_stored_but_not_a_closed_one(talk: Talk) -> None:
    policies = talk.memory.policies
    await policies.set(EVERYWHERE, "enabled", False)
    assert not policies.storing(GUILD, CHANNEL).enabled
    await policies.set(PIRATE, "enabled", True)
    await policies.set(Place.channel(GUILD, OTHER), "enabled", False)
    assert policies.storing(GUILD, CHANNEL).enabled
    assert not policies.storing(GUILD, OTHER).enabled
    assert not policies.of(GUILD, CHANNEL).enabled
    assert policies.of(GUILD, CHANNEL, "pirate").enabled


async def test_an_archive_that_is_switched_off_shows_the_buffer_only(talk: Talk, clock: Clock) -> None:
    await talk.say(BOB, "the vault code is 4711")
    clock.now += 3 * 3600
    assert "4711" in (await talk.ask(MARK, "who mentioned the vault code?")).text
    await talk.memory.policies.set(HERE, "archive", False)
    assert "4711" not in (await talk.ask(MARK, "who mentioned the vault code?")).text


CODE = "the vault code is 4711"


@pytest.fixture
async def old(talk: Talk, clock: Clock) -> Talk:
    """A channel with old talk, a summary of it, and an answer of the bot that repeats it."""
    first = await talk.say(BOB, CODE)
    clock.now += 3 * 3600
    await talk.memory.summaries.update(GUILD, CHANNEL)
    await talk.say(Person(99, "Memo"), f"Bob said: {CODE}", own=True, derived_from=(first.origin,))
    await talk.memory.flush()
    return talk


async def everything(talk: Talk) -> str:
    """All that anybody can be shown of the channel: people, pages, exports, models, counts."""
    memory, status = talk.memory, await talk.memory.status(GUILD, CHANNEL)
    question = talk.question(MARK, "what happened today?")
    answer = await memory.ask(question)
    found = [
        (await talk.ask(MARK, "who mentioned the vault code?")).text,
        (await talk.ask(MARK, "what did you say?")).text,
        answer.text,
        (await memory.context(question, answer)).text,
        *[one.content async for one in memory.export(BOB.id)],
        str(await memory.summaries.of(GUILD, CHANNEL)),
        str(await memory.browse.page(GUILD, CHANNEL, 100)),
        f"{status.messages} messages",
    ]
    return "\n".join(found)


async def test_what_a_switched_off_archive_held_is_in_no_source_and_comes_back_within_the_hour(
    old: Talk, clock: Clock
) -> None:
    policies = old.memory.policies
    before = await everything(old)
    assert before.count("4711") >= 6
    for place in (EVERYWHERE, HERE):
        await policies.set(place, "archive", False)
        await policies.fitted()
        assert "4711" not in await everything(old)
        await old.say(ANN, "meanwhile the lift broke")
        clock.now += GRACE_S - 60
        await policies.fit_overdue()
        assert "4711" not in await everything(old)
        await policies.set(place, "archive", AUTO)
        await policies.fitted()
        assert "4711" in (await old.ask(MARK, "who mentioned the vault code?")).text
        assert "4711" in str(await old.memory.summaries.of(GUILD, CHANNEL))
        assert "lift" in (await old.ask(MARK, "what did Ann say about the lift?")).text, "what was said meanwhile stays"


async def test_after_the_hour_it_is_removed_by_any_process_and_cannot_be_undone(
    old: Talk, clock: Clock, settings: Settings, fake_embedder: FakeEmbedder
) -> None:
    policies = old.memory.policies
    await policies.set(HERE, "archive", False)
    await policies.fitted()
    clock.now += GRACE_S + 1
    async with opened(settings, clock, fake_embedder) as other:
        await other.memory.policies.fit_overdue()
    await policies.set(HERE, "archive", True)
    await policies.fitted()
    assert "4711" not in await everything(old)
    redis = old.memory._store.buckets.redis
    await old.memory._store.swept()
    assert not [key async for key in redis.scan_iter(f"{settings.key_prefix}:*:msg:*")]


async def test_a_process_that_missed_the_undo_removes_nothing(
    old: Talk, clock: Clock, settings: Settings, fake_embedder: FakeEmbedder
) -> None:
    policies = old.memory.policies
    await policies.set(HERE, "archive", False)
    async with opened(settings, clock, fake_embedder) as other:
        stale = dict(other.memory.policies._levels.documents)
        await policies.set(HERE, "archive", AUTO)
        await policies.fitted()
        clock.now += GRACE_S + 1
        other.memory.policies._levels.documents, other.memory.policies._levels._counts = stale, []
        other.memory.policies._forget_cached()
        await other.memory.policies.fit_overdue()
    assert "4711" in (await old.ask(MARK, "who mentioned the vault code?")).text


async def test_a_setting_at_a_thread_leaves_it_the_archive_of_its_channel(talk: Talk) -> None:
    policies, thread = talk.memory.policies, Place.channel(GUILD, THREAD)
    await policies.set(EVERYWHERE, "archive", False)
    await policies.set(HERE, "archive", True)
    await talk.say(BOB, CODE, channel_id=THREAD, thread_of=CHANNEL, ago_s=7200)
    await policies.set(thread, "summaries", False)
    assert policies.of(GUILD, THREAD).limits.archive
    assert not policies.of(GUILD, THREAD).summaries
    assert (await policies.preview(thread, {"archive": False})).messages == 1
    assert (await policies.preview(HERE, {"archive": False})).messages == 1


async def test_a_damaged_channel_does_not_keep_others_from_being_trimmed(old: Talk, clock: Clock) -> None:
    await old.say(BOB, "words over there", channel_id=OTHER)
    buckets = old.memory._store.buckets
    await old.memory.flush()
    (order, *_) = buckets.guild_keys(GUILD).channel(GUILD, OTHER)
    await buckets.redis.delete(order)
    await buckets.redis.set(order, "no sorted set")
    await old.memory.policies.set(EVERYWHERE, "archive", False)
    await old.memory.policies.fitted()
    clock.now += GRACE_S + 1
    await old.memory.policies.fit_overdue()
    await old.memory._store.swept()
    (mine, *_) = buckets.guild_keys(GUILD).channel(GUILD, CHANNEL)
    assert not await buckets.redis.exists(mine)


async def test_what_is_hidden_is_no_source_of_a_new_answer(old: Talk) -> None:
    (first, *_) = [one async for one in old.memory.export(BOB.id)]
    await old.memory.policies.set(HERE, "archive", False)
    await old.memory.policies.fitted()
    own = old.message(Person(99, "Memo"), f"Bob said: {CODE}", own=True, derived_from=(first.origin,))
    assert await old.memory.remember(own) is Outcome.IGNORED


async def test_a_change_that_nobody_can_read_drops_the_copies_and_questions_go_on(old: Talk) -> None:
    buckets = old.memory._store.buckets
    await buckets.redis.xadd(buckets.guild_keys(GUILD).one("changes"), {"room": "garbage"})
    assert "4711" in (await old.ask(MARK, "who mentioned the vault code?")).text


async def test_a_damaged_list_of_changes_is_made_again(old: Talk) -> None:
    buckets = old.memory._store.buckets
    key = buckets.guild_keys(GUILD).one("changes")
    await buckets.redis.set(key, "no stream")
    assert await old.memory.clear(GUILD, CHANNEL) == 2
    assert await buckets.redis.type(key) == b"stream"


async def test_a_deletion_and_a_forget_have_no_grace(old: Talk, clock: Clock) -> None:
    policies = old.memory.policies
    await policies.set(HERE, "archive", False)
    await old.memory.forget(BOB.id)
    await policies.set(HERE, "archive", True)
    await policies.fitted()
    assert "4711" not in await everything(old)


async def test_what_a_setting_would_take_away_is_known_before(old: Talk) -> None:
    policies = old.memory.policies
    await old.say(ANN, "hello")
    await old.say(ANN, "hello over there", channel_id=OTHER)
    loss = await policies.preview(EVERYWHERE, {"archive": False})
    assert str(loss) == "1 message, all but the newest 50 of the last 30m"
    assert not await policies.preview(Place.channel(GUILD, OTHER), {"archive": False})
    assert not await policies.preview(HERE, {"context_messages": 5})
    await policies.set(EVERYWHERE, "archive", False)
    await policies.set(HERE, "archive", True)
    assert (await policies.preview(HERE, None)).messages == 1, "a reset inherits"
    assert not await policies.preview(HERE, {"context_messages": 5})


# --- several processes, outages, old documents ---


async def test_other_processes_see_a_change_within_a_second(
    talk: Talk, settings: Settings, clock: Clock, fake_embedder: FakeEmbedder
) -> None:
    async with opened(settings, clock, fake_embedder) as other:
        await talk.memory.policies.set(HERE, "context_messages", 42)
        async with asyncio.timeout(1):
            while other.memory.policy(GUILD, CHANNEL).context_messages != 42:  # noqa: ASYNC110  (no event for it)
                await asyncio.sleep(0.01)


async def test_a_lost_announcement_is_noticed(
    talk: Talk, settings: Settings, clock: Clock, fake_embedder: FakeEmbedder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("channelmem.store.levels.COMPARE_S", 0.05)

    async def deaf(self: Changes, bucket: int, kind: str) -> None:
        """Drops what it hears."""

    monkeypatch.setattr(Changes, "heard", deaf)
    async with opened(settings, clock, fake_embedder) as other:
        await talk.memory.policies.set(HERE, "context_messages", 42)
        await until_true(lambda: other.memory.policy(GUILD, CHANNEL).context_messages == 42)


async def test_without_redis_the_last_known_policy_holds_even_after_a_restart(
    own_server: OwnServer, tmp_path: Path, clock: Clock, fake_embedder: FakeEmbedder
) -> None:
    settings = make_settings(own_server.url, tmp_path, redis_timeout_s=0.5)
    said = Message(GUILD, CHANNEL, 1, BOB.id, BOB.name, "the vault code is 4711", clock() - 60)
    async with opened(settings, clock, fake_embedder) as talk:
        await talk.memory.policies.set(HERE, "enabled", False)
        await until_true(lambda: any(tmp_path.rglob("levels-*.json")))
        own_server.kill()
        assert not talk.memory.policy(GUILD, CHANNEL).enabled
        with pytest.raises(RedisUnavailableError):
            await talk.memory.policies.set(HERE, "enabled", True)
        with pytest.raises(RedisUnavailableError):
            await talk.memory.policies.read(HERE)
    async with opened(settings, clock, fake_embedder, said) as talk:
        assert (await talk.ask(MARK, "who mentioned the vault code?")).text == MEMORY_OFF


async def test_the_copy_on_disk_is_private_and_names_nobody(talk: Talk, settings: Settings) -> None:
    await talk.memory.policies.set(HERE, "enabled", False, by=ANN.id)
    await until_true(lambda: any(settings.data_dir.glob("levels-*.json")))
    (path,) = settings.data_dir.glob("levels-*.json")
    await until_true(lambda: b"channel:" in path.read_bytes())
    assert path.stat().st_mode & 0o777 == 0o600
    assert f'"{ANN.id}"' not in json.dumps(json.loads(path.read_bytes())["documents"])


@pytest.mark.parametrize(
    "document",
    [
        {"values": {"context_messages": 33, "colour": "red"}},
        {"values": {"context_messages": 33, "max_images": 99}},
        {"values": {"context_messages": 33, "enabled": "perhaps"}, "more": [1]},
    ],
)
async def test_one_unknown_key_or_value_does_not_reject_the_level(
    settings: Settings, clock: Clock, fake_embedder: FakeEmbedder, talk: Talk, document: dict[str, object]
) -> None:
    await talk.memory.policies.set(HERE, "context_messages", 1)
    buckets = talk.memory._store.buckets
    key = buckets.guild_keys(GUILD).of("settings", f"channel:{GUILD}c{CHANNEL}")
    await buckets.redis.execute_command("JSON.SET", key, "$", json.dumps(document))  # type: ignore[no-untyped-call]
    async with opened(settings, clock, fake_embedder) as other:
        policy = other.memory.policy(GUILD, CHANNEL)
        assert (policy.context_messages, policy.context_images, policy.enabled) == (33, 0, True)


NOTED = {"at": 1.0, "by": "5", "setting": "context_messages", "old": None, "new": 33}


@pytest.mark.parametrize(
    ("document", "messages", "noted"),
    [
        ({"values": None, "changes": [NOTED]}, 20, 1),
        ({"values": [1], "changes": {"a": 1}}, 20, 0),
        ({"values": {"context_messages": 33}, "changes": [{**NOTED, "reason": "newer"}, "x", {"at": 1}, NOTED]}, 33, 2),
        ({"values": {"context_messages": 33}, "changes": [{**NOTED, "by": "Ann"}, {**NOTED, "at": None}]}, 33, 0),
    ],
)
async def test_a_document_changed_by_hand_or_by_a_newer_version_is_read_as_far_as_it_goes(
    talk: Talk, document: dict[str, object], messages: int, noted: int
) -> None:
    policies, buckets = talk.memory.policies, talk.memory._store.buckets
    key = buckets.guild_keys(GUILD).of("settings", f"channel:{GUILD}c{CHANNEL}")
    await buckets.redis.execute_command("JSON.SET", key, "$", json.dumps(document))  # type: ignore[no-untyped-call]
    assert len((await policies.read(HERE)).changes) == noted
    await talk.memory._store.levels._reload(buckets.bucket(GUILD), f"channel:{GUILD}c{CHANNEL}")
    assert policies.of(GUILD, CHANNEL).context_messages == messages
    assert await policies.set(HERE, "context_messages", 44, by=7) is not None
    assert policies.of(GUILD, CHANNEL).context_messages == 44
    assert (await policies.read(HERE)).changes[0].by == 7


FORMER: dict[str, object] = {
    "values": {"max_messages": 33, "max_age": "off"},
    "changes": [{**NOTED, "setting": "max_messages"}],
}


async def stored_before(talk: Talk, document: dict[str, object]) -> None:
    """As a version wrote it that called these settings otherwise."""
    buckets, place = talk.memory._store.buckets, f"channel:{GUILD}c{CHANNEL}"
    key = buckets.guild_keys(GUILD).of("settings", place)
    await buckets.redis.execute_command("JSON.SET", key, "$", json.dumps(document))  # type: ignore[no-untyped-call]
    await talk.memory._store.levels._reload(buckets.bucket(GUILD), place)


async def test_what_was_set_under_a_former_name_is_in_force(talk: Talk) -> None:
    await stored_before(talk, FORMER)
    policy = talk.memory.policy(GUILD, CHANNEL)
    assert (policy.context_messages, policy.context_max_age_s) == (33, None)
    own = await talk.memory.policies.read(HERE)
    assert own.values == {"context_messages": 33, "context_max_age": OFF}
    assert own.changes[0].setting == "context_messages"


@pytest.mark.parametrize(("name", "value", "then"), [
    ("context_messages", 5, 5), ("max_messages", 5, 5), ("context_messages", AUTO, 20), ("max_messages", AUTO, 20),
    ("max_images", 3, 33),
])  # fmt: skip
async def test_a_change_replaces_what_was_set_under_a_former_name(
    talk: Talk, name: str, value: int | Auto, then: int
) -> None:
    await stored_before(talk, FORMER)
    change = await talk.memory.policies.set(HERE, name, value)
    assert change is not None
    if name != "max_images":
        assert (change.setting, change.old) == ("context_messages", 33)
    assert talk.memory.policy(GUILD, CHANNEL).context_messages == then
    own = await talk.memory.policies.read(HERE)
    assert own.values["context_max_age"] is OFF
    assert own.values.get("context_messages", 20) == then


async def test_a_reset_clears_former_names_too(talk: Talk) -> None:
    await stored_before(talk, FORMER)
    changes = await talk.memory.policies.reset(HERE)
    assert {one.setting for one in changes} == {"context_messages", "context_max_age"}
    assert (await talk.memory.policies.read(HERE)).values == {}


async def test_a_new_setting_is_one_entry(talk: Talk, settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    pace = Setting("pace", "Pace", "How fast.", Number(1, 5), lambda _: 2, lambda policy, value: policy)
    monkeypatch.setattr(declared, "SETTINGS", (*SETTINGS, pace))
    policies = Policies(settings, talk.memory._store)
    await policies.set(HERE, "pace", 4)
    assert policies.effective(GUILD, CHANNEL)["pace"].value == 4
    assert (await policies.read(HERE)).changes[0].setting == "pace"


async def test_ten_thousand_overrides_are_read_in_a_few_round_trips(talk: Talk, settings: Settings) -> None:
    buckets = talk.memory._store.buckets
    keys = buckets.guild_keys(GUILD)
    async with buckets.redis.pipeline(transaction=False) as pipe:
        for number in range(10_000):
            place = f"channel:{GUILD}c{number}"
            pipe.execute_command("JSON.SET", keys.of("settings", place), "$", '{"values":{"context_messages":9}}')
            pipe.hset(keys.one("levels"), place, "1")
        pipe.hset(keys.one("levels"), "*", "10000")
        await pipe.execute()
    store = Store(buckets)
    await store.levels.load()
    policies = Policies(settings, store)
    assert {policies.of(GUILD, number).context_messages for number in range(10_000)} == {9}


# --- what a language model is given ---


async def given(talk: Talk, text: str = "hi", **changes: object) -> str:
    question: Question = replace(talk.question(MARK, text), **changes)  # type: ignore[arg-type]
    return (await talk.memory.context(question, await talk.memory.ask(question))).text


async def test_ambient_context_follows_count_and_age(talk: Talk, clock: Clock) -> None:
    for number in range(5):
        await talk.say(BOB, f"line{number}")
        clock.now += 600
    await talk.memory.policies.set(HERE, "context_messages", 2)
    told = await given(talk)
    assert [f"line{n}" in told for n in range(5)] == [False, False, False, True, True]
    await talk.memory.policies.set(HERE, "context_messages", 100)
    await talk.memory.policies.set(PIRATE, "context_max_age", 1500.0)
    told = await given(talk, character="pirate")
    assert [f"line{n}" in told for n in range(5)] == [False, False, False, True, True]
    assert "line0" in await given(talk)


async def test_a_model_that_just_looks_around_gets_no_more_than_unasked(talk: Talk, clock: Clock) -> None:
    for number in range(5):
        await talk.say(BOB, f"line{number}")
        clock.now += 600

    async def looked(**changes: object) -> list[bool]:
        request = ContextRequest(talk.question(MARK, "hi"), **{"limit": 10} | changes)  # type: ignore[arg-type]
        told = (await talk.memory.look(request)).text
        return [f"line{n}" in told for n in range(5)]

    assert await looked() == [True] * 5
    await talk.memory.policies.set(HERE, "context_messages", 2)
    assert await looked() == [False, False, False, True, True]
    assert (await looked(query="line0"))[0], "a search may find anything"
    await talk.memory.policies.set(HERE, "context_messages", AUTO)
    await talk.memory.policies.set(HERE, "context_max_age", 1500.0)
    assert await looked() == [False, False, False, True, True]


async def test_what_is_fetched_instead_of_an_unreachable_redis_follows_count_and_age(
    own_server: OwnServer, tmp_path: Path, clock: Clock, fake_embedder: FakeEmbedder
) -> None:
    wanted: list[tuple[int, float]] = []

    class Noting(Shelf):
        async def fetch(self, question: Question, limit: int, max_age_s: float) -> Past:
            wanted.append((limit, max_age_s))
            return await super().fetch(question, limit, max_age_s)

    settings = make_settings(own_server.url, tmp_path, redis_timeout_s=0.5)
    async with Memory.open(settings, clock=clock, embedder=fake_embedder, history=Noting(), patient=True) as memory:
        talk = Present(memory, clock)
        await memory.policies.set(HERE, "context_messages", 7)
        await memory.policies.set(HERE, "context_max_age", 1500.0)
        own_server.kill()
        question = talk.question(MARK, "tell me a joke")
        answer = await memory.ask(question)
        wanted.clear()
        await memory.context(question, answer)
        assert wanted == [(7, 1500.0)]


async def test_max_age_never_limits_what_a_question_finds(talk: Talk, clock: Clock) -> None:
    await talk.say(BOB, "the vault code is 4711")
    clock.now += 1200
    await talk.memory.policies.set(HERE, "context_max_age", 60.0)
    assert "4711" in (await talk.ask(MARK, "who mentioned the vault code?")).text


async def test_a_fresh_start_hides_the_past_but_for_what_was_kept(talk: Talk, clock: Clock) -> None:
    old = await talk.say(BOB, "alpha before")
    await talk.say(ANN, "beta before")
    clock.now += 60
    await talk.memory.policies.begin(GUILD, CHANNEL, Boundary(clock()), by=1)
    clock.now += 60
    await talk.say(ANN, "gamma after")
    told = await given(talk)
    assert "gamma" in told
    assert "alpha" not in told
    assert "alpha" in (await talk.ask(MARK, "who said alpha?")).text
    assert "alpha" not in (await talk.memory.look(ContextRequest(talk.question(MARK, "hi")))).text
    await talk.memory.policies.begin(GUILD, CHANNEL, Boundary(clock(), (old.id,)), by=1)
    told = await given(talk)
    assert '[PRIOR_CONTEXT_PROVIDED] 1 message, "alpha before"' in told
    assert "beta" not in told
    await talk.memory.delete(GUILD, CHANNEL, [old.id])
    assert "alpha" not in await given(talk)


async def test_a_reply_chain_ends_at_a_fresh_start(talk: Talk, clock: Clock) -> None:
    first = await talk.say(BOB, "alpha before")
    second = await talk.say(ANN, "beta before", reply_to=first.id)
    clock.now += 60
    await talk.memory.policies.begin(GUILD, CHANNEL, Boundary(clock()), by=1)
    clock.now += 60
    third = await talk.say(BOB, "gamma after", reply_to=second.id)
    told = await given(talk, reply_to=third.id)
    assert "gamma" in told
    assert "beta" not in told
    assert "alpha" not in told


async def test_a_fresh_start_is_known_after_a_restart(
    talk: Talk, settings: Settings, clock: Clock, fake_embedder: FakeEmbedder
) -> None:
    await talk.memory.policies.begin(GUILD, CHANNEL, Boundary(clock(), (2**60 + 1,)), by=1)
    async with opened(settings, clock, fake_embedder) as other:
        assert other.memory.policies.boundary(GUILD, CHANNEL) == Boundary(clock(), (2**60 + 1,))
        assert other.memory.policies.boundary(GUILD, OTHER) is None
