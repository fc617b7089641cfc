"""Settings that people change while the service runs: for all guilds, in a channel, for a character in a guild.

Made from the one declaration (policy/cascade.py): a new setting needs no new code here.
"""

# No `from __future__ import annotations`: FastAPI could not look up the annotations of functions inside a function.
import secrets
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import APIRouter, Body, Header, Path, Query, Response, Security
from pydantic import BaseModel

from channelmem.access import Caller, Scope
from channelmem.api.problems import responses
from channelmem.api.service import Admin, Given, Reader, Service, check, check_unbound
from channelmem.policy.cascade import Effective, Level, Place, Setting
from channelmem.policy.policy import Policy
from channelmem.policy.values import AUTO, Auto, Value
from channelmem.wire.channels import DocumentsShown, LevelShown, body_of, level_shown
from channelmem.wire.messages import PathId

GLOBAL = "/settings/global"
CHANNEL = "/settings/guilds/{guild_id}/channels/{channel_id}"
CHARACTER = "/settings/guilds/{guild_id}/characters/{name}"

_PROCESS = secrets.token_hex(4)
"""Versions of two processes say nothing about each other."""

CharacterName = Annotated[str, Path(min_length=1, max_length=100, pattern=r"\S")]
Preview = Annotated[bool, Query(description="Change nothing; `loss` says what the change would take away.")]
By = Annotated[PathId, Query(description="Who changes it, for the list of changes; 0 for the operator.")]


@dataclass(frozen=True, slots=True)
class Conversation:
    """Where to look at what is in force: a level, with who answers, or in which channel."""

    place: Place
    channel_id: int = 0
    character: str = ""


async def _global() -> Place:
    return Place.everywhere()


async def _channel(guild_id: PathId, channel_id: PathId, given: Given) -> Place:
    """A thread follows its channel."""
    return Place.channel(guild_id, given.memory.policies.channel_of(guild_id, channel_id))


async def _character(guild_id: PathId, name: CharacterName) -> Place:
    return Place.of_character(guild_id, " ".join(name.split()))


async def _everywhere() -> Conversation:
    return Conversation(Place.everywhere())


async def _in_channel(
    place: Annotated[Place, Security(_channel)],
    character: Annotated[str, Query(max_length=100, description="Who answers in this channel.")] = "",
) -> Conversation:
    return Conversation(place, place.channel_id, character)


async def _as_character(
    place: Annotated[Place, Security(_character)],
    channel: Annotated[PathId, Query(description="In which channel they answer.")] = 0,
) -> Conversation:
    return Conversation(place, channel, place.character)


LEVELS = (
    (GLOBAL, Level.GLOBAL, _global, _everywhere),
    (CHANNEL, Level.CHANNEL, _channel, _in_channel),
    (CHARACTER, Level.CHARACTER, _character, _as_character),
)


def settings_router(declared: Sequence[Setting]) -> APIRouter:
    router = APIRouter(prefix="/v1", tags=["settings"], responses=responses())
    for path, level, place_of, conversation_of in LEVELS:
        _add_level(router, path, place_of, body_of(level, declared))
        _add_effective(router, path, level, conversation_of)
    router.add_api_route(
        "/settings/documents",
        documents,
        methods=["GET"],
        response_model=DocumentsShown,
        responses={304: {"description": "Nothing changed."}},
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
        return level_shown(place, own, _effective(given, Conversation(place)), own.changes)

    async def replace(
        place: at,
        body: Annotated[body_type, Body()],  # type: ignore[valid-type]
        caller: Admin,
        given: Given,
        by: By = 0,
        preview: Preview = False,
    ) -> LevelShown:
        """Sets this level to exactly this: what is absent inherits."""
        _reach(caller, Scope.ADMIN, place)
        return await _write(given, place, dict(body), by, preview=preview)

    async def change(
        place: at,
        body: Annotated[body_type, Body()],  # type: ignore[valid-type]
        caller: Admin,
        given: Given,
        by: By = 0,
        preview: Preview = False,
    ) -> LevelShown:
        """Changes what is named and nothing else; null inherits."""
        _reach(caller, Scope.ADMIN, place)
        sent: BaseModel = body
        named = {name: value for name, value in sent if name in sent.model_fields_set}
        return await _write(given, place, named, by, preview=preview)

    for method, function in (("GET", read), ("PUT", replace), ("PATCH", change)):
        name = f"{function.__name__}_{body_type.__name__}"
        router.add_api_route(path, function, methods=[method], name=name)


def _add_effective(
    router: APIRouter, path: str, level: Level, conversation_of: Callable[..., Awaitable[Conversation]]
) -> None:
    at = Annotated[Conversation, Security(conversation_of)]

    async def effective(conversation: at, caller: Reader, given: Given) -> LevelShown:
        """What is in force in a conversation, and which level decides."""
        _reach(caller, Scope.READ, conversation.place)
        own = await given.memory.policies.read(conversation.place)
        return level_shown(
            conversation.place, own, _effective(given, conversation), (), channel_id=conversation.channel_id
        )

    router.add_api_route(f"{path}/effective", effective, methods=["GET"], name=f"effective_{level.value}")


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
    return DocumentsShown(
        redis=memory.available, known=policies.known, defaults=defaults_of(given), documents=found, threads=threads
    )


def defaults_of(given: Service) -> dict[str, Any]:
    """The process's settings that a conversation's policy starts from."""
    dumped = given.settings.model_dump(mode="json")
    names = (*Policy.__dataclass_fields__, *EXTRA_DEFAULTS)
    return {name: dumped[name] for name in names if name in dumped}


EXTRA_DEFAULTS = (
    "max_messages",
    "max_age_minutes",
    "archive",
    "archive_days",
    "timezone",
    "history_max_age_minutes",
    "context_max_age_hours",
)
"""Named otherwise in a policy."""


def _reach(caller: Caller, scope: Scope, place: Place) -> None:
    if place.level is not Level.GLOBAL:
        check(caller, scope, place.guild_id)
    elif scope is Scope.ADMIN:
        check_unbound(caller)


def _effective(given: Service, at: Conversation) -> Mapping[str, Effective]:
    place = at.place
    return given.memory.policies.effective(
        place.guild_id, place.channel_id or at.channel_id, place.character or at.character
    )


async def _write(
    given: Service, place: Place, wanted: Mapping[str, Value | Auto | None], by: int, *, preview: bool
) -> LevelShown:
    policies, values = given.memory.policies, {name: AUTO if one is None else one for name, one in wanted.items()}
    loss = await policies.preview(place, values)
    made = () if preview else await policies.set_many(place, values, by=by)
    own = await policies.read(place)
    return level_shown(place, own, _effective(given, Conversation(place)), made, loss=loss)
