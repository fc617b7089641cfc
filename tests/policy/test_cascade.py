"""How levels combine: every combination, against a table written by hand from the description."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from channelmem.policy.cascade import (
    AUTO,
    CAPPED,
    OFF,
    SETTINGS,
    Channels,
    Duration,
    Level,
    Number,
    Setting,
    Switch,
    Value,
    resolve,
)
from channelmem.policy.policy import Policy
from channelmem.settings import Settings

BY_NAME = {one.name: one for one in SETTINGS}
ENABLED, MESSAGES, AGE = BY_NAME["enabled"], BY_NAME["context_messages"], BY_NAME["context_max_age"]

# channel, character, global -> in force, source. "-" is auto.
SWITCHES = """
off off off  off channel
off off on   off channel
off off -    off channel
off on  off  off channel
off on  on   off channel
off on  -    off channel
off -   off  off channel
off -   on   off channel
off -   -    off channel
on  off off  off character
on  off on   off character
on  off -    off character
on  on  off  on  channel
on  on  on   on  channel
on  on  -    on  channel
on  -   off  on  channel
on  -   on   on  channel
on  -   -    on  channel
-   off off  off character
-   off on   off character
-   off -    off character
-   on  off  on  character
-   on  on   on  character
-   on  -    on  character
-   -   off  off global
-   -   on   on  global
-   -   -    on  default
"""
# The default is 20 messages; 200 is beyond the hard cap.
LIMITS = """
-  -  -   20  default
-  -  30  30  global
-  -  10  10  global
40 -  -   40  channel
40 -  30  40  channel
10 -  30  10  channel
-  50 -   50  character
-  50 30  50  character
-  5  30  5   character
40 50 30  40  channel
40 50 -   40  channel
40 5  30  5   character
40 40 30  40  character
10 50 60  10  channel
-  -  200 100 global
"""
AGES = """
-   -   -   8h  default
-   -   off off global
off -   8h  off channel
2h  off 8h  2h  channel
off 4h  8h  4h  character
off off 8h  off character
-   off 8h  off character
2h  4h  off 2h  channel
4h  2h  off 2h  character
"""


def said(setting: Setting, **levels: str) -> dict[Level, Value]:
    found = {Level(name): setting.kind.parse(text) for name, text in levels.items() if text not in {"-", "200"}}
    beyond: dict[Level, Value] = {Level(name): 200 for name, text in levels.items() if text == "200"}
    return {**found, **beyond}


@pytest.mark.parametrize(
    ("setting", "row"),
    [
        (setting, row)
        for setting, table in ((ENABLED, SWITCHES), (MESSAGES, LIMITS), (AGE, AGES))
        for row in table.strip().splitlines()
    ],
    ids=lambda one: one if isinstance(one, str) else one.name,
)
def test_levels_combine_as_described(setting: Setting, row: str) -> None:
    channel, character, everywhere, wanted, source = row.split()
    levels = said(setting, **{"channel": channel, "character": character, "global": everywhere})
    found = resolve(setting, setting.default(Settings()), levels)
    assert (found.value, found.source) == (setting.kind.parse(wanted), Level(source))


def test_the_table_of_switches_is_complete() -> None:
    rows = {tuple(row.split()[:3]) for row in SWITCHES.strip().splitlines()}
    assert rows == set(product(("off", "on", "-"), repeat=3))


def test_a_character_above_the_channel_is_capped_and_told_so() -> None:
    found = resolve(MESSAGES, 20, {Level.CHANNEL: 40, Level.CHARACTER: 50})
    assert found.why == CAPPED


VALUES = {
    Switch: st.booleans(),
    Number: st.integers(1, 10),
    Duration: st.one_of(st.just(OFF), st.floats(60, 1e6)),
    Channels: st.lists(st.integers(1, 2**63 - 1), max_size=5, unique=True).map(tuple),
}


@given(data=st.data(), setting=st.sampled_from(SETTINGS))
def test_nothing_opens_what_a_channel_closed(data: st.DataObject, setting: Setting) -> None:
    value = st.one_of(st.none(), VALUES[type(setting.kind)])
    levels = {level: data.draw(value) for level in (Level.GLOBAL, Level.CHANNEL, Level.CHARACTER)}
    known = {level: one for level, one in levels.items() if one is not None}
    found = resolve(setting, setting.default(Settings()), known)
    channel = levels[Level.CHANNEL]
    if channel is None:
        return
    if isinstance(setting.kind, Switch):
        assert found.value is False or channel is True
    else:
        assert size(found.value) <= size(channel)


def size(value: Value) -> float:
    if isinstance(value, tuple):
        return len(value)
    return float("inf") if value is OFF else float(value)


@pytest.mark.parametrize("setting", SETTINGS, ids=lambda one: one.name)
def test_absent_off_and_cleared_are_three_things_on_every_path(setting: Setting) -> None:
    assert setting.parse("auto") is AUTO
    if not isinstance(setting.kind, Number):
        off = setting.parse("Off")
        assert off is not AUTO
        assert setting.from_json(setting.to_json(off)) == off
        assert setting.show(off) == "Off"
        found = resolve(setting, setting.default(Settings()), {setting.levels[0]: off})
        assert (found.value, found.source) == (off, setting.levels[0])
    assert setting.show(None) == "Auto"
    assert resolve(setting, setting.default(Settings()), {}).source is Level.DEFAULT
    with pytest.raises(ValueError, match=setting.label):
        setting.from_json(None)


@pytest.mark.parametrize("text", ["abc", "", " ", "0", "101", "1e9", "-3", "-5m", "5.5", "٣", "1_0", "9" * 400])
def test_bad_numbers_are_answered_with_what_is_allowed(text: str) -> None:
    with pytest.raises(
        ValueError, match=r'Context Messages must be a whole number from 1 to 100, or "auto" to inherit'
    ):
        MESSAGES.parse(text)


@pytest.mark.parametrize("text", ["abc", "", "0", "-5m", "30", "1s", "20y", "1e9"])
def test_bad_durations_are_answered_with_what_is_allowed(text: str) -> None:
    with pytest.raises(ValueError, match=r"Context Max Age must be a duration"):
        AGE.parse(text)


@pytest.mark.parametrize("text", ["abc", "", "1", "maybe"])
def test_a_switch_is_on_or_off(text: str) -> None:
    with pytest.raises(ValueError, match=r'Memory must be "on" or "off"'):
        ENABLED.parse(text)


RELATED = BY_NAME["related_channels"]


@pytest.mark.parametrize("text", ["5, 6", "<#5> <#6>", "5;6;5", " 5 ,<#6>,"])
def test_channels_are_read_as_people_paste_them(text: str) -> None:
    assert RELATED.parse(text) == (5, 6)
    assert RELATED.show((5, 6)) == "<#5>, <#6>"


@pytest.mark.parametrize("text", ["abc", "", "#general", "1,2,3,4,5,6", "5 and 6", str(2**63), "-5"])
def test_bad_channels_are_answered_with_what_is_allowed(text: str) -> None:
    with pytest.raises(ValueError, match=r"Related Channels must be up to 5 channel ids"):
        RELATED.parse(text)


@given(data=st.data(), setting=st.sampled_from(SETTINGS))
def test_values_survive_json(data: st.DataObject, setting: Setting) -> None:
    value = data.draw(VALUES[type(setting.kind)])
    assert setting.from_json(setting.to_json(value)) == value


def test_every_setting_changes_the_policy_by_itself() -> None:
    policy = Policy.of_settings(Settings())
    changed: dict[str, Value] = {
        "enabled": False, "context_messages": 3, "context_max_age": OFF, "max_images": 4, "summaries": False,
        "archive": False, "read_media": True, "adult_media": True, "open_new": True, "related_channels": (7,),
    }  # fmt: skip
    assert changed.keys() == BY_NAME.keys()
    for name, value in changed.items():
        setting = BY_NAME[name]
        assert setting.apply(policy, setting.default(Settings())) == policy
        assert setting.apply(policy, value) != policy
    assert replace(policy, context_max_age_s=None) == AGE.apply(policy, OFF)
