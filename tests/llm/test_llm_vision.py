"""Pictures at a provider: what is sent in both wire formats, what it may cost, and which model looks."""

from __future__ import annotations

import io
from collections.abc import AsyncIterator, Callable
from typing import TYPE_CHECKING, Any, cast

import pytest
from conftest import CHANNEL, GUILD, NOW, make_settings
from llm_server import LlmServer, Reply, llm_server, say, status, used_usd
from media_server import picture
from picturing import GREY, post, question, studio
from PIL import Image
from pydantic import SecretStr

from channelmem.errors import ConfigError
from channelmem.ids import ChannelId
from channelmem.llm import Location, ResponderError
from channelmem.llm.opening import open_responder
from channelmem.llm.prompts import load_characters
from channelmem.llm.vision import OUTPUT_TOKENS, PROMPT, VisionReader, open_vision
from channelmem.media.decoder import Decoder
from channelmem.media.kinds import UnreadableError
from channelmem.media.reader import Costs, File
from channelmem.memory import Memory
from channelmem.settings import Settings
from channelmem.types import Attachment

if TYPE_CHECKING:
    from channelmem.store.channel_state import Spending

CAT = Attachment(71, "https://cdn.discordapp.com/71/cat.png", "image/png", "cat.png")
HERE = ChannelId(GUILD, CHANNEL)

pytestmark = pytest.mark.process  # pictures are checked in a process of their own


@pytest.fixture
async def model() -> AsyncIterator[LlmServer]:
    async with llm_server() as server:
        server.will(say(GREY))
        yield server


def settings_for(model: LlmServer, tmp_path: Any, name: str = "openai:eyes", **changes: Any) -> Settings:
    base = model.url if name.startswith("anthropic:") else model.openai_url
    key = {"llm_api_key": SecretStr("sk-secret"), "llm_retries": 0, "vision_model": name, "llm_base_url": base}
    return make_settings("redis://127.0.0.1:1", tmp_path, **(key | changes))


def reader(
    settings: Settings, decoder: Decoder, spent: list[float] | None = None, purse: Purse | None = None
) -> VisionReader:
    told = spent if spent is not None else []
    made = open_vision(settings.vision_model or "", settings, costs(told.append, purse), decoder)
    assert made is not None
    return made


def costs(on_spent: Callable[[float], None], purse: Purse | None = None) -> Costs:
    return Costs(cast("Spending", purse or Purse()), lambda: NOW, on_spent)


class Purse:
    """In place of what all processes spend together."""

    def __init__(self) -> None:
        self._micros = 0
        self.days: set[int] = set()

    async def reserve(self, day: int, place: tuple[int, int], micros: int, cap_micros: int) -> bool:
        self.days.add(day)
        fits = self._micros + micros <= cap_micros
        self._micros += micros if fits else 0
        return fits

    async def settle(self, day: int, place: tuple[int, int], change_micros: int) -> None:
        self._micros += change_micros

    async def total(self, day: int) -> int:
        return self._micros


def _ignore(usd: float) -> None:
    """Nobody wants to know."""


async def read(settings: Settings, content: bytes, spent: list[float] | None = None) -> str:
    decoder = Decoder()
    one = reader(settings, decoder, spent)
    try:
        return await one.read(File(CAT, content, HERE))
    finally:
        await one.close()
        await decoder.close()


async def test_a_call_counts_for_the_day_by_the_clock_of_the_memory(model: LlmServer, tmp_path: Any) -> None:
    purse, decoder = Purse(), Decoder()
    one = reader(settings_for(model, tmp_path), decoder, purse=purse)
    await one.read(File(CAT, picture(), HERE))
    await one.close()
    await decoder.close()
    assert purse.days == {int(NOW // 86_400)}


@pytest.mark.parametrize("name", ["openai:eyes", "anthropic:claude-eyes", "ollama:llava"])
async def test_a_small_bare_picture_reaches_the_model_byte_for_byte(model: LlmServer, tmp_path: Any, name: str) -> None:
    assert await read(settings_for(model, tmp_path, name), picture()) == GREY
    (request,) = model.requests
    assert request.pictures == [("image/png", picture())]
    assert request.system == PROMPT
    assert request.tools == []
    assert request.path == ("/v1/messages" if name.startswith("anthropic") else "/v1/chat/completions")


@pytest.mark.parametrize("name", ["openai:eyes", "anthropic:claude-eyes"])
async def test_a_large_picture_with_metadata_is_scaled_and_bare(model: LlmServer, tmp_path: Any, name: str) -> None:
    exif = Image.Exif()
    exif[0x010F] = "A camera"
    await read(settings_for(model, tmp_path, name), picture(size=(3000, 1500), kind="JPEG", exif=exif))
    ((kind, content),) = model.requests[0].pictures
    assert kind == "image/jpeg"
    assert b"A camera" not in content
    with Image.open(io.BytesIO(content)) as sent:
        assert sent.size == (1024, 512)


@pytest.mark.parametrize(
    ("reply", "lasting"),
    [
        (status(400), True),
        (status(413), True),
        (status(401), False),
        (status(429), False),
        (status(500), False),
        (say(""), False),
        (Reply(raw=b"{}"), False),
        (Reply(raw=b"not json"), False),
    ],
)
async def test_a_failure_is_told_in_our_own_words(model: LlmServer, tmp_path: Any, reply: Reply, lasting: bool) -> None:
    model.will(reply)
    with pytest.raises(UnreadableError) as caught:
        await read(settings_for(model, tmp_path), picture())
    assert caught.value.lasting is lasting
    assert "secret" not in str(caught.value)


async def test_what_is_no_picture_never_reaches_the_model(model: LlmServer, tmp_path: Any) -> None:
    with pytest.raises(UnreadableError):
        await read(settings_for(model, tmp_path), b"<html></html>")
    assert model.requests == []


async def test_a_picture_reserves_by_its_size_on_the_screen_and_settles_with_what_it_cost(
    model: LlmServer, tmp_path: Any
) -> None:
    """A megabyte is not a million tokens: it would use up a day's cap at once."""
    noise = Image.effect_noise((1000, 1000), 100).convert("RGB")
    out = io.BytesIO()
    noise.save(out, "PNG")
    spent: list[float] = []
    settings = settings_for(model, tmp_path, llm_daily_usd=0.015)
    assert len(out.getvalue()) > 900_000
    assert await read(settings, out.getvalue(), spent) == GREY
    assert spent == [pytest.approx(120e-6 + 30 * 5e-6)]
    with pytest.raises(UnreadableError, match="spending cap"):
        await read(settings_for(model, tmp_path, llm_daily_usd=0.005), picture())
    assert len(model.requests) == 1
    assert OUTPUT_TOKENS * 5e-6 < 0.005


async def test_answers_and_descriptions_share_one_cap(settings: Settings) -> None:
    """The first description leaves room for one more call of its size, but not for an answer besides."""
    async with studio(settings, llm_model="openai:mouth", llm_stream=False, llm_daily_usd=0.02) as room:
        room.model.will(say(GREY, usage=False))  # unreported, so all that was set aside counts
        files = [room.cdn.serves(71 + n, f"{n}.png", picture()) for n in range(3)]
        await room.memory.remember_many([post(n + 1, one) for n, one in enumerate(files)])
        responder = open_responder(room.settings, room.memory, clock=room.memory.overview.clock)
        assert responder is not None
        for n in range(3):
            await room.ask("what's in this picture?", 5_000 + n, reply_to=n + 1)
        assert 0.01 < await used_usd(responder.spend) <= 0.02
        assert room.described == 2
        asked = question("what did Ann say?", 5_010)
        with pytest.raises(ResponderError, match="cap"):
            async for _ in responder.respond(asked, await room.memory.ask(asked), Location(), set()):
                pass
        await responder.close()


# --- which model looks ---


@pytest.mark.parametrize("name", ["anthropic:claude-haiku-4-5", "openai:gpt-5-mini"])
def test_the_answering_model_looks_where_it_is_known_to_take_images(tmp_path: Any, name: str) -> None:
    settings = make_settings("redis://127.0.0.1:1", tmp_path, llm_model=name, llm_api_key=SecretStr("k"))
    assert open_vision(name, settings, costs(_ignore), Decoder()) is not None


def test_of_a_model_at_another_endpoint_nobody_knows_so_it_must_be_named(model: LlmServer, tmp_path: Any) -> None:
    settings = settings_for(model, tmp_path, vision_model=None, llm_model="llama")
    assert open_vision("llama", settings, costs(_ignore), Decoder()) is None
    named = settings.model_copy(update={"vision_model": "llama"})
    assert open_vision("llama", named, costs(_ignore), Decoder()) is not None


async def test_a_vision_model_that_cannot_be_used_is_reported_at_the_start(settings: Settings) -> None:
    wrong = settings.model_copy(update={"vision_model": "nonsense:model"})
    with pytest.raises(ConfigError, match="nonsense:model"):
        async with Memory.open(wrong):
            pass


# --- the answering request ---


async def test_pictures_go_to_the_vision_call_only_and_the_answering_request_carries_text(settings: Settings) -> None:
    async with studio(settings, llm_model="openai:mouth", llm_stream=False) as room:
        room.model.will(say(GREY), say("A grey cat sits on a sofa."))
        await room.memory.remember(post(1, room.cdn.serves(71, "cat.png", picture())))
        responder = open_responder(room.settings, room.memory)
        assert responder is not None
        assert load_characters(room.settings.character)
        asked = question("what's in this picture?", reply_to=1)
        answer = await room.memory.ask(asked)
        texts = [text async for text in responder.respond(asked, answer, Location("Guild", "general"), set())]
        await responder.close()
        assert texts[-1] == "A grey cat sits on a sofa."
        look, speak = room.model.requests
        assert (look.body["model"], speak.body["model"]) == ("eyes", "mouth")
        assert len(look.pictures) == 1
        assert speak.pictures == []
        assert f"[image: cat.png: {GREY}]" in speak.user
