"""Builds language models by names such as anthropic:claude-haiku-4-5. They are metered: every request reserves the most
it can cost, and settles with what it did cost."""

from __future__ import annotations

import logging
import math
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Final

from pydantic import SecretStr
from pydantic_ai import ModelMessagesTypeAdapter, RunContext
from pydantic_ai.exceptions import ModelAPIError, ModelHTTPError, UnexpectedModelBehavior, UserError
from pydantic_ai.messages import BinaryContent, ModelMessage, ModelResponse, UserPromptPart
from pydantic_ai.models import Model, ModelRequestParameters, StreamedResponse, infer_model
from pydantic_ai.models.wrapper import WrapperModel
from pydantic_ai.providers import Provider, infer_provider
from pydantic_ai.settings import ModelSettings
from pydantic_ai.usage import RequestUsage

from channelmem.errors import ConfigError
from channelmem.ids import ChannelId
from channelmem.llm.spend import Prices, Reservation, Spend
from channelmem.settings import Settings

SDK_LOGGERS: Final = ("openai", "anthropic", "httpx", "httpx2", "httpcore", "httpcore2")
OPENAI: Final = ("openai", "openai-chat")
COMPATIBLE: Final = (*OPENAI, "ollama", "vllm", "litellm")
"""Prefixes allowed before a model's name at an OpenAI-compatible endpoint."""
OPENAI_NAMES: Final = ("gpt-", "chatgpt-", "o1", "o3", "o4")
OVERHEAD_TOKENS: Final = 1000
"""What providers add to a prompt with tools; the largest documented figure is about half of this."""

PICTURE_TOKENS: Final = 6_000
"""The most that a picture of 1,024 by 1,024 costs at OpenAI or Anthropic is about half of this."""

MAPPED_ONLY: Final = ("xai",)  # providers whose own finish reason pydantic-ai does not keep

MALFORMED: Final = (TypeError, AttributeError, LookupError, ValueError, AssertionError)
"""What pydantic-ai and the SDKs raise for valid JSON that lacks the expected fields."""
MALFORMED_MESSAGE: Final = "the response lacks expected fields"

OnTokens = Callable[[str, int], None]  # told "input" or "output", and how many


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where a model is, and the key to it; None for what the provider's own variables and defaults say."""

    base_url: str | None
    key: str | None

    @classmethod
    def of(cls, settings: Settings) -> Endpoint:
        return cls(settings.llm_base_url, _revealed(settings.llm_api_key))

    @classmethod
    def of_summaries(cls, settings: Settings) -> Endpoint:
        """That of answers, unless it has its own; then the key of answers is not sent there."""
        own = _revealed(settings.summary_api_key)
        if settings.summary_base_url is not None:
            return cls(settings.summary_base_url, own)
        return cls(settings.llm_base_url, own or _revealed(settings.llm_api_key))


def build_model(name: str, endpoint: Endpoint, setting: str = "CHANNELMEM_LLM_MODEL") -> Model:
    """Raises ConfigError if the name, the key or a package is missing."""
    try:
        return _build(name, endpoint.base_url, endpoint.key)
    except (UserError, ImportError, ValueError) as error:
        raise ConfigError(f"Can't use the language model {name!r} ({setting}): {error}") from error


def call_settings(settings: Settings, max_tokens: int) -> ModelSettings:
    """Bounds of one call."""
    return ModelSettings(
        max_tokens=max_tokens,
        # One attempt may use the whole deadline: a slow model is not asked twice.
        timeout=settings.llm_timeout_s,
        request_timeout=settings.llm_timeout_s,
        max_retries=settings.llm_retries,
        thinking=False,
    )


def quiet_sdk_loggers() -> None:
    """At DEBUG these log what people write, and at INFO the URL of every request."""
    for name in SDK_LOGGERS:
        logging.getLogger(name).setLevel(logging.WARNING)


def _revealed(secret: SecretStr | None) -> str | None:
    return secret.get_secret_value() if secret else None


def _build(name: str, base_url: str | None, key: str | None) -> Model:
    provider, _, model = name.partition(":")
    if provider == "anthropic":
        at_anthropic = _provider("anthropic", "AnthropicProvider", api_key=key, base_url=base_url)
        return infer_model(name, lambda _: at_anthropic)
    if base_url:
        return _compatible(model if provider in COMPATIBLE else name, base_url, key)
    if provider in OPENAI:
        # Chat completions, because OpenAI stores what goes through the responses API unless told otherwise.
        at_openai = _provider("openai", "OpenAIProvider", api_key=key)
        return infer_model(f"openai-chat:{model}", lambda _: at_openai)
    return infer_model(name, lambda kind: _other(kind, key))


def _provider(module: str, kind: str, /, **options: Any) -> Provider[Any]:
    # Each SDK takes a second to import, so only the one in use is imported.
    made: Callable[..., Provider[Any]] = getattr(import_module(f"pydantic_ai.providers.{module}"), kind)
    try:
        return made(**options)
    except UserError as error:
        variable = f"{module.upper()}_API_KEY"
        raise UserError(f"its key is missing; set CHANNELMEM_LLM_API_KEY or {variable}.") from error


def _compatible(model: str, base_url: str, key: str | None) -> Model:
    # Every endpoint accepts the older max_tokens field, except OpenAI's own newer models.
    profile = {"openai_chat_supports_max_completion_tokens": model.startswith(OPENAI_NAMES)}
    at = {"name": "openai-compatible", "base_url": base_url, "api_key": key, "profile": profile}
    provider = _provider("openai_compatible", "OpenAICompatibleProvider", **at)
    return infer_model(f"openai-chat:{model}", lambda _: provider)


def _other(kind: str, key: str | None) -> Provider[Any]:
    """Any other provider pydantic-ai supports, configured by that provider's own variables."""
    if key is not None:
        raise UserError(f"set the key of {kind} with its own variable, not with CHANNELMEM_LLM_API_KEY.")
    return infer_provider(kind)


def most_tokens(messages: list[ModelMessage]) -> int:
    """A token is at least one byte of text; a picture costs by its size on the screen, not in bytes."""
    parts = (part for message in messages for part in message.parts if isinstance(part, UserPromptPart))
    pictures = [one for part in parts for one in part.content if isinstance(one, BinaryContent)]
    encoded = sum(4 * math.ceil(len(one.data) / 3) for one in pictures)
    return len(ModelMessagesTypeAdapter.dump_json(messages)) - encoded + PICTURE_TOKENS * len(pictures)


class UnfinishedError(ModelAPIError):
    """The stream ended, but the model did not say that it had finished: a proxy or a crash may have cut it off."""


def _is_finished(response: StreamedResponse) -> bool:
    # What the provider sent: pydantic-ai puts "stop" into `finish_reason` where an OpenAI-compatible server sent none.
    said = (response.provider_details or {}).get("finish_reason")
    assumed = response.finish_reason == "stop" and response.provider_name not in MAPPED_ONLY
    return response.cancelled or bool(said or (response.finish_reason and not assumed))


async def close_model(model: Model) -> None:
    """Leaving a model's context closes its connections."""
    async with model:
        pass


class MeteredModel(WrapperModel):
    """A model whose requests for one channel stay within the daily spend cap."""

    def __init__(
        self, wrapped: Model, spend: Spend, channel: ChannelId, prices: Prices, on_tokens: OnTokens | None
    ) -> None:
        super().__init__(wrapped)
        self._spend, self._channel, self._prices, self._on_tokens = spend, channel, prices, on_tokens

    async def request(
        self,
        messages: list[ModelMessage],
        model_settings: ModelSettings | None,
        model_request_parameters: ModelRequestParameters,
    ) -> ModelResponse:
        reservation = await self._reserve(messages, model_settings, model_request_parameters)
        try:
            response = await super().request(messages, model_settings, model_request_parameters)
        except ModelHTTPError:
            await self._spend.settle(reservation, 0.0)
            raise
        except MALFORMED as error:
            raise UnexpectedModelBehavior(MALFORMED_MESSAGE) from error
        await self._settle(reservation, response.usage)
        return response

    @asynccontextmanager
    async def request_stream(
        self,
        messages: list[ModelMessage],
        model_settings: ModelSettings | None,
        model_request_parameters: ModelRequestParameters,
        run_context: RunContext[Any] | None = None,
    ) -> AsyncIterator[StreamedResponse]:
        reservation = await self._reserve(messages, model_settings, model_request_parameters)
        answered = False
        try:
            async with super().request_stream(
                messages, model_settings, model_request_parameters, run_context
            ) as response:
                answered = True
                yield response
        except ModelHTTPError:
            if not answered:
                await self._spend.settle(reservation, 0.0)
            raise
        except MALFORMED as error:
            raise UnexpectedModelBehavior(MALFORMED_MESSAGE) from error
        await self._settle(reservation, response.usage)
        if not _is_finished(response):
            raise UnfinishedError(response.model_name, "the stream ended without a finish reason")

    async def _reserve(
        self, messages: list[ModelMessage], settings: ModelSettings | None, parameters: ModelRequestParameters
    ) -> Reservation:
        # The dump contains every byte sent, and more.
        tools = sum(len(str(tool)) for tool in parameters.function_tools)
        tokens = most_tokens(messages) + tools + OVERHEAD_TOKENS
        most = self._prices.cost(tokens, (settings or {}).get("max_tokens", 0))
        return await self._spend.reserve(self._channel, most)

    async def _settle(self, reservation: Reservation, usage: RequestUsage) -> None:
        """If the provider reports no usage, or the answer broke off, the whole reservation counts as spent."""
        if self._on_tokens is not None:
            self._on_tokens("input", usage.input_tokens)
            self._on_tokens("output", usage.output_tokens)
        if usage.input_tokens and not usage.unmeasured_requests:
            await self._spend.settle(reservation, self._prices.cost(usage.input_tokens, usage.output_tokens))
