"""Settings that people change while the service runs: for all guilds, in a channel, for a character in a guild.

Made from the one declaration (policy/cascade.py): a new setting needs no new code here.
"""

# No `from __future__ import annotations`: FastAPI could not look up the annotations of functions inside a function.
import secrets
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Annotated, Any

from fastapi import APIRouter, Body, Header, Path, Query, Request, Response, Security
from pydantic import BaseModel

from channelmem.access import Caller, Scope
from channelmem.api.problems import responses
from channelmem.api.service import Admin, Given, Reader, Service, check, check_unbound
from channelmem.policy.cascade import AUTO, Effective, Level, Place, Setting
from channelmem.policy.policy import Policy
from channelmem.wire.channels import DocumentsShown, LevelShown, body_of, level_shown
from channelmem.wire.messages import PathId

EXTRA_DEFAULTS = {
    "max_messages", "max_age_minutes", "archive", "archive_days", "timezone", "history_max_age_minutes",
    "context_max_age_hours",
}  # fmt: skip
"""Named otherwise in a policy."""
_PROCESS = secrets.token_hex(4)
"""Versions of two processes say nothing about each other."""

CharacterName = Annotated[str, Path(min_length=1, max_length=100, pattern=r"\S")]
Preview = Annotated[bool, Query(description="Change nothing; `loss` says what the change would take away.")]
By = Annotated[PathId, Query(description="Who changes it, for the list of changes; 0 for the operator.")]


async def _global() -> Place:
    return Place.everywhere()


async def _channel(guild_id: PathId, channel_id: PathId, given: Given) -> Place:
    """A thread follows its channel."""
    return Place.channel(guild_id, given.memory.policies.channel_of(guild_id, channel_id))


async def _character(guild_id: PathId, name: CharacterName) -> Place:
    return Place.of_character(guild_id, " ".join(name.split()))


AtChannel = Annotated[Place, Security(_channel)]
AtCharacter = Annotated[Place, Security(_character)]
WhoAnswers = Annotated[str, Query(max_length=100, description="Who answers in this channel.")]
WhereAnswered = Annotated[PathId, Query(description="In which channel they answer.")]


async def _in_force(caller: Caller, given: Service, place: Place, channel_id: int = 0, who: str = "") -> LevelShown:
    _reach(caller, Scope.READ, place)
    own = await given.memory.policies.read(place)
    return level_shown(place, own, _effective(given, place, channel_id, who), (), channel_id=channel_id)


async def effective_global(place: Annotated[Place, Security(_global)], caller: Reader, given: Given) -> LevelShown:
    return await _in_force(caller, given, place)


async def effective_channel(place: AtChannel, caller: Reader, given: Given, character: WhoAnswers = "") -> LevelShown:
    return await _in_force(caller, given, place, place.channel_id, character)


async def effective_character(
    place: AtCharacter, caller: Reader, given: Given, channel: WhereAnswered = 0
) -> LevelShown:
    return await _in_force(caller, given, place, channel)


LEVELS = (
    ("/settings/global", Level.GLOBAL, _global, effective_global),
    ("/settings/guilds/{guild_id}/channels/{channel_id}", Level.CHANNEL, _channel, effective_channel),
    ("/settings/guilds/{guild_id}/characters/{name}", Level.CHARACTER, _character, effective_character),
)
CHANGES = (
    ("PUT", "replace", "Sets this level to exactly this: what is absent inherits."),
    ("PATCH", "change", "Changes what is named and nothing else; null inherits."),
)


def settings_router(declared: Sequence[Setting]) -> APIRouter:
    router = APIRouter(prefix="/v1", tags=["settings"], responses=responses())
    for path, level, place_of, effective in LEVELS:
        _add_level(router, path, place_of, body_of(level, declared))
        about = "What is in force in a conversation, and which level decides."
        router.add_api_route(f"{path}/effective", effective, methods=["GET"], description=about)
    unchanged: dict[int | str, dict[str, Any]] = {304: {"description": "Nothing changed."}}
    router.add_api_route(
        "/settings/documents", documents, methods=["GET"], response_model=DocumentsShown, responses=unchanged
    )
    return router


def _add_level(
    router: APIRouter, path: str, place_of: Callable[..., Awaitable[Place]], body_type: type[BaseModel]
) -> None:
    at = Annotated[Place, Security(place_of)]

    async def read(place: at, caller: Reader, given: Given) -> LevelShown:
        """What is set at this level, what is in force and why, and the last changes."""
        _reach(caller, Scope.READ, place)
        own = await given.memory.policies.read(place)
        return level_shown(place, own, _effective(given, place), own.changes)

    async def write(
        request: Request,
        place: at,
        body: Annotated[body_type, Body()],  # type: ignore[valid-type]
        caller: Admin,
        given: Given,
        by: By = 0,
        preview: Preview = False,
    ) -> LevelShown:
        _reach(caller, Scope.ADMIN, place)
        sent: BaseModel = body
        whole, policies = request.method == "PUT", given.memory.policies
        values = {
            name: AUTO if value is None else value for name, value in sent if whole or name in sent.model_fields_set
        }
        loss = await policies.preview(place, values)
        made = () if preview else await policies.set_many(place, values, by=by)
        own = await policies.read(place)
        return level_shown(place, own, _effective(given, place), made, loss=loss)

    router.add_api_route(path, read, methods=["GET"], name=f"read_{body_type.__name__}")
    for method, name, what in CHANGES:
        router.add_api_route(path, write, methods=[method], name=f"{name}_{body_type.__name__}", description=what)


async def documents(
    caller: Reader, given: Given, response: Response, if_none_match: Annotated[str, Header(max_length=200)] = ""
) -> DocumentsShown | Response:
    """Everything that is set, for clients that keep a copy of it; 304 if it is still as `If-None-Match` says."""
    memory, policies = given.memory, given.memory.policies
    tag = f'"{_PROCESS}-{policies.version}-{policies.known:d}{memory.available:d}"'
    if tag == if_none_match:
        return Response(status_code=304, headers={"ETag": tag})
    response.headers["ETag"] = tag
    found, threads = policies.documents(caller.may_reach)
    # The process's settings that a conversation's policy starts from.
    defaults = given.settings.model_dump(mode="json", include={*Policy.__dataclass_fields__, *EXTRA_DEFAULTS})
    return DocumentsShown(
        redis=memory.available, known=policies.known, defaults=defaults, documents=found, threads=threads
    )


def _reach(caller: Caller, scope: Scope, place: Place) -> None:
    if place.level is not Level.GLOBAL:
        check(caller, scope, place.guild_id)
    elif scope is Scope.ADMIN:
        check_unbound(caller)


def _effective(given: Service, place: Place, channel_id: int = 0, character: str = "") -> Mapping[str, Effective]:
    policies = given.memory.policies
    return policies.effective(place.guild_id, place.channel_id or channel_id, place.character or character)
