"""The pages that change settings: every setting with its own value, what is in force and why.

All of them are made from the one declaration (policy/cascade.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Final

from fastapi import APIRouter, Query, Request
from starlette.responses import RedirectResponse, Response

from channelmem.memory import Memory
from channelmem.policy.cascade import UNDO, Change, Effective, Level, Overrides, Place, Setting, renamed
from channelmem.policy.values import Auto, Value
from channelmem.web.pages import Given, Id, Looking, PageRoute, beside
from channelmem.web.session import HEADERS, PageError, Visitor, check_same_site, page

router = APIRouter(route_class=PageRoute, include_in_schema=False)

CHANGES: Final = 10
LONGEST: Final = 64
AUTO: Final = "auto"
CONFIRMED: Final = "confirmed"
Character = Annotated[str, Query(max_length=100)]
Saved = Annotated[str, Query(max_length=5)]


@dataclass(frozen=True, slots=True)
class SettingRow:
    effective: Effective
    settable: bool
    typed: str
    """What the field shows: what is set here, or what somebody typed that is not allowed."""
    problem: str

    @property
    def setting(self) -> Setting:
        return self.effective.setting


@dataclass(frozen=True, slots=True)
class Refused:
    """A form that was not saved."""

    typed: Mapping[str, str]
    problems: Mapping[str, str]
    """By setting."""
    warning: str = ""
    """What saving it would take away; a second click confirms it."""


@dataclass(frozen=True, slots=True)
class ChangeRow:
    label: str
    old: str
    new: str
    at: float
    by: str


@router.get("/settings")
async def everywhere(visitor: Looking, given: Given, saved: Saved = "") -> Response:
    return await _everywhere(visitor, given.memory, saved=saved)


@router.post("/settings")
async def change_everywhere(request: Request, visitor: Looking, given: Given) -> Response:
    typed = await _typed(request, visitor, None)
    if refused := await _save(given.memory, Place.everywhere(), typed):
        return await _everywhere(visitor, given.memory, refused)
    return RedirectResponse("/settings?saved=1", 303, headers=HEADERS)


async def _everywhere(visitor: Visitor, memory: Memory, refused: Refused | None = None, saved: str = "") -> Response:
    if visitor.caller.guild_ids is not None:
        raise PageError(404, "These settings are for all servers; your token is for some.")
    values = {"may_edit": visitor.may_edit(None), "saved": saved, "visitor": visitor, "here": "settings"}
    effective = memory.policies.effective(0, 0)
    rows = await _settings(memory, Place.everywhere(), effective, refused)
    return page("global_settings.html", _status(refused), **values, **rows)


@router.get("/g/{guild_id}/c/{channel_id}/settings")
async def of_channel(
    guild_id: Id, channel_id: Id, visitor: Looking, given: Given, character: Character = "", saved: Saved = ""
) -> Response:
    return await _of_channel(visitor, given.memory, (guild_id, channel_id, character), saved=saved)


@router.post("/g/{guild_id}/c/{channel_id}/settings")
async def change_channel(
    request: Request, guild_id: Id, channel_id: Id, visitor: Looking, given: Given, character: Character = ""
) -> Response:
    visitor.check_reach(guild_id)
    typed = await _typed(request, visitor, guild_id)
    place = _place(given.memory, guild_id, channel_id, character)
    if refused := await _save(given.memory, place, typed):
        return await _of_channel(visitor, given.memory, (guild_id, channel_id, character), refused)
    there = request.url.include_query_params(saved="1")
    return RedirectResponse(f"{there.path}?{there.query}", 303, headers=HEADERS)


async def _of_channel(
    visitor: Visitor,
    memory: Memory,
    where: tuple[int, int, str],
    refused: Refused | None = None,
    saved: str = "",
) -> Response:
    guild_id, channel_id, character = where
    shared = await beside(memory, visitor, guild_id, channel_id)
    name = " ".join(character.split())
    effective = memory.policies.effective(guild_id, channel_id, name.casefold())
    rows = await _settings(memory, _place(memory, *where), effective, refused)
    values = {"may_edit": visitor.may_edit(guild_id), "saved": saved, "character": name}
    parent = memory.policies.channel_of(guild_id, channel_id) != channel_id
    return page(
        "channel_settings.html", _status(refused), **shared, **values, **rows, parent=parent,
        here="channel settings",
    )  # fmt: skip


# --- reading and writing a level ---


def _place(memory: Memory, guild_id: int, channel_id: int, character: str) -> Place:
    if name := " ".join(character.split()):
        return Place.of_character(guild_id, name)
    return Place.channel(guild_id, memory.policies.channel_of(guild_id, channel_id))


async def _typed(request: Request, visitor: Visitor, guild_id: int | None) -> dict[str, str]:
    """What the form says, if it is ours and its sender may change that."""
    check_same_site(request)
    form = await request.form()
    visitor.check_form(str(form.get("form", "")))
    if not visitor.may_edit(guild_id):
        raise PageError(403, "Your token may not change this; that needs the admin scope.")
    return renamed({name: str(value).strip()[:LONGEST] or AUTO for name, value in form.items() if name != "form"})


async def _save(memory: Memory, place: Place, typed: Mapping[str, str]) -> Refused | None:
    """Sets everything that changed; nothing if something is not allowed, or takes messages away unconfirmed."""
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
        return Refused(typed, {}, f"This hides {loss}. {UNDO}")
    await memory.policies.set_many(place, wanted)
    return None


def _status(refused: Refused | None) -> int:
    return 422 if refused and refused.problems else 200


async def _settings(
    memory: Memory,
    place: Place,
    effective: Mapping[str, Effective],
    refused: Refused | None,
) -> dict[str, Any]:
    own = await memory.policies.read(place)
    not_saved = refused or Refused({}, {})
    known = {one.name: one for one in memory.policies.declared}
    return {
        "rows": [_row(one, place.level, own, not_saved) for one in effective.values()],
        "warning": not_saved.warning,
        "changes": [_change(one, known[one.setting]) for one in own.changes[:CHANGES]],
    }


def _row(one: Effective, level: Level, own: Overrides, refused: Refused) -> SettingRow:
    setting = one.setting
    value = own.values.get(setting.name)
    set_here = AUTO if value is None else setting.show(value).lower()
    typed, problem = refused.typed.get(setting.name, set_here), refused.problems.get(setting.name, "")
    return SettingRow(one, level in setting.levels, typed, problem)


def _change(one: Change, setting: Setting) -> ChangeRow:
    by = f"by {one.by}" if one.by else "by an operator"
    return ChangeRow(setting.label, setting.show(one.old), setting.show(one.new), one.at, by)
