"""Pages from templates, with the headers that keep them harmless.

Everything is escaped by default, and the policy sent along lets the browser run and style nothing but our own files:
what people wrote stays text even if an escape were forgotten.
"""

from __future__ import annotations

import hashlib
import time
from datetime import datetime, tzinfo
from pathlib import Path
from typing import Any, Final

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from starlette.responses import HTMLResponse

from channelmem.browse import ListedChannel
from channelmem.display import ago, counted, flatten
from channelmem.durations import DAY_S, format_duration

HERE: Final = Path(__file__).resolve().parent
STATIC: Final = HERE / "static"
POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
HEADERS: Final = {
    "Content-Security-Policy": POLICY,
    "X-Frame-Options": "DENY",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",  # with "no-referrer", browsers send our own forms from the origin "null"
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-store",
}
_UNITS: Final = ("B", "kB", "MB", "GB")


def page(name: str, status: int = 200, /, **values: Any) -> HTMLResponse:
    html = _templates.get_template(name).render(**values)
    return HTMLResponse(html, status, headers=HEADERS)


def asset(name: str) -> str:
    """The address of one of our files; it changes with the file, so that browsers may keep it."""
    return f"/static/{name}?v={_digest(name)}"


def since(ts: float | None) -> str:
    return "never" if ts is None else ago(max(0.0, time.time() - ts))


def left(seconds: float) -> str:
    """A time to live in its two largest units: "6d 23h"."""
    if seconds >= DAY_S:
        return format_duration(seconds // 3600 * 3600)
    return format_duration(seconds // 60 * 60) if seconds >= 60 else "< 1m"


def clock(ts: float, tz: tzinfo) -> str:
    return datetime.fromtimestamp(ts, tz).strftime("%H:%M:%S")


def day(ts: float, tz: tzinfo) -> str:
    moment = datetime.fromtimestamp(ts, tz)
    return f"{moment:%A}, {moment.day} {moment:%B %Y}"


def short_day(ts: float, tz: tzinfo) -> str:
    moment = datetime.fromtimestamp(ts, tz)
    return f"{moment.day} {moment:%b} {moment:%H:%M}"


def size(count: float) -> str:
    """ "1.2 MB"."""
    for unit in _UNITS[:-1]:
        if count < 1000:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:.1f} {_UNITS[-1]}"


def channel_name(one: ListedChannel) -> str:
    name = flatten(one.name).lstrip("#")
    return (name if one.parent_id else f"#{name}") if name else f"channel {one.channel_id}"


def guild_name(one: ListedChannel) -> str:
    return flatten(one.guild) or f"server {one.guild_id}"


def _digest(name: str) -> str:
    if name not in _digests:
        _digests[name] = hashlib.sha256((STATIC / name).read_bytes()).hexdigest()[:12]
    return _digests[name]


def _make() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(HERE / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals |= {"asset": asset, "channel_name": channel_name, "guild_name": guild_name}
    environment.filters |= {
        "since": since, "left": left, "counted": counted, "size": size, "flatten": flatten, "duration": format_duration,
    }  # fmt: skip
    return environment


_digests: dict[str, str] = {}
_templates: Final = _make()
