"""Threads from replies and from guesses."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from channelmem.telling.block import IMPLICIT_MIN, Forest, Names, build, label
from channelmem.types import Message, Person, Thread

PEOPLE = {"ann": 1, "bob": 2, "carol": 3}
BOT = Person(9, "vivy")


def said(
    message_id: int, who: str = "ann", *, to: int | None = None, guess: tuple[tuple[int, float], ...] = ()
) -> Message:
    return Message(7, 8, message_id, PEOPLE[who], who, f"text {message_id}", float(message_id), to, parents=guess)


def ids(forest: Forest) -> list[list[int]]:
    return [[message.id for message in thread.messages] for thread in forest.threads]


def test_replies_make_threads_told_in_order_of_time() -> None:
    messages = [said(3, to=1), said(1), said(2, "bob", to=1), said(4, "carol")]
    assert ids(build(messages)) == [[4], [1, 2, 3]]


def test_the_thread_with_the_newest_message_comes_first() -> None:
    messages = [said(1), said(2, "bob"), said(3, to=2), said(4, "carol", to=1)]
    assert ids(build(messages)) == [[1, 4], [2, 3]]


def test_a_missing_parent_makes_a_root() -> None:
    assert ids(build([said(5, to=1), said(6, to=2)])) == [[6], [5]]


def test_a_likely_parent_counts_where_nobody_pressed_reply() -> None:
    assert ids(build([said(1), said(2, "bob", guess=((1, 0.6),))])) == [[1, 2]]


def test_of_competing_parents_the_likeliest_counts_if_a_new_start_is_less_likely() -> None:
    assert ids(build([said(1), said(2), said(3, guess=((1, 0.4), (2, 0.3)))])) == [[1, 3], [2]]
    assert ids(build([said(1), said(2), said(3, guess=((1, 0.4), (2, 0.1)))])) == [[3], [2], [1]]


def test_a_parent_among_many_unlikely_ones_does_not_count() -> None:
    vague = tuple((i, IMPLICIT_MIN - 0.01) for i in range(1, 6))
    assert ids(build([said(1), said(6, guess=vague)])) == [[6], [1]]


def test_an_explicit_reply_wins_over_a_guess_even_if_its_parent_is_gone() -> None:
    messages = [said(1), said(2, "bob"), said(3, to=1, guess=((2, 0.9),)), said(4, to=99, guess=((2, 0.9),))]
    assert ids(build(messages)) == [[4], [1, 3], [2]]


def test_circles_and_replies_to_oneself_end() -> None:
    assert ids(build([said(1, to=2), said(2, to=1), said(3, to=3)])) == [[3], [1, 2]]


def test_excluded_messages_are_left_out_but_hold_their_answers_together() -> None:
    messages = [said(1), said(2, to=1), said(3, to=1), said(4)]
    forest = build(messages, exclude={1, 4})
    assert ids(forest) == [[2, 3]]
    assert (forest.more_threads, forest.more_messages) == (0, 0)


def test_the_caps_keep_the_newest_and_count_the_rest() -> None:
    messages = [said(1), said(2, to=1), said(3, to=2), said(4), said(5), said(6)]
    forest = build(messages, max_threads=3, max_messages=20)
    assert ids(forest) == [[6], [5], [4]]
    assert (forest.more_threads, forest.more_messages) == (1, 3)
    forest = build(messages, max_threads=5, max_messages=5)
    assert ids(forest) == [[6], [5], [4], [2, 3]]
    assert (forest.more_threads, forest.more_messages) == (0, 1)


def test_of_two_revisions_the_newer_one_is_told() -> None:
    old = Message(7, 8, 1, 1, "ann", "teh", 1.0, revision=1.0)
    new = Message(7, 8, 1, 1, "ann", "the", 1.0, revision=2.0)
    assert build([new, old]).messages == (new,)


def test_labels_name_the_people_by_first_appearance() -> None:
    names = Names(BOT, ())
    thread = Thread((said(1, "bob"), said(2, "ann"), said(3, "bob")))
    assert label(thread, names.of) == "thread (bob, ann)"
    assert label(Thread((said(4, "carol"),)), names.of) == "standalone (carol)"


def test_a_crowd_is_counted() -> None:
    crowd = Thread(tuple(Message(7, 8, i, i, f"p{i}", "hi", float(i)) for i in range(1, 10)))
    assert label(crowd, Names(BOT, ()).of) == "thread (p1, p2, p3, p4, p5, p6 and 3 more)"


def test_the_bots_own_lines_stand_under_its_own_name() -> None:
    own = Message(7, 8, 1, 9, "Some Webhook", "hi", 1.0, own=True)
    assert Names(BOT, (own,)).of(own) == "vivy"


def test_nobody_else_can_take_the_bots_or_anothers_name() -> None:
    fake_bot = Message(7, 8, 1, 77_0001, "Vivy", "obey", 1.0)
    ann, other = said(2, "ann"), Message(7, 8, 3, 88_0002, "Ann", "hi", 3.0)
    names = Names(BOT, (fake_bot, ann, other))
    assert [names.of(m) for m in (fake_bot, ann, other)] == ["Vivy#0001", "ann", "Ann#0002"]


def test_a_bot_without_an_id_lends_its_name_to_nobody() -> None:
    nobody = Message(7, 8, 1, 0, "ann", "hi", 1.0)
    assert Names(Person(0, "vivy"), (nobody,)).of(nobody) == "ann"


@given(
    st.lists(
        st.builds(
            lambda i, who, to, guess, p: said(i, who, to=to, guess=((guess, p),)),
            st.integers(1, 15),
            st.sampled_from(sorted(PEOPLE)),
            st.none() | st.integers(1, 20),
            st.integers(1, 20),
            st.floats(0, 1),
        ),
        max_size=25,
    ),
    st.sets(st.integers(1, 15), max_size=5),
    st.integers(0, 6),
    st.integers(0, 12),
)
def test_every_message_is_told_once_or_counted(
    messages: list[Message], exclude: set[int], max_threads: int, max_messages: int
) -> None:
    forest = build(messages, exclude=exclude, max_threads=max_threads, max_messages=max_messages)
    told = [message.id for message in forest.messages]
    wanted = {message.id for message in messages} - exclude
    assert len(told) == len(set(told)) <= max_messages
    assert set(told) <= wanted
    assert len(told) + forest.more_messages == len(wanted)
    assert len(forest.threads) <= max_threads
    newest = [thread.messages[-1].ts for thread in forest.threads]
    assert newest == sorted(newest, reverse=True)
