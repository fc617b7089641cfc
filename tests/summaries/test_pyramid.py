"""The pyramid: how windows pair, that pairs are stable, and what goes when a message goes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st
from talk import DAY, chat, say

from channelmem.summaries.extractive import combine, summarise
from channelmem.summaries.pyramid import (
    ClosedWindow,
    Shared,
    Summary,
    affected_by,
    closed_windows,
    missing,
    pairs,
    reaching,
    roots,
    silence,
)
from channelmem.types import Attachment, Message, Person

HALF_HOUR, HOUR = 1800.0, 3600.0
LATER = DAY + 400 * 24 * HOUR


def cascade(made: Iterable[Summary], windows: Sequence[ClosedWindow]) -> list[Summary]:
    """What a worker does, without storing anything."""
    existing = list(made)
    found = missing(existing, windows)
    outdated = ids(reaching(existing, found))
    kept = [one for one in existing if one.id not in outdated]
    kept += [summarise(window, created=LATER) for window in found]
    while some := pairs(kept):
        kept += [combine(older, newer, created=LATER) for older, newer in some]
    return kept


def windows_of(said: Iterable[Message]) -> tuple[ClosedWindow, ...]:
    return closed_windows(said, LATER)


def spread(count: int) -> list[Message]:
    """One message in each of this many windows, with gaps of all sizes."""
    return chat(DAY + at * HALF_HOUR + (at // 5) * 7 * HOUR for at in range(count))


def ids(summaries: Iterable[Summary]) -> set[str]:
    return {one.id for one in summaries}


def levels(summaries: Iterable[Summary]) -> list[int]:
    return [one.level for one in summaries]


def test_levels_pair_like_binary_counting() -> None:
    for count, expected in [(1, [1]), (2, [2]), (3, [2, 1]), (5, [3, 1]), (7, [3, 2, 1]), (16, [5])]:
        assert levels(roots(cascade([], windows_of(spread(count))))) == expected


def test_a_summary_knows_what_it_came_from() -> None:
    made = cascade([], windows_of([say(1, DAY, "we meet at nine"), say(2, DAY + 60, "ok"), say(3, DAY + HOUR, "late")]))
    first, second, whole = sorted(made, key=lambda one: (one.level, one.start))
    assert first.id == f"1-{DAY:.0f}000-{DAY + 60:.0f}000"
    assert [origin.id for origin in first.origins] == [1, 2]
    assert (first.parts, first.message_count, first.model, first.created) == ((), 2, "extractive", LATER)
    assert first.authors == (Person(2, "Bob"), Person(3, "Carol"))
    assert (whole.level, whole.start, whole.end, whole.message_count) == (2, DAY, DAY + HOUR, 3)
    assert whole.parts == (first.id, second.id)
    assert whole.origins == ()
    assert [person.name for person in whole.authors] == ["Bob", "Carol", "Ann"]


def test_two_neighbours_pair_whatever_the_gap_and_the_gap_is_named() -> None:
    whole = roots(cascade([], windows_of([say(1, DAY, "pears are in"), say(2, DAY + 9.5 * HOUR, "plums are out")])))[0]
    assert whole.text.splitlines() == ["Bob: pears are in", "[9.5 hours of silence]", "Carol: plums are out"]


def test_silence_is_named_from_an_hour_on_and_in_days_from_two_days_on() -> None:
    assert silence(HOUR) == ""
    assert silence(3.5 * HOUR) == "[3.5 hours of silence]"
    assert silence(60 * HOUR) == "[2.5 days of silence]"


def test_a_year_of_one_message_a_day_is_a_handful_of_roots() -> None:
    made = cascade([], windows_of(chat(DAY + day * 24 * HOUR for day in range(365))))
    assert len(made) < 2 * 365
    assert levels(roots(made)) == [9, 7, 6, 4, 3, 1]
    assert sum(one.message_count for one in roots(made)) == 365


def test_two_hundred_messages_an_hour_are_counted_all() -> None:
    made = cascade([], windows_of(chat(DAY + at * 18.0 for at in range(1_600))))
    assert levels(roots(made)) == [5]
    assert roots(made)[0].message_count == 1_600


def test_what_is_up_to_date_misses_nothing() -> None:
    windows = windows_of(spread(6))
    assert missing(cascade([], windows), windows) == ()


def test_a_late_message_makes_its_window_and_all_above_outdated() -> None:
    said = spread(4)
    made = cascade([], windows_of(said))
    late = [*said, say(99, said[1].ts + 1, "by the way the pears are rotten")]
    found = missing(made, windows_of(late))
    assert sorted(levels(reaching(made, found))) == [1, 2, 3]
    assert [len(window.messages) for window in found] == [2]
    assert roots(cascade(made, windows_of(late)))[0].message_count == 5


def test_an_edited_message_makes_its_window_outdated() -> None:
    said = spread(2)
    edited = [said[0], replace(said[1], content="plums after all", revision=5.0)]
    again = cascade(cascade([], windows_of(said)), windows_of(edited))
    assert "plums after all" in roots(again)[0].text


def test_messages_that_expired_do_not_make_a_summary_outdated() -> None:
    said = chat([DAY, DAY + 1, DAY + HOUR])
    made = cascade([], windows_of(said))
    assert missing(made, windows_of(said[1:])) == missing(made, windows_of(said))


def test_another_window_size_keeps_what_was_made_with_the_old_one() -> None:
    said = spread(4)
    made = cascade([], windows_of(said))
    assert missing(made, closed_windows(said, LATER, 60)) == ()


def test_a_window_that_is_gone_for_good_leaves_its_sibling_unpaired() -> None:
    said = spread(8)
    made = cascade([], windows_of(said))
    left = [one for one in made if one not in affected_by(made, {said[2].id})]
    again = cascade(left, windows_of([one for one in said if one.id != said[2].id]))
    assert levels(roots(again)) == [2, 1, 3]
    assert ids(left) == ids(again)


def test_attachments_are_counted_on_every_level() -> None:
    image, voice, other = (
        Attachment(1, content_type="image/png"),
        Attachment(2, content_type="audio/ogg", duration_s=3.0),
        Attachment(3, content_type="application/pdf"),
    )
    said = [
        replace(say(1, DAY, "look"), attachments=(image, image)),
        replace(say(2, DAY + HOUR, ""), attachments=(image, voice, other)),
    ]
    made = cascade([], windows_of(said))
    assert [one.shared for one in made] == [Shared(2), Shared(1, 1, 1), Shared(3, 1, 1)]
    assert roots(made)[0].text.endswith("[3 images, 1 voice message and 1 file shared]")


counts = st.integers(0, 40)


@given(counts, counts)
def test_new_windows_never_pair_old_ones_anew(count: int, more: int) -> None:
    said = spread(count + more)
    before = cascade([], windows_of(said[:count]))
    after = cascade(before, windows_of(said))
    assert ids(before) <= ids(after)
    assert ids(after) == ids(cascade([], windows_of(said)))


@given(counts)
def test_roots_tile_the_past_without_overlap_and_coarse_before_fine(count: int) -> None:
    made = cascade([], windows_of(spread(count)))
    tops = roots(made)
    assert all(one.end < two.start for one, two in pairwise(tops))
    assert sum(one.message_count for one in tops) == count
    assert levels(tops) == sorted(set(levels(tops)), reverse=True)


@given(st.integers(1, 40), st.data())
def test_what_came_from_a_removed_message_is_gone_on_every_level_and_comes_back_the_same(
    count: int, data: st.DataObject
) -> None:
    said = spread(count)
    made = cascade([], windows_of(said))
    gone = data.draw(st.sets(st.sampled_from([one.id for one in said]), max_size=4))
    affected = affected_by(made, gone)
    left = [one for one in made if one not in affected]
    assert not any(line.message_id in gone for one in left for line in one.lines)
    by_id = {one.id: one for one in left}
    assert all(part in by_id for one in left for part in one.parts), "nothing stands on what is gone"
    assert set(made) == set(cascade(left, windows_of(said)))


@given(st.integers(1, 30), st.data())
def test_any_order_of_removals_leaves_a_pyramid_without_overlap_and_nothing_to_pair(
    count: int, data: st.DataObject
) -> None:
    said = spread(count)
    made = cascade([], windows_of(said))
    for gone in data.draw(st.permutations([one.id for one in said]))[: data.draw(st.integers(0, count))]:
        said = [one for one in said if one.id != gone]
        affected = affected_by(made, {gone})
        made = cascade([one for one in made if one not in affected], windows_of(said))
    tops = roots(made)
    assert sum(one.message_count for one in tops) == len(said)
    assert all(one.end < two.start and one.level != two.level for one, two in pairwise(tops))


@given(st.lists(st.floats(0, 5 * 24 * HOUR), max_size=40), st.randoms(use_true_random=False))
def test_the_order_in_which_summaries_are_read_does_not_matter(moments: list[float], shuffle: object) -> None:
    windows = windows_of(chat(DAY + one for one in moments))
    made = cascade([], windows)
    mixed = list(made)
    shuffle.shuffle(mixed)  # type: ignore[attr-defined]  # (hypothesis gives a Random)
    assert roots(mixed) == roots(made)
    assert missing(mixed, windows) == missing(made, windows)
    assert {one.id for one in affected_by(mixed, {1, 2})} == {one.id for one in affected_by(made, {1, 2})}
