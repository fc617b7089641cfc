"""Questions to the bot, by mention, reply, /ask and /why: who may ask where, and how one becomes an answer."""

from __future__ import annotations

import asyncio
import contextlib
import re
import secrets
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import aiohttp
import discord
import structlog
from cachetools import TLRUCache
from discord import app_commands
from discord.ext import commands

from channelmem.errors import RedisUnavailableError
from channelmem.ids import LARGEST_ID
from channelmem.llm import Location, Responder, ResponderError
from channelmem.llm.prompts import choose_character
from channelmem.types import Answer, Kind, Origin, Person, Question, RelatedChannel

from .answers import Delivery, InteractionDelivery, OwnAnswers, ReplyDelivery, Trace, Traces, explain, trace_of
from .commands import FAILED, channel_id_of, tell
from .context import BotContext
from .messages import (
    MESSAGE_CHANNELS,
    can_read,
    can_see,
    fetch_members,
    files_of,
    is_addressed,
    is_age_restricted,
    is_included,
    question_text,
    readable_channel_ids,
    replied_to,
    resolve,
    thread_of,
    to_person,
)

log = structlog.get_logger(__name__)

ISOLATE = "🚫"
"""In a question: answer without looking anything up."""
PICTURE_ALONE = "What's in this?"
"""What somebody asks who mentions the bot and attaches a file, without a word."""
USER_MENTION = re.compile(r"<@!?(\d{1,19})>")
"""People can type anything as an id, and it is sent to the gateway: only what may fit into 63 bits is accepted."""
MAX_MENTIONS = 5

Asker = discord.User | discord.Member


class QuestionBuilder:
    def __init__(self, context: BotContext) -> None:
        self._context = context

    def from_message(self, message: discord.Message) -> Question:
        me, author, guild = self._context.me, message.author, message.guild
        asked = Question(
            guild.id if guild else 0,
            message.channel.id,
            message.id,
            author.id,
            author.display_name,
            question_text(message, me),
            message.created_at.timestamp(),
            reply_to=replied_to(message),
            # Discord also lists whom the message replies to.
            mentions=tuple(to_person(p) for p in message.mentions if p.id != me.id and p.id in message.raw_mentions),
            attachments=files_of(message),
        )
        return self._completed(asked, message.channel, guild, author, private=False)

    async def from_interaction(self, interaction: discord.Interaction, text: str, *, private: bool) -> Question:
        user, guild, at = interaction.user, interaction.guild, interaction.created_at.timestamp()
        mentioned = await self._mentioned(guild, text)
        asked = Question(*channel_id_of(interaction), interaction.id, user.id, user.display_name, text, at)
        whole = self._completed(asked, interaction.channel, guild, user, private=private)
        return replace(whole, text=_without_sign(_with_names(text, mentioned)), mentions=mentioned)

    def _completed(
        self, asked: Question, channel: object, guild: discord.Guild | None, asker: Asker, *, private: bool
    ) -> Question:
        """With what a message and a command say alike."""
        known = self._context.characters
        readable, related = self._elsewhere(channel, asker, private=private)
        joined = asker.joined_at if isinstance(asker, discord.Member) else None
        return replace(
            asked,
            text=_without_sign(asked.text) or (PICTURE_ALONE if asked.attachments else ""),
            bot=to_person(guild.me if guild else self._context.me),  # type: ignore[arg-type]  # (a ClientUser is a user)
            is_dm=guild is None,
            joined_ts=joined.timestamp() if joined else None,
            readable_channel_ids=readable,
            related_channels=related,
            kind=Kind.NONE if ISOLATE in asked.text else None,
            character=choose_character(asked.text, known).name if known else "",
            thread_of=thread_of(channel),
            age_restricted=is_age_restricted(channel),
        )

    async def _mentioned(self, guild: discord.Guild | None, text: str) -> tuple[Person, ...]:
        """Discord does not resolve mentions in a command's text, so the members are looked up."""
        found = (int(id_) for id_ in USER_MENTION.findall(text))
        ids = [id_ for id_ in found if id_ <= LARGEST_ID and id_ != self._context.me.id][:MAX_MENTIONS]
        members = await fetch_members(guild, ids) if guild and ids else {}
        return tuple(to_person(members[id_]) for id_ in ids if id_ in members)

    def _elsewhere(
        self, channel: object, asker: Asker, *, private: bool
    ) -> tuple[tuple[int, ...], tuple[RelatedChannel, ...]]:
        """Other channels that the question may search, and those that the channel's policy names: of both only what
        everybody who reads the answer may read."""
        if not (isinstance(channel, MESSAGE_CHANNELS) and isinstance(asker, discord.Member)):
            return (), ()
        guild, memory = channel.guild, self._context.memory
        crosses = memory.policy(guild.id, channel.id).cross_channel
        wanted = memory.policies.of(guild.id, channel.id, thread_of=thread_of(channel)).related_channels
        if not crosses and not wanted:
            return (), ()
        allowed = readable_channel_ids(channel, asker, self._context.settings, memory.policies, private=private)
        named = ((one, guild.get_channel_or_thread(one)) for one in wanted if one in allowed)
        related = tuple(RelatedChannel(one, found.name) for one, found in named if found is not None)
        return allowed if crosses else (), related


def _without_sign(text: str) -> str:
    return text.replace(ISOLATE, "").strip()


def _with_names(text: str, mentioned: Sequence[Person]) -> str:
    for person in mentioned:
        text = text.replace(f"<@{person.id}>", f"@{person.name}").replace(f"<@!{person.id}>", f"@{person.name}")
    return USER_MENTION.sub("", text)


EMPTY_QUESTION = 'Ask me about this channel, for example: "what did Ann say about the release?" or "catch me up".'
EXCLUDED_CHANNEL = "My settings exclude this channel, so I don't remember it."
BOT_CANT_SEE = "I can't see this channel, so I can't share what was said here."
ASKER_CANT_READ = "You're missing the Read Message History permission here, so I can't share what was said."
DIRECT_MESSAGE = "I can't look up a channel from a direct message. Ask me in a server channel."


def _closed(channel: discord.abc.Snowflake | None, asker: Asker) -> str:
    if not isinstance(channel, MESSAGE_CHANNELS) or not can_see(channel, channel.guild.me):
        return BOT_CANT_SEE  # slash commands arrive even from there; and nobody knows who may read an unknown place
    return "" if isinstance(asker, discord.Member) and can_read(channel, asker) else ASKER_CANT_READ


MAX_WAIT_S = 10.0
"""A channel whose next question would wait longer than this refuses it."""
MAX_ENTRIES = 10_000


class Cooldown:
    def __init__(self, user_s: float, channel_s: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._user_s, self._channel_s, self._clock = user_s, channel_s, clock
        self._users = _until(clock)
        self._channels = _until(clock)

    def take(self, user_id: int, channel_id: int) -> tuple[bool, float]:
        """(True, seconds to wait before answering) or (False, seconds until the person may ask again)."""
        now = self._clock()
        if (user_until := self._users.get(user_id, now)) > now:
            return False, user_until - now
        wait_s = max(0.0, self._channels.get(channel_id, now) - now)
        if wait_s > MAX_WAIT_S:
            return False, wait_s
        self._users[user_id] = now + self._user_s
        self._channels[channel_id] = now + wait_s + self._channel_s
        return True, wait_s


def _until(clock: Callable[[], float]) -> TLRUCache[int, float]:
    """Moments by id, dropped when they have come."""
    return TLRUCache(MAX_ENTRIES, lambda _id, moment, _now: moment, clock)


DISLIKE = "👎"
WAIT = "⏳"
COOLING_DOWN = "One question at a time, please. Try again in {seconds} s."
NOT_ANSWERED = "I haven't answered you here recently."
UNDECIDED = "I can't check who opted out right now. Please try again in a minute."
UNDELIVERED = (discord.HTTPException, aiohttp.ClientError, OSError)
"""Discord does not let the bot write there, or can't be reached: no apology would arrive either."""


@dataclass(frozen=True, slots=True)
class Request:
    """A question on its way to an answer."""

    question: Question
    delivery: Delivery
    channel: discord.abc.Snowflake | None
    asker: Asker
    id: str = field(default_factory=lambda: secrets.token_hex(4))
    quoted: set[Origin] = field(default_factory=set)
    """What its answer quotes, and what a language model was shown for it."""


class Asking(commands.Cog):
    def __init__(
        self, context: BotContext, traces: Traces, own_answers: OwnAnswers, responder: Responder | None
    ) -> None:
        self.context, self.traces, self._own_answers, self._responder = context, traces, own_answers, responder
        settings = context.settings
        self._cooldown = Cooldown(settings.cooldown_user_s, settings.cooldown_channel_s)
        self._questions = QuestionBuilder(context)
        self._tasks: set[asyncio.Task[None]] = set()

    @commands.Cog.listener()
    async def on_message(self, message: discord.Message) -> None:
        by_person = not (message.author.bot or message.webhook_id or message.is_system())
        if not by_person or not is_addressed(message, self.context.me):
            return
        allowed, wait_s = self._cooldown.take(message.author.id, message.channel.id)
        if not allowed:
            self.context.metrics.cooldowns.inc()
            await _react(message, WAIT)
            return
        question = self._questions.from_message(message)
        self._start(Request(question, ReplyDelivery(message), message.channel, message.author), wait_s)

    @app_commands.command(name="ask", description="Ask what was said in this channel")
    @app_commands.describe(
        question="For example: what did Ann say about the release?", private="Only you see the answer"
    )
    async def ask(self, interaction: discord.Interaction, question: str, private: bool = False) -> None:
        allowed, wait_s = self._cooldown.take(interaction.user.id, interaction.channel_id or 0)
        if not allowed:
            self.context.metrics.cooldowns.inc()
            text = COOLING_DOWN.format(seconds=max(1, round(wait_s)))
            await interaction.response.send_message(text, ephemeral=True)
            return
        await interaction.response.defer(ephemeral=private, thinking=True)
        asked = await self._questions.from_interaction(interaction, question, private=private)
        delivery = InteractionDelivery(interaction, private=private)
        self._start(Request(asked, delivery, interaction.channel, interaction.user), wait_s)

    @app_commands.command(name="why", description="Show what my last answer to you here was based on")
    @app_commands.describe(verbose="Also show the weights behind how I understood your question")
    async def why(self, interaction: discord.Interaction, verbose: bool = False) -> None:
        await interaction.response.defer(ephemeral=True)
        trace = self.traces.latest(interaction.user.id, interaction.channel_id or 0)
        text = await self._explained(trace, verbose=verbose) if trace else NOT_ANSWERED
        await tell(interaction, text[:2000])

    async def _explained(self, trace: Trace, *, verbose: bool) -> str:
        """Not if it names somebody who opted out, maybe with another process of the bot."""
        guild_id, channel_id = trace.question.guild_id, trace.question.channel_id
        media = self.context.memory.media.uses(guild_id, channel_id, trace.question.id)
        people = sorted({*trace.people, *(use.author_id for use in media)})
        asked = (self.context.memory.opted_out(one, guild_id) for one in people)
        try:
            gone = {one for one, is_out in zip(people, await asyncio.gather(*asked), strict=True) if is_out}
        except RedisUnavailableError:
            return UNDECIDED
        for one in gone:
            self.traces.drop_person(one)
        if gone & trace.people:
            return NOT_ANSWERED
        tz = self.context.memory.policy(guild_id, channel_id).tz
        return explain(trace, tz, [use for use in media if use.author_id not in gone], verbose=verbose)

    @commands.Cog.listener()
    async def on_raw_reaction_add(self, payload: discord.RawReactionActionEvent) -> None:
        is_dislike = (payload.emoji.name or "").startswith(DISLIKE)  # in any skin tone
        trace = self.traces.of_message(payload.message_id) if is_dislike else None
        if trace is None or payload.user_id == self.context.me.id or payload.user_id in trace.disliked_by:
            return
        trace.disliked_by.add(payload.user_id)
        kind, mode = trace.route.kind.value, trace.route.mode.value
        self.context.metrics.disliked.labels(kind=kind, mode=mode).inc()
        log.info("answer disliked", request_id=trace.request_id, kind=kind, mode=mode, clues=len(trace.route.why))

    async def answer(self, request: Request) -> None:
        if refused := await self._refusal(request):
            await request.delivery.send(refused)
            return
        drops = self.traces.drops
        answer = await request.delivery.while_thinking(self._look_up(request))
        self.context.metrics.answered(answer)
        self._keep_trace(request, answer, drops)
        with self._own_answers.delivering(request.question.channel_id):
            await self._deliver(request, answer)
        _log_answer(request.question, answer)

    async def _refusal(self, request: Request) -> str:
        question = request.question
        if question.is_dm:
            return "" if self._responder is not None else DIRECT_MESSAGE
        channel = await resolve(self.context, request.channel, question.channel_id) or request.channel
        if not is_included(channel or discord.Object(question.channel_id), self.context.settings):
            return EXCLUDED_CHANNEL
        # In isolation nothing is shared.
        if question.kind is not Kind.NONE and (closed := _closed(channel, request.asker)):
            return closed
        return "" if question.text else EMPTY_QUESTION

    async def _look_up(self, request: Request) -> Answer:
        await self.context.until_stored(request.question.channel_id)
        answer = await self.context.memory.ask(request.question)
        request.quoted.update(answer.origins)
        return answer

    def _keep_trace(self, request: Request, answer: Answer, drops: int) -> None:
        """Before the answer is visible: /why may come right after it. Not if somebody was forgotten meanwhile, since
        the answer may name them."""
        trace = trace_of(request.id, request.question, answer)
        if drops == self.traces.drops:
            self.traces.keep(trace)
        quoted = request.quoted  # ids only: this is kept for a while, and must not keep anybody's words

        def link(message_id: int) -> None:
            self._own_answers.sent(message_id, lambda: tuple(quoted))
            if drops == self.traces.drops:
                self.traces.link(message_id, trace)

        request.delivery.on_sent = link

    async def _deliver(self, request: Request, answer: Answer) -> None:
        """In the language model's words if there is a model; if it fails, as quotes. A model can't say anything about a
        channel whose memory is off."""
        if self._responder is not None and not answer.off:
            growing = self._responder.respond(request.question, answer, _location(request.channel), request.quoted)
            try:
                await request.delivery.stream(growing)
            except ResponderError as error:
                log.warning("language model failed", problem=str(error))
            else:
                return
            # The model took its time: messages deleted or edited meanwhile must not be quoted.
            answer = await self._look_up(request)
        await request.delivery.send(answer.text)

    def _start(self, request: Request, wait_s: float) -> None:
        task = asyncio.create_task(self._run(request, wait_s))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _run(self, request: Request, wait_s: float) -> None:
        """Answers; a failure is logged and, where Discord lets the bot write, admitted."""
        structlog.contextvars.bind_contextvars(request_id=request.id)
        await asyncio.sleep(wait_s)
        error = await _error_of(asyncio.create_task(self.answer(request)))
        if error is None:
            return
        if isinstance(error, UNDELIVERED):
            self.traces.discard(request.id)
            log.warning("answer not delivered", problem=str(error))
            return
        log.error("answer failed", exc_info=error)
        with contextlib.suppress(*UNDELIVERED):
            await request.delivery.send(FAILED.format(request_id=request.id))

    async def drain(self, timeout_s: float) -> None:
        """Lets answers in progress finish; cancels those that take longer, because the bot is about to disconnect."""
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=timeout_s)
        late = list(self._tasks)
        for task in late:
            task.cancel()
        await asyncio.gather(*late, return_exceptions=True)


async def _error_of(task: asyncio.Task[None]) -> BaseException | None:
    """Waits for the task and takes it along when cancelled."""
    try:
        await asyncio.wait({task})
    except asyncio.CancelledError:
        task.cancel()
        await asyncio.wait({task})
        raise
    return task.exception()


def _location(channel: object) -> Location:
    if isinstance(channel, MESSAGE_CHANNELS):
        return Location(channel.guild.name, channel.name)
    return Location()


async def _react(message: discord.Message, emoji: str) -> None:
    try:
        await message.add_reaction(emoji)
    except discord.HTTPException as error:
        log.debug("could not add a reaction", status=error.status)


def _log_answer(question: Question, answer: Answer) -> None:
    log.info(
        "answered",
        guild_id=question.guild_id,
        channel_id=question.channel_id,
        kind=answer.route.kind.value,
        mode=answer.route.mode.value,
        found=answer.found,
        hits=len(answer.hits),
        tried=[looked.source.value for looked in answer.tried],
        ms=round(answer.ms.total, 1),
    )
