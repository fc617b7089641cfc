"""Settings, read once at startup from the environment and `.env`. Each field has its default, its bounds and the
description shown in `.env.example` and docs/settings.md (`python -m scripts.settings_docs` writes both)."""

from __future__ import annotations

import difflib
import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Annotated, Literal
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import platformdirs
from dotenv import dotenv_values
from pydantic import (
    AfterValidator,
    AliasChoices,
    BeforeValidator,
    Field,
    SecretStr,
    ValidationError,
    ValidationInfo,
    field_validator,
)
from pydantic_core import ErrorDetails
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

from channelmem.commands import NAMES, PREFIXES
from channelmem.errors import ConfigError
from channelmem.secrets import check_redis_url, check_token, is_cluster, masked, passwords

PREFIX = "CHANNELMEM_"


def _listed(value: object) -> object:
    return [part for part in value.replace(",", " ").split() if part] if isinstance(value, str) else value


def _unset(value: object) -> object:
    """None for an empty variable. What was copied may have a line break at its end."""
    value = value.strip() if isinstance(value, str) else value
    return None if value == "" else value


def _off(value: object) -> object:
    """None for what means no limit."""
    return None if isinstance(value, str) and value.strip().lower() in {"off", "none", ""} else value


def _proper(check: Callable[[str], None]) -> AfterValidator:
    def checked(value: SecretStr | None) -> SecretStr | None:
        if value is not None:
            check(value.get_secret_value())
        return value

    return AfterValidator(checked)


Ids = Annotated[tuple[int, ...], NoDecode, BeforeValidator(_listed)]
Names = Annotated[tuple[str, ...], NoDecode, BeforeValidator(_listed)]
Text = Annotated[str | None, BeforeValidator(_unset)]
Price = Annotated[float | None, BeforeValidator(_unset)]
Url = Annotated[SecretStr | None, _proper(check_redis_url), BeforeValidator(_unset)]
Token = Annotated[SecretStr | None, _proper(check_token), BeforeValidator(_unset)]


def _plain(name: str) -> AliasChoices:
    """A variable with a well-known name, such as REDIS_URL; the prefixed name works too and takes precedence."""
    return AliasChoices(f"{PREFIX}{name}", name)


def _buckets(redis_url: SecretStr | None) -> int:
    """Unused ones cost nothing, and the nodes of a cluster share the work only as evenly as they share buckets."""
    return 1024 if redis_url is not None and is_cluster(redis_url.get_secret_value()) else 1


class Settings(BaseSettings):
    model_config = SettingsConfigDict(
        env_prefix=PREFIX,
        env_file=".env",
        extra="ignore",
        frozen=True,
        populate_by_name=True,
        hide_input_in_errors=True,  # pydantic would quote secrets
    )

    # --- Redis ---
    redis_url: Url = Field(
        None,
        validation_alias=_plain("REDIS_URL"),
        description="URL of Redis Stack (redis://, rediss:// or unix://) or of a cluster "
        "(redis+cluster://host:port,host:port). If unset, the embedded server is used.",
    )
    key_prefix: str = Field("cm", pattern=r"^[A-Za-z0-9_.-]+$", description="Prefix of every Redis key.")
    buckets: int = Field(
        default_factory=lambda known: _buckets(known.get("redis_url")),
        ge=1,
        le=4096,
        description="Number of index shards; by default 1, and 1024 on a cluster. `channelmem rebucket` changes it.",
    )
    redis_timeout_s: float = Field(1.0, gt=0, description="Timeout of one Redis command, in seconds.")
    data_dir: Path = Field(
        default_factory=lambda: platformdirs.user_data_path("channelmem"),
        description="Directory for the embedded server's data and the local copy of opt-outs.",
    )
    cache_dir: Path = Field(
        default_factory=lambda: platformdirs.user_cache_path("channelmem"), description="Directory for exported models."
    )
    embedded_port: int = Field(
        0,
        ge=0,
        le=65535,
        description="Loopback port of the embedded server; 0 opens one only when `channelmem redis url` asks for it.",
    )
    embedded_grace_s: float = Field(
        2.0, ge=0, description="Seconds the embedded server keeps running after its last user leaves."
    )

    # --- the rolling buffer ---
    enabled: bool = Field(True, description="Store messages; false turns the memory off.")
    max_messages: int = Field(50, ge=1, le=10_000, description="Buffer size per channel, in messages.")
    max_age_minutes: float = Field(30, gt=0, description="Minutes a message stays in the buffer.")
    max_content_chars: int = Field(500, ge=1, le=4000, description="Stored messages are truncated to this length.")
    archive: bool = Field(True, description="Keep messages searchable after they leave the buffer.")
    archive_days: float = Field(7, gt=0, le=3650, description="Days the archive keeps a message.")
    queue_size: int = Field(
        10_000, ge=1, description="Messages queued in memory while Redis is unreachable; the oldest are dropped first."
    )

    # --- index and model ---
    index_algorithm: Literal["hnsw", "flat", "auto"] = Field(
        "hnsw",
        description=(
            "Vector index type: hnsw, flat, or auto (flat for small buckets, hnsw for large ones). "
            "Run `channelmem reindex` after changing this or HNSW_*."
        ),
    )
    hnsw_m: int = Field(16, ge=2, le=512, description="HNSW: links per node (M).")
    hnsw_ef_construction: int = Field(48, ge=1, le=4096, description="HNSW: candidates considered when building.")
    hnsw_ef_runtime: int = Field(200, ge=1, le=4096, description="HNSW: candidates considered when searching.")
    embedding_model: str = Field(
        "all-MiniLM-L6-v2", description="Name of the packaged model, a path, or a sentence-transformers hub name."
    )
    embedding_backend: Literal["onnx", "torch"] = Field(
        "onnx", description="onnx (starts fast) or torch (sentence-transformers, the reference)."
    )
    embedding_precision: Literal["fp32", "int8"] = Field("fp32", description="fp32 or int8 (faster, less exact).")
    embedding_question_precision: Literal["auto", "fp32", "int8"] = Field(
        "auto", description="Precision for questions; auto is int8 where the processor is fast at it. Needs no reindex."
    )
    embedding_threads: int = Field(
        0, ge=0, le=256, description="Parallel model runs, one core each; 0 picks one per core, up to 4."
    )
    embed_in_process: bool = Field(
        True, description="Embed and summarise in this process; false leaves it to `channelmem worker` processes."
    )
    pending_wait_ms: float = Field(
        250, ge=0, description="Milliseconds a question waits for messages that are not embedded yet."
    )

    # --- routing and recall ---
    timezone: str = Field("UTC", description="Time zone for phrases like 'this morning', such as Europe/Berlin.")
    recall_limit: int = Field(10, ge=1, le=100, description="Maximum number of hits per question.")
    semantic_threshold: float = Field(
        0.40,
        ge=-1,
        le=1,
        description="For somebody's words: lines that share no word with the topic are never shown below this cosine "
        "similarity, and from it on at least as a guess.",
    )
    history_limit: int = Field(20, ge=1, le=100, description="Messages to fetch from the platform's history.")
    history_max_age_minutes: float = Field(30, gt=0, description="Minutes back that the history fetch looks.")
    history_content_chars: int = Field(300, ge=1, le=4000, description="Fetched messages are truncated to this length.")

    # --- context for a language model ---
    context_max_tokens: int = Field(
        500, ge=50, description="Token budget of what is found for a question: hits, references and reply chain."
    )
    tool_max_tokens: int = Field(600, ge=50, description="Token budget of the get_channel_context tool.")
    context_messages: int = Field(20, ge=0, le=100, description="Maximum number of ambient messages in context.")
    context_threads: int = Field(5, ge=0, le=50, description="Maximum number of ambient threads in context.")
    context_max_age_hours: Annotated[float | None, BeforeValidator(_off)] = Field(
        8, gt=0, description="Hours back that ambient context reaches; 'off' removes the limit."
    )
    context_images: int = Field(
        0, ge=0, le=10, description="Maximum number of ambient pictures described for the context, unasked."
    )
    summaries: bool = Field(True, description="Summarise older messages, for longer context and recaps.")
    open_new: bool = Field(
        False, description="Let everybody use /new, not only people who can manage messages and owners of threads."
    )
    context_char_limit: int = Field(
        10_000, ge=500, le=1_000_000, description="Maximum length of the channel-context block, in characters."
    )
    context_references: int = Field(20, ge=0, le=100, description="Maximum number of referenced messages in context.")
    hit_chars: int = Field(100, ge=20, description="Hits in the context block are truncated to this length.")

    # --- summaries ---
    summary_days: float = Field(30, gt=0, le=3650, description="Days a summary is kept; none where the archive is off.")
    summary_debounce_s: float = Field(
        300, ge=0, le=86_400, description="Seconds to wait after a window has closed before it is summarised."
    )
    summary_window_minutes: int = Field(
        30, ge=1, le=1440, description="Minutes of conversation per summary: 15, 30, 60 or another divisor of a day."
    )
    summary_smart_windows: bool = Field(
        False, description="Half of that where much is said, twice as much where little is."
    )
    summary_overlap_messages: int = Field(
        7,
        ge=0,
        le=50,
        description="Last messages of a window that a language model is told to hand over to the next one.",
    )
    summary_model: Text = Field(
        None,
        description="Language model for summaries, such as anthropic:claude-haiku-4-5. It is sent everything that is "
        "said. If unset, summaries quote, and nothing leaves this machine.",
    )

    summary_base_url: Text = Field(None, description="Endpoint of the summary model; CHANNELMEM_LLM_BASE_URL if unset.")
    summary_api_key: Token = Field(
        None, description="Its key; CHANNELMEM_LLM_API_KEY if neither this nor its endpoint is set."
    )
    summary_usd_per_mtok_in: Price = Field(
        None, ge=0, description="Its price per million input tokens; CHANNELMEM_LLM_USD_PER_MTOK_IN if unset."
    )
    summary_usd_per_mtok_out: Price = Field(
        None, ge=0, description="Its price per million output tokens; CHANNELMEM_LLM_USD_PER_MTOK_OUT if unset."
    )

    # --- Discord ---
    discord_token: Token = Field(
        None, validation_alias=_plain("DISCORD_TOKEN"), description="Bot token from the Discord Developer Portal."
    )
    discord_api_base: Text = Field(
        None, validation_alias=_plain("DISCORD_API_BASE"), description="REST base URL, to use a proxy."
    )
    discord_gateway: Text = Field(
        None, validation_alias=_plain("DISCORD_GATEWAY"), description="Gateway URL, to use a proxy."
    )
    channels_allow: Ids = Field((), description="Remember only these channel ids (comma-separated).")
    channels_block: Ids = Field((), description="Never remember these channel ids (comma-separated).")
    command_prefixes: str = Field(
        PREFIXES, description="A message that starts with one of these and the name of a command is not remembered."
    )
    command_names: str = Field(
        NAMES, description="Names of commands, as in !play. A / needs no known name; * does the same for all prefixes."
    )
    cross_channel: bool = Field(
        False, description="Let questions search other channels that both the asker and the bot can read."
    )
    backfill: bool = Field(True, description="Fetch missed messages on start, join and reconnect.")
    backfill_messages: int = Field(200, ge=0, le=10_000, description="Missed messages to fetch per channel, at most.")
    redact_answers: bool = Field(
        True, description="Replace answers of the last day by [removed] if what they quote is deleted or forgotten."
    )
    join_notice: bool = Field(True, description="Post a short privacy notice after joining a guild.")
    cooldown_user_s: float = Field(
        2, ge=0, description="Minimum seconds between two questions, or the same command, by one person."
    )
    cooldown_channel_s: float = Field(0.5, ge=0, description="Minimum seconds between two questions in one channel.")
    cooldown_export_s: float = Field(60, ge=0, description="Minimum seconds between two exports by one person.")

    # --- language model (optional) ---
    llm_model: Text = Field(
        None,
        description="Language model (anthropic:claude-haiku-4-5, openai:gpt-5-mini ...). If unset, answers are quotes.",
    )
    llm_base_url: Text = Field(
        None, description="Custom endpoint: OpenAI-compatible, or Anthropic's API for anthropic:..."
    )
    llm_api_key: Token = Field(None, description="API key; the provider's own variable works too.")
    llm_timeout_s: float = Field(30, gt=0, description="Timeout of one model call in seconds, including retries.")
    llm_retries: int = Field(2, ge=0, le=10, description="Retries after a temporary failure.")
    llm_tool: bool = Field(True, description="Let the model call the get_channel_context tool.")
    llm_tool_rounds: int = Field(3, ge=1, le=20, description="Maximum number of model calls per answer.")
    llm_max_output_tokens: int = Field(400, ge=16, description="Maximum length of an answer, in tokens.")
    llm_daily_usd: float = Field(
        1.0, ge=0, description="Spending cap in USD per UTC day; beyond it, answers are quotes."
    )
    llm_usd_per_mtok_in: float = Field(1.0, ge=0, description="Price in USD per million input tokens, for the cap.")
    llm_usd_per_mtok_out: float = Field(5.0, ge=0, description="Price in USD per million output tokens, for the cap.")
    llm_grounded: bool = Field(
        True, description="Replace a model's answer by quotes if it does not agree with the messages it was given."
    )
    llm_stream: bool = Field(True, description="Show the answer while the model is writing it.")
    character: str = Field(
        "librarian",
        description="Character in channelmem/llm/characters (without .md) or a path; separate several with commas.",
    )

    # --- pictures and voices ---
    media: bool = Field(
        True, description="Read pictures and voices that somebody refers to; false shows their file names only."
    )
    media_on_arrival: bool = Field(False, description="Read pictures and voice messages as they arrive.")
    media_age_restricted: bool = Field(False, description="Read pictures and voices in age-restricted channels, too.")
    media_hosts: Names = Field(
        (),
        description="Further hosts to fetch media from (host or host:port, comma-separated). They may be private and "
        "speak plain HTTP.",
    )
    media_ttl_days: float = Field(
        30, gt=0, le=3650, description="Days a description or transcript is cached, if its message lives that long."
    )
    vision_model: Text = Field(
        None,
        description="Model that describes pictures, at the same provider as LLM_MODEL; 'off' for none. If unset, the "
        "answering model, where it is known to take images.",
    )
    vision_wait_s: float = Field(
        8, ge=0, le=60, description="Seconds an answer waits for pictures and voices; later ones are there next time."
    )
    voice_base_url: Text = Field(
        None, description="OpenAI-compatible endpoint for transcripts, such as http://127.0.0.1:8000/v1."
    )
    voice_model: str = Field("whisper-1", min_length=1, description="Name of the speech model at that endpoint.")
    voice_api_key: Token = Field(None, description="API key for that endpoint.")
    voice_max_s: float = Field(300, gt=0, le=7200, description="Longer recordings are not transcribed, in seconds.")
    voice_usd_per_minute: float = Field(
        0.006, ge=0, description="Price of a transcript in USD per minute, for the spending cap."
    )

    # --- the service ---
    service_host: str = Field(
        "127.0.0.1", description="Address that `channelmem serve` listens on; other than loopback needs a token."
    )
    service_port: int = Field(8410, ge=0, le=65535, description="Port of `channelmem serve`; 0 takes a free one.")
    service_max_body_mb: float = Field(8, gt=0, le=1024, description="Largest request body, in megabytes.")
    service_max_asks: int = Field(
        256, ge=2, le=10_000, description="Questions that may wait at the same time; one token gets three quarters."
    )
    service_max_pending: int = Field(
        20_000, ge=1, description="Messages waiting for an embedding beyond which new ones are refused for a moment."
    )
    service_url: Text = Field(
        None, description="URL of a service that the bot uses as its memory, instead of Redis and a model of its own."
    )
    service_token: Token = Field(None, description="The bot's token for that service.")

    # --- operations ---
    log_level: Literal["DEBUG", "INFO", "WARNING", "ERROR"] = Field(
        "INFO", description="Log level of bot and service; less severe lines are dropped."
    )
    log_json: bool = Field(False, description="Log format of bot and service: one JSON object per line.")
    metrics_port: int = Field(
        0, ge=0, le=65535, description="The bot's port for Prometheus metrics and /healthz; 0 disables it."
    )

    @field_validator("data_dir", "cache_dir", "buckets", mode="before")
    @classmethod
    def _empty_is_the_default(cls, value: object, info: ValidationInfo) -> object:
        # Path("") is the working directory, where messages must not end up by accident.
        if not isinstance(value, str) or value.strip():
            return value
        return cls.model_fields[info.field_name or ""].get_default(call_default_factory=True, validated_data=info.data)

    @field_validator("data_dir", "cache_dir")
    @classmethod
    def _home_is_spelled_out(cls, value: Path) -> Path:
        try:
            return value.expanduser()
        except RuntimeError as error:
            raise ValueError("its home directory does not exist") from error

    @field_validator("summary_window_minutes")
    @classmethod
    def _on_the_wall_clock(cls, value: int) -> int:
        if 24 * 60 % value:
            raise ValueError("it must divide a day: use 15, 30 or 60")
        return value

    @field_validator("timezone")
    @classmethod
    def _known_zone(cls, value: str) -> str:
        try:
            ZoneInfo(value)
        except (ZoneInfoNotFoundError, ValueError, OSError) as error:
            raise ValueError("use a time zone name such as Europe/Berlin") from error
        return value

    @property
    def buffer_s(self) -> float:
        """How long a message stays in the buffer."""
        return self.max_age_minutes * 60

    @property
    def lifetime_s(self) -> float:
        """How long Redis keeps a message by default."""
        return self.archive_days * 86_400 if self.archive else self.buffer_s

    @property
    def longest_s(self) -> float:
        """How long words are kept at most: in messages, or in summaries of them."""
        return max(self.archive_days * 86_400, self.summary_s)

    @property
    def summary_s(self) -> float:
        """How long a summary is kept."""
        return self.summary_days * 86_400

    @property
    def summary_pace_s(self) -> tuple[float, float]:
        """How long a window is, and how long to wait before it is summarised."""
        return self.summary_window_minutes * 60, self.summary_debounce_s

    @property
    def summary_slot_s(self) -> float:
        """What is cut into windows together; no window is longer."""
        return self.summary_window_minutes * (120.0 if self.summary_smart_windows else 60.0)


def variable(name: str) -> str:
    """The environment variable of a field: REDIS_URL, CHANNELMEM_MAX_MESSAGES ..."""
    alias = Settings.model_fields[name].validation_alias
    return str(alias.choices[-1]) if isinstance(alias, AliasChoices) else f"{PREFIX}{name.upper()}"


def _spellings(name: str) -> set[str]:
    """Both names of its environment variable."""
    return {variable(name), f"{PREFIX}{name.upper()}"}


def load_settings(**overrides: object) -> Settings:
    """Settings from the environment and `.env`; an invalid value raises one sentence that names its variable."""
    try:
        return Settings(**overrides)  # type: ignore[arg-type]  # (pydantic checks them)
    except ValidationError as error:
        raise ConfigError(_complaints(error.errors())) from error
    except UnicodeDecodeError:
        raise ConfigError(".env is not valid UTF-8; save it in that encoding") from None


def _complaints(problems: Iterable[ErrorDetails]) -> str:
    """One sentence for each variable that is wrong, without what is only a consequence of another one."""
    causes: dict[int | str, str] = {}
    for one in problems:
        if one["type"] != "default_factory_not_called":
            causes.setdefault(one["loc"][0], _complaint(one))
    return "; ".join(cause.removesuffix(".") for cause in causes.values())


def _complaint(problem: ErrorDetails) -> str:
    # pydantic reports a field by the alias it was set with, which may be either name.
    given = str(problem["loc"][0])
    name = next((n for n in Settings.model_fields if given == n or given.upper() in _spellings(n)), "")
    what = problem["msg"].removeprefix("Value error, ")
    if name and what.startswith(variable(name)):
        return what
    value = "" if name in SECRETS else f" ({problem['input']!r})"
    return f"{variable(name) if name else given} is not valid{value}: {what[0].lower()}{what[1:]}"


SECRETS = frozenset(name for name, field in Settings.model_fields.items() if "SecretStr" in str(field.annotation))


def hide(text: str, settings: Settings) -> str:
    """Any text without the secrets of these settings; libraries quote them in their errors."""
    url, *tokens = (getattr(settings, name) for name in ("redis_url", *sorted(SECRETS - {"redis_url"})))
    known = [one.get_secret_value() for one in tokens if one is not None]
    return masked(text, [*known, *(passwords(url.get_secret_value()) if url else ())])


def sources(settings: Settings) -> dict[str, str]:
    """Where each field's value comes from: environment, .env or default."""
    places = {"environment": {key.upper() for key in os.environ}, ".env": _names_in_file(settings)}
    return {
        name: next((place for place, given in places.items() if _spellings(name) & given), "default")
        for name in Settings.model_fields
    }


def _names_in_file(settings: Settings) -> set[str]:
    return {key.upper() for key in dotenv_values(str(settings.model_config.get("env_file")))}


def unknown(settings: Settings) -> list[str]:
    """A sentence for each CHANNELMEM_* variable that matches no setting; never shows its value."""
    given = {key.upper() for key in os.environ} | _names_in_file(settings)
    ours = {name.removeprefix(PREFIX) for name in given if name.startswith(PREFIX)}
    sentences = []
    for name in sorted(ours - {field.upper() for field in Settings.model_fields}):
        # Compared without the prefix, which would make all names look similar.
        near = difflib.get_close_matches(name.lower(), Settings.model_fields, n=1)
        meant = f"; did you mean {variable(near[0])}?" if near else ""
        sentences.append(f"{PREFIX}{name} is not a setting and is ignored{meant}")
    return sentences
