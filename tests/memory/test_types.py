"""Values that refuse what no later stage could use."""

from __future__ import annotations

import math

import pytest
from conftest import CHANNEL, GUILD, NOW

from channelmem.types import LAST_TS, Question


@pytest.mark.parametrize("ts", [math.nan, math.inf, -math.inf, -1.0, -1e11, 1e12, 1.8e18, 1e300, LAST_TS + 1])
def test_a_question_at_an_impossible_time_is_refused_where_it_is_made(ts: float) -> None:
    with pytest.raises(ValueError, match=r"^Question\.ts is .* epoch seconds"):
        Question(GUILD, CHANNEL, 1, 7, "Bob", "what did Ann say?", ts)


@pytest.mark.parametrize("ts", [0, 0.0, NOW, LAST_TS])
def test_a_question_at_a_possible_time_is_accepted(ts: float) -> None:
    assert Question(GUILD, CHANNEL, 1, 7, "Bob", "what did Ann say?", ts).ts == ts
