"""`channelmem settings`, on real Redis: show, set, reset, in words and as JSON."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from types import SimpleNamespace

import pytest
from conftest import CHANNEL, GUILD, NOW, Clock, message
from typer.testing import CliRunner, Result

from channelmem.cli import app
from channelmem.errors import ChannelmemError
from channelmem.policy import cascade as declared
from channelmem.policy.cascade import SETTINGS, Number
from channelmem.settings import Settings
from channelmem.store.store import Store

HERE = ("--guild", str(GUILD), "--channel", str(CHANNEL))
PIRATE = ("--guild", str(GUILD), "--character", "Pirate")


@pytest.fixture(autouse=True)
def of_the_test(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    assert settings.redis_url is not None
    monkeypatch.setenv("REDIS_URL", settings.redis_url.get_secret_value())
    monkeypatch.setenv("CHANNELMEM_KEY_PREFIX", settings.key_prefix)
    monkeypatch.setenv("CHANNELMEM_DATA_DIR", str(settings.data_dir))
    monkeypatch.setenv("COLUMNS", "160")


def run(*arguments: str, answer: str = "") -> Result:
    return CliRunner().invoke(app, ["settings", *arguments], input=answer)


def shown(*arguments: str) -> dict[str, dict[str, object]]:
    report = json.loads(run("show", *arguments, "--json").stdout)
    return {one["name"]: one for one in report["settings"]}


def test_a_value_is_set_shown_and_cleared() -> None:
    assert run("set", "context_messages", "50", *HERE).stdout == "Context Messages: Auto -> 50\n"
    found = shown(*HERE)["context_messages"]
    assert (found["own"], found["effective"], found["source"]) == (50, 50, "channel")
    assert run("set", "context_messages", "auto", *HERE).stdout == "Context Messages: 50 -> Auto\n"
    assert shown(*HERE)["context_messages"]["own"] is None


def test_a_setting_can_be_named_as_before() -> None:
    assert run("set", "max_messages", "50", *HERE).stdout == "Context Messages: Auto -> 50\n"
    assert shown(*HERE)["context_messages"]["own"] == 50


def test_off_is_not_auto() -> None:
    run("set", "context_max_age", "off")
    assert shown()["context_max_age"]["own"] == "off"
    assert shown(*HERE)["context_max_age"]["effective"] == "off"


def test_absent_off_and_cleared_are_three_things_for_every_setting() -> None:
    for setting in SETTINGS:  # in a channel, the one level that all of them have
        value = "7" if isinstance(setting.kind, Number) else "off"
        assert shown(*HERE)[setting.name]["own"] is None
        run("set", setting.name, value, *HERE)
        assert shown(*HERE)[setting.name]["own"] == setting.to_json(setting.kind.parse(value))
        run("set", setting.name, "auto", *HERE)
        assert shown(*HERE)[setting.name]["own"] is None


def test_one_more_declared_setting_is_shown_set_and_reset(monkeypatch: pytest.MonkeyPatch) -> None:
    pace = replace(SETTINGS[1], name="pace", label="Pace", kind=Number(1, 5), default=lambda _: 2)
    monkeypatch.setattr(declared, "SETTINGS", (*SETTINGS, replace(pace, apply=lambda policy, _: policy)))
    assert shown()["pace"]["effective"] == 2
    assert run("set", "pace", "4").stdout == "Pace: Auto -> 4\n"
    assert "a whole number from 1 to 5" in str(run("set", "pace", "6").exception)
    assert "did you mean pace" in str(run("set", "pase", "4").exception)
    assert "by operator: Pace: Auto -> 4" in run("show").stdout
    assert "Pace: 4 -> Auto" in run("reset", "--yes").stdout


def test_a_character_in_a_channel_shows_what_caps_it() -> None:
    run("set", "context_messages", "30", *HERE)
    run("set", "context_messages", "60", *PIRATE)
    found = shown(*HERE, "--character", "Pirate")["context_messages"]
    assert (found["own"], found["effective"], found["why"]) == (60, 30, "capped by the channel")


def test_the_table_names_every_setting_and_the_last_changes() -> None:
    run("set", "archive", "off", *HERE)
    told = run("show", *HERE).stdout
    assert "Context Messages" in told
    assert "by operator: Archive: Auto -> Off" in told


def test_reset_asks_first() -> None:
    run("set", "max_images", "3")
    assert run("reset", answer="n\n").exit_code == 1
    assert shown()["max_images"]["own"] == 3
    assert "Max Images: 3 -> Auto" in run("reset", "--yes").stdout
    assert "Nothing was set for all servers." in run("reset", "--yes").stdout


def test_changes_are_machine_readable() -> None:
    report = json.loads(run("set", "enabled", "off", *HERE, "--json").stdout)
    assert report["channel"] == str(CHANNEL)
    assert [(one["setting"], one["old"], one["new"]) for one in report["changes"]] == [("enabled", None, False)]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("set", "context_mesages", "5"), "did you mean context_messages"),
        (("set", "context_messages", "101"), "a whole number from 1 to 100"),
        (("set", "context_messages", "abc"), "a whole number from 1 to 100"),
        (("set", "context_messages", ""), "a whole number from 1 to 100"),
        (("set", "context_messages", "0"), "a whole number from 1 to 100"),
        (("set", "context_messages", "1e9"), "a whole number from 1 to 100"),
        (("set", "context_messages", "-3"), "'-3' is not"),
        (("set", "context_max_age", "-5m", *HERE), "'-5m' is not"),
        (("set", "context_max_age", "-5h"), "'-5h' is not"),
        (("set", "context_max_age", "soon"), "a duration from"),
        (("set", "archive", "off", *PIRATE), "Archive has no character level"),
        (("show", "--channel", "5"), "add --guild ID"),
        (("show", "--guild", "5"), "--channel ID or --character NAME"),
        (("set", "enabled", "off", *HERE, "--character", "Pirate"), "leave one of them out"),
        (("show", "--guild", "5", "--character", " "), "--character needs a name"),
    ],
)
def test_a_mistake_is_one_sentence_that_names_the_fix(arguments: tuple[str, ...], sentence: str) -> None:
    error = run(*arguments).exception
    assert isinstance(error, ChannelmemError)
    assert sentence in str(error)


async def test_what_takes_messages_away_asks_first(store: Store, monkeypatch: pytest.MonkeyPatch, clock: Clock) -> None:
    monkeypatch.setattr("channelmem.ops.time", SimpleNamespace(time=clock))
    await store.add([message(1, ts=NOW - 7200)])

    async def set_(*arguments: str, answer: str = "") -> Result:
        return await asyncio.to_thread(run, "set", "archive", *arguments, *HERE, answer=answer)

    refused = await set_("off", answer="n\n")
    assert refused.exit_code == 1
    assert "hides 1 message, all but the newest 50 of the last 30m. They are removed in an hour" in refused.output
    assert (await set_("off", "--yes")).stdout == "Archive: Auto -> Off\n"
    assert (await set_("on")).stdout == "Archive: Off -> On\n"
    assert (await set_("off", answer="y\n")).stdout.endswith("Archive: On -> Off\n")
