from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from channelmem.routing.signs import SIGNS, Sign

LETTERS = "qhodDbBnvmiyeWgNPMuUwHksCcGKLRrafptj&lzZ.,@xVAT"
BY_LETTERS = [sign for sign in SIGNS if not sign.words]


@pytest.mark.parametrize("sign", BY_LETTERS, ids=[sign.name for sign in BY_LETTERS])
@settings(max_examples=50, deadline=None)
@given(data=st.data())
def test_every_shape_of_a_sign_has_a_letter_that_the_sign_needs(sign: Sign, data: st.DataObject) -> None:
    assert sign.pattern is not None
    shape = data.draw(st.from_regex(sign.pattern, fullmatch=True, alphabet=st.sampled_from(LETTERS)))
    assert not set(sign.needs).isdisjoint(shape)
