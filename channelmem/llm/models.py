"""Builds language models. In: settings and a name such as anthropic:claude-haiku-4-5. Out: a metered model.

Metered: every request reserves the most it can cost, and settles with what it did cost.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from importlib import import_module
from typing import Any, Final

from pydantic_ai import ModelMessagesTypeAdapter, RunContext
from pydantic_ai.exceptions import ModelAPIError, ModelHTTPError, UnexpectedModelBehavior, UserError
from pydantic_ai.messages import ModelMessage, ModelResponse
from pydantic_ai.models import Model, ModelRequestParameters, StreamedResponse, infer_model
from pydantic_ai.models.wrapper import WrapperModel
from pydantic_ai.providers import Provider, infer_provider
from pydantic_ai.settings import ModelSettings
from pydantic_ai.usage import RequestUsage

from channelmem.errors import ConfigError
from channelmem.llm.spend import Prices, Reservation, Spend
from channelmem.settings import Settings

OPENAI: Final = ("openai", "openai-chat")
COMPATIBLE: Final = (*OPENAI, "ollama", "vllm", "litellm")
"""Prefixes allowed before a model's name at an OpenAI-compatible endpoint."""
OPENAI_NAMES: Final = ("gpt-", "chatgpt-", "o1", "o3", "o4")
OVERHEAD_TOKENS: Final = 1000
"""What providers add to a prompt with tools; the largest documented figure is about half of this."""

MAPPED_ONLY: Final = ("xai",)
"""Providers whose own finish reason pydantic-ai does not keep."""

MALFORMED: Final = (TypeError, AttributeError, LookupError, ValueError, AssertionError)
"""What pydantic-ai and the SDKs raise for valid JSON that lacks the expected fields."""
MALFORMED_MESSAGE: Final = "the response lacks expected fields"

OnTokens = Callable[[int, int], None]


def build_model(name: str, settings: Settings) -> Model:
    """Raises ConfigError if the name, the key or a package is missing."""
    try:
        return _build(name, settings)
    except (UserError, ImportError, ValueError) as error:
        raise ConfigError(f"Can't use the language model {name!r} (CHANNELMEM_LLM_MODEL): {error}") from error


def _build(name: str, settings: Settings) -> Model:
    key = settings.llm_api_key.get_secret_value() if settings.llm_api_key else None
    provider, _, model = name.partition(":")
    if provider == "anthropic":
        at_anthropic = _provider("anthropic", "AnthropicProvider", api_key=key, base_url=settings.llm_base_url)
        return infer_model(name, lambda _: at_anthropic)
    if settings.llm_base_url:
        return _compatible(model if provider in COMPATIBLE else name, settings.llm_base_url, key)
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
    provider = _provider("openai_compatible", "OpenAICompatibleProvider", **_at(base_url, key, model))
    return infer_model(f"openai-chat:{model}", lambda _: provider)


def _at(base_url: str, key: str | None, model: str) -> dict[str, Any]:
    # Every endpoint accepts the older max_tokens field, except OpenAI's own newer models.
    profile = {"openai_chat_supports_max_completion_tokens": model.startswith(OPENAI_NAMES)}
    return {"name": "openai-compatible", "base_url": base_url, "api_key": key, "profile": profile}


def _other(kind: str, key: str | None) -> Provider[Any]:
    """Any other provider pydantic-ai supports, configured by that provider's own variables."""
    if key is not None:
        raise UserError(f"set the key of {kind} with its own variable, not with CHANNELMEM_LLM_API_KEY.")
    return infer_provider(kind)


class UnfinishedError(ModelAPIError):
    """The stream ended, but the model did not say that it had finished: a proxy or a crash may have cut it off."""


def _is_finished(response: StreamedResponse) -> bool:
    # What the provider sent: pydantic-ai puts "stop" into `finish_reason` where an OpenAI-compatible server sent none.
    said = (response.provider_details or {}).get("finish_reason")
    assumed = response.finish_reason == "stop" and response.provider_name not in MAPPED_ONLY
    return response.cancelled or bool(said or (response.finish_reason and not assumed))


class MeteredModel(WrapperModel):
    """A model whose requests stay within the daily spend cap."""

    def __init__(self, wrapped: Model, spend: Spend, prices: Prices, on_tokens: OnTokens) -> None:
        super().__init__(wrapped)
        self._spend, self._prices, self._on_tokens = spend, prices, on_tokens

    async def request(
        self,
        messages: list[ModelMessage],
        model_settings: ModelSettings | None,
        model_request_parameters: ModelRequestParameters,
    ) -> ModelResponse:
        reservation = self._reserve(messages, model_settings, model_request_parameters)
        try:
            response = await super().request(messages, model_settings, model_request_parameters)
        except ModelHTTPError:
            self._spend.settle(reservation, 0.0)
            raise
        except MALFORMED as error:
            raise UnexpectedModelBehavior(MALFORMED_MESSAGE) from error
        self._settle(reservation, response.usage)
        return response

    @asynccontextmanager
    async def request_stream(
        self,
        messages: list[ModelMessage],
        model_settings: ModelSettings | None,
        model_request_parameters: ModelRequestParameters,
        run_context: RunContext[Any] | None = None,
    ) -> AsyncIterator[StreamedResponse]:
        reservation = self._reserve(messages, model_settings, model_request_parameters)
        answered = False
        try:
            async with super().request_stream(
                messages, model_settings, model_request_parameters, run_context
            ) as response:
                answered = True
                yield response
        except ModelHTTPError:
            if not answered:
                self._spend.settle(reservation, 0.0)
            raise
        except MALFORMED as error:
            raise UnexpectedModelBehavior(MALFORMED_MESSAGE) from error
        self._settle(reservation, response.usage)
        if not _is_finished(response):
            raise UnfinishedError(response.model_name, "the stream ended without a finish reason")

    def _reserve(
        self, messages: list[ModelMessage], settings: ModelSettings | None, parameters: ModelRequestParameters
    ) -> Reservation:
        # A token is at least one byte, and the dump contains every byte sent, and more.
        tools = sum(len(str(tool)) for tool in parameters.function_tools)
        tokens = len(ModelMessagesTypeAdapter.dump_json(messages)) + tools + OVERHEAD_TOKENS
        return self._spend.reserve(self._prices.cost(tokens, (settings or {}).get("max_tokens", 0)))

    def _settle(self, reservation: Reservation, usage: RequestUsage) -> None:
        """If the provider reports no usage, or the answer broke off, the whole reservation counts as spent."""
        self._on_tokens(usage.input_tokens, usage.output_tokens)
        if usage.input_tokens and not usage.unmeasured_requests:
            self._spend.settle(reservation, self._prices.cost(usage.input_tokens, usage.output_tokens))
