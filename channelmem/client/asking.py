"""The client's questions. In: a question, and the platform's history if there is one. Out: what Memory would answer.

An answer that says `needs_history` or `needs_members` is asked for again with these; each is fetched at most once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from cachetools import LRUCache

from channelmem.client.connection import Connection
from channelmem.errors import RedisUnavailableError
from channelmem.policy.policies import Policies
from channelmem.types import (
    Answer,
    Aside,
    ContextRequest,
    History,
    Kind,
    Message,
    Origin,
    Question,
    Route,
    Source,
    SourceReport,
)
from channelmem.wire.answers import AnswerShown, AskAnswer
from channelmem.wire.contexts import ContextShown, StandingShown
from channelmem.wire.messages import is_sendable, message_json, origin_json, person_json, question_json

SHOWN = 500
UNREACHABLE = "I can't reach my memory right now."
PROBLEM = "The memory service does not answer."
MOST_ORIGINS = 1_000
_IDS = (7_000_000_000_000_000_001, 7_000_000_000_000_000_002, 7_000_000_000_000_000_003)
"""Stand for guild, channel and message in a link, to learn what links look like."""

Place = tuple[int, int, int]


class Asking:
    def __init__(self, connection: Connection, policies: Policies, history: History | None) -> None:
        self._connection, self._policies, self._history = connection, policies, history
        self.link = _template(history)
        self._shown: LRUCache[Place, frozenset[Origin]] = LRUCache(SHOWN)
        self._given: LRUCache[Place, frozenset[Origin]] = LRUCache(SHOWN)

    async def ask(self, question: Question) -> Answer:
        try:
            shown = AskAnswer.model_validate(await self._asked("/v1/ask", question, {}))
        except RedisUnavailableError:
            report = SourceReport(Source.ARCHIVE, problem=PROBLEM)
            return Answer(UNREACHABLE, Route(Kind.CHANNEL, why=(PROBLEM,), aside=Aside.UNREACHABLE), tried=(report,))
        return shown.value()

    async def context(self, question: Question, answer: Answer) -> str:
        body = {"answer": AnswerShown.model_validate(answer).model_dump(mode="json")}
        try:
            return self._note(question, await self._asked("/v1/context", question, body))
        except RedisUnavailableError:
            return ""

    async def look(self, request: ContextRequest) -> str:
        wanted = {
            "query": request.query,
            "speaker": request.speaker,
            "limit": request.limit,
            "since_s": request.since_s,
        }
        return self._note(request.question, await self._asked("/v1/look", request.question, wanted))

    def shown(self, guild_id: int, channel_id: int, question_id: int) -> frozenset[Origin]:
        return self._shown.get((guild_id, channel_id, question_id), frozenset())

    async def standing(self, question: Question, answer: Answer) -> frozenset[Origin]:
        place = (question.guild_id, question.channel_id, question.id)
        given = self.shown(*place) | self._given.get(place, frozenset()) | {one.origin for one in _told(answer)}
        given |= set(answer.summarised)
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
        if answer.tried and answer.tried[-1].source is Source.HISTORY:
            # The platform's history as it may be shown by now: the service knows who opted out.
            standing |= {one.origin for one in _told(await self.ask(question))}
        return given & standing

    def _note(self, question: Question, found: dict[str, Any]) -> str:
        shown, place = ContextShown.model_validate(found), (question.guild_id, question.channel_id, question.id)
        self._shown[place] = self.shown(*place) | {one.value() for one in shown.shown}
        self._given[place] = self._given.get(place, frozenset()) | {one.value() for one in shown.given}
        return shown.text

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


def _told(answer: Answer) -> Iterator[Message]:
    for hit in answer.hits:
        yield from (hit.message, *hit.around)
    for thread in answer.threads:
        yield from thread.messages


def _template(history: History | None) -> str:
    """What the platform's links look like."""
    link = history.jump_url(*_IDS) if history else ""
    for name, value in zip(("guild_id", "channel_id", "id"), _IDS, strict=True):
        link = link.replace(str(value), f"{{{name}}}")
    return link
