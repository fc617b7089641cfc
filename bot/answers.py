"""The bot's answers: how they reach people, what /why says of them, and how they go with what they quote.

Discord announces an answer on the gateway, maybe before it confirms the request that sent it. So whoever stores the
message waits until the deliveries in that channel have learned the ids of what they sent.

Memory lists the answers that quote what was deleted or forgotten until "[removed]" is in their place, so a restart or
an outage of Discord only delays this.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import time
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import tzinfo
from typing import TypeVar

import aiohttp
import discord
import structlog
from cachetools import FIFOCache
from discord import app_commands
from discord.ext import commands

from channelmem.display import flatten, name, safe
from channelmem.errors import ChannelmemError
from channelmem.media.media import Use
from channelmem.telling.explanation import explanation, searched
from channelmem.types import Answer, Hit, Origin, Question, Route, SourceReport, Timing

from .commands import NO_PINGS
from .context import BotContext

log = structlog.get_logger(__name__)

LIMIT = 2000
MOST_MESSAGES = 4
CUT = "… (The rest is cut: it is too long.)"
LINK = re.compile(r"\[[^\]\n]*\]\([^)\s]*\)|<?https?://\S+")
FENCE = re.compile(r"^```(\w*)", re.MULTILINE)
OPENING = re.compile(r"```\w*\n")
BOUNDARIES = ("\n\n", "\n", ". ", "? ", "! ", " ")
MIN_FILL = 0.5
"""A preferred boundary counts only if the piece stays at least this full."""
MAX_LANGUAGE_SHARE = 0.02
"""A longer word after a fence is not a language, and is not repeated."""


def split(text: str, limit: int = LIMIT) -> list[str]:
    """Preferably after a paragraph, a line, a sentence or a word; never inside a link. A code block that must be cut is
    closed and reopened."""
    pieces: list[str] = []
    rest = text.strip()
    while len(rest) > limit:
        room = limit - len("\n```")
        cut = _boundary(rest, room)
        piece, rest = rest[:cut].rstrip(), rest[cut:].lstrip()
        fence = _open_fence(piece, limit)
        if fence is not None:
            piece, rest = f"{piece}\n```", f"```{fence}\n{rest}"
        pieces.append(piece)
    return [*pieces, rest] if rest else pieces


def messages_of(text: str) -> list[str]:
    """The messages of an answer; of one that is too long the first, with a note."""
    pieces = split(text[: MOST_MESSAGES * LIMIT + 1])
    if len(pieces) <= MOST_MESSAGES:
        return pieces
    kept = pieces[:MOST_MESSAGES]
    kept[-1] = f"{split(kept[-1], LIMIT - len(CUT) - 1)[0]}\n{CUT}"
    return kept


def _boundary(text: str, room: int) -> int:
    links = [found.span() for found in LINK.finditer(text[: room * 2])]
    # After the line that reopens a block: a piece of nothing but that line would make no progress.
    opening = OPENING.match(text, 0, room)
    start_at = opening.end() + 1 if opening else 1
    for least in (max(int(room * MIN_FILL), start_at), start_at):
        for boundary in BOUNDARIES:
            cut = _last(text, boundary, least, room, links)
            if cut:
                return cut
    return next((start for start, end in links if start_at <= start < room < end), room)


def _last(text: str, boundary: str, least: int, room: int, links: list[tuple[int, int]]) -> int:
    """The end of the last such boundary within the room; 0 if there is none outside a link."""
    end = room
    while (at := text.rfind(boundary, 0, end)) >= 0:
        cut = at + len(boundary)
        if cut < least:
            return 0
        if not any(start < cut < stop for start, stop in links):
            return cut
        end = at + len(boundary) - 1
    return 0


def _open_fence(piece: str, limit: int) -> str | None:
    """The language of the code block that the piece leaves open; None if it leaves none open."""
    fences = FENCE.findall(piece)
    if len(fences) % 2 == 0:
        return None
    return fences[-1] if len(fences[-1]) <= limit * MAX_LANGUAGE_SHARE else ""


# --- delivery ---


T = TypeVar("T")

TYPING_AFTER_S = 0.7
TYPING_EVERY_S = 8.0
EDIT_EVERY_S = 1.0
"""Between two edits of a growing answer: Discord allows about five in five seconds."""


class Delivery(ABC):
    """The first message is sent once and then edited; the rest of a long answer follows at the end."""

    def __init__(self) -> None:
        self.on_sent: Callable[[int], None] = lambda message_id: None
        """Told the id of every new message."""
        self._shown: str | None = None
        self._edited_at = float("-inf")

    @abstractmethod
    async def _put_first(self, text: str) -> int: ...

    @abstractmethod
    async def _send_more(self, text: str) -> int: ...

    async def while_thinking(self, work: Coroutine[None, None, T]) -> T:
        """Runs the work and shows that it is in progress if it takes long."""
        return await work

    async def send(self, text: str) -> None:
        """Sends a finished text; it replaces anything streamed before."""
        first, *others = messages_of(text) or ["…"]
        await self._show(first)
        for other in others:
            self.on_sent(await self._send_more(other))

    async def stream(self, growing: AsyncIterator[str]) -> None:
        """Sends a growing text: first what there is, then edits at a polite rate."""
        said = ""
        text = await self.while_thinking(_next(growing))
        while text is not None:
            said = text
            if said.strip() and time.monotonic() - self._edited_at >= EDIT_EVERY_S:
                await self._show(said if len(said) <= LIMIT else said[: LIMIT - 2] + " …")
            text = await _next(growing)
        await self.send(said)

    async def _show(self, text: str) -> None:
        if text != self._shown:
            message_id = await self._put_first(text)
            if self._shown is None:
                self.on_sent(message_id)
        self._shown, self._edited_at = text, time.monotonic()


async def _next(growing: AsyncIterator[str]) -> str | None:
    return await anext(growing, None)


class ReplyDelivery(Delivery):
    """Answers a message with a reply."""

    def __init__(self, question: discord.Message) -> None:
        super().__init__()
        self._question = question
        self._reply: discord.Message | None = None

    async def while_thinking(self, work: Coroutine[None, None, T]) -> T:
        # In parallel: discord.py retries a refused request for up to half a minute, and the answer must not wait.
        typing = asyncio.create_task(self._show_typing())
        try:
            return await work
        finally:
            typing.cancel()

    async def _show_typing(self) -> None:
        await asyncio.sleep(TYPING_AFTER_S)
        # A courtesy; if Discord fails here, the answer itself will report it.
        with contextlib.suppress(discord.HTTPException, aiohttp.ClientError, OSError):
            while True:
                await self._question.channel.typing()
                await asyncio.sleep(TYPING_EVERY_S)

    async def _put_first(self, text: str) -> int:
        if self._reply is not None:
            # An edit without `suppress` would bring the previews back.
            await self._reply.edit(content=text, suppress=True, allowed_mentions=NO_PINGS)
            return self._reply.id
        # The question may have been deleted meanwhile; then the answer stands alone.
        reference = self._question.to_reference(fail_if_not_exists=False)
        self._reply = await self._question.channel.send(
            text, reference=reference, allowed_mentions=NO_PINGS, suppress_embeds=True
        )
        return self._reply.id

    async def _send_more(self, text: str) -> int:
        return (await self._question.channel.send(text, allowed_mentions=NO_PINGS, suppress_embeds=True)).id


class InteractionDelivery(Delivery):
    """Answers a deferred slash command; Discord itself shows that the bot is thinking."""

    def __init__(self, interaction: discord.Interaction, *, private: bool) -> None:
        super().__init__()
        self._interaction = interaction
        self._private = private

    async def _put_first(self, text: str) -> int:
        return (await self._interaction.edit_original_response(content=text, allowed_mentions=NO_PINGS)).id

    async def _send_more(self, text: str) -> int:
        sent = await self._interaction.followup.send(
            text, ephemeral=self._private, allowed_mentions=NO_PINGS, suppress_embeds=True, wait=True
        )
        return sent.id


# --- what its own messages were made of ---


MAX_ANSWERS = 2000
WAIT_S = 30.0
"""Discord may hold back its confirmation for as long as discord.py retries. A message still unknown then is not
stored."""

Origins = Callable[[], tuple[Origin, ...]]
"""Asked late: a language model may look up more while it writes."""


class OwnAnswers:
    def __init__(self) -> None:
        self._origins: FIFOCache[int, Origins] = FIFOCache(MAX_ANSWERS)
        self._delivering: Counter[int] = Counter()
        """Deliveries in progress, by channel."""
        self._changed = asyncio.Event()

    @contextmanager
    def delivering(self, channel_id: int) -> Iterator[None]:
        self._delivering[channel_id] += 1
        try:
            yield
        finally:
            self._delivering -= Counter((channel_id,))
            self._tell()

    def sent(self, message_id: int, origins: Origins) -> None:
        self._origins[message_id] = origins
        self._tell()

    async def origins(self, channel_id: int, message_id: int) -> tuple[Origin, ...] | None:
        """Empty if the message isn't an answer; None if we can't tell."""
        try:
            async with asyncio.timeout(WAIT_S):
                while message_id not in self._origins and self._delivering[channel_id]:
                    await self._changed.wait()
        except TimeoutError:
            return None
        return self._origins[message_id]() if message_id in self._origins else ()

    def _tell(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()


# --- traces ---


MAX_TRACES = 1000
MOST_MEDIA = 10


@dataclass(frozen=True, slots=True)
class Trace:
    request_id: str
    question: Question
    """Without its text and its files."""
    route: Route
    hits: tuple[str, ...]
    """Who wrote the recalled messages, and where they are, without their texts."""
    people: frozenset[int]
    """Everybody whom it names."""
    ms: Timing
    tried: tuple[SourceReport, ...]
    disliked_by: set[int] = field(default_factory=set)


def trace_of(request_id: str, question: Question, answer: Answer) -> Trace:
    named = {person.id for person in (*answer.route.speakers, *question.mentions)}
    people = frozenset({question.asker_id, *named, *(hit.message.author_id for hit in answer.hits)})
    asked = replace(question, text="", attachments=())
    hits = tuple(map(_describe, answer.hits))
    return Trace(request_id, asked, answer.route, hits, people, answer.ms, answer.tried)


def _describe(hit: Hit) -> str:
    one = hit.message
    similarity = "" if hit.similarity is None else f", similarity {hit.similarity:.2f}"
    described = ", by what is attached" if any(file.text for file in one.attachments) else ""
    score = f"score {hit.score:.2f}{similarity}{described}"
    return f"{name(one.author)}, {score} {_link(one.guild_id, one.channel_id, one.id)}"


class Traces:
    """The newest traces, by asker and channel, and by the id of the bot's message."""

    def __init__(self) -> None:
        self._by_asker: FIFOCache[tuple[int, int], Trace] = FIFOCache(MAX_TRACES)
        self._by_message: FIFOCache[int, Trace] = FIFOCache(MAX_TRACES)
        self.drops = 0
        """How often somebody's traces were dropped. An answer in progress meanwhile may still name them."""

    def keep(self, trace: Trace) -> None:
        """Called before the answer is visible, so /why knows it as soon as the asker sees it."""
        self._by_asker[trace.question.asker_id, trace.question.channel_id] = trace

    def link(self, message_id: int, trace: Trace) -> None:
        """Connects one of the answer's messages to the trace, for reactions to it."""
        self._by_message[message_id] = trace

    def discard(self, request_id: str) -> None:
        """Nobody saw this answer, so there is nothing to explain."""
        for asked in [each for each, trace in self._by_asker.items() if trace.request_id == request_id]:
            del self._by_asker[asked]

    def drop_person(self, person_id: int) -> None:
        self.drops += 1
        for message_id in [each for each, trace in self._by_message.items() if person_id in trace.people]:
            del self._by_message[message_id]
        for asked in [each for each, trace in self._by_asker.items() if person_id in trace.people]:
            del self._by_asker[asked]

    def of_message(self, message_id: int) -> Trace | None:
        return self._by_message.get(message_id)

    def latest(self, asker_id: int, channel_id: int) -> Trace | None:
        return self._by_asker.get((asker_id, channel_id))


def explain(trace: Trace, tz: tzinfo, media: Sequence[Use] = (), *, verbose: bool = False) -> str:
    """What /why shows. `media`: pictures and recordings that were looked at for the answer. `verbose`: with the weights
    behind the route."""
    ms = trace.ms
    lines = [
        f"**Understood** {explanation(trace.question, trace.route, tz)}",
        *(_clues(trace.route) if verbose else ()),
        "**Tried** " + ("; ".join(searched(trace.question, looked, tz) for looked in trace.tried) or "nothing"),
        *(f"{n}. {hit}" for n, hit in enumerate(trace.hits, 1)),
        *(f"**{use.kind.value.capitalize()}** {_looked_at(use)}" for use in media[:MOST_MEDIA]),
        f"**Time** {ms.total:.1f} ms (route {ms.route:.1f}, embed {ms.embed:.1f}, search {ms.search:.1f})",
        f"**Request** `{trace.request_id}`",
    ]
    return "\n".join(lines)


def _clues(route: Route) -> Iterator[str]:
    speakers = ", ".join(name(person.name) for person in route.speakers) or "anyone"
    topic = _safe(route.topic) or "none"
    yield f"**Route** {route.kind.value}, {route.mode.value}; speaker: {speakers}; topic: {topic}"
    yield "**Clues** " + ("; ".join(map(_safe, route.why)) or "none")


def _looked_at(use: Use) -> str:
    return f"by {name(use.author)}: {_safe(use.how)} {_link(use.guild_id, use.channel_id, use.message_id)}"


def _safe(text: str) -> str:
    return safe(flatten(text))


def _link(guild_id: int, channel_id: int, message_id: int) -> str:
    return f"[↗](https://discord.com/channels/{guild_id}/{channel_id}/{message_id})"


# --- redacting ---


REMOVED = "[removed]"
REDACT_EVERY_S = 60.0
"""Between two looks at the list: other processes delete too, and Discord may have refused an edit."""
IMPOSSIBLE = (discord.NotFound, discord.Forbidden)
"""The answer is gone, or the bot may no longer edit it: trying again won't help."""


class Redacting(commands.Cog):
    def __init__(self, context: BotContext) -> None:
        self.context, self.memory = context, context.memory
        self._redacting = asyncio.Lock()
        self._task: asyncio.Task[None] | None = None

    async def cog_load(self) -> None:
        if self.context.settings.redact_answers:
            self._task = asyncio.create_task(self._look_again_and_again(), name="redacting")

    async def cog_unload(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    @commands.Cog.listener("on_raw_message_delete")
    @commands.Cog.listener("on_raw_bulk_message_delete")
    async def on_delete(self, payload: discord.RawMessageDeleteEvent | discord.RawBulkMessageDeleteEvent) -> None:
        await self.context.until_stored(payload.channel_id)
        await self.look()

    @commands.Cog.listener()
    async def on_app_command_completion(
        self,
        interaction: discord.Interaction,
        command: app_commands.Command[commands.Cog, ..., None] | app_commands.ContextMenu,
    ) -> None:
        await self.look()  # it may have been a "forget me"

    async def _look_again_and_again(self) -> None:
        while True:
            await asyncio.sleep(REDACT_EVERY_S)
            await self.look()

    async def look(self) -> None:
        if not self.context.settings.redact_answers:
            return
        async with self._redacting:
            try:
                for guild_id, channel_id, message_id in await self.memory.to_redact():
                    if await self._redact(channel_id, message_id):
                        await self.memory.redacted(guild_id, channel_id, message_id)
                        log.info("answer redacted", guild_id=guild_id, channel_id=channel_id)
            except ChannelmemError as error:
                log.warning("redaction postponed", problem=type(error).__name__)

    async def _redact(self, channel_id: int, message_id: int) -> bool:
        """Whether it is dealt with; otherwise it stays on the list."""
        answer = self.context.get_partial_messageable(channel_id).get_partial_message(message_id)
        try:
            await answer.edit(content=REMOVED, allowed_mentions=NO_PINGS)
        except IMPOSSIBLE:
            return True
        except (discord.HTTPException, aiohttp.ClientError, OSError) as error:
            log.warning("answer not redacted yet", problem=type(error).__name__)
            return False
        return True
