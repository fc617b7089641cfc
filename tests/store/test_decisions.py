"""What people and managers decided, and the copy of it that answers while Redis is unreachable."""

from __future__ import annotations

import json
import stat
from pathlib import Path

import pytest
from conftest import CHANNEL, GUILD, NOW, Clock, FakeEmbedder, make_settings, message
from pydantic import SecretStr

from channelmem.errors import RedisUnavailableError
from channelmem.settings import Settings
from channelmem.store import decisions as decisions_copy
from channelmem.store.buckets import Buckets
from channelmem.store.decisions import KEY_FILE, Decisions, DecisionsCopy, Recorded
from channelmem.store.redis import connect
from channelmem.store.store import Store
from channelmem.types import Message, Window

ANNS, BOBS = message(1, author_id=5), message(2, author_id=6)


def away(settings: Settings, clock: Clock) -> Decisions:
    """A process started anew while Redis is unreachable."""
    assert settings.redis_url is not None
    redis = connect("redis://127.0.0.1:1/0", settings)
    buckets = Buckets(redis, settings, dims=FakeEmbedder.dims, identity=FakeEmbedder.identity, clock=clock)
    return Decisions(buckets)


async def shown(decisions: Decisions, *messages: Message) -> list[int]:
    return [one.id for one in await decisions.allowed(GUILD, CHANNEL, messages or (ANNS, BOBS))]


@pytest.mark.parametrize("guild", [None, GUILD])
async def test_an_opt_out_is_known_after_a_restart_without_redis(
    store: Store, settings: Settings, clock: Clock, guild: int | None
) -> None:
    await store.consent.opt_out(6, guild)
    assert await shown(store.decisions) == [1]
    assert await shown(away(settings, clock)) == [1]
    await store.consent.opt_in(6, guild)
    assert await shown(away(settings, clock)) == [1, 2]


async def test_without_redis_and_copy_nothing_is_shown(settings: Settings, clock: Clock) -> None:
    with pytest.raises(RedisUnavailableError):
        await shown(away(settings, clock))


async def test_an_opt_out_through_another_process_reaches_the_copy(
    store: Store, settings: Settings, clock: Clock, tmp_path: Path
) -> None:
    elsewhere = Buckets(
        store.buckets.redis,
        settings.model_copy(update={"data_dir": tmp_path / "elsewhere"}),
        dims=FakeEmbedder.dims,
        identity=FakeEmbedder.identity,
        clock=clock,
    )
    await Store(elsewhere).consent.opt_out(6)
    await store.decisions.sync()
    assert await shown(away(settings, clock)) == [1]


async def test_a_copy_knows_when_channels_were_paused_and_cleared(
    store: Store, settings: Settings, clock: Clock
) -> None:
    before, after = message(3, ts=NOW - 10), message(4, ts=NOW + 10)
    await store.clear(GUILD, CHANNEL)
    assert await shown(away(settings, clock), before, after) == [4]
    clock.now = NOW + 5
    await store.channels.pause(GUILD, CHANNEL)
    assert await shown(away(settings, clock), before, after) == []
    assert await shown(store.decisions, before, after, message(5, ts=NOW + 2)) == [5]
    await store.channels.resume(GUILD, CHANNEL)
    assert await shown(away(settings, clock), before, message(6, ts=NOW + 2)) == [6]


async def test_words_edited_while_a_channel_is_paused_are_not_shown(store: Store) -> None:
    await store.channels.pause(GUILD, CHANNEL)
    edited = message(1, ts=NOW - 60, revision=NOW + 1)
    assert await shown(store.decisions, edited, message(2, ts=NOW - 60)) == [2]


async def test_a_second_pause_does_not_shorten_the_first(store: Store, clock: Clock) -> None:
    await store.channels.pause(GUILD, CHANNEL)
    clock.now = NOW + 60
    await store.channels.pause(GUILD, CHANNEL)
    assert await shown(store.decisions, message(1, ts=NOW + 30)) == []


async def test_a_pause_from_before_pauses_had_times_hides_everything(store: Store) -> None:
    key = store.buckets.guild_keys(GUILD).one("policy")
    await store.buckets.redis.hset(key, f"{GUILD}c{CHANNEL}:paused", "1")
    assert await shown(store.decisions) == []


# --- the file ---


def copy_file(settings: Settings) -> Path:
    (found,) = settings.data_dir.glob("decisions-*.json")
    return found


async def test_the_copy_is_for_its_owner_only_and_names_nobody(store: Store, settings: Settings) -> None:
    await store.consent.opt_out(123_456_789_012_345_678)
    await store.channels.pause(GUILD, CHANNEL)
    for path in (copy_file(settings), settings.data_dir / KEY_FILE):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    text = copy_file(settings).read_text()
    for number in (123_456_789_012_345_678, GUILD, CHANNEL):
        assert str(number) not in text


async def test_two_machines_name_the_same_person_differently(settings: Settings, tmp_path: Path) -> None:
    hidden: list[str] = []
    for name in ("one", "other"):
        there = settings.model_copy(update={"data_dir": tmp_path / name})
        DecisionsCopy(there).replace(Recorded({"6"}))
        hidden += json.loads(copy_file(there).read_text())["hidden"]
    assert len(set(hidden)) == 2


@pytest.mark.parametrize("damage", ["", "{", '{"version": 1}', "[]", '{"version": 2, "check": "", "hidden": []}'])
async def test_a_damaged_copy_is_no_copy(store: Store, settings: Settings, clock: Clock, damage: str) -> None:
    await store.consent.opt_out(6)
    copy_file(settings).write_text(damage)
    with pytest.raises(RedisUnavailableError):
        await shown(away(settings, clock))


@pytest.mark.parametrize("left", [b"", b"x" * 32])
async def test_a_copy_made_with_another_secret_is_no_copy(
    store: Store, settings: Settings, clock: Clock, left: bytes
) -> None:
    await store.consent.opt_out(6)
    name = copy_file(settings).name
    (settings.data_dir / KEY_FILE).write_bytes(left)
    copy = DecisionsCopy(settings)
    copy._load_secret()
    copy_file(settings).rename(settings.data_dir / copy._file().path.name)
    assert copy._file().path.name != name
    with pytest.raises(RedisUnavailableError):
        await shown(away(settings, clock))


async def test_a_copy_belongs_to_one_redis_whatever_its_password(settings: Settings) -> None:
    def at(url: str) -> DecisionsCopy:
        return DecisionsCopy(settings.model_copy(update={"redis_url": SecretStr(url)}))

    at("redis://:old@here:6379/0").replace(Recorded({"6"}))
    assert at("redis://:new@here:6379/0").of(["6"]) == Recorded({"6"})
    assert at("redis://:new@there:6379/0").of(["6"]) is None


async def test_more_decisions_than_a_copy_holds_leave_no_copy(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(decisions_copy, "MOST", 2)
    copy = DecisionsCopy(settings)
    copy.replace(Recorded({"5"}, {"1c2": (Window(end=3.0),)}))
    assert DecisionsCopy(settings).of(["5", "1c2"]) == Recorded({"5"}, {"1c2": (Window(end=3.0),)})
    DecisionsCopy(settings).replace(Recorded({"5", "6", "7"}))
    assert DecisionsCopy(settings).of(["5"]) is None


async def test_a_folder_that_cant_be_written_to_leaves_no_copy_and_stops_nobody(
    store: Store, tmp_path: Path, redis_url: str
) -> None:
    (tmp_path / "file").write_text("")
    copy = DecisionsCopy(make_settings(redis_url, tmp_path / "file" / "folder"))
    copy.replace(Recorded({"6"}))
    assert copy.of(["6"]) is None


async def test_the_copy_is_written_only_when_something_changed_and_again_if_that_failed(
    store: Store, settings: Settings, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    written: list[Recorded] = []
    replace = DecisionsCopy.replace

    def counting(copy: DecisionsCopy, recorded: Recorded) -> bool:
        written.append(recorded)
        return len(written) > 1 and replace(copy, recorded)

    monkeypatch.setattr(DecisionsCopy, "replace", counting)
    for _ in range(4):
        await store.decisions.sync()
    assert len(written) == 2
    await store.consent.opt_out(6)
    assert written[2:] == [Recorded({"6"})]
    assert await shown(away(settings, clock)) == [1]
