import pytest

from channelmem.recalling.choosing import Beside
from channelmem.types import Message


def line(number: int, content: str, author: int = 1, channel: int = 7, reply_to: int | None = None) -> Message:
    return Message(1, channel, number, author, "Ann", content, float(number), reply_to)


@pytest.mark.parametrize(
    ("later", "corrects"),
    [
        ("it is 72, not 60", True),
        ("use 72 instead of 60.", True),
        ("rather than 60_000", False),
        ("it is not 600", False),
        ("I have 60 of them", False),
        ("knot 60", False),
    ],
)
def test_a_line_that_rejects_the_old_value_corrects_it(later: str, corrects: bool) -> None:
    talk = [line(1, "the limit is 60"), line(2, "ok", 2), line(3, later, 3)]
    assert Beside(talk).corrections(by_links=False) == ({0: 2} if corrects else {})


def test_a_reply_that_says_so_corrects_and_the_last_one_counts() -> None:
    talk = [
        line(1, "the match is at 7"),
        line(2, "actually the match is at 8", 2, reply_to=1),
        line(3, "correction: the match is at 9", 3, reply_to=1),
    ]
    assert Beside(talk).corrections(by_links=False)[0] == 2


def test_somebody_corrects_themselves_only_soon_and_only_where_links_count() -> None:
    talk = [line(1, "lunch at noon"), line(2, "actually lunch at one"), *(line(n, "hm", 2) for n in range(3, 20))]
    assert Beside(talk).corrections(by_links=True)[0] == 1
    assert 0 not in Beside(talk).corrections(by_links=False)
    late = [talk[0], *talk[2:], line(30, "actually lunch at one")]
    assert 0 not in Beside(late).corrections(by_links=True)


def test_another_channel_corrects_nothing() -> None:
    talk = [line(1, "the limit is 60"), line(2, "72, not 60", channel=8), line(3, "actually no limit", 1, 8)]
    assert 0 not in Beside(talk).corrections(by_links=True)
