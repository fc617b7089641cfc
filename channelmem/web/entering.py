"""Logging in and out. In: a token from a form. Out: a cookie, and the page that was wanted."""

from __future__ import annotations

from typing import Annotated, Final

from fastapi import APIRouter, Form, Query, Request
from starlette.responses import RedirectResponse, Response

from channelmem.access import Scope
from channelmem.web.looking import Given, Looking, PageRoute
from channelmem.web.session import LONGEST_TOKEN, check_same_site, forget, keep
from channelmem.web.templating import HEADERS, page

router = APIRouter(route_class=PageRoute, include_in_schema=False)

UNKNOWN: Final = "This token is unknown, revoked or expired."
CANNOT_READ: Final = "This token may not read; it needs the read scope."


@router.get("/login")
async def login_form(wanted: Annotated[str, Query(alias="next")] = "/") -> Response:
    return page("login.html", next=_local(wanted), problem="", visitor=None, here="login")


@router.post("/login")
async def login(
    request: Request,
    given: Given,
    token: Annotated[str, Form()] = "",
    wanted: Annotated[str, Form(alias="next")] = "/",
) -> Response:
    check_same_site(request)
    caller = await given.door.caller(token.strip()[:LONGEST_TOKEN])
    if caller is None or Scope.READ not in caller.scopes:
        wrong = UNKNOWN if caller is None else CANNOT_READ
        return page("login.html", 403, next=_local(wanted), problem=wrong, visitor=None, here="login")
    response = RedirectResponse(_local(wanted), 303, headers=HEADERS)
    keep(response, request, token.strip())
    return response


@router.post("/logout")
async def logout(request: Request, visitor: Looking) -> Response:
    check_same_site(request)
    form = await request.form()  # not as an argument: that would be read before anybody knows whose it is
    visitor.check_form(str(form.get("form", "")))
    response = RedirectResponse("/login", 303, headers=HEADERS)
    forget(response)
    return response


def _local(wanted: str) -> str:
    """Only a path of our own: the log-in must not send people to another site."""
    is_path = wanted.startswith("/") and not wanted.startswith(("//", "/\\")) and wanted.isprintable()
    return wanted if is_path and "\\" not in wanted else "/"
