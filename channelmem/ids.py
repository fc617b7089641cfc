"""What identifies a channel, and a message or a question in it: never without the guild that they are of."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple, Self

if TYPE_CHECKING:
    from channelmem.types import Question


LARGEST_ID: Final = 2**63 - 1
"""What people can type as an id. (The service takes more: any number of 19 digits.)"""


class ChannelId(NamedTuple):
    guild_id: int
    channel_id: int


class MessageId(NamedTuple):
    guild_id: int
    channel_id: int
    id: int


class QuestionId(NamedTuple):
    guild_id: int
    channel_id: int
    id: int

    @classmethod
    def of(cls, question: Question) -> Self:
        return cls(question.guild_id, question.channel_id, question.id)
