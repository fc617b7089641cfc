"""What a question may lean on: the asker's last route in the channel, for ten minutes."""

from collections.abc import Callable

import pytest
from conftest import CHANNEL, GUILD, NOW

from channelmem.routing.people import Previous
from channelmem.scenes import FOLLOW_UP_S, FollowUps
from channelmem.types import Kind, Message, Person, Question, Route, Source

ANN = Route(Kind.CHANNEL, speakers=(Person(5, "Ann"),), sources=(Source.BUFFER,))


FIRST = Message(GUILD, CHANNEL, 3, 5, "Ann", "hi", NOW - 60)


def ask(asker: int = 7, ts: float = NOW, channel: int = CHANNEL) -> Question:
    return Question(GUILD, channel, 9, asker, "Zoe", "and Bob?", ts)


def noted() -> FollowUps:
    follow_ups = FollowUps()
    follow_ups.note(ask(), ANN, (), (FIRST,))
    return follow_ups


def test_a_follow_up_leans_on_the_same_askers_last_route_in_the_channel() -> None:
    follow_ups = noted()
    assert follow_ups.previous(ask(ts=NOW + FOLLOW_UP_S)) == Previous(ANN, FIRST.id, FIRST.ts)
    assert follow_ups.previous(ask(asker=8)) is None
    assert follow_ups.previous(ask(channel=CHANNEL + 1)) is None


def test_after_ten_minutes_there_is_nothing_to_lean_on() -> None:
    assert noted().previous(ask(ts=NOW + FOLLOW_UP_S + 1)) is None


def test_a_question_that_looked_nowhere_is_nothing_to_lean_on() -> None:
    follow_ups = noted()
    follow_ups.note(ask(), Route(Kind.NONE), ())
    assert follow_ups.previous(ask()) == Previous(ANN, FIRST.id, FIRST.ts)


REMOVALS: list[Callable[[FollowUps], None]] = [
    lambda kept: kept.drop(lambda channel: channel == (GUILD, CHANNEL)),
    lambda kept: kept.drop(lambda channel: channel.guild_id == GUILD),
    lambda kept: kept.drop_author(7),  # who asked
    lambda kept: kept.drop_author(5),  # who was asked about
]


@pytest.mark.parametrize("remove", REMOVALS)
def test_what_is_removed_takes_its_follow_ups_along(remove: Callable[[FollowUps], None]) -> None:
    follow_ups = noted()
    remove(follow_ups)
    assert follow_ups.previous(ask()) is None
