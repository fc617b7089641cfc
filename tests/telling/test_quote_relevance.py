"""How much a hit has to do with the topic."""

from __future__ import annotations

import pytest

from channelmem.display import during, evidence, relevance
from channelmem.types import Hit, Message


def hit(similarity: float | None, words: float | None = None) -> Hit:
    return Hit(Message(1, 2, 3, 4, "Ann", "hi", 5.0), 1.0, similarity, words)


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (hit(0.7), "[highly relevant]"),
        (hit(0.29, 1.0), "[highly relevant]"),
        (hit(None, 1.0), "[highly relevant]"),
        (hit(0.44, 0.0), "[relevant]"),
        (hit(None, 0.5), "[relevant]"),
        (hit(0.15, 0.32), ""),
        (hit(-0.1, 0.45), ""),
        (hit(None), ""),
    ],
)
def test_labels_need_nearness_or_the_topics_words(found: Hit, expected: str) -> None:
    assert relevance(found) == expected


def test_a_raw_text_score_beyond_one_counts_as_all_words() -> None:
    assert evidence(hit(0.0, 12.5)) == 1.0


def test_a_time_is_told_in_the_askers_words() -> None:
    assert during("Saturday") == "on Saturday"
    assert during("this morning") == "this morning"
    assert during("on the 10th") == "on the 10th"
