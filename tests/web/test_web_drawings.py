"""What the pages draw: threads as rails, summaries as a pyramid, a map of meanings, a waterfall, rows of a timeline."""

from __future__ import annotations

from dataclasses import replace
from zoneinfo import ZoneInfo

import numpy as np
from conftest import NOW, message

from channelmem.policy.policy import Policy
from channelmem.settings import Settings
from channelmem.summaries.extractive import combine, summarise
from channelmem.summaries.pyramid import closed_windows
from channelmem.types import Attachment, Message, Stored, Timing
from channelmem.web import drawings
from channelmem.web.drawings import LANES, rails

UTC = ZoneInfo("UTC")
POLICY = Policy.of_settings(Settings(_env_file=None))


def newest_first(*messages: Message) -> list[Message]:
    return sorted(messages, key=lambda one: -one.ts)


# --- rails ---


def test_a_thread_keeps_one_lane_and_passes_by_others() -> None:
    shown = newest_first(message(1), message(2), message(3, reply_to=1), message(4, reply_to=2))
    fourth, third, second, first = rails(shown)
    assert first.lane == third.lane
    assert second.lane == fourth.lane
    assert first.lane != second.lane
    assert (first.newer, first.older) == (True, False)
    assert (third.newer, third.older) == (False, True)
    assert second.passing == ((first.lane, first.colour),)
    assert third.passing == ((second.lane, second.colour),)


def test_messages_of_their_own_use_the_first_lane() -> None:
    assert {one.lane for one in rails(newest_first(message(1), message(2), message(3)))} == {0}


def test_a_new_message_does_not_move_older_threads() -> None:
    talk = [message(1), message(2), message(3, reply_to=1), message(4, reply_to=2)]
    before = rails(newest_first(*talk))
    after = rails(newest_first(*talk, message(5)))
    assert [(one.lane, one.colour) for one in after[1:]] == [(one.lane, one.colour) for one in before]


def test_many_threads_at_once_share_the_last_lane() -> None:
    starts = [message(number) for number in range(1, 11)]
    answers = [message(20 + number, reply_to=number) for number in range(1, 11)]
    assert max(one.lane for one in rails(newest_first(*starts, *answers))) == LANES - 1


def test_nothing_has_no_rails() -> None:
    assert rails([]) == []


# --- timeline ---


def rows_of(*stored: Stored, place: int = 0) -> list[drawings.Row]:
    return drawings.rows(stored, POLICY, NOW, place)


def test_a_row_says_what_is_stored_of_a_message() -> None:
    picture = Attachment(1, content_type="image/png", name="cat.png", size=2_300, text="a cat on a sofa")
    told = message(1, "look", attachments=(picture,), revision=NOW)
    (row,) = rows_of(Stored(told, embedded=False, ttl_s=3 * 86_400 + 7_300))
    assert (row.state, row.left, row.edited) == ("pending", "3d 2h", True)
    assert row.share == 44
    assert row.files == (drawings.FileRow("cat.png", "image/png, 2.3 kB", "a cat on a sofa"),)


def test_a_row_names_what_it_answers_if_that_is_shown() -> None:
    answer, asked = rows_of(
        Stored(message(2, "me!", reply_to=1), True, 60), Stored(message(1, "who\nis in?", author="Bob"), True, 60)
    )
    (alone,) = rows_of(Stored(message(2, "me!", reply_to=1), True, 60))
    assert (answer.reply_id, answer.reply) == ("1", "Bob: who is in?")
    assert (alone.reply_id, asked.reply) == ("", "")


def test_the_buffer_ends_by_count_and_by_age() -> None:
    young, old = message(1, ts=NOW - 60), message(2, ts=NOW - 3_600)
    assert [row.buffered for row in rows_of(Stored(young, True, 1), Stored(old, True, 1))] == [True, False]
    assert not rows_of(Stored(young, True, 1), place=POLICY.limits.max_messages)[0].buffered


def test_the_version_changes_with_anything_that_is_shown() -> None:
    one = Stored(message(1), embedded=False, ttl_s=600)
    versions = {
        drawings.as_json(rows_of(stored), messages=count)["version"]
        for stored, count in (
            (one, "1"),
            (replace(one, embedded=True), "1"),
            (replace(one, ttl_s=300), "1"),
            (replace(one, message=message(1, "edited")), "1"),
            (one, "2"),
        )
    }
    assert len(versions) == 5
    assert drawings.as_json(rows_of(one), messages="1") == drawings.as_json(rows_of(one), messages="1")


# --- summaries ---


def test_a_box_is_as_wide_as_the_windows_it_covers_and_silence_takes_no_room() -> None:
    told = [message(at, ts=NOW - 86_400 * 3 + at * 20_000) for at in range(1, 5)]
    windows = [summarise(one, created=NOW) for one in closed_windows(told, NOW)]
    pairs = [combine(windows[0], windows[1], created=NOW), combine(windows[2], windows[3], created=NOW)]
    drawing = drawings.draw_pyramid([*windows, *pairs, combine(*pairs, created=NOW)], UTC)
    assert drawing is not None
    assert [box.level for box in drawing.boxes] == [3, 2, 2, 1, 1, 1, 1]
    top, left, right, *lowest = drawing.boxes
    assert len({round(box.width) for box in lowest}) == 1
    assert abs(top.width - (drawing.width - drawings.GAP)) < 1
    assert left.x < right.x
    assert top.y < left.y < lowest[0].y


def test_a_summary_whose_windows_are_gone_is_left_out() -> None:
    told = [message(at, ts=NOW - 86_400 * 3 + at * 20_000) for at in range(1, 5)]
    first, second, third, fourth = [summarise(one, created=NOW) for one in closed_windows(told, NOW)]
    drawing = drawings.draw_pyramid([first, second, combine(third, fourth, created=NOW)], UTC)
    assert drawing is not None
    assert [box.level for box in drawing.boxes] == [1, 1]


def test_nothing_to_summarise_draws_nothing() -> None:
    assert drawings.draw_pyramid([], UTC) is None


# --- map ---


def test_similar_vectors_lie_close() -> None:
    random = np.random.default_rng(7)
    centres = random.normal(size=(2, 32))
    vectors = np.concatenate(
        [centres[0] + random.normal(size=(20, 32)) * 0.1, centres[1] + random.normal(size=(20, 32)) * 0.1]
    )
    plane, kept = drawings.project(vectors.astype(np.float32))
    first, second = plane[:20], plane[20:]
    apart = np.linalg.norm(first.mean(axis=0) - second.mean(axis=0))
    assert apart > 5 * max(first.std(), second.std()) / 2
    assert kept > 0.9


def test_the_same_vectors_give_the_same_map_every_time() -> None:
    vectors = np.random.default_rng(3).normal(size=(30, 16)).astype(np.float32)
    assert np.array_equal(drawings.project(vectors)[0], drawings.project(vectors.copy())[0])


def test_one_vector_and_equal_vectors_have_a_place_within_the_frame() -> None:
    for count in (1, 2, 5):
        messages = [message(number) for number in range(1, count + 1)]
        drawn = drawings.draw_map(messages, np.ones((count, 8), np.float32), UTC)
        assert len(drawn.points) == count
        assert all(0 < point.x < drawn.width and 0 < point.y < drawn.height for point in drawn.points)


def test_people_beyond_the_first_share_a_colour() -> None:
    people = 12
    messages = [message(number, author_id=number, author=f"P{number}") for number in range(1, people + 1)]
    drawn = drawings.draw_map(messages, np.random.default_rng(1).normal(size=(people, 8)).astype(np.float32), UTC)
    assert len(drawn.people) == drawings.COLOURS + 1
    assert drawn.people[-1] == ("others", drawings.COLOURS, people - drawings.COLOURS)


def test_labels_cover_neither_each_other_nor_points() -> None:
    messages = [message(number, "a text that is long enough to be cut off") for number in range(1, 200)]
    drawn = drawings.draw_map(messages, np.random.default_rng(5).normal(size=(199, 8)).astype(np.float32), UTC)
    labelled = [point for point in drawn.points if point.label]
    assert 0 < len(labelled) <= drawings.LABELS
    for one in labelled:
        covers = [p for p in drawn.points if p is not one and one.x + 10 < p.x < one.x + 150 and abs(p.y - one.y) < 5]
        assert not covers


# --- waterfall ---


def test_bars_follow_each_other_and_the_rest_is_named() -> None:
    bars = drawings.bars(Timing(route=1.0, embed=4.0, search=2.0, total=8.0))
    assert [(bar.name, bar.ms) for bar in bars] == [("route", 1), ("embed", 4), ("search", 2), ("rest", 1)]
    assert [bar.x for bar in bars] == [0, 60, 300, 420]
    assert bars[-1].x + bars[-1].width == drawings.WATERFALL_WIDTH


def test_an_answer_without_any_time_can_be_drawn() -> None:
    assert all(bar.width > 0 for bar in drawings.bars(Timing()))
