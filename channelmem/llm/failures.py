"""Why a language model gave nothing. In: an exception of a model call. Out: a sentence of our own.

A provider's response may contain the key or people's text, which must not reach a log: errors are never quoted that are
not ours.
"""

from __future__ import annotations

from typing import Final

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

from channelmem.errors import RedisUnavailableError
from channelmem.llm.models import UnfinishedError
from channelmem.llm.spend import CapReachedError
from channelmem.settings import Settings

FAILURES: Final = (AgentRunError, UserError, CapReachedError, RedisUnavailableError)
"""All that a call may raise."""

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


def reason_of(error: Exception, settings: Settings) -> str:
    if isinstance(error, CapReachedError | RedisUnavailableError):
        return str(error)
    status = error.status_code if isinstance(error, ModelHTTPError) else 0
    reason = next((words for kinds, words in REASONS if isinstance(error, kinds)), "the language model failed")
    return reason.format(timeout_s=settings.llm_timeout_s, status=status, rounds=settings.llm_tool_rounds)
