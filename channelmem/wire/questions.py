"""Questions in JSON. In: a question as a caller sends it, perhaps with its channel's own history. Out: a `Question`."""

from __future__ import annotations

import secrets
import time
from typing import Annotated

from pydantic import Field

from channelmem.types import Kind, Person, Question, RelatedChannel
from channelmem.wire.messages import AttachmentBody, MessageBody, PersonBody
from channelmem.wire.scalars import MAX_LIST, Body, Flag, Id, Moment, Name

MAX_HISTORY = 200
MAX_QUESTION = 4_000
MAX_CHANNELS = 1_000
BOT = PersonBody(id=0, name="bot")


class RelatedBody(Body):
    id: Id
    name: Name = ""

    def value(self) -> RelatedChannel:
        return RelatedChannel(self.id, self.name)


class QuestionBody(Body):
    """What somebody asks. Who may read which channel is for the caller to know: name only channels they may read."""

    guild_id: Id
    channel_id: Id
    text: Annotated[str, Field(strict=True, max_length=MAX_QUESTION)] = Field(
        examples=["what did Ann say about lunch?"]
    )
    id: Id = Field(0, description="The message that holds the question, if it is one: it never answers itself.")
    asker_id: Id = Field(0, description='Who asks: "what did I say?" depends on it.')
    asker: Name = ""
    ts: Moment = Field(default_factory=time.time, description="When it was asked, in epoch seconds; now if absent.")
    reply_to: Id | None = None
    mentions: Annotated[tuple[PersonBody, ...], Field(max_length=MAX_LIST)] = ()
    bot: PersonBody = BOT
    is_dm: Flag = False
    joined_ts: Moment | None = None
    readable_channel_ids: Annotated[tuple[Id, ...], Field(max_length=MAX_CHANNELS)] = Field(
        (), description="Other channels of the guild that the question may search."
    )
    kind: Kind | None = Field(None, description="Forces which memory it is about.")
    character: Name = ""
    thread_of: Id = 0
    attachments: Annotated[tuple[AttachmentBody, ...], Field(max_length=MAX_LIST)] = Field(
        (), description="Files that came with the question: pictures and recordings are read."
    )
    age_restricted: Flag = False
    related_channels: Annotated[tuple[RelatedBody, ...], Field(max_length=MAX_LIST)] = Field(
        (), description="Those of the channel's Related Channels that everybody who reads the answer may read."
    )

    def value(self) -> Question:
        return Question(
            guild_id=self.guild_id,
            channel_id=self.channel_id,
            id=self.id or secrets.randbits(62),  # what one question was shown must not be taken for another's
            asker_id=self.asker_id,
            asker=self.asker,
            text=self.text,
            ts=self.ts,
            reply_to=self.reply_to,
            mentions=tuple(one.value() for one in self.mentions),
            bot=self.bot.value(),
            is_dm=self.is_dm,
            joined_ts=self.joined_ts,
            readable_channel_ids=self.readable_channel_ids,
            kind=self.kind,
            character=self.character,
            thread_of=self.thread_of,
            attachments=tuple(one.value() for one in self.attachments),
            age_restricted=self.age_restricted,
            related_channels=tuple(one.value() for one in self.related_channels),
        )


class AskBody(QuestionBody):
    """A question; `history` and what follows come after an answer that says `needs_history` or `needs_members`."""

    history: Annotated[tuple[MessageBody, ...], Field(max_length=MAX_HISTORY)] | None = Field(
        None, description="The channel's newest messages, from the platform. Used for this answer and never stored."
    )
    history_problem: Annotated[str, Field(strict=True, max_length=300)] = Field(
        "", description="Why the platform gave no history, as a sentence for the person who asks."
    )
    members: Annotated[tuple[PersonBody, ...], Field(max_length=MAX_LIST)] | None = Field(
        None, description="People of the guild whose names begin as `needs_members` said."
    )
    referenced: Annotated[tuple[MessageBody, ...], Field(max_length=MAX_LIST)] | None = Field(
        None, description="Messages that `needs_messages` named, as far as they exist. Never stored."
    )
    link: Annotated[str, Field(strict=True, max_length=300)] = Field(
        "",
        description="Template of a link to a message, with {guild_id}, {channel_id} and {id}; quotes then have one.",
        examples=["https://discord.com/channels/{guild_id}/{channel_id}/{id}"],
    )


def person_body(person: Person) -> PersonBody:
    return PersonBody(id=person.id, name=person.name, aliases=person.aliases)
