"""/docs: the OpenAPI document as a page. In: the document. Out: HTML that works offline and runs no script."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse
from jinja2 import Environment, PackageLoader, select_autoescape

POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

router = APIRouter(include_in_schema=False)
_pages = Environment(loader=PackageLoader("channelmem.api"), autoescape=select_autoescape())


@router.get("/docs", response_class=HTMLResponse)
async def docs(request: Request) -> HTMLResponse:
    document = request.app.openapi()
    page = _pages.get_template("docs.html").render(
        info=document["info"],
        server=str(request.base_url).rstrip("/"),
        operations=list(_operations(document)),
        schemas={name: list(_fields(one)) for name, one in document["components"]["schemas"].items()},
        about={name: one.get("description", "") for name, one in document["components"]["schemas"].items()},
    )
    return HTMLResponse(page, headers={"Content-Security-Policy": POLICY})


def _operations(document: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for path, methods in document["paths"].items():
        for method, one in methods.items():
            body = one.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema", {})
            done = next(code for code in one["responses"] if code.startswith("2"))
            contents: list[dict[str, Any]] = [*one["responses"][done].get("content", {}).values(), {}]
            yield {
                "tag": one["tags"][0],
                "method": method.upper(),
                "path": path,
                "text": one.get("description", ""),
                "query": [each for each in one.get("parameters", ()) if each["in"] == "query"],
                "body": kind(body),
                "status": done,
                "answer": kind(contents[0].get("schema", {})),
                "problems": [code for code in one["responses"] if code != done],
            }


def _fields(schema: dict[str, Any]) -> Iterator[dict[str, str]]:
    required = schema.get("required", ())
    for name, one in schema.get("properties", {}).items():
        yield {
            "name": name,
            "kind": kind(one),
            "required": "required" if name in required else "",
            "text": one.get("description", ""),
        }


def kind(schema: dict[str, Any]) -> str:
    """A schema in a few words."""
    if "$ref" in schema:
        return str(schema["$ref"]).rpartition("/")[2]
    if "anyOf" in schema:
        return " or ".join(dict.fromkeys(map(kind, schema["anyOf"])))
    if "const" in schema:
        return f'"{schema["const"]}"'
    if schema.get("type") == "array":
        inner = schema.get("items") or {"anyOf": schema.get("prefixItems", [])}
        return f"list of {kind(inner)}"
    if "pattern" in schema:
        return "id" if schema["pattern"] == "^[0-9]{1,19}$" else "string"
    return str(schema.get("type", ""))
