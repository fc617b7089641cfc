"""Who looks at the pages, and pages from templates, with the headers that keep them harmless.

The cookie holds the token itself, out of reach of scripts and of other sites, so a revoked token ends the visit at once
and several processes need no common secret. Forms carry a second secret made from it: another site can neither read nor
guess that, and a request that says it comes from elsewhere is refused before.

In pages everything is escaped by default, and the policy sent along lets the browser run and style nothing but our own
files: what people wrote stays text even if an escape were forgotten."""

from __future__ import annotations

import hashlib
import hmac
import secrets
import time
from dataclasses import dataclass
from datetime import datetime, tzinfo
from functools import cache
from pathlib import Path
from typing import Any, Final

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from channelmem.access import Caller, Doorkeeper, OpenDoor, Scope, is_for_this_machine, is_from_our_site
from channelmem.browse import ListedChannel
from channelmem.display import ago, counted, flatten
from channelmem.durations import DAY_S, format_duration

COOKIE: Final = "channelmem_token"
LONGEST_TOKEN: Final = 200
_OPEN_SECRET: Final = secrets.token_hex(16)
"""For forms where nobody needs a token."""


class LoginNeededError(Exception):
    """Nobody is logged in."""


class PageError(Exception):
    """A refusal for people: a status and one sentence."""

    def __init__(self, status: int, sentence: str) -> None:
        super().__init__(sentence)
        self.status, self.sentence = status, sentence


@dataclass(frozen=True, slots=True)
class Visitor:
    caller: Caller
    form_secret: str
    can_log_out: bool

    def may_edit(self, guild_id: int | None) -> bool:
        """Whether they may change settings of a guild, or of everything (None)."""
        if Scope.ADMIN not in self.caller.scopes:
            return False
        return self.caller.guild_ids is None if guild_id is None else self.caller.may_reach(guild_id)

    def check_reach(self, guild_id: int) -> None:
        """A guild that a token is not for looks like one that does not exist."""
        if not self.caller.may_reach(guild_id):
            raise PageError(404, "There is no such channel here.")

    def check_form(self, given: str) -> None:
        if not hmac.compare_digest(given.encode(), self.form_secret.encode()):
            raise PageError(403, "This form is out of date. Go back, reload the page and send it again.")


async def visitor_of(request: Request, door: Doorkeeper) -> Visitor:
    """Raises LoginNeededError, or PageError for a token that may not read."""
    if isinstance(door, OpenDoor):
        if not is_for_this_machine(request.headers):
            raise PageError(403, "Without tokens this page is only for localhost.")
        caller = await door.caller("")
        secret = _OPEN_SECRET
    else:
        token = request.cookies.get(COOKIE, "")[:LONGEST_TOKEN]
        caller = await door.caller(token) if token else None
        secret = hmac.new(token.encode(), b"channelmem form", hashlib.sha256).hexdigest()
    if caller is None:
        raise LoginNeededError
    if Scope.READ not in caller.scopes:
        raise PageError(403, "This token may not read. Log in with one that has the read scope.")
    return Visitor(caller, secret, not isinstance(door, OpenDoor))


def check_same_site(request: Request) -> None:
    """For everything that changes something: the request must come from a page of ours."""
    if not is_from_our_site(request.headers):
        raise PageError(403, "This request came from another site and was refused.")


def keep(response: Response, request: Request, token: str) -> None:
    """Logs in until the browser is closed."""
    response.set_cookie(COOKIE, token, httponly=True, samesite="strict", secure=request.url.scheme == "https", path="/")


def forget(response: Response) -> None:
    response.delete_cookie(COOKIE, path="/", httponly=True, samesite="strict")


# --- pages from templates ---


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


def page(name: str, status: int = 200, /, **values: Any) -> HTMLResponse:
    html = _templates.get_template(name).render(**values)
    return HTMLResponse(html, status, headers=HEADERS)


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
    if count < 1000:
        return f"{count:.0f} B"
    for unit in ("kB", "MB"):
        count /= 1000
        if count < 1000:
            return f"{count:.1f} {unit}"
    return f"{count / 1000:.1f} GB"


def channel_name(one: ListedChannel) -> str:
    name = flatten(one.name).lstrip("#")
    return (name if one.parent_id else f"#{name}") if name else f"channel {one.channel_id}"


def guild_name(one: ListedChannel) -> str:
    return flatten(one.guild) or f"server {one.guild_id}"


@cache
def asset(name: str) -> str:
    """The address of one of our files; it changes with the file, so that browsers may keep it."""
    return f"/static/{name}?v={hashlib.sha256((STATIC / name).read_bytes()).hexdigest()[:12]}"


_templates: Final = Environment(
    loader=FileSystemLoader(HERE / "templates"),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)
_templates.globals |= {"asset": asset, "channel_name": channel_name, "guild_name": guild_name}
_templates.filters |= {"since": since, "left": left, "counted": counted, "size": size, "flatten": flatten}
_templates.filters["duration"] = format_duration
