"""Answers in a language model's words: streamed, metered, and checked before they count. A provider's response may
contain the key or people's text, which must not reach a log, so its errors are told in our own words."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from datetime import UTC, tzinfo
from typing import Any, Final

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

from channelmem import tool
from channelmem.display import presentable
from channelmem.errors import RedisUnavailableError
from channelmem.ids import ChannelId
from channelmem.interface import ChannelMemory
from channelmem.llm import CUT, MOST_CHARS, Location, ResponderError
from channelmem.llm.checks import Basis, agrees, visible_part, without_marks
from channelmem.llm.models import (
    Endpoint,
    MeteredModel,
    OnTokens,
    UnfinishedError,
    build_model,
    call_settings,
    close_model,
    quiet_sdk_loggers,
)
from channelmem.llm.prompts import TOOL_RESULT, Character, Prompt, character_of, compose, fence, in_isolation
from channelmem.llm.spend import CapReachedError, Prices, Spend
from channelmem.settings import Settings
from channelmem.types import Answer, Context, Kind, Origin, Question

FAILURES: Final = (AgentRunError, UserError, CapReachedError, RedisUnavailableError)  # all that a call may raise

REASONS: Final[tuple[tuple[tuple[type[Exception], ...], str], ...]] = (
    ((ModelRequestTimeout, ModelTimeoutError), "the language model did not answer within {timeout_s:g} s"),
    ((ModelHTTPError,), "the language model's server answered with status {status}"),
    ((UnfinishedError,), "the language model's answer broke off"),
    ((ModelAPIError,), "the language model's server is unreachable, disconnected, or sent an unreadable response"),
    ((UsageLimitExceeded,), "the language model reached no answer within {rounds} rounds"),
    ((ContentFilterError,), "the language model's provider refused to answer"),
    ((UnexpectedModelBehavior,), "the language model's answer is unusable"),
)
"""The first match applies."""

TOOL_CALLS_PER_ROUND: Final = 3

EMPTY: Final = "the language model gave an empty answer"
UNGROUNDED: Final = "the language model's answer does not agree with the messages it was given"
OUTDATED: Final = "a message behind the language model's answer was deleted or changed while it was written"

UntilStored = Callable[[int], Awaitable[None]]


def reason_of(error: Exception, settings: Settings) -> str:
    if isinstance(error, CapReachedError | RedisUnavailableError):
        return str(error)
    status = error.status_code if isinstance(error, ModelHTTPError) else 0
    reason = next((words for kinds, words in REASONS if isinstance(error, kinds)), "the language model failed")
    return reason.format(timeout_s=settings.llm_timeout_s, status=status, rounds=settings.llm_tool_rounds)


@dataclass(slots=True)
class Given:
    """What a model has for one answer. The tool adds to it while the model writes."""

    question: Question
    answer: Answer
    quoted: set[Origin]  # told to the caller: the answer goes with these
    tz: tzinfo = UTC
    context: Context = Context()  # noqa: RUF009  (frozen)
    looked: str = ""  # what of it the tool found
    sources: frozenset[Origin] = frozenset()  # what of it can be looked up again

    @classmethod
    async def of(
        cls, question: Question, answer: Answer, prompt: Prompt, quoted: set[Origin], memory: ChannelMemory
    ) -> Given:
        given = cls(question, answer, quoted, memory.policies.of_question(question).tz)
        # What is quoted counts even if it went before the model began: the quoting answer is part of the prompt.
        given.sources = frozenset(answer.origins if answer.tried and not answer.from_history else ())
        await given.add(replace(prompt.context, text=prompt.given), memory)
        return given

    async def add(self, found: Context, memory: ChannelMemory) -> None:
        self.context += found
        self.quoted |= found.shown
        try:
            self.sources |= await memory.standing(self.question, self.answer, self.context)
        except RedisUnavailableError:
            return  # then it comes from the platform's history, which nothing can be compared with

    def grounds(self, text: str) -> bool:
        """Whether an answer agrees with this. It need not where the question is not about the channel, or where the
        character is given nothing of it."""
        free = in_isolation(self.question) or self.answer.route.kind is Kind.NONE or not self.context.text
        return free or agrees(text, Basis(self.question, self.answer, self.context.text, self.looked, self.tz))

    async def stands(self, memory: ChannelMemory) -> bool:
        """Whether all of it is still visible and unchanged; RedisUnavailableError if that can't be found out."""
        return not self.sources or self.sources <= await memory.standing(self.question, self.answer, self.context)


async def _at_once(channel_id: int) -> None:
    """For callers whose deletes and edits are never on their way to Memory."""


class LlmResponder:
    """A Responder. `on_tokens` is told "input" or "output", and how many. `until_stored` waits until the deletes and
    edits of a channel have reached Memory."""

    def __init__(
        self, settings: Settings, memory: ChannelMemory, characters: Sequence[Character], *, clock: Callable[[], float]
    ) -> None:
        quiet_sdk_loggers()
        self._settings, self._memory, self._characters = settings, memory, characters
        self.spend = Spend(memory.spending, settings.llm_daily_usd, clock)
        self.on_tokens: OnTokens | None = None
        self.until_stored: UntilStored = _at_once
        self._models = {
            name: build_model(name, Endpoint.of(settings)) for name in {self._model_name(one) for one in characters}
        }
        self._agents = {one.name: self._agent(one) for one in characters}

    async def respond(
        self, question: Question, answer: Answer, location: Location, quoted: set[Origin]
    ) -> AsyncIterator[str]:
        """Yields the whole text so far, and the finished text once it is checked. What the model says before a tool
        call is replaced by what follows."""
        character = character_of(question, self._characters)
        said = ready = ""
        try:
            prompt = await compose(character, question, answer, location, self._memory)
            given = await Given.of(question, answer, prompt, quoted, self._memory)
            # Closed as soon as nobody listens: the provider bills whatever else the model writes.
            async with aclosing(self._speak(character, prompt, given)) as growing:
                async for said in growing:
                    # One step behind, because the last step is the whole answer and is checked first.
                    if ready.strip():
                        yield ready
                    if len(said) > MOST_CHARS:
                        break
                    ready = presentable(visible_part(said))
            whole, said = len(said) <= MOST_CHARS, _shown(said)
            await self._check(said, given)
        except FAILURES as error:
            raise ResponderError(reason_of(error, self._settings)) from None
        yield said if whole else f"{said}\n{CUT}"

    async def _check(self, said: str, given: Given) -> None:
        """The last look before an answer counts; raises ResponderError if it must not be shown."""
        if not said.strip():
            raise ResponderError(EMPTY)
        if self._settings.llm_grounded and not given.grounds(said):
            raise ResponderError(UNGROUNDED)
        await self.until_stored(given.question.channel_id)
        if not await given.stands(self._memory):
            raise ResponderError(OUTDATED)

    async def close(self) -> None:
        for model in self._models.values():
            await close_model(model)

    async def _speak(self, character: Character, prompt: Prompt, given: Given) -> AsyncGenerator[str, None]:
        agent, rounds = self._agents[character.name], self._settings.llm_tool_rounds
        call: Any = {
            "model": self._metered(character, given.question),
            "instructions": prompt.instructions,
            "deps": given,
            "usage_limits": UsageLimits(request_limit=rounds, tool_calls_limit=rounds * TOOL_CALLS_PER_ROUND),
        }
        if not self._settings.llm_stream:
            yield (await agent.run(prompt.message, **call)).output
            return
        said = ""
        async with agent.run_stream_events(prompt.message, **call) as events:
            async for event in events:
                if (grown := _grown(said, event)) != said:
                    said = grown
                    yield said

    def _model_name(self, character: Character) -> str:
        return character.model or self._settings.llm_model or ""

    def _metered(self, character: Character, question: Question) -> MeteredModel:
        model, channel = self._models[self._model_name(character)], ChannelId(question.guild_id, question.channel_id)
        return MeteredModel(model, self.spend, channel, Prices.of(self._settings), self.on_tokens)

    def _agent(self, character: Character) -> Agent[Given, str]:
        tools = [self._tool()] if self._settings.llm_tool else []
        return Agent(deps_type=Given, name=character.name, tools=tools, model_settings=self._model_settings(character))

    def _tool(self) -> Tool[Given]:
        async def look(context: RunContext[Given], /, **arguments: object) -> str:
            try:
                wanted = tool.Arguments.model_validate(arguments)
            except ValidationError as error:
                return tool.complaint(error)
            found = await tool.look(self._memory, context.deps.question, wanted)
            context.deps.looked += f"{found.text}\n"
            await context.deps.add(found, self._memory)
            return fence(TOOL_RESULT, found.text)

        made = Tool[Given].from_schema(look, tool.NAME, tool.DESCRIPTION, tool.schema(), takes_ctx=True)
        # A tool made from a schema accepts any JSON, but a list can't be passed as keyword arguments.
        made.function_schema.validator = SchemaValidator(core_schema.dict_schema(core_schema.str_schema()))
        made.prepare = _unless_isolated
        return made

    def _model_settings(self, character: Character) -> Callable[[RunContext[Given]], ModelSettings]:
        settings = self._settings
        fixed = call_settings(settings, settings.llm_max_output_tokens)
        if character.temperature is not None:
            fixed["temperature"] = character.temperature

        def for_step(context: RunContext[Given]) -> ModelSettings:
            last = context.usage.requests >= settings.llm_tool_rounds - 1
            # In the last round the model may only answer. The tool stays declared because earlier results refer to it.
            return ModelSettings(**fixed, tool_choice="none") if last and settings.llm_tool else fixed

        return for_step


async def _unless_isolated(context: RunContext[Given], offered: ToolDefinition) -> ToolDefinition | None:
    return None if in_isolation(context.deps.question) else offered


def _shown(said: str) -> str:
    """What a model wrote, as far as people see it."""
    if len(said) <= MOST_CHARS:
        return presentable(without_marks(said))
    kept = presentable(visible_part(said[:MOST_CHARS]))
    return f"{kept}\n```" if kept.count("```") % 2 else kept


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
