"""Buttons, selects and forms as Discord keeps them: the stored form of what a bot sent, and what was wrong with it."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from .payloads import Json

ROW, BUTTON, SELECT, TEXT_INPUT, LABEL = 1, 2, 3, 4, 18
EMBEDS_MAX = 6000
CONTENT_MAX = 2000


def walk(found: list[Json]) -> Iterator[Json]:
    """Every component, those within others too."""
    for one in found:
        yield one
        yield from walk(one.get("components", []))
        yield from walk([one["component"]] if "component" in one else [])


def numbered(found: list[Json]) -> list[Json]:
    """With the ids that Discord gives to components that have none."""
    numbers = itertools.count(1)
    return [_numbered(one, numbers) for one in found]


def _numbered(one: Json, numbers: Iterator[int]) -> Json:
    made = {"id": next(numbers)} | {name: value for name, value in one.items() if value is not None}
    if "components" in made:
        made["components"] = [_numbered(child, numbers) for child in made["components"]]
    if made["type"] == SELECT:
        made = {"min_values": 1, "max_values": 1} | made
    return made


def apply(message: Json, body: Json) -> None:
    """What is not mentioned stays as it is; null empties."""
    if "content" in body:
        message["content"] = body["content"] or ""
    if "embeds" in body:
        message["embeds"] = body["embeds"] or []
    if "components" in body:
        message["components"] = numbered(body["components"] or [])
    if "attachments" in body:
        kept = {str(one["id"]) for one in body["attachments"] or []}
        message["attachments"] = [one for one in message["attachments"] if one["id"] in kept]


def problem(body: Json) -> str:
    """What Discord refuses although its document does not say so."""
    ids = [one["custom_id"] for one in walk(body.get("components") or []) if "custom_id" in one]
    if len(ids) != len(set(ids)):
        return "Component custom id cannot be duplicated"
    if sum(_size(embed) for embed in body.get("embeds") or []) > EMBEDS_MAX:
        return "Embed size exceeds maximum size of 6000"
    return "Must be 2000 or fewer in length" if len(body.get("content") or "") > CONTENT_MAX else ""


def _size(embed: Json) -> int:
    texts = [embed.get("title"), embed.get("description"), (embed.get("footer") or {}).get("text")]
    texts += [text for one in embed.get("fields") or [] for text in (one["name"], one["value"])]
    return sum(len(text or "") for text in texts)


def labelled(message: Json, label: str) -> Json:
    """The button of that name; one that is disabled can't be clicked."""
    buttons = [one for one in walk(message["components"]) if one["type"] == BUTTON]
    found = [one for one in buttons if one.get("label") == label]
    assert found, f"there is no button {label!r} but {[one.get('label') for one in buttons]}"
    assert not found[0].get("disabled")
    return found[0]


def offering(message: Json, *labels: str) -> tuple[Json, list[str]]:
    """The select that offers all these, and their values."""
    selects = [one for one in walk(message["components"]) if one["type"] == SELECT and not one.get("disabled")]
    for one in selects:
        values = {option["label"]: option["value"] for option in one["options"]}
        if values.keys() >= set(labels):
            assert one["min_values"] <= len(labels) <= one["max_values"]
            return one, [values[label] for label in labels]
    offered = [[option["label"] for option in one["options"]] for one in selects]
    raise AssertionError(f"no select offers {labels} but {offered}")


def filled_in(modal: Json, values: Json) -> list[Json]:
    """The form as a client sends it: what nobody touched keeps the value that it was opened with."""
    return [_filled_in(one, values, number) for number, one in enumerate(modal["components"], 1)]


def _filled_in(one: Json, values: Json, number: int) -> Json:
    if one["type"] == ROW:
        inner = [_filled_in(child, values, number + 10) for child in one["components"]]
        return {"type": ROW, "id": number, "components": inner}
    if one["type"] == LABEL:
        return {"type": LABEL, "id": number, "component": _filled_in(one["component"], values, number + 10)}
    about = {"type": one["type"], "id": number, "custom_id": one["custom_id"]}
    if one["type"] == SELECT:
        preset = [option["value"] for option in one["options"] if option.get("default")]
        return about | {"values": values.get(one["custom_id"], preset)}
    text = str(values.get(one["custom_id"]) if one["custom_id"] in values else one.get("value") or "")
    assert one.get("min_length", 0) <= len(text) <= one.get("max_length", 4000), "a client would not send this"
    assert text or not one.get("required", True), "a client would not send this"
    return about | {"value": text}
