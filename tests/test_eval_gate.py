"""The router's own questions as a gate: written without sight of its rules, one half unread by who writes them."""

from __future__ import annotations

from pathlib import Path

import pytest

from scripts.eval_routing import as_json, judge, read

DATA = Path(__file__).parent / "data"


def _at_least(figures: dict[str, object], name: str, least: float) -> None:
    value = figures[name]
    assert isinstance(value, float)
    assert value >= least, f"{name} is {value}"


# The sets that rules are written against must stay at the target. Two are the honest figures, since nobody who writes
# rules has read them: the final half (97.5 %, speakers 96.7 %, windows 100 %) and the unread set (97.7, 97.9, 100 %).
_TARGET = {"route": 0.97, "speakers": 0.95, "windows": 0.95}
LEAST = {
    "routing_dev.jsonl": {"rows": 120, **_TARGET},
    "routing_more.jsonl": {"rows": 160, **_TARGET},
    "routing_third.jsonl": {"rows": 110, **_TARGET},
    "routing_fourth.jsonl": {"rows": 156, **_TARGET},
    "routing_fifth.jsonl": {"rows": 157, **_TARGET},
    "routing_sixth.jsonl": {"rows": 155, **_TARGET},
    "routing_seventh.jsonl": {"rows": 320, **_TARGET},
    "routing_eighth.jsonl": {"rows": 320, **_TARGET},
    "routing_ninth.jsonl": {"rows": 320, **_TARGET},
    "routing_tenth.jsonl": {"rows": 160, **_TARGET},
    "routing_final.jsonl": {"rows": 120, **_TARGET},
    "routing_unread.jsonl": {"rows": 390, **_TARGET},
}


@pytest.mark.parametrize("file", LEAST)
def test_routes_are_right_on_our_own_questions(file: str) -> None:
    # Only the figures: a message with rows of the unread sets would make them known.
    figures = as_json(judge(read(DATA / file)))
    assert figures["rows"] == LEAST[file]["rows"]
    for name in ("route", "speakers", "windows"):
        _at_least(figures, name, LEAST[file][name])


def test_the_seeds_regexes_are_far_behind() -> None:
    figures = as_json(judge(read(DATA / "routing_dev.jsonl")))
    baseline = figures["seed_regex_baseline"]
    assert isinstance(baseline, float)
    assert baseline < 0.6
