"""What all of the JSON is made of: ids, texts and times, and models that become the values they stand for."""

from __future__ import annotations

import inspect
from functools import cache
from typing import Annotated, Any, Final, Generic, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, PlainSerializer, WithJsonSchema

from channelmem.types import LAST_TS

LARGEST_ID: Final = 10**19 - 1
"""19 digits: any snowflake, and less than 2^64."""
MAX_TEXT: Final = 16_000
"""Characters of a message as sent; the memory cuts what it stores much shorter."""
MAX_NAME: Final = 200
MAX_LIST: Final = 200

_DIGITS: Final = {"type": "string", "pattern": "^[0-9]{1,19}$", "examples": ["922222222222222222"]}


def _whole(value: object) -> int:
    """Neither True nor 1.0 nor '1_0' is an id, although Python would convert them."""
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) <= 19:
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= LARGEST_ID:
        raise ValueError("an id is a string of up to 19 digits, such as '922222222222222222'")
    return value


Id = Annotated[
    int,
    BeforeValidator(_whole),
    PlainSerializer(str, return_type=str, when_used="json"),
    WithJsonSchema({"anyOf": [_DIGITS, {"type": "integer", "minimum": 0, "maximum": LARGEST_ID}]}, mode="validation"),
    WithJsonSchema(_DIGITS, mode="serialization"),
]
_SIGNED: Final = {"type": "string", "pattern": "^-?[0-9]{1,19}$"}


def _signed(value: object) -> int:
    """The same for a number of our own, which may be negative."""
    if isinstance(value, str) and value.startswith("-"):
        return -_whole(value[1:])
    return -_whole(-value) if isinstance(value, int) and value < 0 else _whole(value)


SourceId = Annotated[
    int,
    BeforeValidator(_signed),
    PlainSerializer(str, return_type=str, when_used="json"),
    WithJsonSchema(_SIGNED),
]
"""A message's id; a summary has a negative number instead."""
PathId = Annotated[int, BeforeValidator(_whole), WithJsonSchema(_DIGITS)]
"""An id in a path or a query, where everything is a string."""

Text = Annotated[str, Field(strict=True, max_length=MAX_TEXT)]
Name = Annotated[str, Field(strict=True, max_length=MAX_NAME)]
Flag = Annotated[bool, Field(strict=True)]
Count = Annotated[int, Field(strict=True, ge=0)]
Moment = Annotated[float, Field(strict=True, ge=0, le=LAST_TS, allow_inf_nan=False)]
"""Epoch seconds."""
Span = Annotated[float, Field(strict=True, ge=0, le=LAST_TS, allow_inf_nan=False)]
"""Seconds."""


T = TypeVar("T")


class Mirror(BaseModel, Generic[T]):
    """Has the fields of a value; it may lack some, and have others besides."""

    def value(self) -> T:
        made, names = _mirrored(type(self))
        mirrored: T = made(**{name: plain(getattr(self, name)) for name in names})
        return mirrored


@cache
def _mirrored(model: type[BaseModel]) -> tuple[Any, tuple[str, ...]]:
    """The type of the value, and the fields that both have."""
    (made,) = next(args for base in model.__mro__ if (args := _arguments(base)))
    known = inspect.signature(made).parameters
    return made, tuple(name for name in model.model_fields if name in known)


def _arguments(base: type) -> tuple[Any, ...]:
    return base.__pydantic_generic_metadata__["args"] if issubclass(base, BaseModel) else ()


def plain(held: Any) -> Any:
    """The values that models stand for, also in a tuple of them."""
    if isinstance(held, tuple):
        return tuple(map(plain, held))
    return held.value() if isinstance(held, Mirror) else held


class Body(BaseModel):
    """What callers send: a misspelt field is an error, not silently ignored."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)


class Shown(BaseModel):
    """What the service sends: an older client ignores what it does not know yet."""

    model_config = ConfigDict(extra="ignore", frozen=True, from_attributes=True, hide_input_in_errors=True)


def as_json(model: BaseModel) -> dict[str, Any]:
    """For a request: ids as strings, and without what the caller left at its default."""
    return model.model_dump(mode="json", exclude_defaults=True)
