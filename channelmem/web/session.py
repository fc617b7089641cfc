"""Who looks at the pages.

The cookie holds the token itself, out of reach of scripts and of other sites, so a revoked token ends the visit at once
and several processes need no common secret. Forms carry a second secret made from it: another site can neither read nor
guess that, and a request that says it comes from elsewhere is refused before.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from dataclasses import dataclass
from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from channelmem.access import Caller, Doorkeeper, OpenDoor, Scope, is_for_this_machine, is_from_our_site

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
        secret = _form_secret(token)
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


def _form_secret(token: str) -> str:
    return hmac.new(token.encode(), b"channelmem form", hashlib.sha256).hexdigest()
