"""What every request passes: tokens, scopes, request ids, limits of bodies, one shape of errors."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import httpx
import pytest
from clock import wall_now
from conftest import CHANNEL, GUILD, FakeEmbedder
from serving import Running, serving
from test_api_messages import HERE, said
from waiting import until, until_true

from channelmem import Settings
from channelmem.access import OpenDoor, Scope, new_token
from channelmem.api.gate import _Body

JSON = {"Content-Type": "application/json"}
ASK = {"guild_id": GUILD, "channel_id": CHANNEL, "text": "what did Ann say?"}


@pytest.fixture
async def service(settings: Settings, fake_embedder: FakeEmbedder) -> AsyncIterator[Running]:
    small = settings.model_copy(update={"service_max_body_mb": 0.02})
    async with serving(small, fake_embedder) as running:
        yield running


def is_problem(answered: httpx.Response, status: int) -> bool:
    """Whether it is a problem of RFC 9457, with the request's id."""
    body = answered.json()
    return (
        answered.status_code == body["status"] == status
        and answered.headers["content-type"] == "application/problem+json"
        and bool(body["title"] and body["detail"])
        and body["request_id"] == answered.headers["x-request-id"]
    )


async def test_without_a_token_or_with_a_wrong_one_nobody_gets_in(service: Running) -> None:
    right = await service.token()
    id_, secret = right.split("_")[1:]
    wrong = ["", "Bearer", "Bearer x", f"Basic {right}", f"Bearer {right[:-1]}", f"Bearer cm_{id_}_{'A' * 43}"]
    wrong += [f"Bearer cm_{'0' * 12}_{secret}", "Bearer cm__", f"Bearer {right} {right}"]
    for authorization in wrong:
        headers = {"Authorization": authorization} if authorization else {}
        answered = await service.caller().post("/v1/ask", json=ASK, headers=headers)
        assert is_problem(answered, 401), authorization
        assert answered.headers["www-authenticate"].startswith("Bearer")
        assert "channelmem token add" in answered.json()["detail"]
    assert (await service.caller(right).post("/v1/ask", json=ASK)).status_code == 200


async def test_a_revoked_or_expired_token_ends(service: Running) -> None:
    text, kept = new_token("short", frozenset(Scope), None, now=wall_now())
    await service.tokens.add(kept)
    caller = service.caller(text)
    assert (await caller.post("/v1/ask", json=ASK)).status_code == 200
    await service.tokens.add(replace(kept, expires_at=wall_now() - 1))
    assert (await caller.post("/v1/ask", json=ASK)).status_code == 401
    await service.tokens.add(replace(kept, expires_at=wall_now() + 100))
    assert (await caller.post("/v1/ask", json=ASK)).status_code == 200
    await service.tokens.remove(kept.id)
    assert (await caller.post("/v1/ask", json=ASK)).status_code == 401


@pytest.mark.parametrize(
    ("scope", "allowed"),
    [(Scope.READ, {"ask", "page"}), (Scope.WRITE, {"remember", "forget"}), (Scope.ADMIN, {"set"})],
)
async def test_a_scope_allows_what_it_names_and_nothing_else(service: Running, scope: Scope, allowed: set[str]) -> None:
    caller = service.caller(await service.token("one", [scope]))
    answered = {
        "ask": await caller.post("/v1/ask", json=ASK),
        "page": await caller.get(f"{HERE}/messages"),
        "remember": await caller.post("/v1/messages", json=said(1)),
        "forget": await caller.post("/v1/people/5/forget"),
        "set": await caller.put("/v1/settings/global", json={"context_messages": 7}),
    }
    assert {name for name, one in answered.items() if one.is_success} == allowed
    assert all(is_problem(one, 403) for name, one in answered.items() if name not in allowed)


async def test_health_needs_no_token_and_metrics_do(service: Running) -> None:
    nobody, operator = service.caller(), await service.operator()
    assert (await nobody.get("/healthz")).json() == {"status": "ok"}
    assert (await nobody.get("/readyz")).json() == {"status": "ok"}
    assert is_problem(await nobody.get("/metrics"), 401)
    await operator.post("/v1/ask", json=ASK)
    shown = (await operator.get("/metrics")).text
    assert 'channelmem_http_requests_total{method="POST",path="/v1/ask",status="200"} 1.0' in shown
    assert "channelmem_pending 0.0" in shown
    assert str(GUILD) not in shown


async def test_every_answer_has_a_request_id_and_a_proper_one_is_taken_over(service: Running) -> None:
    caller = await service.operator()
    given = await caller.get("/v1/guilds", headers={"X-Request-ID": "my-bot.42"})
    assert given.headers["x-request-id"] == "my-bot.42"
    for wrong in ("a b", "x" * 65, "<script>"):
        made = (await caller.get("/v1/guilds", headers={"X-Request-ID": wrong})).headers["x-request-id"]
        assert len(made) == 16
    assert (await caller.get("/v1/guilds")).headers["x-request-id"] != (await caller.get("/v1/guilds")).headers[
        "x-request-id"
    ]


async def test_wrong_paths_methods_and_bodies_are_problems(service: Running) -> None:
    caller = await service.operator()
    assert is_problem(await caller.get("/v1/nothing"), 404)
    assert is_problem(await caller.get("/nothing"), 404)
    wrong_method = await caller.get("/v1/ask")
    assert is_problem(wrong_method, 405)
    assert wrong_method.headers["allow"] == "POST"
    json_type = {"Content-Type": "application/json"}
    assert is_problem(await caller.post("/v1/ask", content="{", headers=json_type), 400)
    assert is_problem(await caller.post("/v1/ask", content="[" * 5_000, headers=json_type), 400)
    assert is_problem(await caller.post("/v1/ask", content=b'{"ts": 1%s}' % (b"0" * 5_000), headers=json_type), 400)
    misspelt = await caller.post("/v1/ask", json=ASK | {"chanel_id": 1})
    assert is_problem(misspelt, 422)
    assert misspelt.json()["errors"][0]["field"] == "body.chanel_id"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("guild_id", -1),
        ("guild_id", 10**19),
        ("guild_id", True),
        ("guild_id", 1.0),
        ("guild_id", "1_0"),
        ("guild_id", "\u0661"),
        ("ts", -1),
        ("ts", 1e300),
        ("ts", "1800000000"),
        ("text", "\ud800"),
        ("text", "x" * 4_001),
        ("kind", "nonsense"),
    ],
)
async def test_a_wrong_value_is_named_and_never_repeated(service: Running, name: str, value: object) -> None:
    caller = await service.operator()
    body = json.dumps(ASK | {name: value})
    answered = await caller.post("/v1/ask", content=body, headers={"Content-Type": "application/json"})
    assert is_problem(answered, 422)
    assert answered.json()["detail"].startswith(f"body.{name}: ")
    assert "xxxx" not in answered.text


async def test_not_a_number_is_no_time(service: Running) -> None:
    caller = await service.operator()
    for ts in ("NaN", "Infinity"):
        body = json.dumps(ASK)[:-1] + f', "ts": {ts}}}'
        answered = await caller.post("/v1/ask", content=body, headers={"Content-Type": "application/json"})
        assert is_problem(answered, 422)


async def test_a_body_that_is_too_large_is_refused_before_and_while_it_is_read(service: Running) -> None:
    caller, endless = await service.operator(), 0

    async def stream() -> AsyncIterator[bytes]:
        nonlocal endless
        yield b'{"text": "'
        while endless < 10_000:
            endless += 1
            yield b"x" * 1_000

    assert is_problem(await caller.post("/v1/ask", content=b"x" * 20_001), 413)
    headers = {"Content-Type": "application/json"}
    try:
        answered = await caller.post("/v1/ask", content=stream(), headers=headers)
        assert is_problem(answered, 413)
    except (httpx.WriteError, httpx.ReadError):
        pass  # the service hung up while the rest was still being sent
    assert endless < 10_000


@asynccontextmanager
async def holding(sent: bytes, *callers: httpx.AsyncClient) -> AsyncIterator[list[int]]:
    """These callers have sent all of a body but its end; their answers are there afterwards."""
    waiting, begun, answers = asyncio.Event(), list[int](), list[int]()

    async def slow() -> AsyncIterator[bytes]:
        yield sent
        begun.append(1)
        await waiting.wait()
        yield b'"'

    held = [asyncio.create_task(one.post("/v1/ask", content=slow(), headers=JSON)) for one in callers]
    await until_true(lambda: len(begun) == len(held))
    try:
        yield answers
    finally:
        waiting.set()
        answers += [one.status_code for one in await asyncio.gather(*held)]


async def is_refused(caller: httpx.AsyncClient, body: bytes) -> bool:
    try:
        answered = await caller.post("/v1/ask", content=body, headers=JSON)
    except (httpx.WriteError, httpx.ReadError):
        return True
    return answered.status_code == 503 and answered.headers["retry-after"] == "1"


async def test_many_large_bodies_at_once_are_refused_in_turn(
    settings: Settings, fake_embedder: FakeEmbedder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("channelmem.api.gate.BODIES", 4)
    small = settings.model_copy(update={"service_max_body_mb": 0.02})
    async with serving(small, fake_embedder) as service:
        one, other, third = [service.caller(await service.token(name)) for name in ("one", "other", "third")]
        body = b'"' + b"x" * 15_000
        async with holding(body, one, one, one, other, other) as answers:
            await until(lambda: is_refused(third, body + b'"'))
        assert set(answers) == {422}
        assert (await third.post("/v1/ask", json=ASK)).status_code == 200, "nothing is held any more"


async def test_one_token_cannot_hold_all_the_room_for_bodies(
    settings: Settings, fake_embedder: FakeEmbedder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("channelmem.api.gate.BODIES", 4)
    small = settings.model_copy(update={"service_max_body_mb": 0.02})
    async with serving(small, fake_embedder) as service:
        one, other = [service.caller(await service.token(name)) for name in ("one", "other")]
        async with holding(b'"' + b"x" * 18_000, one, one, one):
            await until(lambda: is_refused(one, b'"' + b"x" * 15_000 + b'"'))
            assert (await other.post("/v1/ask", json=ASK | {"text": "x" * 4_000})).status_code == 200


async def test_nobody_without_a_token_can_make_the_service_read_a_body(service: Running) -> None:
    sent = 0

    async def stream() -> AsyncIterator[bytes]:
        nonlocal sent
        for _ in range(10_000):
            sent += 1
            yield b"x" * 1_000
            await asyncio.sleep(0)

    with contextlib.suppress(httpx.WriteError, httpx.ReadError):
        assert (await service.caller().post("/v1/messages", content=stream())).status_code == 401
    assert sent < 10_000


async def test_a_page_of_another_site_gets_no_permission_to_read(service: Running) -> None:
    origin = {"Origin": "https://evil.example", "Access-Control-Request-Method": "POST"}
    answered = await service.caller().options("/v1/ask", headers=origin)
    assert answered.status_code in {401, 405}
    asked = await (await service.operator()).post("/v1/ask", json=ASK, headers={"Origin": "https://evil.example"})
    for one in (answered, asked):
        assert not [name for name in one.headers if name.startswith("access-control-")]
    assert asked.headers["cache-control"] == "no-store"


async def test_a_mistake_of_ours_is_a_problem_too_and_the_log_has_its_id(
    service: Running, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    words = "what Ann wrote"

    async def fails(_: object) -> None:
        raise RuntimeError(words)

    monkeypatch.setattr(service.memory, "ask", fails)
    answered = await (await service.operator()).post("/v1/ask", json=ASK)
    assert is_problem(answered, 500)
    assert "Ann" not in answered.text
    assert f"Request {answered.headers['x-request-id']} failed: RuntimeError" in caplog.text
    assert words not in caplog.text
    assert 'status="500"} 1.0' in (await (await service.operator()).get("/metrics")).text


async def test_the_documentation_is_a_page_without_scripts(service: Running) -> None:
    page = await service.caller().get("/docs")
    assert page.status_code == 200
    assert "<script" not in page.text
    assert "default-src 'none'" in page.headers["content-security-policy"]
    for path in (await service.caller().get("/openapi.json")).json()["paths"]:
        assert path in page.text


async def test_an_open_door_answers_on_this_machine_only(settings: Settings, fake_embedder: FakeEmbedder) -> None:
    async with serving(settings, fake_embedder, door=OpenDoor()) as running:
        caller = running.caller()
        for host in ("localhost", "127.0.0.1:8410", "[::1]:8410", "[::1]"):
            assert (await caller.post("/v1/ask", json=ASK, headers={"Host": host})).status_code == 200, host
        for host in ("evil.example", "127.0.0.1.evil.example", "localhost.evil.example:80", ""):
            assert is_problem(await caller.post("/v1/ask", json=ASK, headers={"Host": host}), 403), host


# --- strangers and other websites ---

FORM = {"Content-Type": "application/x-www-form-urlencoded"}


async def test_unfinished_log_ins_keep_nobody_else_waiting(service: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("channelmem.api.gate.LOGIN_S", 60.0)
    waiting, begun = asyncio.Event(), 0

    async def slow() -> AsyncIterator[bytes]:
        nonlocal begun
        yield b"token=" + b"x" * 3_500
        begun += 1
        await waiting.wait()

    held = [asyncio.create_task(service.caller().post("/login", content=slow(), headers=FORM)) for _ in range(40)]
    try:
        await until_true(lambda: begun >= 40)
        caller = await service.operator()
        assert (await caller.post("/v1/ask", json=ASK | {"text": "x" * 3_900})).status_code == 200
        visit = await service.caller().post("/login", data={"token": await service.token("visitor")})
        assert visit.status_code in {303, 503}
    finally:
        waiting.set()
        await asyncio.gather(*held, return_exceptions=True)


async def test_a_log_in_is_small_and_arrives_soon(service: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    large = await service.caller().post("/login", content=b"token=" + b"x" * 5_000, headers=FORM)
    assert is_problem(large, 413)
    monkeypatch.setattr("channelmem.api.gate.LOGIN_S", 0.1)
    reader, writer = await asyncio.open_connection("127.0.0.1", httpx.URL(service.url).port)
    head = "POST /login HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n"
    writer.write(f"{head}Content-Type: {FORM['Content-Type']}\r\n\r\n".encode())
    assert b"408 Request Timeout" in await reader.read()
    writer.close()


@pytest.mark.parametrize("path", ["/logout", "/settings", f"/g/{GUILD}/c/{CHANNEL}/settings", "/nothing", "/docs"])
async def test_nothing_of_a_form_is_read_before_its_sender_is_known(
    service: Running, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    read: list[str] = []
    receive = _Body.__call__

    async def noting(body: _Body) -> Any:
        read.append(path)
        return await receive(body)

    monkeypatch.setattr(_Body, "__call__", noting)
    answered = await service.caller().post(path, content=b"form=x", headers=FORM)
    assert answered.status_code in {303, 404, 405}
    assert read == []


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://localhost:1"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
    ],
)
async def test_no_other_website_acts_through_an_open_door(
    settings: Settings, fake_embedder: FakeEmbedder, headers: dict[str, str]
) -> None:
    here = f"/v1/guilds/{GUILD}/channels/{CHANNEL}"
    async with serving(settings, fake_embedder, door=OpenDoor()) as running:
        caller = running.caller()
        requests = [("POST", "/v1/people/5/forget"), ("DELETE", here), ("PUT", f"{here}/pause"), ("POST", "/login")]
        for method, path in requests:
            assert (await caller.request(method, path, headers=headers)).status_code == 403, (method, path)
        own = {"Origin": running.url, "Sec-Fetch-Site": "same-origin"}
        assert (await caller.put(f"{here}/pause", headers=own)).is_success
