"""The pages that change settings: every setting with its own value, what is in force and why.

All of them are made from the one declaration (policy/cascade.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Final

from fastapi import APIRouter, Query, Request
from starlette.responses import RedirectResponse, Response

from channelmem.memory import Memory
from channelmem.policy.cascade import UNDO, Auto, Effective, Level, Overrides, Place, Setting, Value, renamed
from channelmem.web.pages import Given, Id, Looking, PageRoute, beside
from channelmem.web.session import HEADERS, PageError, Visitor, check_same_site, page

router = APIRouter(route_class=PageRoute, include_in_schema=False)

CHANGES: Final = 10
LONGEST: Final = 64
AUTO: Final = "auto"
CONFIRMED: Final = "confirmed"
Saved = Annotated[str, Query(max_length=5)]


@dataclass(frozen=True, slots=True)
class SettingRow:
    setting: Setting
    effective: Effective
    settable: bool
    typed: str
    """What the field shows: what is set here, or what somebody typed that is not allowed."""
    problem: str


@dataclass(frozen=True, slots=True)
class Refused:
    """A form that was not saved, or not sent."""

    typed: Mapping[str, str] = field(default_factory=dict)
    problems: Mapping[str, str] = field(default_factory=dict)
    """By setting."""
    warning: str = ""
    """What saving it would take away; a second click confirms it."""

    @property
    def status(self) -> int:
        return 422 if self.problems else 200


@router.api_route("/settings", methods=["GET", "POST"])
async def everywhere(request: Request, visitor: Looking, given: Given, saved: Saved = "") -> Response:
    memory, place = given.memory, Place.everywhere()
    refused = await _save(request, visitor, memory, place)
    if refused is None:
        return RedirectResponse("/settings?saved=1", 303, headers=HEADERS)
    if visitor.caller.guild_ids is not None:
        raise PageError(404, "These settings are for all servers; your token is for some.")
    values = {
        "may_edit": visitor.may_edit(None),
        "saved": _just_saved(request, saved),
        "visitor": visitor,
        "here": "settings",
    }
    rows = await _settings(memory, place, memory.policies.effective(0, 0), refused)
    return page("global_settings.html", refused.status, **values, **rows)


@router.api_route("/g/{guild_id}/c/{channel_id}/settings", methods=["GET", "POST"])
async def of_channel(
    request: Request,
    guild_id: Id,
    channel_id: Id,
    visitor: Looking,
    given: Given,
    character: Annotated[str, Query(max_length=100)] = "",
    saved: Saved = "",
) -> Response:
    visitor.check_reach(guild_id)
    memory, name = given.memory, " ".join(character.split())
    channel = memory.policies.channel_of(guild_id, channel_id)
    place = Place.of_character(guild_id, name) if name else Place.channel(guild_id, channel)
    refused = await _save(request, visitor, memory, place)
    if refused is None:
        there = request.url.include_query_params(saved="1")
        return RedirectResponse(f"{there.path}?{there.query}", 303, headers=HEADERS)
    shared = await beside(memory, visitor, guild_id, channel_id)
    effective = memory.policies.effective(guild_id, channel_id, name.casefold())
    rows = await _settings(memory, place, effective, refused)
    values = {
        "may_edit": visitor.may_edit(guild_id),
        "saved": _just_saved(request, saved),
        "character": name,
        "here": "channel settings",
    }
    parent = channel != channel_id
    return page("channel_settings.html", refused.status, **shared, **values, **rows, parent=parent)


def _just_saved(request: Request, saved: str) -> str:
    """A form is sent to the URL of its page, which still tells of the time before."""
    return saved if request.method == "GET" else ""


# --- reading and writing a level ---


async def _typed(request: Request, visitor: Visitor, guild_id: int | None) -> dict[str, str]:
    """What the form says, if it is ours and its sender may change that."""
    check_same_site(request)
    form = await request.form()
    visitor.check_form(str(form.get("form", "")))
    if not visitor.may_edit(guild_id):
        raise PageError(403, "Your token may not change this; that needs the admin scope.")
    return renamed({name: str(value).strip()[:LONGEST] or AUTO for name, value in form.items() if name != "form"})


async def _save(request: Request, visitor: Visitor, memory: Memory, place: Place) -> Refused | None:
    """Sets everything in a form that changed; nothing if something is not allowed, or takes messages away unconfirmed.
    None if it is set."""
    if request.method != "POST":
        return Refused()
    typed = await _typed(request, visitor, place.guild_id if place.level is not Level.GLOBAL else None)
    wanted: dict[str, Value | Auto] = {}
    problems: dict[str, str] = {}
    for setting in memory.policies.declared:
        if setting.name not in typed or place.level not in setting.levels:
            continue
        try:
            wanted[setting.name] = setting.parse(typed[setting.name])
        except ValueError as error:
            problems[setting.name] = str(error)
    if problems:
        return Refused(typed, problems)
    if typed.get(CONFIRMED) != "yes" and (loss := await memory.policies.preview(place, wanted)):
        return Refused(typed, warning=f"This hides {loss}. {UNDO}")
    await memory.policies.set_many(place, wanted)
    return None


async def _settings(
    memory: Memory, place: Place, effective: Mapping[str, Effective], refused: Refused
) -> dict[str, Any]:
    own = await memory.policies.read(place)
    known = {one.name: one for one in memory.policies.declared}
    return {
        "rows": [_row(one, place.level, own, refused) for one in effective.values()],
        "warning": refused.warning,
        "changes": [(known[one.setting], one) for one in own.changes[:CHANGES]],
    }


def _row(one: Effective, level: Level, own: Overrides, refused: Refused) -> SettingRow:
    setting = one.setting
    value = own.values.get(setting.name)
    set_here = AUTO if value is None else setting.show(value).lower()
    typed, problem = refused.typed.get(setting.name, set_here), refused.problems.get(setting.name, "")
    return SettingRow(setting, one, level in setting.levels, typed, problem)
