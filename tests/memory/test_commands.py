"""What is a command for some bot, and what is people talking."""

from __future__ import annotations

import pytest

from channelmem.commands import is_command
from channelmem.settings import Settings


@pytest.mark.parametrize(
    "text",
    [
        "!play something",
        "!skip",
        "?help",
        ".ban @troll spamming",
        "$rank",
        "!Play something",
        "/imagine a turtle",
        "/shrug",
        "!p never gonna give you up",
        "<@123> !play something",
    ],
)
def test_a_prefix_and_a_known_word_make_a_command(text: str) -> None:
    assert is_command(text)


@pytest.mark.parametrize(
    "text",
    [
        ".net 9 is out",
        "$AAPL is up",
        "!important",
        "!important read the pinned message",
        "...so anyway",
        "$5 it is",
        "?!",
        "!",
        "",
        "?what",
        "/etc/hosts is broken",
        "/r/python is down",
        "/s",
        "!play!",
        "play something",
        "!playing with fire",
        "I typed !play",
    ],
)
def test_people_talking_give_no_command(text: str) -> None:
    assert not is_command(text)


def test_prefixes_and_names_are_settings() -> None:
    assert is_command(">roll 2d6", prefixes="> !", names="roll")
    assert not is_command("!skip", prefixes="> !", names="roll")
    assert not is_command("!play", prefixes="", names="play")
    assert not is_command("!play", prefixes="!", names="")
    assert is_command("m!play", prefixes="m!", names="Play, skip")


@pytest.mark.parametrize(
    ("text", "expected"), [("!frobnicate it", True), ("!important", True), ("$AAPL is up", False), (".NET", False)]
)
def test_a_star_takes_every_word_in_small_letters_for_a_command(text: str, expected: bool) -> None:
    assert is_command(text, names="*") is expected


def test_the_defaults_are_those_of_the_settings() -> None:
    settings = Settings(_env_file=None)
    texts = ("!play something", ".net 9 is out", "/imagine")
    given = (settings.command_prefixes, settings.command_names)
    assert [is_command(text, *given) for text in texts] == [is_command(text) for text in texts] == [True, False, True]
