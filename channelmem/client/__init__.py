"""A Memory that lives in a service, with the same methods over HTTP.

    async with Memory.open(settings, history=history) as memory:    # in this process
    async with Client.open(settings, history=history) as memory:    # in a service (CHANNELMEM_SERVICE_URL)

History, members and permissions stay here: the service says what it needs of them (`needs_history`), the client fetches
that and asks again, and the service never stores it.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import cache
from itertools import chain
from typing import Any, Self

from channelmem.client.connection import MISSING, Connection, channel_path
from channelmem.client.levels import RemoteLevels, RemotePolicies
from channelmem.client.rooms import (
    RemoteLoads,
    RemoteMedia,
    RemoteOverview,
    RemoteRecaps,
    RemoteSpending,
    RemoteSummaries,
)
from channelmem.client.writes import Writes
from channelmem.errors import ConfigError, RedisUnavailableError
from channelmem.ids import MessageId
from channelmem.policy.policies import Policies
from channelmem.policy.policy import Policy
from channelmem.settings import Settings, load_settings
from channelmem.types import (
    Answer,
    Aside,
    ChannelStatus,
    Context,
    ContextRequest,
    Gap,
    History,
    Kind,
    Message,
    Origin,
    Outcome,
    Question,
    Route,
    Source,
    SourceReport,
)
from channelmem.wire.answers import AnswerShown, AskAnswer, ContextShown, StandingShown
from channelmem.wire.channels import (
    GapsShown,
    KnownShown,
    OptedOutShown,
    PageShown,
    RedactionsShown,
    ServiceStatus,
    StatsShown,
)
from channelmem.wire.messages import (
    MessageShown,
    edit_json,
    has_place,
    is_sendable,
    value_json,
)

UNREACHABLE = "I can't reach my memory right now."
PROBLEM = "The memory service does not answer."
MOST_ORIGINS = 1_000
_IDS = (7_000_000_000_000_000_001, 7_000_000_000_000_000_002, 7_000_000_000_000_000_003)
"""Stand for guild, channel and message in a link, to learn what links look like."""
DRAIN_S = 5.0
PAGE = 200
"""Messages that the service shows at once."""

log = logging.getLogger(__name__)


class Client:
    """What a bot remembers of the channels around it, kept by a service."""

    def __init__(self, connection: Connection, settings: Settings, history: History | None = None) -> None:
        self._connection, self._settings = connection, settings
        self._levels = RemoteLevels(connection)
        self._policies = RemotePolicies(settings, self._levels)
        self._writes = Writes(connection, settings.queue_size)
        connection.tell = self._writes.tell
        self._history, self._link = history, _template(history)
        self.overview = RemoteOverview(connection)
        self.media = RemoteMedia(connection)
        self.summaries, self.recaps = RemoteSummaries(connection), RemoteRecaps(connection, self._link)
        self.loads, self.spending = RemoteLoads(connection), RemoteSpending(connection)

    @classmethod
    @asynccontextmanager
    async def open(
        cls, settings: Settings | None = None, *, history: History | None = None, patient: bool = False
    ) -> AsyncIterator[Self]:
        """Connects to CHANNELMEM_SERVICE_URL. `patient` also opens while the service is away."""
        settings = settings or load_settings()
        if settings.service_url is None:
            raise ConfigError(MISSING)
        token = settings.service_token.get_secret_value() if settings.service_token else ""
        connection = Connection(settings.service_url, token)
        client = cls(connection, settings, history)
        try:
            await client._start(patient=patient)
            following = asyncio.create_task(client._levels.follow(), name="channelmem following settings")
            try:
                yield client
            finally:
                following.cancel()
                await asyncio.gather(following, return_exceptions=True)
                await client._writes.outbox.close(DRAIN_S)
        finally:
            await connection.close()

    async def _start(self, *, patient: bool) -> None:
        try:
            await self._levels.load()
        except RedisUnavailableError as error:
            if not patient:
                raise
            log.warning("Starting without the memory service: %s", error)

    @property
    def policies(self) -> Policies:
        return self._policies

    # --- the two flows ---

    async def remember(self, message: Message) -> Outcome:
        return (await self.remember_many([message]))[0]

    async def remember_many(self, messages: Sequence[Message]) -> list[Outcome]:
        sent = [one for one in messages if is_sendable(one)]
        outcomes = iter(await self._writes.remember([(one.guild_id, value_json(one)) for one in sent]))
        return [next(outcomes) if is_sendable(one) else _ignored() for one in messages]

    async def flush(self, timeout_s: float = 30.0) -> bool:
        end = time.monotonic() + timeout_s
        while self.queued:
            if time.monotonic() >= end:
                return False
            await asyncio.sleep(0.01)
        left_s = min(30.0, max(0.0, end - time.monotonic()))
        done = await self._connection.call("POST", "/v1/flush", {"timeout_s": left_s}, timeout_s=left_s + 10)
        return bool(done.json()["searchable"])

    def policy(self, guild_id: int, channel_id: int) -> Policy:
        return self._policies.of(guild_id, channel_id)

    # --- questions ---
    # An answer that says `needs_history` or `needs_members` is asked for again with these, each fetched at most once.

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
        wanted = {name: getattr(request, name) for name in ("query", "speaker", "limit", "since_s")}
        return _context(await self._asked("/v1/look", request.question, wanted))

    async def standing(self, question: Question, answer: Answer, context: Context) -> frozenset[Origin]:
        given = context.shown | context.given | {one.origin for one in answer.messages} | set(answer.summarised)
        if not given:
            return given
        body = {
            "guild_id": str(question.guild_id),
            "channel_id": str(question.channel_id),
            "origins": [value_json(one) for one in sorted(given)[:MOST_ORIGINS]],
            "character": question.character,
            "thread_of": str(question.thread_of),
        }
        found = await self._connection.read_as(StandingShown, "POST", "/v1/standing", body)
        standing = frozenset(one.value() for one in found.origins)
        if answer.from_history:
            # The platform's history as it may be shown by now: the service knows who opted out.
            standing |= {one.origin for one in (await self.ask(question)).messages}
        return given & standing

    async def _asked(self, path: str, question: Question, more: dict[str, Any]) -> dict[str, Any]:
        """The answer, asked for again with whatever of the platform it needs and was not sent yet."""
        body = value_json(question) | more | ({"link": self._link} if self._link else {})
        while True:
            found: dict[str, Any] = (await self._connection.read("POST", path, body)).json()
            lacking = await self._lacking(self._history, question, found, body) if self._history else {}
            if not lacking:
                return found
            body |= lacking

    async def _lacking(
        self, history: History, question: Question, found: dict[str, Any], body: dict[str, Any]
    ) -> dict[str, Any]:
        sent: dict[str, Any] = {}
        if found.get("needs_history") and "history" not in body:
            policy = self._policies.of_question(question)
            past = await history.fetch(question, policy.history_limit, policy.history_max_age_s)
            sent |= {"history": _sendable(past.messages), "history_problem": past.problem}
        if found.get("needs_members") and "members" not in body:
            find = getattr(history, "find_members", None)  # an adapter may have no such method
            people = [await find(question.guild_id, prefix) for prefix in found["needs_members"]] if find else []
            sent["members"] = [value_json(one) for one in dict.fromkeys(chain(*people))]
        if found.get("needs_messages") and "referenced" not in body:
            wanted = dict.fromkeys((int(one["channel_id"]), int(one["id"])) for one in found["needs_messages"])
            messages = [await history.fetch_message(*place) for place in wanted]
            sent["referenced"] = _sendable(one for one in messages if one is not None)
        return sent

    # --- answers that people can still read ---

    async def to_redact(self) -> list[MessageId]:
        found = await self._connection.get_as(RedactionsShown, "/v1/redactions")
        return [MessageId(one.guild_id, one.channel_id, one.id) for one in found.answers]

    async def redacted(self, guild_id: int, channel_id: int, message_id: int) -> None:
        await self._connection.call("DELETE", f"/v1/redactions/{guild_id}/{channel_id}/{message_id}")

    # --- changes ---

    async def edit(self, message: Message) -> Outcome:
        if not has_place(message):
            return _ignored()
        if not is_sendable(message):  # the old text is no longer what the message says
            message = replace(message, content="", ts=0.0, revision=time.time(), derived_from=())
        path = f"{channel_path(message.guild_id, message.channel_id)}/messages/{message.id}"
        return await self._writes.edit(message.guild_id, path, edit_json(message))

    async def enrich(self, guild_id: int, channel_id: int, message_id: int, attachment_id: int, text: str) -> bool:
        path = f"{channel_path(guild_id, channel_id)}/messages/{message_id}/attachments/{attachment_id}/text"
        return bool((await self._connection.call("PUT", path, {"text": text})).json()["added"])

    async def delete(self, guild_id: int, channel_id: int, ids: Iterable[int]) -> int:
        names = [str(one) for one in ids]
        if not names:
            return 0
        path = f"{channel_path(guild_id, channel_id)}/messages/bulk-delete"
        return await self._writes.remove(guild_id, "POST", path, {"ids": names})

    async def delete_channel(self, guild_id: int, channel_id: int, at: float | None = None) -> int:
        return await self._writes.remove(guild_id, "DELETE", f"{channel_path(guild_id, channel_id)}?at={_now(at)}")

    async def delete_guild(self, guild_id: int, at: float | None = None) -> int:
        return await self._writes.remove(guild_id, "DELETE", f"/v1/guilds/{guild_id}?at={_now(at)}")

    # --- what people decide ---

    async def forget(self, author_id: int, guild_id: int | None = None) -> None:
        await self._connection.call("POST", f"/v1/people/{author_id}/forget", params=_in(guild_id))

    async def opt_out(self, author_id: int, guild_id: int | None = None) -> None:
        await self._connection.call("POST", f"/v1/people/{author_id}/opt-out", params=_in(guild_id))

    async def opted_out(self, author_id: int, guild_id: int | None = None) -> bool:
        path = f"/v1/people/{author_id}/opted-out"
        return (await self._connection.get_as(OptedOutShown, path, params=_in(guild_id))).opted_out

    async def opt_in(self, author_id: int, guild_id: int | None = None) -> int | None:
        done = await self._connection.call("POST", f"/v1/people/{author_id}/opt-in", params=_in(guild_id))
        return _left(done.json())

    async def returning(self, author_id: int, guild_id: int | None = None) -> int | None:
        found = await self._connection.call("GET", f"/v1/people/{author_id}/returning", params=_in(guild_id))
        return _left(found.json())

    async def export(self, author_id: int) -> AsyncIterator[Message]:
        async for line in self._connection.lines(f"/v1/people/{author_id}/export"):
            yield MessageShown.model_validate_json(line).value()

    async def pause(self, guild_id: int, channel_id: int) -> None:
        await self._connection.call("PUT", f"{channel_path(guild_id, channel_id)}/pause")

    async def resume(self, guild_id: int, channel_id: int) -> None:
        await self._connection.call("DELETE", f"{channel_path(guild_id, channel_id)}/pause")

    async def clear(self, guild_id: int, channel_id: int, at: float | None = None) -> int:
        return await self._writes.remove(
            guild_id, "POST", f"{channel_path(guild_id, channel_id)}/clear", {"at": _now(at)}
        )

    async def recent(self, guild_id: int, channel_id: int, limit: int) -> list[Message]:
        path, found = f"{channel_path(guild_id, channel_id)}/messages", list[Message]()
        cursor: str | None = ""
        while cursor is not None and len(found) < limit:
            part = {"limit": min(PAGE, limit - len(found)), "cursor": cursor}
            page = await self._connection.read_as(PageShown, "GET", path, params=part)
            found += [one.value() for one in page.messages]
            cursor = page.next
        return found[::-1]

    async def status(self, guild_id: int, channel_id: int) -> ChannelStatus:
        found = await self._connection.get_as(StatsShown, f"{channel_path(guild_id, channel_id)}/stats")
        return found.value()

    # --- for adapters that fetch a channel's past ---

    async def last_seen(self, guild_id: int, channel_id: int) -> int | None:
        found = await self._connection.get_as(StatsShown, f"{channel_path(guild_id, channel_id)}/stats")
        return found.newest_id

    async def known(self, guild_id: int, channel_id: int, newest: int) -> dict[int, float]:
        path = f"{channel_path(guild_id, channel_id)}/known"
        found = await self._connection.get_as(KnownShown, path, params={"newest": newest})
        return {one.id: one.revision for one in found.messages}

    async def note_gap(self, guild_id: int, channel_id: int, newest_id: int | None, oldest_id: int) -> None:
        body = {"newest_id": None if newest_id is None else str(newest_id), "oldest_id": str(oldest_id)}
        await self._connection.call("PUT", f"{channel_path(guild_id, channel_id)}/gap", body)

    async def close_gap(self, guild_id: int, channel_id: int) -> None:
        await self._connection.call("DELETE", f"{channel_path(guild_id, channel_id)}/gap")

    async def gaps(self, guild_id: int) -> list[Gap]:
        found = await self._connection.get_as(GapsShown, f"/v1/guilds/{guild_id}/gaps")
        return [one.value() for one in found.gaps]

    # --- health ---

    @property
    def available(self) -> bool:
        """Whether the service, and its Redis, answered last time."""
        return self._connection.answers and not self._writes.outbox.offline

    @property
    def queued(self) -> int:
        """Writes kept in memory while the service is away."""
        return len(self._writes.outbox)

    def is_queued(self, guild_id: int) -> bool:
        return self._writes.is_waiting(guild_id)

    @property
    def dropped(self) -> int:
        return self._writes.outbox.dropped

    async def pending(self) -> int:
        return (await self._status()).pending or 0

    async def lag_s(self) -> float:
        return (await self._status()).lag_s or 0.0

    async def _status(self) -> ServiceStatus:
        return await self._connection.get_as(ServiceStatus, "/v1/status")


def _now(at: float | None) -> float:
    """Of the call, not of its arrival."""
    return time.time() if at is None else at


@cache
def _ignored() -> Outcome:
    log.warning("Ignoring messages with an impossible time or id (logged once)")
    return Outcome.IGNORED


def _in(guild_id: int | None) -> dict[str, str] | None:
    return None if guild_id is None else {"guild_id": str(guild_id)}


def _left(shown: dict[str, Any]) -> int | None:
    return int(shown["left"] or 0) if shown["returning"] else None


def _sendable(messages: Iterable[Message]) -> list[dict[str, Any]]:
    return [value_json(one) for one in messages if is_sendable(one)]


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
