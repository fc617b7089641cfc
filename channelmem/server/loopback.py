"""The embedded server's loopback port, for RedisInsight and redis-cli. In: a running server. Out: a redis:// URL.

channelmem itself uses the server's socket. A port is different: if the server crashes, another user of the machine may
take it over, and programs that reconnect would send the password there. So a port is open only on request, and its
password is a new one with each start of the server; the one for the socket is never sent to a port.
"""

from __future__ import annotations

import socket
from urllib.parse import quote

import redis

from channelmem.errors import ServerError
from channelmem.server.lease import Server

TRIES = 3  # another program may take a port between choosing and using it


def port_url(server: Server) -> str:
    """Opens the port, if it is not open yet, until the server stops."""
    with redis.Redis.from_url(server.url, protocol=2, decode_responses=True) as client:
        for _ in range(TRIES):
            # Port and password in one reply of the server that has them: after a crash, the state file is older.
            found = client.config_get("port", "requirepass")
            if int(found["port"]):
                return f"redis://:{quote(found['requirepass'], safe='')}@127.0.0.1:{found['port']}/0"
            _open(client)
    raise ServerError("The embedded server crashes again and again; check its server.log for the cause.")


def open_port(client: redis.Redis) -> int:
    """0 if none is open."""
    return int(client.config_get("port")["port"] or 0)


def _open(client: redis.Redis) -> None:
    why = ""
    for _ in range(TRIES):
        try:
            client.config_set("port", free_port())
        except redis.ResponseError as error:
            why = str(error)
        else:
            return
    raise ServerError(f"The embedded server cannot open a port ({why}); set CHANNELMEM_EMBEDDED_PORT and restart it.")


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
