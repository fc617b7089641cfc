"""What surrounds a question, for a language model. In: a question with its answer, or a tool call. Out: one block.

Gathers the ambient threads, the hits, explicit references and the reply chain; `assemble` fits them into the budget.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from cachetools import LRUCache

from channelmem.errors import RedisUnavailableError
from channelmem.policy import Policy
from channelmem.recalling.recall import MEMORY_OFF, Recall
from channelmem.routing.route import Scene
from channelmem.store.search import Query, Search
from channelmem.telling import references
from channelmem.telling.assemble import Parts, assemble
from channelmem.telling.threads import Forest, build
from channelmem.types import (
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
    Route,
    Source,
    SourceReport,
    Thread,
    Window,
)

CHAIN = 20
SHOWN = 500
"""Questions whose messages are noted, until the answer to them is stored."""
MOST_LOOKED = 100


class ContextBuilder:
    def __init__(self, search: Search, recall: Recall, history: History | None) -> None:
        self._search, self._recall, self._history = search, recall, history
        self._shown: LRUCache[tuple[int, int, int], frozenset[Origin]] = LRUCache(SHOWN)
        self._nearby: LRUCache[tuple[int, int, int], frozenset[Origin]] = LRUCache(SHOWN)
        """The ambient messages a language model was given."""

    def shown(self, guild_id: int, channel_id: int, question_id: int) -> frozenset[Origin]:
        """The messages a language model was shown because of a question, here or by its tool. Ambient ones do not
        count: an answer mostly says nothing of them, and must not go with every message that was near it."""
        return self._shown.get((guild_id, channel_id, question_id), frozenset())

    def _note(self, question: Question, *groups: Iterable[Message]) -> None:
        """Ids only: texts must not stay in this process."""
        told = {message.origin for group in groups for message in group}
        place = _place(question)
        self._shown[place] = self.shown(*place) | told

    async def context(self, question: Question, answer: Answer, policy: Policy) -> str:
        if not policy.enabled:
            return assemble(Parts(question.ts, question.bot, question), policy.context_max_tokens)
        ambient, answer = await asyncio.gather(self._ambient(question, policy), self._current(question, answer, policy))
        fetch = references.layered(
            ambient,
            lambda channel_id, ids: self._stored(question.guild_id, channel_id, ids, policy),
            self._history.fetch_message if self._history else None,
        )
        chain = await references.reply_chain(question, fetch, CHAIN)
        shown = await references.collect(question, fetch, policy.context_references)
        taken = {message.id for message in (*chain, *shown)} | {question.id}
        linked = await references.linked(ambient, question, fetch)
        self._note(question, _told(answer), chain, shown, linked.values())
        self._nearby[_place(question)] = frozenset(message.origin for message in ambient)
        parts = Parts(
            now=question.ts,
            bot=question.bot,
            question=question,
            route=answer.route,
            hits=answer.hits,
            forest=_recapped(answer, taken) or _forest(ambient, taken, policy),
            references=shown,
            chain=chain,
            linked=linked,
            tz=policy.tz,
            hit_chars=policy.hit_chars,
        )
        return assemble(parts, policy.context_max_tokens)

    async def look(self, request: ContextRequest, scene: Scene, policy: Policy) -> str:
        """The tool: searches by topic if given one, else shows the newest; "No relevant recent messages ..." if none.

        Raises RedisUnavailableError if it could not search.
        """
        if not policy.enabled:
            return MEMORY_OFF
        question = replace(request.question, text=request.query)
        route = _route_of(request, scene)
        if route is None:
            await self._search.newest(
                Query(question.guild_id, (question.channel_id,), limit=1, limits=policy.limits)
            )  # is it there at all?
            return f"Nobody called {request.speaker} is known in this channel."
        recalled = await self._recall(question, route, policy)
        hits = recalled.hits[: min(request.limit, MOST_LOOKED)]
        messages = recalled.messages[-min(request.limit, MOST_LOOKED) :]
        if not hits and not messages:
            _admit(recalled.reports)
            return "No relevant recent messages found in this channel."
        self._note(question, _messages(hits), messages)
        # The model chose the limit; ambient threads may be switched off.
        forest = build(messages, max_threads=policy.context_threads or request.limit, max_messages=request.limit)
        parts = Parts(question.ts, question.bot, hits=hits, forest=forest, tz=policy.tz, hit_chars=policy.hit_chars)
        return assemble(parts, policy.tool_max_tokens)

    async def standing(self, question: Question, answer: Answer, policy: Policy) -> frozenset[Origin]:
        """What of all that was given because of a question, ambient messages included, is visible and unchanged."""
        place = _place(question)
        given = self.shown(*place) | self._nearby.get(place, frozenset()) | {one.origin for one in _told(answer)}
        wanted: dict[int, set[int]] = {}
        for origin in given:
            wanted.setdefault(origin.channel_id, set()).add(origin.id)
        found = await self._visible(question.guild_id, wanted, policy)
        if given and _is_from_history(answer):
            found += await self._past(question, policy)
        return given & {message.origin for message in found}

    async def _visible(self, guild_id: int, wanted: Mapping[int, set[int]], policy: Policy) -> list[Message]:
        """Those of these messages, given by channel, that are visible."""
        look_up = (self._search.get(guild_id, one, ids, limits=policy.limits) for one, ids in wanted.items())
        return [message for some in await asyncio.gather(*look_up) for message in some]

    async def _ambient(self, question: Question, policy: Policy) -> list[Message]:
        """The newest messages of the channel, whoever wrote them, as far back as ambient context reaches."""
        age_s = policy.context_max_age_s
        query = Query(
            question.guild_id,
            (question.channel_id,),
            Window(None if age_s is None else question.ts - age_s, question.ts),
            limit=policy.context_messages + 1,
            flagged=True,
            source=Source.ARCHIVE,
            limits=policy.limits,
        )
        try:
            newest = await self._search.newest(query)
        except RedisUnavailableError:
            newest = await self._past(question, policy)
        return [message for message in reversed(newest) if message.id != question.id]

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

    async def _past(self, question: Question, policy: Policy) -> list[Message]:
        if self._history is None:
            return []
        past = await self._history.fetch(question, policy.history_limit, policy.history_max_age_s)
        return list(reversed(past.messages))

    async def _stored(self, guild_id: int, channel_id: int, ids: Sequence[int], policy: Policy) -> Sequence[Message]:
        try:
            return await self._search.get(guild_id, channel_id, ids, limits=policy.limits)
        except RedisUnavailableError:
            return []


def _place(question: Question) -> tuple[int, int, int]:
    return question.guild_id, question.channel_id, question.id


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
