"""What surrounds a question, for a language model. In: a question with its answer, or a tool call. Out: one block.

Gathers the ambient threads, the hits, explicit references and the reply chain; `assemble` fits them into the budget.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from channelmem.errors import RedisUnavailableError
from channelmem.recalling.recall import Recall
from channelmem.routing.route import Scene
from channelmem.settings import Settings
from channelmem.store.search import Query, Search
from channelmem.telling import references
from channelmem.telling.assemble import Parts, assemble
from channelmem.telling.threads import Forest, build
from channelmem.types import (
    Answer,
    ContextRequest,
    History,
    Kind,
    Message,
    Mode,
    Person,
    Question,
    Route,
    Source,
    SourceReport,
    Thread,
    Window,
)

CHAIN = 20
MOST_LOOKED = 100


class ContextBuilder:
    def __init__(self, search: Search, recall: Recall, settings: Settings, history: History | None) -> None:
        self._search, self._recall, self._settings, self._history = search, recall, settings, history

    async def context(self, question: Question, answer: Answer) -> str:
        settings = self._settings
        ambient, answer = await asyncio.gather(self._ambient(question), self._current(question, answer))
        fetch = references.layered(
            ambient,
            lambda channel_id, ids: self._stored(question.guild_id, channel_id, ids),
            self._history.fetch_message if self._history else None,
        )
        chain = await references.reply_chain(question, fetch, CHAIN)
        shown = await references.collect(question, fetch, settings.context_references)
        taken = {message.id for message in (*chain, *shown)} | {question.id}
        parts = Parts(
            now=question.ts,
            bot=question.bot,
            question=question,
            route=answer.route,
            hits=answer.hits,
            forest=_recapped(answer, taken) or self._forest(ambient, taken),
            references=shown,
            chain=chain,
            linked=await references.linked(ambient, question, fetch),
            tz=settings.zone,
            hit_chars=settings.hit_chars,
        )
        return assemble(parts, settings.context_max_tokens)

    async def look(self, look: ContextRequest, scene: Scene) -> str:
        """The tool: by topic where there is one, else the newest; "No relevant recent messages ..." if none.

        RedisUnavailableError where that could not be found out.
        """
        question, settings = replace(look.question, text=look.query), self._settings
        route = _looking(look, scene)
        if route is None:
            await self._search.newest(Query(question.guild_id, (question.channel_id,), limit=1))  # is it there at all?
            return f"Nobody called {look.speaker} is known in this channel."
        recalled = await self._recall(question, route)
        hits = recalled.hits[: min(look.limit, MOST_LOOKED)]
        messages = recalled.messages[-min(look.limit, MOST_LOOKED) :]
        if not hits and not messages:
            _admit(recalled.looked)
            return "No relevant recent messages found in this channel."
        # The limit is the model's own; ambient threads may be switched off.
        forest = build(messages, max_threads=settings.context_threads or look.limit, max_messages=look.limit)
        parts = Parts(
            question.ts, question.bot, hits=hits, forest=forest, tz=settings.zone, hit_chars=settings.hit_chars
        )
        return assemble(parts, settings.tool_max_tokens)

    def _forest(self, messages: Sequence[Message], taken: set[int]) -> Forest:
        settings = self._settings
        return build(
            messages, exclude=taken, max_threads=settings.context_threads, max_messages=settings.context_messages
        )

    async def _ambient(self, question: Question) -> list[Message]:
        """The newest messages of the channel, whoever wrote them, as far back as ambient context reaches."""
        settings = self._settings
        hours = settings.context_max_age_hours
        query = Query(
            question.guild_id,
            (question.channel_id,),
            Window(None if hours is None else question.ts - hours * 3600, question.ts),
            limit=settings.context_messages + 1,
            flagged=True,
            source=Source.ARCHIVE,
        )
        try:
            newest = await self._search.newest(query)
        except RedisUnavailableError:
            newest = await self._past(question)
        return [message for message in reversed(newest) if message.id != question.id]

    async def _current(self, question: Question, answer: Answer) -> Answer:
        """What the answer rests on, as it is by now: it may have been edited or deleted since it was read."""
        if not answer.tried or answer.tried[-1].source is Source.HISTORY:
            return answer
        wanted: dict[int, set[int]] = {}
        for message in _told(answer):
            wanted.setdefault(message.channel_id, set()).add(message.id)
        look_up = (self._search.get(question.guild_id, channel_id, ids) for channel_id, ids in wanted.items())
        try:
            found = {(one.channel_id, one.id): one for some in await asyncio.gather(*look_up) for one in some}
        except RedisUnavailableError:
            return answer

        def now(messages: Iterable[Message]) -> tuple[Message, ...]:
            return tuple(found[one.channel_id, one.id] for one in messages if (one.channel_id, one.id) in found)

        hits = (replace(hit, message=one, around=now(hit.around)) for hit in answer.hits for one in now([hit.message]))
        threads = (Thread(messages) for thread in answer.threads if (messages := now(thread.messages)))
        return replace(answer, hits=tuple(hits), threads=tuple(threads))

    async def _past(self, question: Question) -> list[Message]:
        if self._history is None:
            return []
        settings = self._settings
        past = await self._history.fetch(question, settings.history_limit, settings.history_max_age_minutes * 60)
        return list(reversed(past.messages))

    async def _stored(self, guild_id: int, channel_id: int, ids: Sequence[int]) -> Sequence[Message]:
        try:
            return await self._search.get(guild_id, channel_id, ids)
        except RedisUnavailableError:
            return []


def _told(answer: Answer) -> Iterator[Message]:
    for hit in answer.hits:
        yield from (hit.message, *hit.around)
    for thread in answer.threads:
        yield from thread.messages


def _recapped(answer: Answer, taken: set[int]) -> Forest | None:
    """A recap's own window, where one was asked for, stands in place of what is newest, and is as long as it is."""
    told = [message for thread in answer.threads for message in thread.messages]
    return build(told, exclude=taken, max_threads=len(told), max_messages=len(told)) if told else None


def _admit(looked: Sequence[SourceReport]) -> None:
    """What could not be asked has not found nothing."""
    problem = next((one.problem for one in looked if one.problem and one.source is not Source.HISTORY), "")
    if problem:
        raise RedisUnavailableError(problem)


def _looking(look: ContextRequest, scene: Scene) -> Route | None:
    """A tool call as a route; None if it names somebody who is not known."""
    speakers: tuple[Person, ...] = ()
    if look.speaker:
        speakers = _named(look.speaker, scene)
        if not speakers:
            return None
    start = None if look.since_s is None else scene.now - look.since_s
    recent = start is None or start >= scene.now - scene.horizon_s
    sources = (Source.BUFFER, Source.ARCHIVE) if recent else (Source.ARCHIVE, Source.BUFFER)
    mode = Mode.TOPIC if look.query.strip() else Mode.LATEST if speakers else Mode.RECAP
    why = ("asked for by the model",)
    window = Window(start, scene.now)
    # The tool's arguments bind, however far back: a question of the kind "memory" may be answered by anybody.
    return Route(Kind.CHANNEL, mode, window, speakers, look.query.strip(), why, (*sources, Source.HISTORY))


def _named(name: str, scene: Scene) -> tuple[Person, ...]:
    if name.strip().lower().lstrip("@") in {"me", "i", "user", scene.asker.name.lower()}:
        return (scene.asker,)
    words = name.casefold().lstrip("@").split()
    found, _ = scene.roster.find(words, 0)
    return found or (scene.roster.guess(words[0]) if words else ())
