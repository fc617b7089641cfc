"""Runs one process of a history.

python -m scripts.torturing.live DATA_DIR    steps on stdin, replies on stdout
"""

from __future__ import annotations

import asyncio
import base64
import logging
import os
import pickle
import sys
from pathlib import Path
from typing import Any

from pydantic import SecretStr

from channelmem.settings import Settings
from channelmem.types import Outcome
from scripts.torturing.actor import settings_for
from scripts.torturing.remote import acting_anywhere
from scripts.torturing.steps import Reply, Step

URL, TOKEN = "TORTURED_SERVICE", "TORTURED_SERVICE_TOKEN"


def packed(thing: Step | Reply) -> bytes:
    return base64.b64encode(pickle.dumps(thing)) + b"\n"


def unpacked(line: bytes) -> Any:
    return pickle.loads(base64.b64decode(line))  # noqa: S301  (from our own process)


async def serve(settings: Settings) -> None:
    lines = asyncio.StreamReader(limit=1 << 26)
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), sys.stdin)
    async with acting_anywhere(settings) as actor:
        sys.stdout.buffer.write(packed(Reply(Outcome.STORED)))  # it is ready
        sys.stdout.buffer.flush()
        while line := await lines.readline():
            sys.stdout.buffer.write(packed(await actor.do(unpacked(line))))
            sys.stdout.buffer.flush()


def on_service() -> dict[str, Any]:
    url = os.environ.get(URL)
    return {"service_url": url, "service_token": SecretStr(os.environ[TOKEN])} if url else {}


if __name__ == "__main__":
    logging.basicConfig(level=logging.WARNING)
    asyncio.run(serve(settings_for(Path(sys.argv[1]), **on_service())))
