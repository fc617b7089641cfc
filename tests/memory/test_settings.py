"""Settings: what is wrong is named by its variable, secrets stay masked, the docs follow the class."""

from dataclasses import replace
from pathlib import Path

import pytest
from pydantic import SecretStr
from typer.testing import CliRunner

from channelmem.cli import app
from channelmem.errors import ConfigError
from channelmem.policy import cascade as declared
from channelmem.policy.cascade import SETTINGS, Number
from channelmem.settings import Settings, load_settings, sources, unknown, variable
from scripts import settings_docs


@pytest.fixture(autouse=True)
def _no_outside_settings(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    monkeypatch.chdir(tmp_path_factory.mktemp("cwd"))
    for name in Settings.model_fields:
        monkeypatch.delenv(variable(name), raising=False)
        monkeypatch.delenv(f"CHANNELMEM_{name.upper()}", raising=False)


def test_the_defaults_are_those_of_the_source_documents() -> None:
    settings = Settings()
    assert (settings.max_messages, settings.max_age_minutes, settings.context_max_tokens) == (50, 30, 500)
    assert (settings.max_content_chars, settings.history_content_chars, settings.tool_max_tokens) == (
        500,
        300,
        600,
    )
    assert settings.enabled
    assert settings.lifetime_s == 7 * 86_400


def test_env_example_and_the_table_in_the_docs_follow_the_class() -> None:
    assert settings_docs.ENV.read_text() == settings_docs.env_example()
    assert settings_docs.TABLE.read_text() == settings_docs.table()


def test_what_people_set_while_the_bot_runs_is_documented_from_its_declaration(monkeypatch: pytest.MonkeyPatch) -> None:
    pace = replace(SETTINGS[1], name="pace", label="Pace", help="How fast.", kind=Number(1, 5), default=lambda _: 2)
    monkeypatch.setattr(declared, "SETTINGS", (*SETTINGS, pace))
    assert "| Pace | `pace` | 2 | a whole number from 1 to 5 | global, channel, character | How fast. |" in (
        settings_docs.table().splitlines()
    )


@pytest.mark.parametrize("name", ["metrics_port"])
def test_a_setting_that_only_the_bot_reads_says_so(name: str) -> None:
    package = (settings_docs.ROOT / "channelmem").rglob("*.py")
    assert not any(f"settings.{name}" in module.read_text() for module in package)
    assert (Settings.model_fields[name].description or "").startswith("The bot's ")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("CHANNELMEM_MAX_MESSAGES", "0"),
        ("CHANNELMEM_TIMEZONE", "Mars/Base"),
        ("CHANNELMEM_INDEX_ALGORITHM", "tree"),
    ],
)
def test_a_wrong_value_is_named_by_its_variable(monkeypatch: pytest.MonkeyPatch, name: str, value: str) -> None:
    monkeypatch.setenv(name, value)
    with pytest.raises(ConfigError, match=name) as caught:
        load_settings()
    assert value in str(caught.value)


@pytest.mark.parametrize("name", Settings.model_fields)
def test_a_wrong_value_is_complained_about_once(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    complaints = []
    for value in ("localhost:6379", "a,b c", "nonsense", "-1", "1e999", "[1", "nan"):
        monkeypatch.setenv(variable(name), value)
        try:
            load_settings()
        except ConfigError as error:  # some of these values are right for some settings
            complaints.append(str(error))
    wrong = [one for one in complaints if not one.startswith(variable(name)) or one.count(" is not ") != 1]
    assert wrong == []


def test_two_wrong_values_are_both_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REDIS_URL", "localhost:6379")
    monkeypatch.setenv("CHANNELMEM_BUCKETS", "many")
    with pytest.raises(ConfigError) as caught:
        load_settings()
    url, buckets = str(caught.value).split(" letters and digits only); ")
    assert url.startswith("REDIS_URL is not a valid Redis URL; write it like ")
    assert buckets.startswith("CHANNELMEM_BUCKETS is not valid ('many'): ")


def test_an_environment_variable_beats_the_file_and_both_beat_the_default(
    monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("env")
    (folder / ".env").write_text("CHANNELMEM_MAX_MESSAGES=11\nREDIS_URL=redis://file:1\nDISCORD_TOKEN=from-file\n")
    monkeypatch.chdir(folder)
    monkeypatch.setenv("REDIS_URL", "redis://env:2")
    settings = load_settings()
    assert settings.max_messages == 11
    assert settings.redis_url == SecretStr("redis://env:2")
    found = sources(settings)
    assert (found["max_messages"], found["redis_url"], found["buckets"]) == (".env", "environment", "default")


def test_id_lists_and_off_are_read_from_plain_text(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CHANNELMEM_CHANNELS_BLOCK", "1, 2 9007199254740993")
    monkeypatch.setenv("CHANNELMEM_CONTEXT_MAX_AGE_HOURS", "off")
    settings = load_settings()
    assert settings.channels_block == (1, 2, 9_007_199_254_740_993)
    assert settings.context_max_age_hours is None


def test_an_empty_secret_counts_as_unset(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REDIS_URL", "")
    assert load_settings().redis_url is None


@pytest.mark.parametrize("name", Settings.model_fields)
def test_a_line_of_env_example_that_is_uncommented_changes_nothing(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    untouched = Settings()
    lines = settings_docs.ENV.read_text().splitlines()
    line = next(line for line in lines if line.startswith(f"#{variable(name)}="))
    Path(".env").write_text(line.removeprefix("#") + "\n")
    assert load_settings() == untouched
    Path(".env").unlink()
    monkeypatch.setenv(*line.removeprefix("#").split("=", 1))
    assert load_settings() == untouched


def test_every_line_of_env_example_can_be_uncommented_at_once() -> None:
    untouched = Settings()
    lines = settings_docs.ENV.read_text().splitlines()
    known = tuple(f"#{variable(name)}=" for name in Settings.model_fields)
    Path(".env").write_text("\n".join(line.removeprefix("#") if line.startswith(known) else line for line in lines))
    assert load_settings() == untouched


@pytest.mark.parametrize("name", ["data_dir", "cache_dir"])
def test_an_empty_directory_is_the_default_and_never_the_working_directory(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    default = getattr(Settings(), name)
    for empty in ("", "  "):
        monkeypatch.setenv(variable(name), empty)
        assert getattr(load_settings(), name) == default != Path()


@pytest.mark.parametrize("name", ["data_dir", "cache_dir"])
def test_a_tilde_is_the_home_directory(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setenv("HOME", "/home/ann")
    monkeypatch.setenv(variable(name), "~/x")
    assert getattr(load_settings(), name) == Path("/home/ann/x")
    monkeypatch.setenv(variable(name), "~nobody-of-that-name/x")
    with pytest.raises(ConfigError, match=variable(name)):
        load_settings()


def test_config_shows_values_and_sources_but_no_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DISCORD_TOKEN", "very-secret")
    monkeypatch.setenv("CHANNELMEM_MAX_MESSAGES", "77")
    shown = CliRunner().invoke(app, ["config", "--json"]).output
    assert "very-secret" not in shown
    assert '"77"' in shown
    assert "********" in shown


@pytest.mark.parametrize("options", [["config"], ["config", "--json"]])
def test_config_notes_misspelt_settings_with_the_nearest_name_and_no_value(
    monkeypatch: pytest.MonkeyPatch, options: list[str]
) -> None:
    Path(".env").write_text("CHANNELMEM_DISCORD_TOKNE=very-secret\nOTHER_PACKAGE=1\nREDIS_URL=\n")
    monkeypatch.setenv("CHANNELMEM_MAX_MESAGES", "4321")
    monkeypatch.setenv("CHANNELMEM_REDIS_URL", "")
    monkeypatch.setenv("CHANNELMEM_ZZZ", "4321")
    done = CliRunner().invoke(app, options)
    assert done.exit_code == 0
    assert done.stderr.splitlines() == [
        "note: CHANNELMEM_DISCORD_TOKNE is not a setting and is ignored; did you mean DISCORD_TOKEN?",
        "note: CHANNELMEM_MAX_MESAGES is not a setting and is ignored; did you mean CHANNELMEM_MAX_MESSAGES?",
        "note: CHANNELMEM_ZZZ is not a setting and is ignored",
    ]
    assert "very-secret" not in done.output
    assert "4321" not in done.output


def test_settings_that_are_spelt_well_are_not_noted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CHANNELMEM_MAX_MESSAGES", "77")
    monkeypatch.setenv("channelmem_buckets", "2")
    monkeypatch.setenv("CHANNELMEM_DISCORD_TOKEN", "x")
    assert unknown(load_settings()) == []
