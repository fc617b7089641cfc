"""Another number of buckets: everything is still there, belongs to the same people, and an interrupted run resumes."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from conftest import NOW, Clock, FakeEmbedder, make_settings, message, open_store
from making import make_other, other_text
from redis.asyncio import Redis
from typer.testing import CliRunner
from waiting import LIMIT_S, until

from channelmem.cli import app
from channelmem.errors import ChannelmemError, ConfigError, IndexMismatchError
from channelmem.ids import ChannelId
from channelmem.ingest.worker import Worker
from channelmem.settings import Settings
from channelmem.store.buckets import bucket_of
from channelmem.store.channel_state import Bookmarks, NameStore
from channelmem.store.derived import Committed, SummaryRow, SummaryStore
from channelmem.store.index import meta_of
from channelmem.store.keys import KEYS, room
from channelmem.store.rebucket import NAME, RULES, MoveRule, Rebucket, _parse, guild_in, others_there
from channelmem.store.redis import command, connect
from channelmem.store.search import Query, Search
from channelmem.store.store import Store
from channelmem.tasks import cancel_all
from channelmem.types import Gap, Load, Origin, Outcome, Source

GUILDS = [number << 22 for number in range(12)]
GONE, OUT, BACK = 66, 77, 88
"""Somebody who is being forgotten, somebody who opted out everywhere, and somebody who did in one guild."""
QUIET, DELETED, QUOTED, SUMMARISED = 3, 4, 6, 8
"""Channels: a paused one, one that is gone, one with an answer of the bot, and one with a summary."""


def silent(_step: str, _done: int, _total: int) -> None:
    pass


async def spread(redis: Redis, settings: Settings, count: int) -> int:
    return await Rebucket(redis, settings, count, silent).run()


async def opened(redis: Redis, settings: Settings, count: int, clock: Clock) -> Store:
    return await open_store(redis, settings.model_copy(update={"buckets": count}), clock)


async def fill(store: Store) -> None:
    """Something of every kind in each guild, most of it with vectors."""
    await store._sweeper.stop()  # removals stay unfinished
    policy = store.buckets.policy
    for guild in GUILDS:
        said = [message(n, f"turtles {n} of {guild}", guild_id=guild, author_id=author) for n, author in _talk()]
        await store.add(said)
        await store.add([message(9, "later", guild_id=guild, channel_id=DELETED, author_id=5)])
        await make_other(store, guild, said[0].channel_id, 1, "slow", [_origin(said[0])], policy)
        await store.levels.change(f"channel:{guild}c1", guild, f"{guild}c1", 1, [("context_messages", "9")])
        await store.levels.learn_threads(guild, {f"{guild}c70": f"{guild}c1"})
    task = asyncio.create_task(Worker(store, FakeEmbedder()).run())
    assert await store.flush(LIMIT_S)
    await cancel_all([task])
    await store.levels.change("global", 0, "", 1, [("context_messages", "33")])
    for guild in GUILDS:
        await store.channels.pause(guild, QUIET)
        await store.delete_channel(guild, DELETED)
    await store.consent.opt_out(OUT)
    await store.consent.opt_out(BACK, GUILDS[1])
    await store.consent.forget(GONE)
    await store.consent.opt_in(GONE)  # waits for the removal
    await store.add([message(100, "not embedded yet", guild_id=guild) for guild in GUILDS])
    for guild in GUILDS:
        await _quote(store, guild)
        await _summarise(store, guild)
        await Bookmarks(store.buckets).note(guild, Gap(7, 90, 80))
        await NameStore(store.buckets).tell(guild, f"guild {guild}", {1: "general"})
        await store.loads.begin(guild, Load(7, 10, 20, 90))
        await _read_media(store, guild)
        await store.spending.reserve(20_000, ChannelId(guild, 1), 5, 100)
    await store.buckets.redis.hset(store.buckets.keys(0).one("access"), "id of a token", "{}")


async def _read_media(store: Store, guild: int) -> None:
    """A picture that is being read, and one that could not be."""
    keys = store.buckets.guild_keys(guild)
    await store.buckets.redis.set(keys.of("reading", f"{room(guild, 1)}:71"), "somebody", px=600_000)
    await store.buckets.redis.set(keys.of("unread", f"{room(guild, 1)}:72:eyes"), "gone", px=600_000)


async def _summarise(store: Store, guild: int) -> None:
    """By a process that still holds the channel's lock."""
    source = message(300, guild_id=guild, channel_id=SUMMARISED)
    await store.add([source])
    summaries, place = SummaryStore(store.buckets), (guild, SUMMARISED)
    assert await summaries.lock(*place, "token")
    row = SummaryRow("1-1-2", NOW, '{"text": "slow"}', origins=(_origin(source),))
    assert await summaries.commit(*place, "token", [], [row], store.buckets.policy) is Committed.DONE


async def _quote(store: Store, guild: int) -> None:
    """An answer whose source was deleted: people should not go on reading it on the platform."""
    source = message(200, guild_id=guild, channel_id=QUOTED)
    answer = message(201, guild_id=guild, channel_id=QUOTED, author_id=1, own=True, derived_from=(_origin(source),))
    await store.add([source, answer])
    await store.delete(guild, QUOTED, [source.id])


def _talk() -> Sequence[tuple[int, int]]:
    return [(1, 5), (2, OUT), (3, BACK), (4, GONE), (5, 5)]


def _origin(one: Any) -> Origin:
    return Origin(one.channel_id, one.id, one.revision)


@dataclass
class Seen:
    """What people would notice."""

    newest: list[list[tuple[int, str]]]
    nearest: list[list[str]]
    made: list[str | None]
    settings: dict[str, Any]
    threads: dict[str, str]
    out: list[bool]
    refused: list[Outcome]
    names: list[dict[int, Any]]


async def seen(store: Store) -> Seen:
    search, embedder = Search(store.buckets), FakeEmbedder()
    channel = message(1).channel_id
    await store.levels.load()
    newest, nearest, made, refused, names = [], [], [], [], []
    for guild in GUILDS:
        query = Query(guild, (channel,), limit=100, source=Source.ARCHIVE)
        newest.append([(one.id, one.content) for one in await search.newest(query)])
        vector = embedder.vector(f"turtles 5 of {guild}")
        found = await search.nearest(Query(guild, (channel,), vector=vector, source=Source.ARCHIVE))
        nearest.append([hit.message.content for hit in found.hits if hit.similarity is not None])
        made.append(await other_text(store, guild, channel, 1))
        known = await store.known(guild, channel, 100)
        names.append(dict(sorted(known.items())))
        for author, where in ((OUT, channel), (BACK, channel), (5, QUIET), (5, DELETED)):
            late = message(50, guild_id=guild, channel_id=where, author_id=author, ts=NOW - 500)
            refused += await store.add([late])
            await store.delete(guild, where, [50])
    documents = {place: one for place, one in store.levels.documents.items() if one}
    out = [await store.consent.opted_out(author, guild) for author in (OUT, BACK, GONE, 5) for guild in GUILDS]
    return Seen(newest, nearest, made, documents, store.levels.threads, out, refused, names)


async def held(redis: Redis, settings: Settings, count: int) -> dict[tuple[str, str], Any]:
    """Everything that Redis holds, wherever it is, by the name of its key; each in the bucket where it belongs."""
    found: dict[tuple[str, str], Any] = {}
    async for raw in redis.scan_iter(f"{settings.key_prefix}:*", count=1000):
        key = raw.decode()
        base, bucket = key[: key.index("}:") + 2], int(key[key.index("{") + 1 : key.index("}")])
        name, rest = _parse(key.removeprefix(base))
        value = await _value(redis, key, base)
        if RULES[name] is MoveRule.NAME:
            assert bucket == bucket_of(guild_in(name, rest) or 0, count), key
            assert (name, rest) not in found, key
            found[name, rest] = value
        elif RULES[name] is MoveRule.MEMBERS:
            kept = {member: one for member, one in value.items() if member != "*"}
            wrong = [one for one in kept if (guild := guild_in(name, one)) and bucket_of(guild, count) != bucket]
            assert not wrong, key
            found.setdefault((name, rest), {}).update(kept)
            found["in", f"{name} {rest}"] = found.get(("in", f"{name} {rest}"), 0) + sum(
                _is_shared(name, one) for one in kept
            )
    for name, rest in list(found):
        if name == "in":  # what concerns everybody is in every bucket
            kind, _, owner = rest.partition(" ")
            everybody = sum(_is_shared(kind, one) for one in found[kind, owner])
            assert found.pop((name, rest)) == everybody * count, rest
    return found


def _is_shared(name: str, member: str) -> bool:
    return guild_in(name, member) is None and name != "levels"


async def _value(redis: Redis, key: str, base: str) -> Any:
    """Members without the bucket in their names; whether it expires counts, when does not."""
    kind = (await command(redis, "TYPE", key)).decode()
    read = {
        "hash": ("HGETALL", key),
        "set": ("SMEMBERS", key),
        "zset": ("ZRANGE", key, 0, -1, "WITHSCORES"),
        "string": ("GET", key),
        "stream": ("XLEN", key),
    }
    found = await command(redis, *read.get(kind, ("JSON.GET", key)))
    if kind == "set":
        return {one.decode().removeprefix(base): "" for one in found}
    if kind == "zset":
        return {one.decode(): float(score) for one, score in zip(found[::2], found[1::2], strict=True)}
    return {one.decode(): value for one, value in found.items()} if kind == "hash" else found


def test_every_key_has_a_rule() -> None:
    assert set(RULES) == set(KEYS)


async def test_every_kind_of_key_arrives_where_it_belongs(redis: Redis, settings: Settings, clock: Clock) -> None:
    store = await opened(redis, settings, 2, clock)
    await fill(store)
    await store.close()
    before = await held(redis, settings, 2)
    assert {name for name, _ in before} == {name for name, rule in RULES.items() if rule is not MoveRule.ANEW}
    for count in (8, 3, 1, 2):
        await spread(redis, settings, count)
        assert await held(redis, settings, count) == before, count


async def test_what_expires_still_does(redis: Redis, settings: Settings, clock: Clock) -> None:
    store = await opened(redis, settings, 2, clock)
    await fill(store)
    await store.close()
    lasting = {key async for key in _lasting(redis, settings)}
    await spread(redis, settings, 7)
    assert {key async for key in _lasting(redis, settings)} == lasting


async def _lasting(redis: Redis, settings: Settings) -> AsyncIterator[str]:
    """Keys of messages and channels that never expire."""
    async for key in redis.scan_iter(f"{settings.key_prefix}:*", count=1000):
        name = key.decode().partition("}:")[2]
        if RULES[_parse(name)[0]] is MoveRule.NAME and await redis.pttl(key) < 0:
            yield name


@pytest.mark.parametrize(
    ("name", "text", "guild"),
    [
        ("msg", "5c6:00000000000000000001", 5),
        ("floor", "5", 5),
        ("guilds", "5", 5),
        ("made", "summary/5c6:1", 5),
        ("settings", "character:5:1c1", 5),
        ("settings", "global", None),
        ("optout", "77", None),
        ("optout", "5:77", 5),
        ("refused", "off:5c6", 5),
        ("forgetting", "*:77", None),
        ("policy", "5c6:paused", 5),
        ("drains", "drain:5c6:2", 5),
    ],
)
def test_the_guild_of_a_key_is_read_from_its_name(name: str, text: str, guild: int | None) -> None:
    assert guild_in(name, text) == guild


async def test_everything_is_still_there_in_any_number_of_buckets(
    redis: Redis, settings: Settings, clock: Clock
) -> None:
    store = await opened(redis, settings, 2, clock)
    await fill(store)
    before = await seen(store)
    assert any(before.nearest)
    assert Outcome.STORED not in before.refused[:3]
    await store.close()
    for count in (8, 3, 1):
        assert await spread(redis, settings, count) > 0
        store = await opened(redis, settings, count, clock)
        await store._sweeper.stop()
        assert await seen(store) == before, count
        await store.close()
    await _finish(await opened(redis, settings, 1, clock), redis, settings)


async def _finish(store: Store, redis: Redis, settings: Settings) -> None:
    """What was left to do is done: vectors, removals, back-fill."""
    task = asyncio.create_task(Worker(store, FakeEmbedder()).run())
    query = Query(GUILDS[2], (message(1).channel_id,), source=Source.ARCHIVE)
    vector = FakeEmbedder().vector("not embedded yet")

    async def embedded() -> bool:
        found = await Search(store.buckets).nearest(replace(query, vector=vector))
        return not found.pending and not await store.pending()

    await until(embedded)
    await store.swept()
    left = {key async for key in redis.scan_iter(f"{settings.key_prefix}:*msg:*")}
    assert len(left) == len(GUILDS) * (len(_talk()) + 1)  # one is forgotten, two came late
    await cancel_all([task])
    await store.close()


def stop_after(limit: int, patch: pytest.MonkeyPatch) -> None:
    """As if the process were killed before its next call to Redis."""
    calls = itertools.count(1)

    def stopping(call: Callable[..., Any]) -> Callable[..., Any]:
        async def counted(*arguments: Any) -> Any:
            if next(calls) > limit:
                raise ConnectionError("killed here")
            return await call(*arguments)

        return counted

    for name in ("_do", "_all"):
        patch.setattr(Rebucket, name, stopping(getattr(Rebucket, name)))


async def test_a_run_that_stops_anywhere_is_finished_by_the_next(
    redis: Redis, settings: Settings, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = await opened(redis, settings, 2, clock)
    await fill(store)
    before = await seen(store)
    await store.close()
    for limit in range(5, 10_000, 23):
        with monkeypatch.context() as patch:
            stop_after(limit, patch)
            try:
                await spread(redis, settings, 5)
            except ConnectionError:
                with pytest.raises(ChannelmemError):
                    await opened(redis, settings, 5, clock)
            else:
                break
    store = await opened(redis, settings, 5, clock)
    await store._sweeper.stop()
    assert await seen(store) == before
    await store.close()


async def test_while_it_is_unfinished_nobody_opens_the_memory(redis: Redis, settings: Settings, clock: Clock) -> None:
    store = await opened(redis, settings, 2, clock)
    await store.close()
    work = Rebucket(redis, settings, 4, silent)
    work._meta = await meta_of(redis, work._keys(0))
    await work._begin()
    for count in (2, 4):
        with pytest.raises(IndexMismatchError, match="channelmem rebucket 4"):
            await opened(redis, settings, count, clock)
    with pytest.raises(ConfigError, match="channelmem rebucket 4"):
        await spread(redis, settings, 3)
    await spread(redis, settings, 4)
    await (await opened(redis, settings, 4, clock)).close()


async def test_a_start_with_another_number_names_the_command(redis: Redis, settings: Settings, clock: Clock) -> None:
    await (await opened(redis, settings, 1, clock)).close()
    with pytest.raises(IndexMismatchError, match="CHANNELMEM_BUCKETS=1, or run: channelmem rebucket 7"):
        await opened(redis, settings, 7, clock)


async def test_without_a_memory_there_is_nothing_to_move(redis: Redis, settings: Settings) -> None:
    with pytest.raises(ConfigError, match="nothing to move"):
        await spread(redis, settings, 2)


async def test_vectors_follow_where_versions_differ(redis: Redis, settings: Settings, clock: Clock) -> None:
    store = await opened(redis, settings, 2, clock)
    await store.add([message(1, guild_id=guild) for guild in GUILDS[:2]])
    await redis.hset(store.buckets.keys(1).one("meta"), "version", "2")  # as after a reindex of the other one alone
    for guild, field in zip(GUILDS, ("vec1", "vec2"), strict=False):
        await redis.hset(store.buckets.guild_keys(guild).message(guild, message(1).channel_id, 1), field, b"\0" * 64)
    await store.close()
    await spread(redis, settings, 1)
    store = await opened(redis, settings, 1, clock)
    for guild in GUILDS[:2]:
        assert await redis.hexists(store.buckets.keys(0).message(guild, message(1).channel_id, 1), "vec1")
    await store.close()


async def test_back_fill_resumes_where_it_was(redis: Redis, settings: Settings, clock: Clock) -> None:
    store = await opened(redis, settings, 2, clock)
    await Bookmarks(store.buckets).note(GUILDS[5], Gap(7, 90, 80))
    await store.close()
    await spread(redis, settings, 8)
    store = await opened(redis, settings, 8, clock)
    assert await Bookmarks(store.buckets).open(GUILDS[5]) == [Gap(7, 90, 80)]
    await store.close()


async def test_other_processes_are_noticed(redis: Redis, settings: Settings) -> None:
    assert settings.redis_url is not None
    own = connect(settings.redis_url.get_secret_value(), settings, NAME)
    await redis.hgetall(f"{settings.key_prefix}:{{0}}:meta")
    assert await others_there(own) is True
    await own.aclose()


def test_the_command_refuses_company_and_does_its_work_alone(own_server: Any, tmp_path: Path) -> None:
    settings = make_settings(own_server.url, tmp_path)
    env = {"REDIS_URL": own_server.url, "CHANNELMEM_DATA_DIR": str(tmp_path)}

    async def store_some() -> None:
        redis = connect(own_server.url, settings)
        store = await open_store(redis, settings, Clock())
        await store.add([message(1, guild_id=guild) for guild in GUILDS])
        refused = await asyncio.to_thread(CliRunner().invoke, app, ["rebucket", "4"], env=env)
        assert isinstance(refused.exception, ConfigError)
        assert "Other processes use this memory" in str(refused.exception)
        await store.close()
        await redis.aclose()

    asyncio.run(store_some())
    done = CliRunner().invoke(app, ["rebucket", "4"], env=env)
    assert done.exit_code == 0, done.output
    assert "Moved 9 messages; the memory now has 4 bucket(s)." in done.output
    assert "CHANNELMEM_BUCKETS=4" in done.output
