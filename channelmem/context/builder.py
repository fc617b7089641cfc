"""What a language model was given because of a question, until its answer is stored. In: messages and summaries as they
are put into its context. Out: the same, to be looked up again.

Ids only: texts must not stay in this process.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from cachetools import LRUCache

from channelmem.display import plain_name
from channelmem.errors import RedisUnavailableError
from channelmem.media.media import Media
from channelmem.policy.cascade import Boundary
from channelmem.policy.policies import Policies
from channelmem.policy.policy import Policy
from channelmem.recalling.candidates import Asked
from channelmem.recalling.recall import Recall
from channelmem.routing.route import Scene
from channelmem.store.search import Query, Search
from channelmem.summaries.pyramid import Summary, roots
from channelmem.summaries.reader import Breakdown, PastBlock, SummaryReader, past
from channelmem.telling import references
from channelmem.telling.block import Forest, Parts, assemble, assemble_within, build
from channelmem.types import (
    MEMORY_OFF,
    Answer,
    ContextRequest,
    History,
    Hit,
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

QUESTIONS: Final = 500
"""Whose messages are noted; the least recently used go first."""

Place = tuple[int, int, int]
"""Guild, channel and question."""


class GivenMessages:
    def __init__(self) -> None:
        self._shown: LRUCache[Place, frozenset[Origin]] = LRUCache(QUESTIONS)
        self._nearby: LRUCache[Place, frozenset[Origin]] = LRUCache(QUESTIONS)
        self._summaries: LRUCache[Place, Mapping[str, float]] = LRUCache(QUESTIONS)

    def show(self, question: Question, *groups: Iterable[Message]) -> None:
        """Notes what is shown because of the question."""
        place = _place(question)
        self._shown[place] = self.shown(place) | {message.origin for group in groups for message in group}

    def surround(self, question: Question, nearby: Iterable[Message], summaries: Iterable[Summary]) -> None:
        """Notes what is shown besides: ambient messages and summaries."""
        self._nearby[_place(question)] = frozenset(message.origin for message in nearby)
        self._summaries[_place(question)] = {one.id: one.created for one in summaries}

    def shown(self, place: Place) -> frozenset[Origin]:
        return self._shown.get(place, frozenset())

    def messages(self, question: Question) -> frozenset[Origin]:
        """All of them, ambient ones included."""
        return self.shown(_place(question)) | self._nearby.get(_place(question), frozenset())

    def summaries(self, question: Question) -> Mapping[str, float]:
        """Ids, and when they were made."""
        return self._summaries.get(_place(question), {})


def same_summaries(
    question: Question, given: Mapping[str, float], found: Iterable[Summary], channel_id: int = 0
) -> frozenset[Origin]:
    """Those that are still the same, of the question's channel or of another one. A summary counts as one source, under
    a number that no message has: its messages may have expired."""
    same = (one for one in found if one.created == given.get(one.id))
    return frozenset(summary_origin(channel_id or question.channel_id, one) for one in same)


def summary_origin(channel_id: int, summary: Summary) -> Origin:
    return Origin(channel_id, -(math.floor(summary.start * 1000) * 100 + summary.level), summary.created)


def _place(question: Question) -> Place:
    return question.guild_id, question.channel_id, question.id


# --- context ---


CHAIN = 20
MOST_LOOKED = 100
COARSE = 4
"""Dropping a summary of this level or higher loses much of the past: worth a warning."""

log = logging.getLogger(__name__)

BoundaryOf = Callable[[int, int], Boundary | None]
"""Where a channel of a guild began anew."""


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
        boundary_of: BoundaryOf,
        summaries: SummaryReader,
        media: Media,
    ) -> None:
        self._search, self._recall, self._history, self._boundary_of = search, recall, history, boundary_of
        self._summaries, self._media, self._given = summaries, media, GivenMessages()

    def shown(self, guild_id: int, channel_id: int, question_id: int) -> frozenset[Origin]:
        """The messages a language model was shown because of a question, here or by its tool. Ambient ones do not
        count: an answer mostly says nothing of them, and must not go with every message that was near it."""
        return self._given.shown((guild_id, channel_id, question_id))

    async def context(self, question: Question, answer: Answer, policy: Policy) -> tuple[str, Breakdown]:
        """The block, and what it has of the channel's past."""
        tokens, chars = policy.context_max_tokens, policy.context_char_limit
        if not policy.enabled:
            block, _ = assemble_within(Parts(question.ts, question.bot, question), tokens, chars)
            return block, Breakdown(chars=len(block), limit=chars)
        reach = self._reach(question, policy)
        ambient, prior, answer, summaries = await asyncio.gather(
            self._ambient(question, reach, policy),
            self._prior(question, reach, policy),
            self._current(question, answer, policy),
            self._earlier(question, reach, policy),
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
        seen = await self._media.seen(question, shown, ambient, policy, also=(*prior, *_told(answer)))
        self._given.show(question, _told(answer), chain, shown, linked.values())
        forest = _recapped(answer, taken) or _forest(ambient, taken, policy)
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
        self._given.surround(question, (*prior, *ambient), _originals(before.summaries, summaries))
        text = "\n\n".join(filter(None, (before.text, block)))
        dropped = len(forest.messages) + forest.more_messages - raw
        return text, Breakdown(before.summaries, raw, len(text), chars, before.dropped, dropped)

    async def _earlier(self, question: Question, reach: Reach, policy: Policy) -> tuple[Summary, ...]:
        try:
            return await self._summaries.read(question.guild_id, question.channel_id, policy, reach.start)
        except RedisUnavailableError:
            return ()

    async def look(self, request: ContextRequest, scene: Scene, policy: Policy) -> str:
        """The tool: searches by topic if given one, else shows the newest; "No relevant recent messages ..." if none.

        Raises RedisUnavailableError if it could not search.
        """
        if not policy.enabled:
            return MEMORY_OFF
        question = replace(request.question, text=request.query)
        request = self._within_limits(request, policy)
        route = _route_of(request, scene)
        if route is None:
            await self._search.newest(
                Query(question.guild_id, (question.channel_id,), limit=1, limits=policy.limits)
            )  # is it there at all?
            return f"Nobody called {request.speaker} is known in this channel."
        recalled = await self._recall(Asked.of(question, route, policy))
        hits = recalled.hits[: min(request.limit, MOST_LOOKED)]
        messages = recalled.messages[-min(request.limit, MOST_LOOKED) :]
        if not hits and not messages:
            _admit(recalled.reports)
            return "No relevant recent messages found in this channel."
        self._given.show(question, _messages(hits), messages)
        # The model chose the limit; ambient threads may be switched off.
        forest = build(messages, max_threads=policy.context_threads or request.limit, max_messages=request.limit)
        parts = Parts(question.ts, question.bot, hits=hits, forest=forest, tz=policy.tz, hit_chars=policy.hit_chars)
        return assemble(parts, policy.tool_max_tokens)

    async def recent(self, guild_id: int, channel_id: int, limit: int, policy: Policy) -> list[Message]:
        """The newest messages of a channel, oldest first, whatever a language model would be given of them."""
        if not policy.enabled:
            return []
        query = Query(guild_id, (channel_id,), limit=limit, flagged=True, source=Source.ARCHIVE, limits=policy.limits)
        return list(reversed(await self._search.newest(query)))

    async def standing(self, question: Question, answer: Answer, policy: Policy) -> frozenset[Origin]:
        """What of all that was given because of a question, ambient messages included, is visible and unchanged; a
        summary counts as one source (`same_summaries`)."""
        given = self._given.messages(question) | {one.origin for one in _told(answer)} | set(answer.summarised)
        wanted: dict[int, set[int]] = {}
        for origin in given:
            wanted.setdefault(origin.channel_id, set()).add(origin.id)
        found = await self._visible(question.guild_id, wanted, policy)
        if given and _is_from_history(answer):
            found += await self._past(question, policy, policy.history_limit, policy.history_max_age_s)
        place, summaries = (question.guild_id, question.channel_id), self._given.summaries(question)
        standing = await self._summaries.standing(*place, summaries, policy) if summaries else {}
        return given & {message.origin for message in found} | same_summaries(question, summaries, standing.values())

    async def _visible(self, guild_id: int, wanted: Mapping[int, set[int]], policy: Policy) -> list[Message]:
        """Those of these messages, given by channel, that are visible."""
        look_up = (self._search.get(guild_id, one, ids, limits=policy.limits) for one, ids in wanted.items())
        return [message for some in await asyncio.gather(*look_up) for message in some]

    def _reach(self, question: Question, policy: Policy) -> Reach:
        boundary = self._boundary_of(question.guild_id, question.channel_id)
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
        """What was kept when the channel began anew, as far as it is still there."""
        kept = reach.boundary.kept[-MOST_LOOKED:] if reach.boundary else ()
        found = await self._stored(question.guild_id, question.channel_id, kept, policy) if kept else ()
        return sorted(found, key=lambda message: (message.ts, message.id))

    async def _ambient(self, question: Question, reach: Reach, policy: Policy) -> list[Message]:
        """The newest messages of the channel, whoever wrote them, as far back as ambient context reaches."""
        if policy.context_messages == 0:
            return []
        query = Query(
            question.guild_id,
            (question.channel_id,),
            Window(reach.start, question.ts),
            limit=policy.context_messages + 1,
            flagged=True,
            source=Source.ARCHIVE,
            limits=policy.limits,
        )
        try:
            newest = await self._search.newest(query)
        except RedisUnavailableError:
            past = await self._past(question, policy, policy.context_messages, policy.context_max_age_s)
            newest = [message for message in past if reach.has(message)]
        kept = reach.boundary.kept if reach.boundary else ()
        others = [message for message in newest if message.id != question.id and message.id not in kept]
        return list(reversed(others[: policy.context_messages]))

    async def _current(self, question: Question, answer: Answer, policy: Policy) -> Answer:
        """What the answer rests on, as it is by now: it may have been edited or deleted since it was read."""
        if not answer.tried or _is_from_history(answer):
            return answer
        wanted: dict[int, set[int]] = {}
        for message in _told(answer):
            wanted.setdefault(message.channel_id, set()).add(message.id)
        try:
            visible = await self._visible(question.guild_id, wanted, policy)
        except RedisUnavailableError:
            return answer
        found = {(one.channel_id, one.id): one for one in visible}

        def now(messages: Iterable[Message]) -> tuple[Message, ...]:
            return tuple(found[one.channel_id, one.id] for one in messages if (one.channel_id, one.id) in found)

        hits = (replace(hit, message=one, around=now(hit.around)) for hit in answer.hits for one in now([hit.message]))
        threads = (Thread(messages) for thread in answer.threads if (messages := now(thread.messages)))
        return replace(answer, hits=tuple(hits), threads=tuple(threads))

    async def _past(self, question: Question, policy: Policy, limit: int, max_age_s: float | None) -> list[Message]:
        if self._history is None:
            return []
        past = await self._history.fetch(question, limit, policy.limits.archive_s if max_age_s is None else max_age_s)
        return list(reversed(past.messages))

    async def _stored(self, guild_id: int, channel_id: int, ids: Sequence[int], policy: Policy) -> Sequence[Message]:
        try:
            return await self._search.get(guild_id, channel_id, ids, limits=policy.limits)
        except RedisUnavailableError:
            return []


def _warn(question: Question, before: PastBlock) -> None:
    coarse = [one for one in before.dropped if one.level >= COARSE]
    if coarse:
        log.warning(
            "The context of channel %d has no room for %d messages of its past; raise CHANNELMEM_CONTEXT_CHAR_LIMIT",
            question.channel_id,
            sum(one.message_count for one in coarse),
        )


def _originals(shown: Iterable[Summary], stored: Iterable[Summary]) -> Iterator[Summary]:
    """The stored ones of which these are a part, or which they are."""
    for one in shown:
        yield from (
            each for each in stored if each.level == one.level and each.start <= one.start and one.end <= each.end
        )


def _is_from_history(answer: Answer) -> bool:
    return bool(answer.tried) and answer.tried[-1].source is Source.HISTORY


def _forest(messages: Sequence[Message], taken: set[int], policy: Policy) -> Forest:
    return build(messages, exclude=taken, max_threads=policy.context_threads, max_messages=policy.context_messages)


def _messages(hits: Iterable[Hit]) -> Iterator[Message]:
    for hit in hits:
        yield from (hit.message, *hit.around)


def _told(answer: Answer) -> Iterator[Message]:
    yield from _messages(answer.hits)
    for thread in answer.threads:
        yield from thread.messages


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
    speakers: tuple[Person, ...] = ()
    if request.speaker:
        speakers = _named(request.speaker, scene)
        if not speakers:
            return None
    start = None if request.since_s is None else scene.now - request.since_s
    recent = start is None or start >= scene.now - scene.horizon_s
    sources = (Source.BUFFER, Source.ARCHIVE) if recent else (Source.ARCHIVE, Source.BUFFER)
    mode = Mode.TOPIC if request.query.strip() else Mode.LATEST if speakers else Mode.RECAP
    why = ("asked for by the model",)
    window = Window(start, scene.now)
    # The tool's arguments always bind, so the kind is never "memory": such a question may be answered by anybody.
    return Route(Kind.CHANNEL, mode, window, speakers, request.query.strip(), why, (*sources, Source.HISTORY))


def _named(name: str, scene: Scene) -> tuple[Person, ...]:
    if name.strip().lower().lstrip("@") in {"me", "i", "user", scene.asker.name.lower()}:
        return (scene.asker,)
    words = name.casefold().lstrip("@").split()
    found, _ = scene.roster.find(words, 0)
    return found or (scene.roster.guess(words[0]) if words else ())


# --- related ---


MOST_CHARS: Final = 2_000
"""Of all related channels together: the channel itself comes first."""
LEAST_CHARS: Final = 200

_GAP: Final = "\n\n"


class RelatedSummaries:
    def __init__(self, summaries: SummaryReader, policies: Policies) -> None:
        self._summaries, self._policies = summaries, policies
        self._given: LRUCache[Place, Mapping[int, Mapping[str, float]]] = LRUCache(QUESTIONS)
        """By channel: ids of summaries, and when they were made."""

    async def beside(self, question: Question, text: str) -> str:
        """The context with the related channels in front, within the same limit."""
        policy = self._policies.of_question(question)
        allowed = [one for one in question.related_channels if one.id in policy.related_channels]
        if not allowed or not policy.enabled:
            return text
        room = min(MOST_CHARS, policy.context_char_limit - len(text))
        blocks, given = [], dict[int, Mapping[str, float]]()
        for channel in allowed:
            share = room // len(allowed) - len(_GAP)
            block, shown = await self._block(question, channel, share) if share >= LEAST_CHARS else ("", ())
            if block:
                blocks.append(block)
                given[channel.id] = {one.id: one.created for one in shown}
        self._given[_place(question)] = given
        return _GAP.join(filter(None, (*blocks, text)))

    async def standing(self, question: Question) -> frozenset[Origin]:
        """What of them is still the same; may raise RedisUnavailableError."""
        found: frozenset[Origin] = frozenset()
        for channel_id, given in self._given.get(_place(question), {}).items():
            policy = self._policies.of(question.guild_id, channel_id)
            same = await self._summaries.standing(question.guild_id, channel_id, given, policy)
            found |= same_summaries(question, given, same.values(), channel_id)
        return found

    async def _block(self, question: Question, channel: RelatedChannel, limit: int) -> tuple[str, tuple[Summary, ...]]:
        policy = self._policies.of(question.guild_id, channel.id, question.character)
        header = f"[related channel: #{plain_name(channel.name)}]"
        try:
            read = await self._summaries.read(question.guild_id, channel.id, policy, self._since(question, channel.id))
        except RedisUnavailableError:
            return "", ()
        room = limit - len(header) - 1
        start = self._since(question, channel.id)
        told = past(roots(read), (), start=start, now=question.ts, tz=policy.tz, limit=room)
        return (f"{header}\n{told.text}", told.summaries) if told.text else ("", ())

    def _since(self, question: Question, channel_id: int) -> float | None:
        """As far back as context reaches here, and not beyond a fresh start there."""
        age_s = self._policies.of_question(question).context_max_age_s
        begun = self._policies.boundary(question.guild_id, channel_id)
        starts = [*([] if age_s is None else [question.ts - age_s]), *([begun.at] if begun else [])]
        return max(starts, default=None)
