"""The limits and options of one conversation: a frozen value that travels with every message and every question.

`Settings` keeps what belongs to the process (connections, the model, queues); no stage below `Memory` reads limits from
it. What people change while the bot runs is applied on top (cascade.py, policies.py).
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

from channelmem.settings import Settings


class Limits(NamedTuple):
    """How much of a channel is kept, and for how long; passed to the Lua scripts with every call."""

    max_messages: int
    buffer_s: float
    archive_s: float
    archive: bool
    summary_s: float
    """How long a summary lives: counted from its first message, and only where there is an archive."""
    undo_until: float = 0.0
    """An archive that was switched off stays in Redis until then, hidden, so that it can be switched on again."""

    @property
    def lifetime_s(self) -> float:
        """How long a message is shown."""
        return self.archive_s if self.archive else self.buffer_s

    def shows(self, age_s: float, newer: int) -> bool:
        """Whether a message of this age is shown, with so many newer ones in its channel."""
        return age_s <= self.lifetime_s and (self.archive or newer < self.max_messages)


@dataclass(frozen=True, slots=True)
class Policy:
    """What applies to this guild, channel and character. Fields that `Settings` also has mean the same here."""

    enabled: bool
    limits: Limits
    max_content_chars: int
    tz: ZoneInfo
    recall_limit: int
    semantic_threshold: float
    history_limit: int
    history_max_age_s: float
    history_content_chars: int
    context_max_tokens: int
    context_char_limit: int
    tool_max_tokens: int
    context_messages: int
    context_threads: int
    context_max_age_s: float | None
    """None: no limit."""
    context_images: int
    media_on_arrival: bool
    media_age_restricted: bool
    summaries: bool
    open_new: bool
    context_references: int
    hit_chars: int
    cross_channel: bool
    related_channels: tuple[int, ...] = ()
    """Whose newest summaries a language model is given too, as far as the adapter allows."""

    @property
    def kept_s(self) -> float:
        """How long people's words are kept at most, in messages or in summaries of them."""
        summarised = self.summaries and self.limits.archive
        return max(self.limits.lifetime_s, self.limits.summary_s if summarised else 0.0)

    @classmethod
    def of_settings(cls, settings: Settings) -> Policy:
        """The default, used unless somebody decided otherwise."""
        hours = settings.context_max_age_hours
        shared = Settings.model_fields.keys() & {one.name for one in fields(cls)}
        same: dict[str, Any] = {name: getattr(settings, name) for name in shared}
        return cls(
            **same,
            limits=Limits(
                settings.max_messages,
                settings.buffer_s,
                settings.archive_days * 86_400,
                settings.archive,
                settings.summary_s,
            ),
            tz=ZoneInfo(settings.timezone),
            history_max_age_s=settings.history_max_age_minutes * 60,
            context_max_age_s=None if hours is None else hours * 3600,
        )
