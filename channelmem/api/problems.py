"""Errors of the API, all in one shape: RFC 9457 problem details."""

from __future__ import annotations

import logging
from http import HTTPStatus
from typing import Any, Final

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import BaseModel, Field
from starlette.exceptions import HTTPException

from channelmem.errors import (
    ChannelmemError,
    DamagedDataError,
    DecisionDelayedError,
    RedisUnavailableError,
    RejectedError,
    SummariesBusyError,
    UnknownSettingError,
)

MEDIA_TYPE: Final = "application/problem+json"
MAX_ERRORS: Final = 20
RETRY_S: Final = 2
"""When to try again after Redis was unreachable."""

log = logging.getLogger(__name__)


class FieldProblem(BaseModel):
    field: str = Field(description="Where in the request, such as body.ts.")
    problem: str


class Problem(BaseModel):
    """RFC 9457 problem details."""

    type: str = Field("about:blank", description="What kind of problem, if the status alone does not say it.")
    title: str
    status: int
    detail: str = Field(description="One sentence that names the likely fix.")
    request_id: str = ""
    errors: tuple[FieldProblem, ...] = ()


class ProblemError(Exception):
    """Raised by endpoints; its handler makes the response."""

    def __init__(self, status: int, detail: str, *, type_: str = "about:blank", retry_s: float | None = None) -> None:
        super().__init__(detail)
        self.status, self.detail, self.type, self.retry_s = status, detail, type_, retry_s


def redis_away() -> ProblemError:
    return ProblemError(
        503, "Redis does not answer; try again in a moment.", type_="urn:channelmem:redis-unavailable", retry_s=RETRY_S
    )


def responses(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """For an endpoint's documentation: these problems, besides those that every endpoint may have."""
    return {
        status: {
            "model": Problem,
            "content": {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}},
            "description": HTTPStatus(status).phrase,
        }
        for status in sorted({400, 401, 403, 408, 413, 422, 429, 500, 503, *statuses})
    }


def response_of(error: ProblemError, request_id: str, errors: tuple[FieldProblem, ...] = ()) -> JSONResponse:
    problem = Problem(
        type=error.type,
        title=HTTPStatus(error.status).phrase,
        status=error.status,
        detail=error.detail,
        request_id=request_id,
        errors=errors,
    )
    headers = {} if error.retry_s is None else {"Retry-After": str(max(1, round(error.retry_s)))}
    if error.status == 401:
        headers["WWW-Authenticate"] = 'Bearer realm="channelmem"'
    return JSONResponse(problem.model_dump(), error.status, headers, media_type=MEDIA_TYPE)


def install(app: FastAPI) -> None:
    app.add_exception_handler(ProblemError, _shown)
    app.add_exception_handler(ChannelmemError, _shown)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(HTTPException, _of_framework)
    plain = app.openapi

    def described() -> dict[str, Any]:
        """FastAPI would say that a problem may also be plain JSON."""
        document = plain()
        for operation in (one for methods in document["paths"].values() for one in methods.values()):
            for response in operation["responses"].values():
                if MEDIA_TYPE in response.get("content", {}):
                    response["content"].pop("application/json", None)
        return document

    app.openapi = described  # type: ignore[method-assign]


def request_id_of(request: Request) -> str:
    return str(request.scope.get("state", {}).get("request_id", ""))


async def _shown(request: Request, error: Exception) -> JSONResponse:
    return response_of(error if isinstance(error, ProblemError) else _problem_of(error), request_id_of(request))


def _problem_of(error: Exception) -> ProblemError:
    match error:
        case DecisionDelayedError():
            problem = ProblemError(503, str(error), type_="urn:channelmem:delayed")
        case DamagedDataError():
            problem = ProblemError(503, f"{error}.", type_="urn:channelmem:damaged")
        case RedisUnavailableError():
            log.warning("Redis does not answer: %s", error)  # its sentence may name the server's address
            problem = redis_away()
        case UnknownSettingError():
            problem = ProblemError(422, str(error))
        case RejectedError():
            problem = ProblemError(409, str(error))
        case SummariesBusyError():
            problem = ProblemError(409, str(error), type_="urn:channelmem:busy", retry_s=5)
        case _:
            log.error("Request failed: %s", error)
            problem = ProblemError(503, "The memory can't be used; see the log.")
    return problem


async def _invalid(request: Request, error: Exception) -> JSONResponse:
    """What the caller sent is not repeated: it may be people's words, or a token in the wrong place."""
    assert isinstance(error, RequestValidationError)  # noqa: S101  (types)
    found = error.errors()
    if any(one["type"] == "json_invalid" for one in found):
        return response_of(ProblemError(400, "The body is not valid JSON."), request_id_of(request))
    shown = tuple(
        FieldProblem(
            field=".".join(str(part)[:60] for part in one["loc"])[:200],
            problem=str(one["msg"]).removeprefix("Value error, ")[:300],
        )
        for one in found[:MAX_ERRORS]
    )
    detail = f"{shown[0].field}: {shown[0].problem}" if shown else "The request is not valid."
    return response_of(ProblemError(422, detail), request_id_of(request), shown)


async def _of_framework(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, HTTPException)  # noqa: S101  (types)
    details = {
        400: "The body is not valid JSON.",
        404: "There is nothing at this path; /docs lists what there is.",
        405: "This path does not take this method; /docs lists what it takes.",
    }
    problem = ProblemError(error.status_code, details.get(error.status_code, str(error.detail)))
    made = response_of(problem, request_id_of(request))
    made.headers.update(error.headers or {})
    return made
