"""A language model on loopback: OpenAI's chat completions and Anthropic's messages, over real HTTP.

A test says what the next answers are (`say`, `call`, `status` ...); the server gives them in the format of whichever
address is asked, streamed if the request wants that, and keeps the requests. The last answer is given again and again.
"""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from aiohttp import web

from channelmem.durations import DAY_S
from channelmem.llm.spend import Spend

INPUT_TOKENS, OUTPUT_TOKENS = 120, 30


@dataclass(frozen=True)
class Reply:
    """One answer of the model."""

    text: str = ""
    calls: tuple[str, ...] = ()
    """Arguments of tool calls, as JSON text."""
    status: int = 200
    gate: asyncio.Event | None = None
    """The answer waits until the event is set."""
    raw: bytes | None = None
    """Sent as it is instead of anything sensible."""
    breaks: bool = False
    """The connection is cut in the middle of the text."""
    finishes: bool = True
    """Whether a stream says why it ends."""
    piece: int = 0
    """Streamed in pieces of so many characters instead of words."""
    usage: bool = True
    headers: Mapping[str, str] = field(default_factory=dict)


def say(text: str, **changes: Any) -> Reply:
    return replace(Reply(text), **changes)


def call(*arguments: object, text: str = "") -> Reply:
    return Reply(text, tuple(one if isinstance(one, str) else json.dumps(one) for one in arguments))


def status(code: int) -> Reply:
    # The SDKs wait as long as they are told to, which keeps the tests quick.
    return Reply(status=code, headers={"retry-after-ms": "10"})


@dataclass
class Request:
    """What was asked."""

    path: str
    headers: dict[str, str]
    """By their names in small letters."""
    body: dict[str, Any]

    @property
    def is_anthropic(self) -> bool:
        return self.path.endswith("/messages")

    @property
    def key(self) -> str:
        """SDKs of the same provider send it under one or the other name."""
        return self.headers.get("x-api-key", "") + self.headers.get("authorization", "")

    @property
    def system(self) -> str:
        """The instructions."""
        if self.is_anthropic:
            given = self.body.get("system", "")
            return given if isinstance(given, str) else "".join(part["text"] for part in given)
        return "".join(one["content"] for one in self.body["messages"] if one["role"] in {"system", "developer"})

    @property
    def user(self) -> str:
        """The first user's message."""
        content = next(one["content"] for one in self.body["messages"] if one["role"] == "user")
        return content if isinstance(content, str) else "".join(part["text"] for part in content if "text" in part)

    @property
    def pictures(self) -> list[tuple[str, bytes]]:
        """Type and content of the images in it."""
        parts = [part for one in self.body["messages"] for part in _parts(one["content"])]
        if self.is_anthropic:
            sources = [part["source"] for part in parts if part["type"] == "image"]
            return [(one["media_type"], base64.b64decode(one["data"])) for one in sources]
        urls = [part["image_url"]["url"] for part in parts if part["type"] == "image_url"]
        split = [url.removeprefix("data:").partition(";base64,") for url in urls]
        return [(kind, base64.b64decode(data)) for kind, _, data in split]

    @property
    def results(self) -> list[str]:
        """What tools returned."""
        if not self.is_anthropic:
            return [one["content"] for one in self.body["messages"] if one["role"] == "tool"]
        parts = [part for one in self.body["messages"] if one["role"] == "user" for part in _parts(one["content"])]
        return [_text(part["content"]) for part in parts if part["type"] == "tool_result"]

    @property
    def tools(self) -> list[str]:
        named = [tool.get("function", tool) for tool in self.body.get("tools", [])]
        return [tool["name"] for tool in named]

    @property
    def tool_choice(self) -> str | None:
        choice = self.body.get("tool_choice")
        return choice["type"] if isinstance(choice, dict) else choice


def _parts(content: Any) -> list[dict[str, Any]]:
    return [] if isinstance(content, str) else list(content)


def _text(content: Any) -> str:
    return content if isinstance(content, str) else "".join(part["text"] for part in content)


class LlmServer:
    def __init__(self) -> None:
        self.replies: list[Reply] = [say("Hello.")]
        self.requests: list[Request] = []
        self.url = ""
        self.sent = 0
        """Events that were streamed."""

    def will(self, *replies: Reply) -> None:
        self.replies = list(replies)

    @property
    def openai_url(self) -> str:
        return f"{self.url}/v1"

    async def answer(self, http: web.Request) -> web.StreamResponse:
        request = Request(http.path, {name.lower(): value for name, value in http.headers.items()}, await http.json())
        self.requests.append(request)
        reply = self.replies.pop(0) if len(self.replies) > 1 else self.replies[0]
        if reply.gate is not None:
            await reply.gate.wait()
        streamed = bool(request.body.get("stream"))
        if reply.raw is not None:
            return web.Response(body=reply.raw, content_type="text/event-stream" if streamed else "application/json")
        if reply.status != 200:
            # An indiscreet server: it says the key.
            error = {"type": "error", "error": {"type": "some_error", "message": f"no: {request.key}"}}
            return web.json_response(error, status=reply.status, headers=reply.headers)
        if streamed:
            return await self._stream(http, reply, _anthropic_events if request.is_anthropic else _openai_events)
        if reply.breaks:
            _cut(http)
        return web.json_response(_anthropic(reply) if request.is_anthropic else _openai(reply))

    async def _stream(
        self, http: web.Request, reply: Reply, events: Callable[[Reply], Iterator[bytes]]
    ) -> web.StreamResponse:
        response = web.StreamResponse(headers={"content-type": "text/event-stream"})
        await response.prepare(http)
        for event in events(reply):
            await response.write(event)
            self.sent += 1
            await asyncio.sleep(0)
        if reply.breaks:
            _cut(http)
        return response


def _cut(request: web.Request) -> None:
    assert request.transport is not None
    request.transport.abort()


class Ledger:
    """What was spent, in one process (tests/memory/test_spending.py has the real one)."""

    def __init__(self) -> None:
        self.micros = 0

    async def reserve(self, day: int, place: tuple[int, int], micros: int, cap_micros: int) -> bool:
        if self.micros + micros > cap_micros:
            return False
        self.micros += micros
        return True

    async def settle(self, day: int, place: tuple[int, int], change_micros: int) -> None:
        self.micros += change_micros

    async def total(self, day: int) -> int:
        return self.micros


@asynccontextmanager
async def llm_server() -> AsyncIterator[LlmServer]:
    server = LlmServer()
    app = web.Application(client_max_size=30_000_000)
    app.router.add_post("/v1/chat/completions", server.answer)
    app.router.add_post("/v1/messages", server.answer)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    server.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    yield server
    await runner.cleanup()


# --- OpenAI ---


def _openai(reply: Reply) -> dict[str, Any]:
    calls = [
        {"id": f"call_{at}", "type": "function", "function": {"name": "get_channel_context", "arguments": arguments}}
        for at, arguments in enumerate(reply.calls)
    ]
    message = {"role": "assistant", "content": reply.text or None, **({"tool_calls": calls} if calls else {})}
    finish = "tool_calls" if calls else "stop"
    made = {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1_800_000_000,
        "model": "loopback",
        "choices": [{"index": 0, "message": message, "finish_reason": finish}],
    }
    return made | ({"usage": _openai_usage()} if reply.usage else {})


def _openai_usage() -> dict[str, int]:
    total = INPUT_TOKENS + OUTPUT_TOKENS
    return {"prompt_tokens": INPUT_TOKENS, "completion_tokens": OUTPUT_TOKENS, "total_tokens": total}


def _openai_events(reply: Reply) -> Iterator[bytes]:
    def chunk(delta: dict[str, Any], finish: str | None = None) -> bytes:
        choices = [{"index": 0, "delta": delta, "finish_reason": finish}]
        return _openai_chunk({"choices": choices})

    yield chunk({"role": "assistant", "content": ""})
    for word in _words(reply):
        yield chunk({"content": word})
    if reply.breaks:
        return
    for at, arguments in enumerate(reply.calls):
        head = {"index": at, "id": f"call_{at}", "type": "function"}
        yield chunk({"tool_calls": [{**head, "function": {"name": "get_channel_context", "arguments": ""}}]})
        yield chunk({"tool_calls": [{"index": at, "function": {"arguments": arguments}}]})
    if reply.finishes:
        yield chunk({}, "tool_calls" if reply.calls else "stop")
    if reply.usage:
        yield _openai_chunk({"choices": [], "usage": _openai_usage()})
    yield b"data: [DONE]\n\n"


def _openai_chunk(content: dict[str, Any]) -> bytes:
    frame = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1_800_000_000, "model": "loopback"}
    return f"data: {json.dumps(frame | content)}\n\n".encode()


def _words(reply: Reply) -> list[str]:
    words = _pieces(reply)
    return words[: len(words) // 2 + 1] if reply.breaks else words


def _pieces(reply: Reply) -> list[str]:
    if reply.piece:
        return [reply.text[at : at + reply.piece] for at in range(0, len(reply.text), reply.piece)]
    words = [f"{word} " for word in reply.text.split(" ")] if reply.text else []
    return [*words[:-1], words[-1].rstrip(" ")] if words else []


# --- Anthropic ---


def _anthropic(reply: Reply) -> dict[str, Any]:
    content: list[dict[str, Any]] = [{"type": "text", "text": reply.text}] if reply.text else []
    for at, arguments in enumerate(reply.calls):
        given = {"id": f"toolu_{at}", "name": "get_channel_context", "input": json.loads(arguments)}
        content.append({"type": "tool_use", **given})
    return _anthropic_frame(reply) | {"content": content, "stop_reason": "tool_use" if reply.calls else "end_turn"}


def _anthropic_frame(reply: Reply) -> dict[str, Any]:
    used = {"input_tokens": INPUT_TOKENS if reply.usage else 0, "output_tokens": OUTPUT_TOKENS if reply.usage else 0}
    frame = {"id": "msg_1", "type": "message", "role": "assistant", "model": "loopback", "content": []}
    return {**frame, "stop_reason": None, "stop_sequence": None, "usage": used}


def _anthropic_events(reply: Reply) -> Iterator[bytes]:
    yield _event("message_start", message=_anthropic_frame(reply))
    at = 0
    if reply.text:
        yield _event("content_block_start", index=at, content_block={"type": "text", "text": ""})
        for word in _words(reply):
            yield _event("content_block_delta", index=at, delta={"type": "text_delta", "text": word})
        if reply.breaks:
            return
        yield _event("content_block_stop", index=at)
        at += 1
    for number, arguments in enumerate(reply.calls, start=at):
        block = {"type": "tool_use", "id": f"toolu_{number}", "name": "get_channel_context", "input": {}}
        yield _event("content_block_start", index=number, content_block=block)
        delta = {"type": "input_json_delta", "partial_json": arguments}
        yield _event("content_block_delta", index=number, delta=delta)
        yield _event("content_block_stop", index=number)
    stop = {"stop_reason": "tool_use" if reply.calls else "end_turn", "stop_sequence": None}
    if not reply.finishes:
        return
    yield _event("message_delta", delta=stop, usage={"output_tokens": OUTPUT_TOKENS if reply.usage else 0})
    yield _event("message_stop")


def _event(kind: str, **content: object) -> bytes:
    return f"event: {kind}\ndata: {json.dumps({'type': kind, **content})}\n\n".encode()


async def used_usd(spend: Spend) -> float:
    """Spent or reserved today."""
    ledger: Any = spend._ledger
    return float(await ledger.total(int(spend._clock() // DAY_S))) / 1e6
