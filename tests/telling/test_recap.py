from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from channelmem.routing.clause import _HINTS, _IDIOM


@settings(max_examples=500, deadline=None)
@given(st.from_regex(_IDIOM, fullmatch=True))
def test_every_idiom_of_a_recap_has_the_words_that_lead_to_it(idiom: str) -> None:
    assert not _HINTS.isdisjoint(idiom.split(" "))
