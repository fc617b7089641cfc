"""Cog: answers questions. In: a mention, a reply to the bot, /ask. Out: Memory's answer; nobody is pinged."""

from __future__ import annotations

import asyncio
import contextlib
import re
import secrets
from dataclasses import dataclass
from typing import TYPE_CHECKING

import aiohttp
import discord
import structlog
from discord import app_commands
from discord.ext import commands

from bot.asking.cooldown import Pace
from bot.asking.delivery import Delivery, InteractionDelivery, ReplyDelivery
from bot.asking.traces import explain, trace_of
from bot.messages.convert import addressed, person, replied_to, without_bot
from bot.messages.members import nick_names
from bot.messages.permissions import ROOMS, may_read, may_see, readable_channel_ids, remembered
from channelmem.llm.responder import Place, SpeechError
from channelmem.types import Answer, Kind, Person, Question

if TYPE_CHECKING:
    from bot.client import Bot

ALONE = "🚫"
DISLIKE = "👎"
WAIT = "⏳"
MENTION = re.compile(r"<@!?(\d{1,19})>")
"""Of a person: an id fits into 63 bits. Typed by hand it may be anything, and would be sent to the gateway."""
MOST_MENTIONS = 5
LARGEST_ID = 2**63 - 1
HINT = 'Ask me about this channel, for example: "what did Ann say about the release?" or "catch me up".'
NOT_HERE = "I do not remember this channel: it is left out by my settings."
NOT_MINE = "I may not see this channel, so I do not tell what was said in it."
NOT_YOURS = (
    "You may not read what was said in this channel before (your Read Message History permission is missing here), "
    "so I do not tell it."
)
NO_CHANNEL = "In a direct message there is no channel around us that I could look at. Ask me in a server channel."

SORRY = "Something went wrong on my side (request `{request_id}`)."
UNDELIVERED = (discord.HTTPException, aiohttp.ClientError, OSError)
"""Nothing can be said where Discord does not let us speak, or cannot be reached."""

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Where:
    """Where a question was asked, and by whom."""

    channel: discord.abc.Snowflake | None
    asker: discord.User | discord.Member

    @property
    def closed(self) -> str:
        """Why what was said here may not be told, if so."""
        if not (isinstance(self.channel, ROOMS) and isinstance(self.asker, discord.Member)):
            return ""
        if not may_see(self.channel, self.channel.guild.me):
            return NOT_MINE  # a slash command reaches us from there all the same
        return "" if may_read(self.channel, self.asker) else NOT_YOURS


class Ask(commands.Cog):
    def __init__(self, bot: Bot) -> None:
        self.bot = bot
        self.memory = bot.memory
        self.settings = bot.settings
        self.pace = Pace(bot.settings.cooldown_user_s, bot.settings.cooldown_channel_s)
        self.traces = bot.traces
        self._busy: set[asyncio.Task[None]] = set()

    # --- ways to ask ---

    @commands.Cog.listener()
    async def on_message(self, message: discord.Message) -> None:
        if message.author.bot or message.webhook_id or message.is_system() or not addressed(message, self.bot.me):
            return
        fair, wait_s = self.pace.take(message.author.id, message.channel.id)
        if not fair:
            self.bot.metrics.refused.inc()
            await _react(message, WAIT)
            return
        text = without_bot(message, self.bot.me)
        question = self._question(message, text)
        delivery = ReplyDelivery(message)
        self._spawn(question, delivery, Where(message.channel, message.author), wait_s)

    @app_commands.command(name="ask", description="Ask what was said in this channel")
    @app_commands.describe(question="Such as: what did Ann say about the release?", private="Only you see the answer")
    async def ask(self, interaction: discord.Interaction, question: str, private: bool = False) -> None:
        fair, wait_s = self.pace.take(interaction.user.id, interaction.channel_id or 0)
        if not fair:
            self.bot.metrics.refused.inc()
            text = f"One question at a time, please: try again in {max(1, round(wait_s))} s."
            await interaction.response.send_message(text, ephemeral=True)
            return
        await interaction.response.defer(ephemeral=private, thinking=True)
        asked = await self._slash_question(interaction, question, private=private)
        delivery = InteractionDelivery(interaction, private=private)
        self._spawn(asked, delivery, Where(interaction.channel, interaction.user), wait_s)

    @app_commands.command(name="why", description="Show what my latest answer to you here was based on")
    async def why(self, interaction: discord.Interaction) -> None:
        trace = self.traces.latest(interaction.user.id, interaction.channel_id or 0)
        text = explain(trace) if trace else "I have not answered you here lately."
        await interaction.response.send_message(
            text[:2000], ephemeral=True, allowed_mentions=discord.AllowedMentions.none(), suppress_embeds=True
        )

    @commands.Cog.listener()
    async def on_raw_reaction_add(self, payload: discord.RawReactionActionEvent) -> None:
        down = (payload.emoji.name or "").startswith(DISLIKE)  # in any colour of skin
        trace = self.traces.of_message(payload.message_id) if down else None
        if trace is None or payload.user_id == self.bot.me.id or payload.user_id in trace.disliked_by:
            return
        trace.disliked_by.add(payload.user_id)
        kind, mode = trace.route.kind.value, trace.route.mode.value
        self.bot.metrics.disliked.labels(kind=kind, mode=mode).inc()
        log.info("answer disliked", request_id=trace.request_id, kind=kind, mode=mode, clues=len(trace.route.why))

    # --- the one way to answer ---

    async def answer(self, question: Question, delivery: Delivery, where: Where, request_id: str) -> None:
        excuse = self._excuse(question, where)
        if excuse:
            await delivery.send(excuse)
            return
        drops = self.traces.drops
        answer = await delivery.while_thinking(self._look_up(question))
        self.bot.metrics.answered(answer)
        sent = await self._deliver(question, answer, delivery, _place(where.channel))
        if drops == self.traces.drops:
            self.traces.keep(sent, trace_of(request_id, question, answer))
        self._log(question, answer)

    async def _watched(self, question: Question, delivery: Delivery, where: Where, wait_s: float) -> None:
        """Answers; a failure is logged and, where Discord lets us speak, admitted."""
        request_id = secrets.token_hex(4)
        structlog.contextvars.bind_contextvars(request_id=request_id)
        await asyncio.sleep(wait_s)
        task = asyncio.create_task(self.answer(question, delivery, where, request_id))
        try:
            await asyncio.wait({task})
        finally:
            task.cancel()  # only where the bot leaves before it is done
        error = task.exception()
        if error is None:
            return
        if isinstance(error, UNDELIVERED):
            log.warning("answer not delivered", problem=str(error))
            return
        log.error("answer failed", exc_info=error)
        with contextlib.suppress(*UNDELIVERED):
            await delivery.send(SORRY.format(request_id=request_id))

    async def _look_up(self, question: Question) -> Answer:
        await self.bot.listen_cog.caught_up(question.channel_id)
        return await self.memory.ask(question)

    async def _deliver(self, question: Question, answer: Answer, delivery: Delivery, place: Place) -> list[int]:
        """In the words of the language model where there is one; the quoting answer otherwise, never silence."""
        if self.bot.llm is not None:
            try:
                return await delivery.stream(self.bot.llm.reply(question, answer, place))
            except SpeechError as error:
                log.warning("language model failed", problem=str(error))
                # That took its time: what was deleted or edited meanwhile is no longer to be quoted.
                answer = await self._look_up(question)
        return await delivery.send(answer.text)

    def _excuse(self, question: Question, where: Where) -> str:
        """Why there is nothing to look up, if so."""
        if question.is_dm:
            return "" if self.bot.llm is not None else NO_CHANNEL
        if not remembered(where.channel or discord.Object(question.channel_id), self.settings):
            return NOT_HERE
        closed = "" if question.kind is Kind.NONE else where.closed  # in isolation nothing of the channel is told
        return closed or ("" if question.text else HINT)

    def _log(self, question: Question, answer: Answer) -> None:
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

    # --- questions ---

    def _question(self, message: discord.Message, text: str) -> Question:
        me, author = self.bot.me, message.author
        named = tuple(person(p) for p in message.mentions if p.id != me.id)
        return Question(
            guild_id=message.guild.id if message.guild else 0,
            channel_id=message.channel.id,
            id=message.id,
            asker_id=author.id,
            asker=author.display_name,
            text=text.replace(ALONE, "").strip(),
            ts=message.created_at.timestamp(),
            reply_to=replied_to(message),
            mentions=named,
            bot=self._self(message.guild),
            is_dm=message.guild is None,
            joined_ts=_joined(author),
            readable_channel_ids=self._readable(message.channel, author, private=False),
            kind=Kind.NONE if ALONE in text else None,
        )

    async def _slash_question(self, interaction: discord.Interaction, text: str, *, private: bool) -> Question:
        user, guild = interaction.user, interaction.guild
        named = await self._named(guild, text)
        for known in named:
            text = text.replace(f"<@{known.id}>", f"@{known.name}").replace(f"<@!{known.id}>", f"@{known.name}")
        return Question(
            guild_id=interaction.guild_id or 0,
            channel_id=interaction.channel_id or 0,
            id=interaction.id,
            asker_id=user.id,
            asker=user.display_name,
            text=MENTION.sub("", text).replace(ALONE, "").strip(),
            ts=interaction.created_at.timestamp(),
            mentions=named,
            bot=self._self(guild),
            is_dm=guild is None,
            joined_ts=_joined(user),
            readable_channel_ids=self._readable(interaction.channel, user, private=private),
            kind=Kind.NONE if ALONE in text else None,
        )

    async def _named(self, guild: discord.Guild | None, text: str) -> tuple[Person, ...]:
        """Discord does not say who is mentioned in a command's text, so the names are looked up."""
        found = (int(id_) for id_ in MENTION.findall(text))
        ids = [id_ for id_ in found if id_ <= LARGEST_ID and id_ != self.bot.me.id][:MOST_MENTIONS]
        members = await nick_names(guild, ids) if guild and ids else {}
        return tuple(person(members[id_]) for id_ in ids if id_ in members)

    def _self(self, guild: discord.Guild | None) -> Person:
        return person(guild.me if guild else self.bot.me)  # type: ignore[arg-type]  # (a ClientUser is a user)

    def _readable(self, channel: object, asker: discord.User | discord.Member, *, private: bool) -> tuple[int, ...]:
        if isinstance(channel, ROOMS) and isinstance(asker, discord.Member):
            return readable_channel_ids(channel, asker, self.settings, private=private)
        return ()

    # --- leaving ---

    def _spawn(self, question: Question, delivery: Delivery, where: Where, wait_s: float) -> None:
        task = asyncio.create_task(self._watched(question, delivery, where, wait_s))
        self._busy.add(task)
        task.add_done_callback(self._busy.discard)

    async def drain(self, timeout_s: float) -> None:
        """Lets answers that are under way finish; those that take longer end here, since nobody can be reached soon."""
        if self._busy:
            await asyncio.wait(self._busy, timeout=timeout_s)
        left = list(self._busy)
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)


def _joined(user: discord.User | discord.Member) -> float | None:
    joined = user.joined_at if isinstance(user, discord.Member) else None
    return joined.timestamp() if joined else None


def _place(channel: object) -> Place:
    if isinstance(channel, ROOMS):
        return Place(channel.guild.name, channel.name)
    return Place()


async def _react(message: discord.Message, emoji: str) -> None:
    try:
        await message.add_reaction(emoji)
    except discord.HTTPException as error:
        log.debug("no reaction", status=error.status)
