"""How Redis is spoken to: packed commands, which errors pass by themselves, and scripts after a restart."""

from __future__ import annotations

from collections.abc import Awaitable
from pathlib import Path

import pytest
from conftest import OwnServer, make_settings
from redis import exceptions as redis_errors
from redis.asyncio import Redis
from redis.asyncio.connection import Connection, SSLConnection, UnixDomainSocketConnection

from channelmem.errors import DamagedDataError, RedisUnavailableError
from channelmem.settings import Settings
from channelmem.store.keys import keys_of
from channelmem.store.redis import answered, command, connect, is_full, is_temporary, reads, run_in_all, run_script

TEMPORARY = [
    redis_errors.OutOfMemoryError("command not allowed when used memory > 'maxmemory'."),
    redis_errors.ReadOnlyError("You can't write against a read only replica."),
    redis_errors.NoPermissionError("this user has no permissions to run the 'xadd' command"),
    redis_errors.ResponseError("MISCONF Redis is configured to save RDB snapshots"),
    redis_errors.ResponseError("LOADING Redis is loading the dataset in memory"),
    redis_errors.ResponseError("Error running script (call to f_5f6c): @user_script:9: -OOM command not allowed"),
    RedisUnavailableError("Redis does not answer"),
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
    redis_errors.ResponseError("value is not a valid float script: 5f6c, on @user_script:163."),
    redis_errors.ResponseError("WRONGTYPE Operation against a key holding the wrong kind of value"),
    redis_errors.ResponseError("a message that mentions OOM and LOADING"),
    redis_errors.ResponseError("Command # 1 (SET BUSY MISCONF) of pipeline caused error: ('WRONGTYPE of a key',)"),
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
    assert is_temporary(error)


@pytest.mark.parametrize("error", PERMANENT, ids=str)
def test_what_redis_would_reject_again_is_permanent(error: Exception) -> None:
    assert not is_temporary(error)
    assert not is_full(error)


def test_a_full_redis_is_recognised_behind_our_own_error() -> None:
    ours = RedisUnavailableError("Redis rejects this for now")
    ours.__cause__ = TEMPORARY[0]
    assert is_full(ours)
    assert is_full(TEMPORARY[5])
    assert not is_full(TEMPORARY[1])
    assert not is_full(None)


@pytest.mark.parametrize(
    "error", [redis_errors.ConnectionError(), redis_errors.TimeoutError(), OSError(), *TEMPORARY[:5]], ids=repr
)
async def test_an_answer_that_may_come_later_is_one_error_of_ours(error: Exception) -> None:
    with pytest.raises(RedisUnavailableError):
        await answered(_failing(error))


async def test_an_answer_that_stays_wrong_is_told_as_it_is() -> None:
    with pytest.raises(redis_errors.ResponseError, match="mentions OOM"):
        await answered(_failing(PERMANENT[2]))


@pytest.mark.parametrize(
    "error",
    [
        PERMANENT[0],
        PERMANENT[1],
        PERMANENT[3],
        redis_errors.ResponseError("ERR user_script:7: attempt to compare nil with number script: 5f6c, on line 7."),
        redis_errors.ResponseError("Existing key has wrong Redis type"),
    ],
    ids=repr,
)
async def test_what_redis_says_of_damaged_keys_is_one_error_that_waiting_does_not_cure(error: Exception) -> None:
    with pytest.raises(DamagedDataError) as raised:
        await answered(_failing(error))
    assert not is_temporary(raised.value)
    assert str(error) not in str(raised.value)


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


def _failing(error: Exception) -> Awaitable[None]:
    async def fail() -> None:
        raise error

    return fail()


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
        await answered(command(redis, "SADD", "a", "member"))
    both = [keys_of("t", bucket) for bucket in (0, 1)]
    await run_in_all(redis, "decide", both, ["1.0", "60", "out", "member"])
    for keys in both:
        assert await redis.smembers(keys.one("optout")) == {b"member"}
    await redis.aclose()
