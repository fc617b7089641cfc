"""The client's questions. In: a question, and the platform's history if there is one. Out: what Memory would answer.

An answer that says `needs_history` or `needs_members` is asked for again with these; each is fetched at most once.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from channelmem.client.connection import Connection
from channelmem.errors import RedisUnavailableError
from channelmem.policy.policies import Policies
from channelmem.types import (
    Answer,
    Aside,
    Context,
    ContextRequest,
    History,
    Kind,
    Origin,
    Question,
    Route,
    Source,
    SourceReport,
)
from channelmem.wire.answers import AnswerShown, AskAnswer
from channelmem.wire.contexts import ContextShown, StandingShown
from channelmem.wire.messages import is_sendable, message_json, origin_json, person_json, question_json

UNREACHABLE = "I can't reach my memory right now."
PROBLEM = "The memory service does not answer."
MOST_ORIGINS = 1_000
_IDS = (7_000_000_000_000_000_001, 7_000_000_000_000_000_002, 7_000_000_000_000_000_003)
"""Stand for guild, channel and message in a link, to learn what links look like."""


class Asking:
    def __init__(self, connection: Connection, policies: Policies, history: History | None) -> None:
        self._connection, self._policies, self._history = connection, policies, history
        self.link = _template(history)

    async def ask(self, question: Question) -> Answer:
        try:
            shown = AskAnswer.model_validate(await self._asked("/v1/ask", question, {}))
        except RedisUnavailableError:
            report = SourceReport(Source.ARCHIVE, problem=PROBLEM)
            return Answer(UNREACHABLE, Route(Kind.CHANNEL, why=(PROBLEM,), aside=Aside.UNREACHABLE), tried=(report,))
        return shown.value()

    async def context(self, question: Question, answer: Answer) -> Context:
        body = {"answer": AnswerShown.model_validate(answer).model_dump(mode="json")}
        try:
            return _context(await self._asked("/v1/context", question, body))
        except RedisUnavailableError:
            return Context()

    async def look(self, request: ContextRequest) -> Context:
        wanted = {
            "query": request.query,
            "speaker": request.speaker,
            "limit": request.limit,
            "since_s": request.since_s,
        }
        return _context(await self._asked("/v1/look", request.question, wanted))

    async def standing(self, question: Question, answer: Answer, context: Context) -> frozenset[Origin]:
        given = context.shown | context.given | {one.origin for one in answer.messages} | set(answer.summarised)
        if not given:
            return given
        body = {
            "guild_id": str(question.guild_id),
            "channel_id": str(question.channel_id),
            "origins": [origin_json(one) for one in sorted(given)[:MOST_ORIGINS]],
            "character": question.character,
            "thread_of": str(question.thread_of),
        }
        found = StandingShown.model_validate((await self._connection.read("POST", "/v1/standing", body)).json())
        standing = frozenset(one.value() for one in found.origins)
        if answer.from_history:
            # The platform's history as it may be shown by now: the service knows who opted out.
            standing |= {one.origin for one in (await self.ask(question)).messages}
        return given & standing

    async def _asked(self, path: str, question: Question, more: dict[str, Any]) -> dict[str, Any]:
        """The answer, asked for again with whatever of the platform it needs and was not sent yet."""
        body = question_json(question) | more | ({"link": self.link} if self.link else {})
        while True:
            found: dict[str, Any] = (await self._connection.read("POST", path, body)).json()
            lacking = await self._lacking(question, found, body) if self._history else {}
            if not lacking:
                return found
            body |= lacking

    async def _lacking(self, question: Question, found: dict[str, Any], body: dict[str, Any]) -> dict[str, Any]:
        sent: dict[str, Any] = {}
        if found.get("needs_history") and "history" not in body:
            sent |= await self._past(question)
        if found.get("needs_members") and "members" not in body:
            sent["members"] = await self._members(question.guild_id, found["needs_members"])
        if found.get("needs_messages") and "referenced" not in body:
            wanted = [(int(one["channel_id"]), int(one["id"])) for one in found["needs_messages"]]
            sent["referenced"] = await self._referenced(wanted)
        return sent

    async def _past(self, question: Question) -> dict[str, Any]:
        assert self._history is not None  # noqa: S101  (types)
        policy = self._policies.of_question(question)
        past = await self._history.fetch(question, policy.history_limit, policy.history_max_age_s)
        return {
            "history": [message_json(one) for one in past.messages if is_sendable(one)],
            "history_problem": past.problem,
        }

    async def _members(self, guild_id: int, prefixes: Sequence[str]) -> list[dict[str, Any]]:
        find = getattr(self._history, "find_members", None)  # an adapter may have no such method
        found = [person for prefix in prefixes for person in (await find(guild_id, prefix) if find else ())]
        return [person_json(one) for one in dict.fromkeys(found)]

    async def _referenced(self, wanted: Iterable[tuple[int, int]]) -> list[dict[str, Any]]:
        assert self._history is not None  # noqa: S101  (types)
        found = [await self._history.fetch_message(channel_id, id_) for channel_id, id_ in dict.fromkeys(wanted)]
        return [message_json(one) for one in found if one is not None and is_sendable(one)]


def _context(found: dict[str, Any]) -> Context:
    made = ContextShown.model_validate(found)
    shown, given = (frozenset(one.value() for one in some) for some in (made.shown, made.given))
    return Context(made.text, shown, given)


def _template(history: History | None) -> str:
    """What the platform's links look like."""
    link = history.jump_url(*_IDS) if history else ""
    for name, value in zip(("guild_id", "channel_id", "id"), _IDS, strict=True):
        link = link.replace(str(value), f"{{{name}}}")
    return link
