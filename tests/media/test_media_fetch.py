"""Fetching what people post: from allowed hosts only, within limits, to the address that was checked."""

from __future__ import annotations

from collections.abc import AsyncIterator

import httpx
import pytest
from media_server import MediaServer, media_server, picture

from channelmem.media.fetch import Fetcher, GoneError
from channelmem.media.kinds import UnreadableError

PUBLIC = ["162.159.130.233"]
LIMIT = 1_000_000


@pytest.fixture
async def cdn() -> AsyncIterator[MediaServer]:
    async with media_server() as server:
        yield server


@pytest.fixture
async def fetcher(cdn: MediaServer) -> AsyncIterator[Fetcher]:
    made = Fetcher([cdn.host])
    yield made
    await made.close()


async def refused(fetcher: Fetcher, url: str) -> UnreadableError:
    with pytest.raises(UnreadableError) as caught:
        await fetcher.fetch(url, LIMIT)
    return caught.value


async def test_a_file_comes_byte_for_byte(cdn: MediaServer, fetcher: Fetcher) -> None:
    one = cdn.serves(1, "cat.png", picture(), "?ex=ff&hm=1")
    assert await fetcher.fetch(one.url, LIMIT) == picture()
    assert cdn.queries == ["ex=ff&hm=1"]


@pytest.mark.parametrize(
    "url",
    [
        "https://evil.example/cat.png",
        "http://cdn.discordapp.com/cat.png",
        "https://cdn.discordapp.com:8443/cat.png",
        "https://cdn.discordapp.com.evil.example/cat.png",
        "https://user:pw@cdn.discordapp.com/cat.png",
        "https://cdn.discordapp.com@evil.example/cat.png",
        "http://127.0.0.1/cat.png",
        "http://[::1]/cat.png",
        "http://169.254.169.254/latest/meta-data/",
        "file:///etc/passwd",
        "ftp://cdn.discordapp.com/cat.png",
        "https:///cat.png",
        "cat.png",
        "",
        "https://cdn.discordapp.com\x00/cat.png",
    ],
)
async def test_only_the_platforms_own_hosts_are_asked(url: str) -> None:
    async def never(host: str, port: int) -> list[str]:
        raise AssertionError(host)

    fetcher = Fetcher(resolve=never)
    assert (await refused(fetcher, url)).lasting
    await fetcher.close()


@pytest.mark.parametrize(
    "address",
    ["127.0.0.1", "10.1.2.3", "192.168.0.7", "169.254.169.254", "::1", "fe80::1", "fd00::1", "0.0.0.0", "100.64.0.1"],  # noqa: S104  (an address to refuse)
)
async def test_a_platform_host_that_resolves_to_a_private_address_is_not_asked(address: str) -> None:
    async def resolve(host: str, port: int) -> list[str]:
        return [*PUBLIC, address]

    fetcher = Fetcher(resolve=resolve)
    assert "private address" in str(await refused(fetcher, "https://cdn.discordapp.com/1/cat.png"))
    await fetcher.close()


async def test_the_connection_goes_to_the_address_that_was_checked() -> None:
    answers = [PUBLIC, ["127.0.0.1"]]

    async def rebinding(host: str, port: int) -> list[str]:
        return answers.pop(0)

    fetcher = Fetcher(resolve=rebinding)
    assert await fetcher._addresses(httpx.URL("https://cdn.discordapp.com/1/cat.png?ex=1")) == PUBLIC
    await fetcher.close()
    assert answers == [["127.0.0.1"]], "resolved once"


async def test_the_next_address_is_tried_where_one_cannot_be_reached(cdn: MediaServer) -> None:
    async def both(host: str, port: int) -> list[str]:
        return ["127.0.0.9", "127.0.0.1"]  # nobody listens at the first

    port = cdn.host.partition(":")[2]
    fetcher = Fetcher([f"media.local:{port}"], resolve=both)
    cdn.serves(1, "cat.png", picture())
    assert await fetcher.fetch(f"http://media.local:{port}/1/cat.png", LIMIT) == picture()
    assert cdn.hosts == [f"media.local:{port}"], "in the name of the host"
    await fetcher.close()


async def test_a_host_that_the_operator_names_may_be_private_and_plain_but_only_at_its_port(cdn: MediaServer) -> None:
    host, port = cdn.host.split(":")
    one = cdn.serves(1, "cat.png", picture())
    other = Fetcher([f"{host}:{int(port) + 1}"])
    assert "not allowed" in str(await refused(other, one.url))
    await other.close()
    whole = Fetcher([host])
    assert await whole.fetch(one.url, LIMIT) == picture()
    await whole.close()


async def test_a_redirect_leads_nowhere_else(cdn: MediaServer, fetcher: Fetcher) -> None:
    inside = cdn.serves(1, "cat.png", picture())
    cdn.redirects |= {"/in": inside.url, "/relative": "/1/cat.png", "/loop": "/loop"}
    cdn.redirects["/out"] = "http://127.0.0.1:9/secret"
    cdn.redirects["/named"] = "https://evil.example/"
    assert await fetcher.fetch(cdn.url("/in"), LIMIT) == picture()
    assert await fetcher.fetch(cdn.url("/relative"), LIMIT) == picture()
    for path in ("/out", "/named", "/loop"):
        assert (await refused(fetcher, cdn.url(path))).lasting
    assert cdn.fetched["/loop"] == 3


async def test_an_endless_file_is_cut_off_at_the_limit(cdn: MediaServer, fetcher: Fetcher) -> None:
    cdn.endless.add("/endless.png")
    assert "larger than" in str(await refused(fetcher, cdn.url("/endless.png")))
    assert cdn.sent["/endless.png"] < 20 * LIMIT


async def test_a_file_that_says_it_is_too_large_is_not_read(cdn: MediaServer, fetcher: Fetcher) -> None:
    one = cdn.serves(1, "big.png", b"\0" * (LIMIT + 1))
    assert "larger than" in str(await refused(fetcher, one.url))


async def test_a_compressed_answer_is_refused_since_it_may_be_a_bomb(cdn: MediaServer, fetcher: Fetcher) -> None:
    one = cdn.serves(1, "bomb.png", b"\0" * 5_000)
    cdn.compressed.add("/1/bomb.png")
    assert "compressed" in str(await refused(fetcher, one.url))


@pytest.mark.parametrize(("status", "lasting"), [(404, True), (403, True), (410, True), (400, True), (204, True)])
@pytest.mark.parametrize("passing", [429, 500, 503, 408])
async def test_what_passes_is_told_from_what_lasts(
    cdn: MediaServer, fetcher: Fetcher, status: int, lasting: bool, passing: int
) -> None:
    cdn.statuses = {"/a": status, "/b": passing}
    assert (await refused(fetcher, cdn.url("/a"))).lasting is lasting
    error = await refused(fetcher, cdn.url("/b"))
    assert not error.lasting
    assert "secret" not in str(error)


async def test_a_file_that_is_gone_may_only_have_an_expired_link(cdn: MediaServer, fetcher: Fetcher) -> None:
    assert isinstance(await refused(fetcher, cdn.url("/nothing")), GoneError)


async def test_a_host_that_is_down_or_unknown_passes() -> None:
    async def nowhere(host: str, port: int) -> list[str]:
        raise OSError("no such host")

    unknown, down = Fetcher(resolve=nowhere), Fetcher(["127.0.0.1"])
    assert not (await refused(unknown, "https://cdn.discordapp.com/1/cat.png")).lasting
    assert not (await refused(down, "http://127.0.0.1:9/cat.png")).lasting
    await unknown.close()
    await down.close()
