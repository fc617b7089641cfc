"""How Redis is spoken to: packed commands, which errors pass by themselves, and scripts after a restart."""

from __future__ import annotations

from pathlib import Path

import pytest
from conftest import OwnServer, make_settings
from redis import exceptions as redis_errors
from redis.asyncio import Redis
from redis.asyncio.connection import Connection, SSLConnection, UnixDomainSocketConnection

from channelmem.errors import CommandRefusedError, DamagedDataError, RedisLoadingError, RedisUnavailableError
from channelmem.settings import Settings
from channelmem.store.keys import keys_of
from channelmem.store.redis import command, connect, is_full, reads, translated
from channelmem.store.scripts import run_in_all, run_script

TEMPORARY = [
    redis_errors.OutOfMemoryError("command not allowed when used memory > 'maxmemory'."),
    redis_errors.ReadOnlyError("You can't write against a read only replica."),
    redis_errors.NoPermissionError("this user has no permissions to run the 'xadd' command"),
    redis_errors.ResponseError("MISCONF Redis is configured to save RDB snapshots"),
    redis_errors.ResponseError("LOADING Redis is loading the dataset in memory"),
    redis_errors.ResponseError("Error running script (call to f_5f6c): @user_script:9: -OOM command not allowed"),
    redis_errors.ConnectionError(),
    redis_errors.TimeoutError(),
    OSError(),
    redis_errors.ResponseError("Command # 1 (SCARD a) of pipeline caused error: ('BUSY Redis is busy running',)"),
    redis_errors.ResponseError("Command # 1 (SADD a) of pipeline caused error: MISCONF Errors writing to the AOF"),
    # Of a cluster that is being changed or has lost a node.
    redis_errors.TryAgainError("Multiple keys request during rehashing of slot"),
    redis_errors.ClusterDownError("Hash slot not served"),
    redis_errors.MasterDownError("Link with MASTER is down and replica-serve-stale-data is set to 'no'."),
    redis_errors.MovedError("9842 127.0.0.1:6379"),
    redis_errors.AskError("9842 127.0.0.1:6379"),
    redis_errors.ResponseError("Command # 1 (EVALSHA 5f6c) of pipeline caused error: TRYAGAIN Multiple keys request"),
    redis_errors.ResponseError("Error running script (call to f_5f6c): @user_script:9: -MOVED 9842 127.0.0.1:6379"),
    redis_errors.ResponseError("Script attempted to access a non local key in a cluster node script: 5f6c, on line 9."),
    redis_errors.ResponseError("NOREPLICAS Not enough good replicas to write."),
]
PERMANENT = [
    redis_errors.ResponseError("a message that mentions OOM and LOADING"),
    redis_errors.ResponseError("Command # 1 (SET BUSY MISCONF) of pipeline caused error: ('unknown command',)"),
    redis_errors.DataError("Invalid input of type: 'NoneType'"),
]
DAMAGE = [
    redis_errors.ResponseError("value is not a valid float script: 5f6c, on @user_script:163."),
    redis_errors.ResponseError("WRONGTYPE Operation against a key holding the wrong kind of value"),
    redis_errors.ResponseError("Command # 1 (SET BUSY MISCONF) of pipeline caused error: ('WRONGTYPE of a key',)"),
    redis_errors.ResponseError("ERR user_script:7: attempt to compare nil with number script: 5f6c, on line 7."),
    redis_errors.ResponseError("Existing key has wrong Redis type"),
]


@pytest.mark.parametrize(
    ("url", "kind"),
    [
        ("redis://localhost/0", Connection),
        ("rediss://localhost/0", SSLConnection),
        ("unix:///tmp/redis.sock", UnixDomainSocketConnection),
    ],
)
def test_commands_are_packed_as_redis_py_packs_them(settings: Settings, url: str, kind: type[Connection]) -> None:
    connection = connect(url, settings).connection_pool.make_connection()  # type: ignore[no-untyped-call]
    assert isinstance(connection, kind)
    arguments = ("EVALSHA", "5f6c", 1, "cm:{0}:", 2**63, 1.5, "schön 🐢", b"\x00\xff", "")
    assert b"".join(connection.pack_command(*arguments)) == b"".join(Connection().pack_command(*arguments))


@pytest.mark.parametrize("error", TEMPORARY, ids=str)
def test_what_time_or_an_operator_cures_is_temporary(error: Exception) -> None:
    assert type(translated(error)) is RedisUnavailableError


@pytest.mark.parametrize("error", PERMANENT, ids=str)
def test_what_redis_would_reject_again_is_permanent(error: Exception) -> None:
    assert type(translated(error)) is CommandRefusedError
    assert not is_full(translated(error))


def test_a_full_redis_is_recognised_behind_our_own_error() -> None:
    assert is_full(translated(TEMPORARY[0]))
    assert is_full(TEMPORARY[5])
    assert not is_full(TEMPORARY[1])
    assert not is_full(None)


def test_a_redis_that_still_loads_says_so() -> None:
    assert isinstance(translated(redis_errors.BusyLoadingError("Redis is loading the dataset")), RedisLoadingError)


@pytest.mark.parametrize("error", DAMAGE, ids=repr)
def test_what_redis_says_of_damaged_keys_is_one_error_without_their_values(error: Exception) -> None:
    ours = translated(error)
    assert isinstance(ours, DamagedDataError)
    assert str(error) not in str(ours)


async def test_each_command_and_pipeline_raises_our_errors(redis: Redis, settings: Settings) -> None:
    key = keys_of(settings.key_prefix, 0).one("meta")
    await redis.set(key, "no hash")
    with pytest.raises(DamagedDataError):
        await redis.hgetall(key)
    with pytest.raises(CommandRefusedError, match="unknown"):
        await command(redis, "HGETEVERYTHING", key)
    for is_transaction in (True, False):
        pipe = redis.pipeline(transaction=is_transaction)
        pipe.get(key)
        pipe.hgetall(key)
        with pytest.raises(DamagedDataError):
            await pipe.execute()
    pipe = redis.pipeline(transaction=False)
    pipe.get(key)
    pipe.hgetall(key)
    value, error = await pipe.execute(raise_on_error=False)
    assert value == b"no hash"
    assert isinstance(error, DamagedDataError)


async def test_a_stored_value_that_cannot_be_read_is_the_same_and_the_log_does_not_repeat_it(
    caplog: pytest.LogCaptureFixture,
) -> None:
    @reads
    async def parsed(raw: str) -> int:
        return int(raw)

    with pytest.raises(DamagedDataError):
        await parsed("what Ann wrote")
    assert "ValueError in" in caplog.text
    assert "Ann" not in caplog.text


async def test_a_script_that_redis_has_forgotten_is_sent_again(own_server: OwnServer, tmp_path: Path) -> None:
    redis = connect(own_server.url, make_settings(own_server.url, tmp_path))
    for _ in range(2):
        await redis.script_flush()
        assert await run_script(redis, "known", keys_of("cm", 0), ["1c1", 5]) == []
        assert await run_script(redis, "known", keys_of("cm", 0), ["1c1", 5]) == []
    await redis.aclose()


async def test_a_small_decision_reaches_a_full_redis(own_server: OwnServer, tmp_path: Path) -> None:
    redis: Redis = connect(own_server.url, make_settings(own_server.url, tmp_path))
    await redis.config_set("maxmemory", 1)
    with pytest.raises(RedisUnavailableError):
        await command(redis, "SADD", "a", "member")
    both = [keys_of("t", bucket) for bucket in (0, 1)]
    await run_in_all(redis, "decide", both, ["1.0", "60", "out", "member"])
    for keys in both:
        assert await redis.smembers(keys.one("optout")) == {b"member"}
    await redis.aclose()
