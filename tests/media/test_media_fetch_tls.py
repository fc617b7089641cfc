"""A pinned address does not weaken TLS: the certificate must still be that of the host."""

from __future__ import annotations

import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest
from media_server import media_server, picture

from channelmem.media.fetch import Fetcher
from channelmem.media.kinds import UnreadableError

x509: Any = pytest.importorskip("cryptography.x509", reason="certificates are made with the package cryptography")
hashes: Any = pytest.importorskip("cryptography.hazmat.primitives.hashes")
serialization: Any = pytest.importorskip("cryptography.hazmat.primitives.serialization")
ec: Any = pytest.importorskip("cryptography.hazmat.primitives.asymmetric.ec")

LIMIT = 1_000_000


def signed(name: str, folder: Path) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """A server's and a client's TLS for a host of this name, which signs for itself."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(x509.oid.NameOID.COMMON_NAME, name)])
    start = datetime(2020, 1, 1, tzinfo=UTC)
    builder = x509.CertificateBuilder(subject, subject, key.public_key(), 1, start, start + timedelta(days=36_500))
    builder = builder.add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
    made = builder.sign(key, hashes.SHA256())
    plain = serialization.NoEncryption()
    private = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, plain)
    file = folder / "both.pem"
    file.write_bytes(private + made.public_bytes(serialization.Encoding.PEM))
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(file)
    return server, ssl.create_default_context(cafile=str(file))


@pytest.mark.parametrize(("name", "trusted"), [("media.local", True), ("evil.local", False)])
async def test_the_certificate_must_be_the_hosts_although_the_connection_goes_to_an_address(
    tmp_path: Path, name: str, trusted: bool
) -> None:
    async def home(host: str, port: int) -> list[str]:
        return ["127.0.0.1"]

    server, client = signed(name, tmp_path)
    async with media_server(server) as cdn:
        cdn.serves(1, "cat.png", picture())
        port = cdn.host.partition(":")[2]
        fetcher = Fetcher(["media.local"], resolve=home)
        await fetcher._client.aclose()
        fetcher._client = httpx.AsyncClient(verify=client, trust_env=False)
        url = f"https://media.local:{port}/1/cat.png"
        if trusted:
            assert await fetcher.fetch(url, LIMIT) == picture()
        else:
            with pytest.raises(UnreadableError, match="can't be reached"):
                await fetcher.fetch(url, LIMIT)
            assert cdn.fetched == {}
        await fetcher.close()
