"""Answers in a language model's own words. In: a question with Memory's answer. Out: growing text, or SpeechError.

One pydantic-ai agent per character. The model may look at the channel itself, in a bounded loop; each call has a
deadline that includes the provider SDK's retries and back-off. Whatever goes wrong becomes a SpeechError in words of
our own: what a provider sends back may hold the key or people's text, and would end up in a log.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from contextlib import aclosing
from typing import Final

from pydantic import ValidationError
from pydantic_ai import Agent, RunContext, Tool
from pydantic_ai.exceptions import (
    AgentRunError,
    ContentFilterError,
    ModelAPIError,
    ModelHTTPError,
    ModelRequestTimeout,
    ModelTimeoutError,
    UnexpectedModelBehavior,
    UsageLimitExceeded,
    UserError,
)
from pydantic_ai.messages import (
    AgentStreamEvent,
    FunctionToolCallEvent,
    PartDeltaEvent,
    PartStartEvent,
    TextPart,
    TextPartDelta,
)
from pydantic_ai.run import AgentRunResultEvent
from pydantic_ai.settings import ModelSettings
from pydantic_ai.tools import ToolDefinition
from pydantic_ai.usage import UsageLimits
from pydantic_core import SchemaValidator, core_schema

from channelmem.errors import RedisUnavailableError
from channelmem.llm.characters import Character, spoken_to
from channelmem.llm.models import Metered, named_model
from channelmem.llm.prompts import LOOKED_UP, Prompt, alone, compose, fence
from channelmem.llm.responder import Place, SpeechError
from channelmem.llm.spend import CapReachedError, Prices, Spend
from channelmem.memory import Memory
from channelmem.settings import Settings
from channelmem.tools import context_tool as tool
from channelmem.types import Answer, Question

CHATTY: Final = ("openai", "anthropic", "httpx", "httpx2", "httpcore", "httpcore2")
TOOL_CALLS_PER_ROUND: Final = 3

REASONS: Final[tuple[tuple[tuple[type[Exception], ...], str], ...]] = (
    ((ModelRequestTimeout, ModelTimeoutError), "the language model did not answer within {timeout_s:g} s"),
    ((ModelHTTPError,), "the language model's server answered with status {status}"),
    ((ModelAPIError,), "the language model's server cannot be reached, broke off, or sent what cannot be read"),
    ((UsageLimitExceeded,), "the language model did not come to an answer in {rounds} rounds"),
    ((ContentFilterError,), "the language model's provider refused to answer"),
    ((UnexpectedModelBehavior,), "the language model's answer cannot be used"),
)
"""The first that fits."""

OnUse = Callable[[str, int], None]


class Llm:
    """A speaker (channelmem/llm/responder.py). `on_tokens` is told "input" or "output" and how many."""

    def __init__(
        self, settings: Settings, memory: Memory, characters: Sequence[Character], *, clock: Callable[[], float]
    ) -> None:
        _hush()
        self._settings, self._memory, self._characters = settings, memory, characters
        self.spend = Spend(settings.llm_daily_usd, clock)
        self.on_tokens: OnUse | None = None
        self._models = {name: self._metered(name) for name in {self._model_name(one) for one in characters}}
        self._agents = {one.name: self._agent(one) for one in characters}

    async def reply(self, question: Question, answer: Answer, place: Place) -> AsyncIterator[str]:
        """Yields the whole text so far. What a model says before it looks something up is replaced by what follows."""
        character = spoken_to(question.text, self._characters)
        said = ""
        try:
            prompt = await compose(character, question, answer, place, self._memory, self._settings)
            # Closed at once when nobody listens any more: the provider bills what it goes on to write.
            async with aclosing(self._speak(character, prompt, question)) as speech:
                async for said in speech:
                    if said.strip():
                        yield said
        except (AgentRunError, UserError, CapReachedError, RedisUnavailableError) as error:
            raise SpeechError(_reason(error, self._settings)) from None
        if not said.strip():
            raise SpeechError("the language model said nothing")

    async def close(self) -> None:
        for model in self._models.values():
            # To leave a model is to close its connections.
            async with model:
                pass

    async def _speak(self, character: Character, prompt: Prompt, question: Question) -> AsyncGenerator[str, None]:
        agent = self._agents[character.name]
        limits = self._limits()
        if not self._settings.llm_stream:
            result = await agent.run(
                prompt.message, instructions=prompt.instructions, deps=question, usage_limits=limits
            )
            yield result.output
            return
        said = ""
        async with agent.run_stream_events(
            prompt.message, instructions=prompt.instructions, deps=question, usage_limits=limits
        ) as events:
            async for event in events:
                if (grown := _grown(said, event)) != said:
                    said = grown
                    yield said

    def _limits(self) -> UsageLimits:
        rounds = self._settings.llm_tool_rounds
        return UsageLimits(request_limit=rounds, tool_calls_limit=rounds * TOOL_CALLS_PER_ROUND)

    def _model_name(self, character: Character) -> str:
        return character.model or self._settings.llm_model or ""

    def _metered(self, name: str) -> Metered:
        return Metered(named_model(name, self._settings), self.spend, Prices.of(self._settings), self._count)

    def _count(self, input_tokens: int, output_tokens: int) -> None:
        if self.on_tokens is not None:
            self.on_tokens("input", input_tokens)
            self.on_tokens("output", output_tokens)

    def _agent(self, character: Character) -> Agent[Question, str]:
        tools = [self._tool()] if self._settings.llm_tool else []
        return Agent(
            self._models[self._model_name(character)],
            deps_type=Question,
            name=character.name,
            tools=tools,
            model_settings=self._steps(character),
        )

    def _tool(self) -> Tool[Question]:
        async def look(context: RunContext[Question], /, **arguments: object) -> str:
            try:
                wanted = tool.Arguments.model_validate(arguments)
            except ValidationError as error:
                return tool.complaint(error)
            return fence(LOOKED_UP, await tool.look(self._memory, context.deps, wanted))

        made = Tool[Question].from_schema(look, tool.NAME, tool.DESCRIPTION, tool.schema(), takes_ctx=True)
        # Made from a schema it would take any JSON, and a list cannot be handed over as arguments.
        made.function_schema.validator = SchemaValidator(core_schema.dict_schema(core_schema.str_schema()))
        made.prepare = _unless_alone
        return made

    def _steps(self, character: Character) -> Callable[[RunContext[Question]], ModelSettings]:
        settings = self._settings
        fixed = ModelSettings(
            max_tokens=settings.llm_max_output_tokens,
            # One attempt may take as long as all of them: a slow model is not asked again.
            timeout=settings.llm_timeout_s,
            request_timeout=settings.llm_timeout_s,
            max_retries=settings.llm_retries,
            thinking=False,
        )
        if character.temperature is not None:
            fixed["temperature"] = character.temperature

        def for_step(context: RunContext[Question]) -> ModelSettings:
            last = context.usage.requests >= settings.llm_tool_rounds - 1
            # In the last round there is only time to answer. The tool stays declared: its results refer to it.
            return ModelSettings(**fixed, tool_choice="none") if last and settings.llm_tool else fixed

        return for_step


async def _unless_alone(context: RunContext[Question], offered: ToolDefinition) -> ToolDefinition | None:
    return None if alone(context.deps) else offered


def _grown(said: str, event: AgentStreamEvent | AgentRunResultEvent[str]) -> str:
    match event:
        case AgentRunResultEvent(result=result):
            return result.output
        case PartStartEvent(part=TextPart(content=text)):
            return said + text
        case PartDeltaEvent(delta=TextPartDelta(content_delta=text)):
            return said + text
        case FunctionToolCallEvent():
            return ""
    return said


def _reason(error: Exception, settings: Settings) -> str:
    """Never the text of an error that is not ours."""
    if isinstance(error, CapReachedError | RedisUnavailableError):
        return str(error)
    status = error.status_code if isinstance(error, ModelHTTPError) else 0
    reason = next((words for kinds, words in REASONS if isinstance(error, kinds)), "the language model failed")
    return reason.format(timeout_s=settings.llm_timeout_s, status=status, rounds=settings.llm_tool_rounds)


def _hush() -> None:
    """Below INFO these print what people write, and at INFO the address of every request."""
    for name in CHATTY:
        logging.getLogger(name).setLevel(logging.WARNING)
