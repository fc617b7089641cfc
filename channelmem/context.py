"""What surrounds a question, as a block for a language model, and what the tool `get_channel_context` finds for it."""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

from channelmem.browse import archived
from channelmem.display import plain_name
from channelmem.errors import RedisUnavailableError
from channelmem.media.media import Media
from channelmem.policy.cascade import Boundary
from channelmem.policy.policies import Policies
from channelmem.policy.policy import Policy
from channelmem.recalling.candidates import Asked
from channelmem.recalling.recall import SHOWN, Recall
from channelmem.routing.route import Scene
from channelmem.store.search import Query, Search
from channelmem.summaries.pyramid import Summary, roots
from channelmem.summaries.reader import Breakdown, PastBlock, SummaryReader, past
from channelmem.telling import references
from channelmem.telling.block import Forest, Parts, assemble, assemble_within, build
from channelmem.types import (
    MEMORY_OFF,
    Answer,
    Context,
    ContextRequest,
    History,
    Kind,
    Message,
    Mode,
    Origin,
    Person,
    Question,
    RelatedChannel,
    Route,
    Source,
    SourceReport,
    Thread,
    Window,
)

CHAIN = 20
MOST_LOOKED = 100
COARSE = 4  # dropping a summary of this level or higher loses much of the past: worth a warning

log = logging.getLogger(__name__)

MOST_RELATED_CHARS: Final = 2_000  # of all related channels together: the channel itself comes first
LEAST_RELATED_CHARS: Final = 200
_GAP: Final = "\n\n"


@dataclass(frozen=True, slots=True)
class Reach:
    """How far back a language model is given what nobody asked for: a time window and a fresh start both apply."""

    since: float | None
    boundary: Boundary | None

    @property
    def start(self) -> float | None:
        """Messages of the boundary's own moment are before it."""
        begun = None if self.boundary is None else math.nextafter(self.boundary.at, math.inf)
        return begun if self.since is None else max(self.since, begun or self.since)

    def has(self, message: Message) -> bool:
        """Whether it comes after the fresh start, or was kept."""
        return self.boundary is None or message.ts > self.boundary.at or message.id in self.boundary.kept


class ContextBuilder:
    def __init__(
        self,
        search: Search,
        recall: Recall,
        history: History | None,
        policies: Policies,
        summaries: SummaryReader,
        media: Media,
    ) -> None:
        self._search, self._recall, self._history, self._policies = search, recall, history, policies
        self._summaries, self._media = summaries, media

    async def context(self, question: Question, answer: Answer, policy: Policy) -> Context:
        """The block, with related channels in front, all within the limits."""
        block, _ = await self.block(question, answer, policy)
        room = min(MOST_RELATED_CHARS, policy.context_char_limit - len(block.text))
        related = await self._related(question, policy, room) if policy.enabled else []
        given = block.given.union(*(one.given for one in related))
        return Context(_GAP.join(filter(None, (*(one.text for one in related), block.text))), block.shown, given)

    async def block(self, question: Question, answer: Answer, policy: Policy) -> tuple[Context, Breakdown]:
        """The block of the channel itself, and what it has of its past."""
        tokens, chars = policy.context_max_tokens, policy.context_char_limit
        if not policy.enabled:
            text, _ = assemble_within(Parts(question.ts, question.bot, question), tokens, chars)
            return Context(text), Breakdown(chars=len(text), limit=chars)
        reach = self._reach(question, policy)
        ambient, prior, answer, summaries = await asyncio.gather(
            self._ambient(question, reach, policy),
            self._prior(question, reach, policy),
            self._current(question, answer, policy),
            self._earlier(question.guild_id, question.channel_id, policy, reach.start),
        )
        fetch = references.layered(
            ambient,
            lambda channel_id, ids: self._stored(question.guild_id, channel_id, ids, policy),
            self._history.fetch_message if self._history else None,
        )
        chain = tuple(filter(reach.has, await references.reply_chain(question, fetch, CHAIN)))
        shown = await references.collect(question, fetch, policy.context_references)
        taken = {message.id for message in (*chain, *shown)} | {question.id}
        linked = await references.linked(ambient, question, fetch)
        seen = await self._media.seen(question, shown, ambient, policy, also=(*prior, *answer.messages))
        most = {"max_threads": policy.context_threads, "max_messages": policy.context_messages}
        forest = _recapped(answer, taken) or build(ambient, exclude=taken, **most)
        parts = Parts(
            now=question.ts,
            bot=question.bot,
            question=question,
            route=answer.route,
            hits=answer.hits,
            prior=tuple(message for message in prior if message.id not in taken),
            forest=forest,
            references=shown,
            chain=chain,
            linked=linked,
            seen=seen,
            tz=policy.tz,
            hit_chars=policy.hit_chars,
        )
        block, raw = assemble_within(parts, tokens, chars)
        told = (*forest.messages, *chain, *shown, *parts.prior)
        before = past(summaries, told, start=reach.start, now=question.ts, tz=policy.tz, limit=chars - len(block) - 2)
        _warn(question, before)
        text = _GAP.join(filter(None, (before.text, block)))
        dropped = len(forest.messages) + forest.more_messages - raw
        made_of = _origins(*answer.messages, *chain, *shown, *linked.values())
        given = made_of | _origins(*prior, *ambient) | _sources(question.channel_id, before.summaries, summaries)
        numbers = Breakdown(before.summaries, raw, len(text), chars, before.dropped, dropped)
        return Context(text, made_of, given), numbers

    async def _earlier(
        self, guild_id: int, channel_id: int, policy: Policy, start: float | None
    ) -> tuple[Summary, ...]:
        with suppress(RedisUnavailableError):
            return await self._summaries.read(guild_id, channel_id, policy, start)
        return ()

    async def look(self, request: ContextRequest, scene: Scene, policy: Policy) -> Context:
        """The tool: searches by topic if given one, else shows the newest; "No relevant recent messages ..." if none;
        RedisUnavailableError if it could not search."""
        if not policy.enabled:
            return Context(MEMORY_OFF)
        question = replace(request.question, text=request.query)
        request = self._within_limits(request, policy)
        route = _route_of(request, scene)
        if route is None:
            # Is it there at all?
            await self._search.newest(Query(question.guild_id, (question.channel_id,), limit=1, limits=policy.limits))
            return Context(f"Nobody called {request.speaker} is known in this channel.")
        recalled = await self._recall(Asked.of(question, route, policy))
        hits = recalled.hits[: min(request.limit, MOST_LOOKED)]
        if recalled.verdict not in SHOWN:  # they come close, and none is an answer
            hits = tuple(replace(hit, answers=False) for hit in hits)
        messages = recalled.messages[-min(request.limit, MOST_LOOKED) :]
        if not hits and not messages:
            _admit(recalled.reports)
            return Context("No relevant recent messages found in this channel.")
        # The model chose the limit; ambient threads may be switched off.
        forest = build(messages, max_threads=policy.context_threads or request.limit, max_messages=request.limit)
        parts = Parts(question.ts, question.bot, hits=hits, forest=forest, tz=policy.tz, hit_chars=policy.hit_chars)
        found = _origins(*(one for hit in hits for one in hit.messages), *messages)
        return Context(assemble(parts, policy.tool_max_tokens), found, found)

    async def standing_past(self, question: Question, answer: Answer, policy: Policy) -> frozenset[Origin]:
        """What the platform's history shows by now, if the answer comes from there."""
        if not answer.from_history:
            return frozenset()
        return _origins(*await self._past(question, policy, policy.history_limit, policy.history_max_age_s))

    def _reach(self, question: Question, policy: Policy, channel_id: int = 0) -> Reach:
        """In the question's channel or a related one, whose fresh start then counts."""
        boundary = self._policies.boundary(question.guild_id, channel_id or question.channel_id)
        age_s = policy.context_max_age_s
        return Reach(None if age_s is None else question.ts - age_s, boundary)

    def _within_limits(self, request: ContextRequest, policy: Policy) -> ContextRequest:
        """A model that just looks around gets no more than it is given unasked; one that searches may find anything."""
        limit = max(1, min(request.limit, policy.context_messages))
        if request.query.strip() or request.speaker or request.since_s is not None:
            return request
        start = self._reach(request.question, policy).start
        since_s = None if start is None else max(0.0, request.question.ts - start)
        return replace(request, limit=limit, since_s=since_s)

    async def _prior(self, question: Question, reach: Reach, policy: Policy) -> list[Message]:
        """What was kept at /new, as far as it is still there."""
        kept = reach.boundary.kept[-MOST_LOOKED:] if reach.boundary else ()
        found = await self._stored(question.guild_id, question.channel_id, kept, policy) if kept else ()
        return sorted(found, key=lambda message: (message.ts, message.id))

    async def _ambient(self, question: Question, reach: Reach, policy: Policy) -> list[Message]:
        """The newest messages of the channel, whoever wrote them, as far back as ambient context reaches."""
        if policy.context_messages == 0:
            return []
        place, window = (question.guild_id, question.channel_id), Window(reach.start, question.ts)
        try:
            newest = await self._search.newest(archived(*place, policy, window, policy.context_messages + 1))
        except RedisUnavailableError:
            past = await self._past(question, policy, policy.context_messages, policy.context_max_age_s)
            newest = [message for message in past if reach.has(message)]
        kept = reach.boundary.kept if reach.boundary else ()
        others = [message for message in newest if message.id != question.id and message.id not in kept]
        return list(reversed(others[: policy.context_messages]))

    async def _current(self, question: Question, answer: Answer, policy: Policy) -> Answer:
        """What the answer rests on, as it is by now: it may have been edited or deleted since it was read."""
        if not answer.tried or answer.from_history:
            return answer
        wanted: dict[int, set[int]] = {}
        for message in answer.messages:
            wanted.setdefault(message.channel_id, set()).add(message.id)
        get = partial(self._search.get, question.guild_id, limits=policy.limits)
        try:
            visible = await asyncio.gather(*(get(channel_id, ids) for channel_id, ids in wanted.items()))
        except RedisUnavailableError:
            return answer
        found = {(one.channel_id, one.id): one for some in visible for one in some}

        def now(messages: Iterable[Message]) -> tuple[Message, ...]:
            return tuple(found[one.channel_id, one.id] for one in messages if (one.channel_id, one.id) in found)

        hits = (replace(hit, message=one, around=now(hit.around)) for hit in answer.hits for one in now([hit.message]))
        threads = (Thread(messages) for thread in answer.threads if (messages := now(thread.messages)))
        return replace(answer, hits=tuple(hits), threads=tuple(threads))

    async def _related(self, question: Question, policy: Policy, room: int) -> list[Context]:
        """Summaries of the channels that this one is related to, each within its share of the room."""
        allowed = [one for one in question.related_channels if one.id in policy.related_channels]
        share = room // len(allowed) - len(_GAP) if allowed else 0
        if share < LEAST_RELATED_CHARS:
            return []
        starts = [self._reach(question, policy, one.id).start for one in allowed]
        found = [await self._beside(question, *one, share) for one in zip(allowed, starts, strict=True)]
        return [one for one in found if one.text]

    async def _beside(self, question: Question, channel: RelatedChannel, start: float | None, limit: int) -> Context:
        policy = self._policies.of(question.guild_id, channel.id, question.character)
        header = f"[related channel: #{plain_name(channel.name)}]"
        read = await self._earlier(question.guild_id, channel.id, policy, start)
        room = limit - len(header) - 1
        told = past(roots(read), (), start=start, now=question.ts, tz=policy.tz, limit=room)
        given = _sources(channel.id, told.summaries, read)
        return Context(f"{header}\n{told.text}", given=given) if told.text else Context()

    async def _past(self, question: Question, policy: Policy, limit: int, max_age_s: float | None) -> list[Message]:
        if self._history is None:
            return []
        past = await self._history.fetch(question, limit, policy.limits.archive_s if max_age_s is None else max_age_s)
        return list(reversed(past.messages))

    async def _stored(self, guild_id: int, channel_id: int, ids: Sequence[int], policy: Policy) -> Sequence[Message]:
        with suppress(RedisUnavailableError):
            return await self._search.get(guild_id, channel_id, ids, limits=policy.limits)
        return []


def _warn(question: Question, before: PastBlock) -> None:
    lost = sum(one.message_count for one in before.dropped if one.level >= COARSE)
    if lost:
        what = "The context of channel %d has no room for %d messages of its past; raise CHANNELMEM_CONTEXT_CHAR_LIMIT"
        log.warning(what, question.channel_id, lost)


def given_to(answer: Answer, context: Context) -> frozenset[Origin]:
    """Everything that a language model was given, or that the quoting answer has."""
    return context.given | _origins(*answer.messages) | set(answer.summarised)


def _origins(*messages: Message) -> frozenset[Origin]:
    return frozenset(message.origin for message in messages)


def _sources(channel_id: int, shown: Iterable[Summary], stored: Collection[Summary]) -> frozenset[Origin]:
    """The stored summaries of which these are a part, or which they are."""
    return frozenset(
        each.origin_in(channel_id)
        for one in shown
        for each in stored
        if each.level == one.level and each.start <= one.start and one.end <= each.end
    )


def _recapped(answer: Answer, taken: set[int]) -> Forest | None:
    """For a recap, its own window replaces the newest messages, uncapped; None if the answer is not a recap."""
    told = [message for thread in answer.threads for message in thread.messages]
    return build(told, exclude=taken, max_threads=len(told), max_messages=len(told)) if told else None


def _admit(reports: Sequence[SourceReport]) -> None:
    """Raises if a source could not be searched: that is not the same as finding nothing."""
    problem = next((one.problem for one in reports if one.problem and one.source is not Source.HISTORY), "")
    if problem:
        raise RedisUnavailableError(problem)


def _route_of(request: ContextRequest, scene: Scene) -> Route | None:
    """A tool call as a route; None if it names an unknown person."""
    speakers = _named(request.speaker, scene) if request.speaker else ()
    if request.speaker and not speakers:
        return None
    start = None if request.since_s is None else scene.now - request.since_s
    recent = start is None or start >= scene.now - scene.horizon_s
    sources = (Source.BUFFER, Source.ARCHIVE) if recent else (Source.ARCHIVE, Source.BUFFER)
    mode = Mode.TOPIC if request.query.strip() else Mode.LATEST if speakers else Mode.RECAP
    why, window = ("asked for by the model",), Window(start, scene.now)
    # The tool's arguments always bind, so the kind is never "memory": such a question may be answered by anybody.
    return Route(Kind.CHANNEL, mode, window, speakers, request.query.strip(), why, (*sources, Source.HISTORY))


def _named(name: str, scene: Scene) -> tuple[Person, ...]:
    if name.strip().lower().lstrip("@") in {"me", "i", "user", scene.asker.name.lower()}:
        return (scene.asker,)
    words = name.casefold().lstrip("@").split()
    found, _ = scene.roster.find(words, 0)
    return found or (scene.roster.guess(words[0]) if words else ())
