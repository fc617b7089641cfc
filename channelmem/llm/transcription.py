"""Transcripts by an OpenAI-compatible endpoint, a provider's or a local whisper server. In: a recording. Out: what it
says.

The bytes pass unchanged. How long a recording lasts the platform says, or else its size: that is what it may cost.
"""

from __future__ import annotations

import time
from http import HTTPStatus
from typing import Final

import httpx

from channelmem.llm.spend import CapReachedError, Ledger, Spend
from channelmem.media.problems import UnreadableError, lasting, passing
from channelmem.media.readers import PROVIDER, VOICE_BYTES, File, OnSpent
from channelmem.settings import Settings

TIMEOUT_S: Final = 60.0
BYTES_PER_S: Final = 2_000
"""Of a recording whose length nobody knows: speech is rarely packed tighter."""
REFUSED: Final = (HTTPStatus.BAD_REQUEST, HTTPStatus.UNSUPPORTED_MEDIA_TYPE, HTTPStatus.UNPROCESSABLE_ENTITY)
TOO_LARGE: Final = HTTPStatus.REQUEST_ENTITY_TOO_LARGE


class TranscriptionEndpoint:
    """A Reader."""

    rank = PROVIDER
    max_bytes = VOICE_BYTES

    def __init__(self, settings: Settings, ledger: Ledger, on_spent: OnSpent) -> None:
        self.name = f"voice:{settings.voice_model}"
        self._settings, self._on_spent = settings, on_spent
        self._spend = Spend(ledger, settings.llm_daily_usd, time.time)
        key = settings.voice_api_key
        headers = {"Authorization": f"Bearer {key.get_secret_value()}"} if key else {}
        self._url = f"{(settings.voice_base_url or '').rstrip('/')}/audio/transcriptions"
        self._client = httpx.AsyncClient(headers=headers, timeout=TIMEOUT_S)

    async def read(self, file: File) -> str:
        usd = self._most_usd(file)
        try:
            held = await self._spend.reserve(file.place, usd)
        except CapReachedError:
            raise passing("today's spending cap is reached") from None
        try:
            text = await self._ask(file)
        except UnreadableError:
            await self._spend.settle(held, 0.0)
            raise
        self._on_spent(usd)
        return text

    async def close(self) -> None:
        await self._client.aclose()

    def _most_usd(self, file: File) -> float:
        seconds = file.attachment.duration_s or len(file.content) / BYTES_PER_S
        return seconds / 60 * self._settings.voice_usd_per_minute

    async def _ask(self, file: File) -> str:
        one = file.attachment
        content = (one.name or "voice.ogg", file.content, one.content_type or "application/octet-stream")
        fields = {"model": self._settings.voice_model, "response_format": "json"}
        try:
            response = await self._client.post(self._url, data=fields, files={"file": content})
        except httpx.TimeoutException:
            raise passing("the speech model did not answer in time") from None
        except httpx.HTTPError:
            raise passing("the speech model can't be reached") from None
        return _text(response)


def _text(response: httpx.Response) -> str:
    status = response.status_code
    if status in REFUSED or status == TOO_LARGE:
        raise lasting("the speech model does not take it")
    if status != HTTPStatus.OK:
        raise passing(f"the speech model's server answered with status {status}")
    try:
        text = response.json()["text"]
    except (ValueError, KeyError, TypeError):
        text = None
    if not isinstance(text, str):
        raise passing("the speech model's answer is unusable")
    return text
