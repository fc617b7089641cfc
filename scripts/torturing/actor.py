"""One process of a history: a bot's Memory that does what it is told, and replies with every token that came out."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from channelmem.errors import ChannelmemError, DecisionDelayedError
from channelmem.memory import Memory
from channelmem.settings import Settings
from channelmem.store.search import Query
from channelmem.types import Answer, History, Message, Past, Person, Question, Source
from scripts.fake_embedder import FakeEmbedder
from scripts.torturing.steps import BOT_ID, PEOPLE, TOKEN, Act, Reply, Result, Step

log = logging.getLogger(__name__)

TIMEOUT_S = 0.4
SETTLE_S = 60.0
EVERYTHING = 1_000_000


def settings_for(data_dir: Path, **changes: Any) -> Settings:
    """The embedded server of the folder, unless changed."""
    values = {"redis_url": None, "data_dir": data_dir, "redis_timeout_s": TIMEOUT_S, "buckets": 2, **changes}
    return Settings(_env_file=None, cross_channel=True, embedded_grace_s=1.0, **values)


class Platform(History):
    """The platform's own history: what this process was told, without what was deleted or edited since. What people
    decide does not change it."""

    def __init__(self) -> None:
        self.rooms: dict[tuple[int, int], dict[int, Message]] = {}

    async def fetch(self, question: Question, limit: int, max_age_s: float) -> Past:
        del max_age_s
        return Past(tuple(self.rooms.get((question.guild_id, question.channel_id), {}).values())[-limit:])

    async def fetch_message(self, channel_id: int, message_id: int) -> Message | None:
        found = (room[message_id] for (_, one), room in self.rooms.items() if one == channel_id and message_id in room)
        return next(found, None)

    def jump_url(self, guild_id: int, channel_id: int, message_id: int) -> str:
        return f"https://example.org/{guild_id}/{channel_id}/{message_id}"


class Actor:
    def __init__(self, memory: Memory, platform: Platform) -> None:
        self._memory, self._platform = memory, platform
        self._acts: dict[Act, Callable[[Step], Awaitable[Reply]]] = {
            Act.SAY: self._say,
            Act.EDIT: self._edit,
            Act.DELETE: self._delete,
            Act.ASK: self._ask,
            Act.ANSWER: self._answer,
            Act.LIST: self._list,
            Act.SEARCH: self._search,
            Act.EXPORT: self._export,
            Act.OPT_IN: self._opt_in,
            Act.RETURNING: self._returning,
            Act.SETTLE: self._settle,
            Act.EMBED: self._embed,
        }

    async def do(self, step: Step) -> Reply:
        try:
            reply = await self._acts.get(step.act, self._decide)(step)
        except DecisionDelayedError:
            reply = Reply(Result.DELAYED)
        except ChannelmemError:
            reply = Reply(Result.UNAVAILABLE)
        except Exception:
            log.exception("%s failed", step)
            reply = Reply(Result.FAILED)
        return replace(reply, queued=await self._queued())

    async def _queued(self) -> int:
        return self._memory.queued

    # --- changes ---

    async def _say(self, step: Step) -> Reply:
        message = _message(step)
        self._platform.rooms.setdefault((step.guild, step.channel), {})[step.id] = message
        return Reply(await self._memory.remember(message))

    async def _edit(self, step: Step) -> Reply:
        message = _message(step)
        if step.id in (room := self._platform.rooms.get((step.guild, step.channel), {})):
            room[step.id] = message
        return Reply(await self._memory.edit(message))

    async def _delete(self, step: Step) -> Reply:
        self._platform.rooms.get((step.guild, step.channel), {}).pop(step.id, None)
        await self._memory.delete(step.guild, step.channel, [step.id])
        return Reply(Result.DONE)

    async def _decide(self, step: Step) -> Reply:
        memory, place = self._memory, (step.guild, step.channel)
        decisions: dict[Act, Callable[[], Awaitable[Any]]] = {
            Act.CLEAR: lambda: memory.clear(*place),
            Act.PAUSE: lambda: memory.pause(*place),
            Act.RESUME: lambda: memory.resume(*place),
            Act.OPT_OUT: lambda: memory.opt_out(step.author, step.scope),
            Act.FORGET: lambda: memory.forget(step.author, step.scope),
        }
        await decisions[step.act]()
        return Reply(Result.DONE)

    async def _opt_in(self, step: Step) -> Reply:
        try:
            left = await self._memory.opt_in(step.author, step.scope)
        except DecisionDelayedError:  # an earlier opt-out is still on its way, so nothing was done
            return Reply(Result.UNAVAILABLE)
        return Reply(Result.DONE if left is None else Result.LEFT)

    async def _returning(self, step: Step) -> Reply:
        left = await self._memory.returning(step.author)
        return Reply(Result.DONE if left is None else Result.LEFT)

    async def _settle(self, step: Step) -> Reply:
        del step
        async with asyncio.timeout(SETTLE_S):
            while self._memory.queued:  # noqa: ASYNC110  (the outbox sends no event)
                await asyncio.sleep(0.01)
        await self._memory._store.decisions.sync()  # noqa: SLF001  (would happen by itself within 20 s)
        return Reply(Result.DONE)

    async def _embed(self, step: Step) -> Reply:
        del step
        return Reply(Result.DONE if await self._memory.flush(SETTLE_S) else Result.UNAVAILABLE)

    # --- looks ---

    async def _ask(self, step: Step) -> Reply:
        question, answer = await self._answered(step)
        context = (await self._memory.context(question, answer)).text
        return Reply(Result.DONE, seen=tokens(_words(answer) + context), down=_is_down(answer))

    async def _answered(self, step: Step) -> tuple[Question, Answer]:
        question = Question(
            step.guild,
            step.channel,
            step.id,
            step.author,
            PEOPLE[step.author],
            step.text,
            time.time(),
            bot=Person(BOT_ID, "bot"),
            readable_channel_ids=step.others,
        )
        return question, await self._memory.ask(question)

    async def _answer(self, step: Step) -> Reply:
        _, answer = await self._answered(step)
        words = " ".join(sorted(tokens(_words(answer))))
        own = Message(step.guild, step.channel, step.id, BOT_ID, "bot", f"I found: {words}", time.time(), own=True)
        if words:
            await self._memory.remember(_made_of(own, answer))
        return Reply(Result.DONE, seen=tokens(words), down=_is_down(answer))

    async def _list(self, step: Step) -> Reply:
        query = Query(step.guild, (step.channel,), limit=EVERYTHING, source=Source.ARCHIVE)
        found = await self._memory._search.newest(query)  # noqa: SLF001  (more than any question returns)
        return Reply(Result.DONE, seen=tokens(" ".join(one.content for one in found)))

    async def _search(self, step: Step) -> Reply:
        vector = FakeEmbedder().vector(step.text)
        query = Query(step.guild, words=(step.text,), vector=vector, limit=50, flagged=True, source=Source.ARCHIVE)
        found = await self._memory._search.nearest(query)  # noqa: SLF001
        messages = [*(hit.message for hit in found.hits), *found.pending]
        return Reply(Result.DONE, seen=tokens(" ".join(one.content for one in messages)))

    async def _export(self, step: Step) -> Reply:
        words = [message.content async for message in self._memory.export(step.author)]
        return Reply(Result.DONE, seen=tokens(" ".join(words)))


def tokens(text: str) -> frozenset[str]:
    return frozenset(TOKEN.findall(text))


def _words(answer: Answer) -> str:
    """Everything an answer says or is based on."""
    quoted = [one for hit in answer.hits for one in (hit.message, *hit.around)]
    quoted += [one for thread in answer.threads for one in thread.messages]
    return " ".join((answer.text, *(one.content for one in quoted)))


def _is_down(answer: Answer) -> bool:
    return any(report.problem for report in answer.tried)


def _made_of(own: Message, answer: Answer) -> Message:
    around = {one.origin for hit in answer.hits for one in hit.around}
    return replace(own, derived_from=tuple({*answer.origins, *around}))


def _message(step: Step) -> Message:
    name = PEOPLE[step.author]
    return Message(step.guild, step.channel, step.id, step.author, name, step.text, step.ts, revision=step.revision)


@asynccontextmanager
async def acting(settings: Settings) -> AsyncIterator[Actor]:
    platform = Platform()
    async with Memory.open(settings, embedder=FakeEmbedder(), history=platform, patient=True) as memory:
        yield Actor(memory, platform)
