"""The JSON of the service has every field of the values it stands for, and nothing is lost on the way."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import pytest
from conftest import message
from pydantic import BaseModel, TypeAdapter, ValidationError

from channelmem import types
from channelmem.summaries.pyramid import Summary, SummaryLine
from channelmem.summaries.reader import Breakdown
from channelmem.types import Attachment, Kind, Message, Origin, Person, Question, RelatedChannel
from channelmem.wire import answers, channels, messages
from channelmem.wire.messages import edit_json, value_json

NOT_READ_BACK = {"thread_of", "derived_from", "age_restricted"}
FILLED_IN = {"parents"}


@pytest.mark.parametrize(
    ("value", "model", "left_out"),
    [
        (Message, messages.MessageShown, NOT_READ_BACK),
        (Message, messages.MessageBody, FILLED_IN),
        (Message, channels.EditBody, FILLED_IN | {"guild_id", "channel_id", "id"}),
        (Attachment, messages.AttachmentBody, set()),
        (Attachment, messages.AttachmentShown, set()),
        (Question, answers.QuestionBody, set()),
        (Person, messages.PersonBody, set()),
        (types.Answer, answers.AnswerShown, set()),
        (types.Route, answers.RouteShown, set()),
        (types.Hit, answers.HitShown, set()),
        (types.SourceReport, answers.ReportShown, set()),
        (types.Thread, answers.ThreadShown, set()),
        (types.ChannelStatus, channels.StatsShown, set()),
        (types.Gap, channels.GapShown, set()),
        (Summary, answers.SummaryShown, set()),
        (SummaryLine, answers.LineShown, set()),
        (Breakdown, answers.BreakdownShown, set()),
    ],
)
def test_every_field_of_a_value_has_its_place_in_the_json(
    value: Any, model: type[BaseModel], left_out: set[str]
) -> None:
    assert {one.name for one in fields(value)} - left_out <= model.model_fields.keys()


def full() -> Message:
    """A message with nothing at its default."""
    file = Attachment(9, "https://x.example/a.png", "image/png", "a.png", 5, "alt", 1.5, "a cat", embed=True)
    changes: dict[str, Any] = {
        "ts": 1_800_000_000.5,
        "reply_to": 2**60,
        "mentions": (6, 7),
        "own": True,
        "addressed": True,
        "revision": 5.25,
    }
    changes |= {"aliases": ("ann_77",), "attachments": (file,), "thread_of": 8, "derived_from": (Origin(1, 2, 3.5),)}
    return message(2**62, **changes, age_restricted=True)


def test_a_message_arrives_as_it_was_sent() -> None:
    sent = full()
    assert all(getattr(sent, one.name) != one.default for one in fields(sent) if one.name != "parents")
    assert messages.MessageBody.model_validate(value_json(sent)).value() == sent
    plain = message(1)
    assert messages.MessageBody.model_validate(value_json(plain)).value() == plain
    assert len(value_json(plain)) == 7, "nothing that is at its default"


def test_an_edit_arrives_whole() -> None:
    sent = full()
    body = channels.EditBody.model_validate(edit_json(sent))
    assert body.complete
    blank = Message(sent.guild_id, sent.channel_id, sent.id, 0, "", "", 0.0)
    assert body.applied(blank, sent.revision) == sent


def test_a_question_arrives_as_it_was_asked() -> None:
    asked = Question(
        1, 2, 3, 4, "Cy", "what did Ann say?", 1_800_000_000.0, 5, (Person(6, "Ann", ("ann_77",)),),
        Person(99, "Bot"), True, 7.0, (8, 9), Kind.MEMORY, "frodo", 10, (Attachment(11, name="a.png"),), True,
        (RelatedChannel(11, "lunch"),),
    )  # fmt: skip
    assert all(getattr(asked, one.name) != one.default for one in fields(asked))
    assert answers.QuestionBody.model_validate(value_json(asked)).value() == asked


def test_what_was_said_a_moment_ago_keeps_every_digit_of_its_id() -> None:
    shown = messages.MessageShown.model_validate(message(2**53 + 1)).model_dump_json()
    assert f'"id":"{2**53 + 1}"' in shown
    assert messages.MessageShown.model_validate_json(shown).value() == message(2**53 + 1)


@pytest.mark.parametrize("wrong", [True, 1.0, "1_0", " 1", "+1", "-1", "", "1" * 20, -1, 10**19, None, [1], "\u0661"])
def test_what_is_no_id_is_refused(wrong: object) -> None:
    with pytest.raises(ValidationError):
        TypeAdapter(messages.Id).validate_python(wrong)


@pytest.mark.parametrize("right", [0, 1, "1", "0", 10**19 - 1, "9" * 19, "007"])
def test_whole_numbers_and_digits_are_ids(right: object) -> None:
    assert TypeAdapter(messages.Id).validate_python(right) == int(str(right))


def test_a_summary_has_a_negative_number() -> None:
    adapter = TypeAdapter[int](messages.SourceId)
    assert [adapter.validate_python(one) for one in ("-5", -5, "5", 5)] == [-5, -5, 5, 5]
    for wrong in ("--5", "-", True, -1.0):
        with pytest.raises(ValidationError):
            adapter.validate_python(wrong)


def test_what_an_answer_was_set_aside_for_arrives() -> None:
    route = types.Route(Kind.CHANNEL, aside=types.Aside.HELP, borrowed=(types.Borrowed.TOPIC, types.Borrowed.TIME))
    off = types.SourceReport(types.Source.BUFFER, problem=types.MEMORY_OFF, unsearched=types.Unsearched.OFF)
    sent = answers.AnswerShown.model_validate(types.Answer("", route, tried=(off,))).model_dump_json()
    arrived = answers.AnswerShown.model_validate_json(sent).value()
    assert (arrived.route, arrived.tried, arrived.off) == (route, (off,), True)


def test_an_answer_that_only_says_so_is_not_off() -> None:
    report = types.SourceReport(types.Source.BUFFER, problem=types.MEMORY_OFF)
    assert not types.Answer("", types.Route(Kind.CHANNEL), tried=(report,)).off
