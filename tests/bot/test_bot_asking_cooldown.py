"""Cool-downs: one person cannot flood, several people in one channel are only spread out."""

from __future__ import annotations

from bot import asking
from bot.asking import Cooldown


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def test_the_same_person_is_refused_until_the_cool_down_is_over() -> None:
    clock = Clock()
    cooldown = Cooldown(2, 0, clock)
    assert cooldown.take(1, 10) == (True, 0)
    assert cooldown.take(1, 11) == (False, 2)
    clock.now += 2
    assert cooldown.take(1, 10) == (True, 0)


def test_different_people_in_one_channel_wait_their_turn() -> None:
    cooldown = Cooldown(2, 0.5, Clock())
    assert [cooldown.take(person, 10) for person in range(3)] == [(True, 0), (True, 0.5), (True, 1.0)]
    assert cooldown.take(9, 11) == (True, 0)


def test_a_channel_with_too_many_questions_refuses() -> None:
    cooldown = Cooldown(0, 4, Clock())
    assert [cooldown.take(person, 10)[0] for person in range(5)] == [True, True, True, False, False]


def test_old_entries_do_not_pile_up() -> None:
    clock = Clock()
    cooldown = Cooldown(2, 0, clock)
    for person in range(asking.MAX_ENTRIES):
        cooldown.take(person, 1)
    clock.now += 3
    cooldown.take(-1, 1)
    assert len(cooldown._users) == 1
