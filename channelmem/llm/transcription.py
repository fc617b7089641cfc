"""Transcribes recordings at an OpenAI-compatible endpoint, within the spending cap."""

from __future__ import annotations

from http import HTTPStatus
from typing import Final

import httpx

from channelmem.llm.spend import CapReachedError, Reservation, Spend
from channelmem.media.decoder import Decoder
from channelmem.media.kinds import UnreadableError, lasting, passing
from channelmem.media.reader import PROVIDER, VOICE_BYTES, Costs, File
from channelmem.settings import Settings

TIMEOUT_S: Final = 60.0
TYPES: Final = {
    "ogg": ("voice.ogg", "audio/ogg"),
    "flac": ("voice.flac", "audio/flac"),
    "mp4": ("voice.m4a", "audio/mp4"),
    "webm": ("voice.webm", "audio/webm"),
    "wav": ("voice.wav", "audio/wav"),
    "mp3": ("voice.mp3", "audio/mpeg"),
}
"""Name and type of what was decoded as this."""
UNSENT: Final = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout)  # the endpoint has not seen the recording
REFUSED: Final = (HTTPStatus.BAD_REQUEST, HTTPStatus.UNSUPPORTED_MEDIA_TYPE, HTTPStatus.UNPROCESSABLE_ENTITY)
TOO_LARGE: Final = HTTPStatus.REQUEST_ENTITY_TOO_LARGE


class TranscriptionEndpoint:
    """A Reader."""

    rank = PROVIDER
    max_bytes = VOICE_BYTES

    def __init__(self, settings: Settings, costs: Costs, decoder: Decoder) -> None:
        self.name = f"voice:{settings.voice_model}"
        self._settings, self._costs, self._decoder = settings, costs, decoder
        self._spend = Spend(costs.ledger, settings.llm_daily_usd, costs.clock)
        key = settings.voice_api_key
        headers = {"Authorization": f"Bearer {key.get_secret_value()}"} if key else {}
        self._url = f"{(settings.voice_base_url or '').rstrip('/')}/audio/transcriptions"
        self._client = httpx.AsyncClient(headers=headers, timeout=TIMEOUT_S)

    async def read(self, file: File) -> str:
        recording = await self._decoder.measure(file.content, self._settings.voice_max_s)
        usd = recording.seconds / 60 * self._settings.voice_usd_per_minute
        try:
            held = await self._spend.reserve(file.channel, usd)
        except CapReachedError:
            raise passing("today's spending cap is reached") from None
        response = await self._ask(file.content, *TYPES[recording.kind], held)
        if response.status_code != HTTPStatus.OK:
            await self._spend.settle(held, 0.0)
            raise _refusal(response.status_code)
        self._costs.on_spent(usd)
        return _text(response)

    async def close(self) -> None:
        await self._client.aclose()

    async def _ask(self, content: bytes, name: str, media_type: str, held: Reservation) -> httpx.Response:
        """What may have been transcribed counts, even if its transcript got lost."""
        fields = {"model": self._settings.voice_model, "response_format": "json"}
        try:
            return await self._client.post(self._url, data=fields, files={"file": (name, content, media_type)})
        except UNSENT:
            await self._spend.settle(held, 0.0)
            raise passing("the speech model can't be reached") from None
        except httpx.TimeoutException:
            raise passing("the speech model did not answer in time") from None
        except httpx.HTTPError:
            raise passing("the speech model can't be reached") from None


def _refusal(status: int) -> UnreadableError:
    if status in REFUSED or status == TOO_LARGE:
        return lasting("the speech model does not take it")
    return passing(f"the speech model's server answered with status {status}")


def _text(response: httpx.Response) -> str:
    try:
        text = response.json()["text"]
    except (ValueError, KeyError, TypeError):
        text = None
    if not isinstance(text, str):
        raise passing("the speech model's answer is unusable")
    return text
