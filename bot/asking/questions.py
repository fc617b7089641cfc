"""Builds a Question from a message that addresses the bot, or from /ask."""

from __future__ import annotations

import re
from collections.abc import Sequence

import discord

from channelmem.ids import LARGEST_ID
from channelmem.llm.prompts import choose_character
from channelmem.types import Kind, Person, Question, RelatedChannel

from ..context import BotContext
from ..messages.convert import (
    MESSAGE_CHANNELS,
    files_of,
    is_age_restricted,
    question_text,
    replied_to,
    thread_of,
    to_person,
)
from ..messages.people import fetch_members, readable_channel_ids

ISOLATE = "🚫"
"""In a question: answer without looking anything up."""
PICTURE_ALONE = "What's in this?"
"""What somebody asks who mentions the bot and attaches a file, without a word."""
USER_MENTION = re.compile(r"<@!?(\d{1,19})>")
"""People can type anything as an id, and it is sent to the gateway: only what may fit into 63 bits is accepted."""
MAX_MENTIONS = 5


class QuestionBuilder:
    def __init__(self, context: BotContext) -> None:
        self._context = context

    def from_message(self, message: discord.Message) -> Question:
        me, author = self._context.me, message.author
        text, files = question_text(message, me), files_of(message)
        return Question(
            guild_id=message.guild.id if message.guild else 0,
            channel_id=message.channel.id,
            id=message.id,
            asker_id=author.id,
            asker=author.display_name,
            text=text.replace(ISOLATE, "").strip() or (PICTURE_ALONE if files else ""),
            ts=message.created_at.timestamp(),
            reply_to=replied_to(message),
            # Discord also lists whom the message replies to.
            mentions=tuple(to_person(p) for p in message.mentions if p.id != me.id and p.id in message.raw_mentions),
            bot=self._bot_person(message.guild),
            is_dm=message.guild is None,
            joined_ts=_joined_ts(author),
            readable_channel_ids=self._readable(message.channel, author, private=False),
            related_channels=self._related(message.channel, author, private=False),
            kind=Kind.NONE if ISOLATE in text else None,
            character=self._character(text),
            thread_of=thread_of(message.channel),
            attachments=files,
            age_restricted=is_age_restricted(message.channel),
        )

    async def from_interaction(self, interaction: discord.Interaction, text: str, *, private: bool) -> Question:
        user, guild = interaction.user, interaction.guild
        mentioned = await self._mentioned(guild, text)
        return Question(
            guild_id=interaction.guild_id or 0,
            channel_id=interaction.channel_id or 0,
            id=interaction.id,
            asker_id=user.id,
            asker=user.display_name,
            text=_with_names(text, mentioned).replace(ISOLATE, "").strip(),
            ts=interaction.created_at.timestamp(),
            mentions=mentioned,
            bot=self._bot_person(guild),
            is_dm=guild is None,
            joined_ts=_joined_ts(user),
            readable_channel_ids=self._readable(interaction.channel, user, private=private),
            related_channels=self._related(interaction.channel, user, private=private),
            kind=Kind.NONE if ISOLATE in text else None,
            character=self._character(text),
            thread_of=thread_of(interaction.channel),
            age_restricted=is_age_restricted(interaction.channel),
        )

    async def _mentioned(self, guild: discord.Guild | None, text: str) -> tuple[Person, ...]:
        """Discord does not resolve mentions in a command's text, so the members are looked up."""
        found = (int(id_) for id_ in USER_MENTION.findall(text))
        ids = [id_ for id_ in found if id_ <= LARGEST_ID and id_ != self._context.me.id][:MAX_MENTIONS]
        members = await fetch_members(guild, ids) if guild and ids else {}
        return tuple(to_person(members[id_]) for id_ in ids if id_ in members)

    def _character(self, text: str) -> str:
        known = self._context.characters
        return choose_character(text, known).name if known else ""

    def _bot_person(self, guild: discord.Guild | None) -> Person:
        return to_person(guild.me if guild else self._context.me)  # type: ignore[arg-type]  # (a ClientUser is a user)

    def _readable(self, channel: object, asker: discord.User | discord.Member, *, private: bool) -> tuple[int, ...]:
        if isinstance(channel, MESSAGE_CHANNELS) and isinstance(asker, discord.Member):
            policy = self._context.memory.policy(channel.guild.id, channel.id)
            if policy.cross_channel:
                return readable_channel_ids(
                    channel, asker, self._context.settings, self._context.memory.policies, private=private
                )
        return ()

    def _related(
        self, channel: object, asker: discord.User | discord.Member, *, private: bool
    ) -> tuple[RelatedChannel, ...]:
        """Those of the channel's policy that everybody who reads the answer may read."""
        if not (isinstance(channel, MESSAGE_CHANNELS) and isinstance(asker, discord.Member)):
            return ()
        policies = self._context.memory.policies
        wanted = policies.of(channel.guild.id, channel.id, thread_of=thread_of(channel)).related_channels
        if not wanted:
            return ()
        allowed = readable_channel_ids(channel, asker, self._context.settings, policies, private=private)
        named = ((one, channel.guild.get_channel_or_thread(one)) for one in wanted if one in allowed)
        return tuple(RelatedChannel(one, found.name) for one, found in named if found is not None)


def _with_names(text: str, mentioned: Sequence[Person]) -> str:
    for person in mentioned:
        text = text.replace(f"<@{person.id}>", f"@{person.name}").replace(f"<@!{person.id}>", f"@{person.name}")
    return USER_MENTION.sub("", text)


def _joined_ts(user: discord.User | discord.Member) -> float | None:
    joined = user.joined_at if isinstance(user, discord.Member) else None
    return joined.timestamp() if joined else None
