"""Strangers' files are decoded in a process that may end: by its limits, by a deadline, by a fault."""

from __future__ import annotations

import asyncio
import io
import os
import random
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import psutil
import pytest
from hostile_media import many_scans, playlist, silent_flac
from media_server import picture
from PIL import Image
from waiting import LIMIT_S, until_true

from channelmem.media import decoder as limits
from channelmem.media.confined import checked
from channelmem.media.decoder import BROKEN, MOST_WAITING, TOO_SLOW, Decoder, Reply
from channelmem.media.kinds import UnreadableError
from channelmem.media.reader import TOO_MANY

pytestmark = [pytest.mark.process, pytest.mark.skipif(sys.platform == "win32", reason="signals and limits of Unix")]

DATA = Path(__file__).parents[1] / "data"
SPEECH = (DATA / "voice.ogg").read_bytes()
SMALL, LARGE = picture(), picture(size=(4_000, 3_000), kind="JPEG")


@pytest.fixture
async def decoder() -> AsyncIterator[Decoder]:
    made = Decoder()
    yield made
    await made.close()


def process(decoder: Decoder) -> psutil.Process:
    assert decoder._process is not None
    return psutil.Process(decoder._process.pid)


def oom_score(child: psutil.Process) -> int:
    return int(Path(f"/proc/{child.pid}/oom_score_adj").read_text())


async def refused(decoder: Decoder, content: bytes) -> UnreadableError:
    with pytest.raises(UnreadableError) as caught:
        await decoder.picture(content)
    return caught.value


async def test_a_caller_that_goes_away_during_a_large_reply_blocks_nobody(decoder: Decoder) -> None:
    noise = io.BytesIO()
    Image.frombytes("RGB", (1024, 1024), random.Random(1).randbytes(3 * 1024 * 1024)).save(noise, "PNG")  # noqa: S311  (noise)
    for _ in range(3):
        asked = asyncio.create_task(decoder.pixels(noise.getvalue()))
        await until_true(lambda: received(decoder) > 100_000)
        asked.cancel()
        async with asyncio.timeout(LIMIT_S):
            with pytest.raises(asyncio.CancelledError):
                await asked
    assert await decoder.picture(SMALL) == checked(SMALL)


def received(decoder: Decoder) -> int:
    """Bytes of a reply that nobody has taken yet."""
    if decoder._process is None or decoder._process.stdout is None:
        return 0
    return len(decoder._process.stdout._buffer)  # type: ignore[attr-defined]


async def test_a_reply_of_another_size_than_its_picture_is_not_believed(
    decoder: Decoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def lies(*_: object) -> tuple[Reply, bytes]:
        return Reply(size=3, width=10, height=10), b"abc"

    monkeypatch.setattr(limits, "_exchanged", lies)
    with pytest.raises(UnreadableError) as caught:
        await decoder.pixels(SMALL)
    assert caught.value.lasting
    with pytest.raises(UnreadableError):
        await decoder.sound(SPEECH, 10.0)


async def test_it_starts_with_the_first_file_and_stays(decoder: Decoder) -> None:
    assert decoder._process is None
    assert await decoder.picture(SMALL) == checked(SMALL)
    first = process(decoder).pid
    assert (await decoder.pixels(picture("red", (2, 1)))).content == b"\xff\0\0" * 2
    assert (await decoder.measure(SPEECH, 300.0)).seconds == pytest.approx(4.2, abs=0.1)
    assert len(await decoder.sound(SPEECH, 300.0)) / 32_000 == pytest.approx(4.2, abs=0.1)
    assert process(decoder).pid == first


async def test_what_is_refused_costs_no_process(decoder: Decoder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(DATA)
    assert "not a picture" in str(await refused(decoder, b"<html></html>"))
    first = process(decoder).pid
    for content in (playlist("voice.ogg"), silent_flac(1, 100)):
        with pytest.raises(UnreadableError, match="not a recording"):
            await decoder.sound(content, 300.0)
    assert "broken" in str(await refused(decoder, many_scans(100)))
    assert process(decoder).pid == first


@pytest.mark.skipif(sys.platform != "linux", reason="limits of another process are read on Linux")
async def test_it_has_no_secrets_and_may_open_nothing(decoder: Decoder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CHANNELMEM_DISCORD_TOKEN", "secret")
    await decoder.picture(SMALL)
    child = process(decoder)
    assert "secret" not in str(child.environ())
    assert child.num_fds() == 3
    assert child.rlimit(psutil.RLIMIT_NOFILE) == (0, 0), "nor may it take the number of a file that it closed"
    assert child.rlimit(psutil.RLIMIT_FSIZE) == (0, 0)
    assert oom_score(child) == 1000, "the first to go"
    assert child.rlimit(psutil.RLIMIT_AS)[0] < 2_000_000_000


@pytest.mark.skipif(sys.platform != "linux", reason="limits of another process are set on Linux")
async def test_a_picture_that_takes_too_much_memory_takes_nobody_along(decoder: Decoder) -> None:
    await decoder.picture(SMALL)
    child = process(decoder)
    room = child.memory_info().vms + 30_000_000
    child.rlimit(psutil.RLIMIT_AS, (room, room))
    error = await refused(decoder, LARGE)
    assert (str(error), error.lasting) == (BROKEN, True)
    assert not child.is_running()
    assert (await decoder.picture(LARGE)).width == 1024, "with the usual limit there is room"


async def test_a_picture_that_takes_too_much_time_takes_nobody_along(
    decoder: Decoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    await decoder.picture(SMALL)
    child = process(decoder)
    monkeypatch.setattr(limits, "PICTURE_CPU_S", 0.01)
    monkeypatch.setattr(limits, "PATIENCE", 100 * LIMIT_S)
    error = await refused(decoder, LARGE)
    assert (str(error), error.lasting) == (TOO_SLOW, True)
    assert not child.is_running()
    assert await decoder.picture(SMALL)


async def test_a_process_that_does_not_answer_is_replaced(decoder: Decoder, monkeypatch: pytest.MonkeyPatch) -> None:
    await decoder.picture(SMALL)
    child = process(decoder)
    child.suspend()
    monkeypatch.setattr(limits, "PATIENCE", 0.01)
    error = await refused(decoder, SMALL)
    assert (str(error), error.lasting) == (TOO_SLOW, False)
    assert not child.is_running()
    monkeypatch.undo()
    assert await decoder.picture(SMALL)


async def test_a_process_that_was_killed_while_idle_is_not_the_files_fault(decoder: Decoder) -> None:
    await decoder.picture(SMALL)
    process(decoder).kill()
    await until_true(lambda: decoder._process is not None and decoder._process.returncode is not None)
    assert await decoder.picture(SMALL)


async def test_a_process_that_was_killed_at_work_may_succeed_the_next_time(decoder: Decoder) -> None:
    await decoder.picture(SMALL)
    child = process(decoder)
    child.suspend()
    reading = asyncio.create_task(refused(decoder, SMALL))
    await until_true(decoder._lane.locked)
    child.kill()
    assert not (await reading).lasting
    assert await decoder.picture(SMALL)


async def test_whoever_goes_away_takes_the_work_along(decoder: Decoder) -> None:
    await decoder.picture(SMALL)
    child = process(decoder)
    child.suspend()
    reading = asyncio.create_task(decoder.picture(SMALL))
    await until_true(decoder._lane.locked)
    reading.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reading
    assert not child.is_running()
    assert await decoder.picture(SMALL)


async def test_only_so_many_may_wait(decoder: Decoder) -> None:
    async with decoder._lane:
        waiting = [asyncio.create_task(decoder.picture(SMALL)) for _ in range(MOST_WAITING + 1)]
        await until_true(lambda: decoder._waiting == MOST_WAITING + 1)
        error = await refused(decoder, SMALL)
        assert (str(error), error.lasting) == (TOO_MANY, False)
    assert all(await asyncio.gather(*waiting))


async def test_a_reply_that_is_too_long_is_not_taken(decoder: Decoder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "MOST_PICTURE", len(SMALL) - 1)
    assert str(await refused(decoder, SMALL)) == BROKEN
    monkeypatch.undo()
    assert await decoder.picture(SMALL)


@pytest.mark.parametrize(
    "told",
    ['{"size": -1}', '{"size": 1, "seconds": -60}', '{"size": 1, "seconds": NaN}', '{"size": 1, "width": 100000}',
     '{"size": 1, "media_type": "text/html"}', '{"size": 1, "kind": "../../etc"}', '["size"]', "", "a traceback"],
)  # fmt: skip
def test_what_a_process_that_was_taken_over_says_is_checked(told: str) -> None:
    with pytest.raises(ValueError, match="Reply"):
        Reply.model_validate_json(told)


async def test_it_ends_with_its_decoder(decoder: Decoder) -> None:
    await decoder.picture(SMALL)
    child = process(decoder)
    await decoder.close()
    assert not child.is_running()


def test_it_ends_when_whoever_started_it_is_gone() -> None:
    command = [sys.executable, "-m", "channelmem.media.confined"]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, env=dict(os.environ), timeout=LIMIT_S, check=False)
    assert done.returncode == 0
