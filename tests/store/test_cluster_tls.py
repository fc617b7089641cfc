"""A cluster that speaks TLS: every node is reached by TLS, and a certificate that nobody vouches for is refused.

The packaged server has no TLS, so each node stands behind a proxy that has, and names the proxy's port as its own.
"""

from __future__ import annotations

import asyncio
import datetime as dt
import ipaddress
import ssl
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path

import pytest
from conftest import Clock, make_settings, message, open_store
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from waiting import until_true

from channelmem.errors import RedisUnavailableError
from channelmem.server.check import check_server
from channelmem.store.redis import connect
from channelmem.types import Outcome
from scripts.cluster import Cluster, Node, start

pytestmark = pytest.mark.process

GUILDS = [number << 22 for number in range(1, 7)]


def write_certificate(path: Path) -> None:
    """A certificate for this machine that vouches for itself, with its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "127.0.0.1")])
    address = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
    certificate = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(dt.datetime(2020, 1, 1, tzinfo=dt.UTC))
        .not_valid_after(dt.datetime(2099, 1, 1, tzinfo=dt.UTC))
        .add_extension(address, critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    encoding, plain = serialization.Encoding.PEM, serialization.NoEncryption()
    path.write_bytes(
        key.private_bytes(encoding, serialization.PrivateFormat.PKCS8, plain) + certificate.public_bytes(encoding)
    )


@asynccontextmanager
async def proxy(node: Node, certificate: Path) -> AsyncIterator[int]:
    """A port that speaks TLS for a node."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)

    async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError):
            while data := await reader.read(65_536):
                writer.write(data)
                await writer.drain()
        writer.close()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        inner_reader, inner_writer = await asyncio.open_connection("127.0.0.1", node.port)
        await asyncio.gather(pump(reader, inner_writer), pump(inner_reader, writer))

    async with await asyncio.start_server(serve, "127.0.0.1", 0, ssl=context) as server:
        yield server.sockets[0].getsockname()[1]


@asynccontextmanager
async def tls_cluster(cluster: Cluster, certificate: Path) -> AsyncIterator[list[int]]:
    """The ports by which the nodes name each other."""
    async with AsyncExitStack() as stack:
        ports = [await stack.enter_async_context(proxy(node, certificate)) for node in cluster.nodes]
        for node, port in zip(cluster.nodes, ports, strict=True):
            cluster.ask(node, "CONFIG", "SET", "cluster-announce-port", port)
        for node in cluster.nodes:
            await until_true(lambda one=node: _named(cluster, one) == set(ports))  # type: ignore[misc]
        yield ports


def _named(cluster: Cluster, node: Node) -> set[int]:
    return {int(master[1]) for _, _, master, *_ in cluster.ask(node, "CLUSTER", "SLOTS")}


async def test_every_node_is_reached_by_tls(tmp_path: Path) -> None:
    certificate = tmp_path / "certificate.pem"
    write_certificate(certificate)
    cluster = await asyncio.to_thread(start, tmp_path / "nodes", replicas=0)
    try:
        async with tls_cluster(cluster, certificate) as ports:
            bare = f"rediss+cluster://:{cluster.password}@127.0.0.1:{ports[0]}"
            url = f"{bare}/?ssl_ca_certs={certificate}"
            assert (await asyncio.to_thread(check_server, url)).search_version >= "2.10"
            with pytest.raises(RedisUnavailableError, match="TLS handshake") as error:
                await asyncio.to_thread(check_server, bare)
            assert cluster.password not in str(error.value)
            await _remembers(url, tmp_path)
    finally:
        await asyncio.to_thread(cluster.stop)


async def _remembers(url: str, folder: Path) -> None:
    settings = make_settings(url, folder)
    redis = connect(url, settings)
    store = await open_store(redis, settings, Clock())
    assert await store.add([message(1, guild_id=guild) for guild in GUILDS]) == [Outcome.STORED] * len(GUILDS)
    assert await store.pending() == len(GUILDS)
    await store.close()
    await redis.aclose()
