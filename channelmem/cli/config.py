"""`channelmem config`: shows the effective settings, each with its source; secrets are masked."""

from __future__ import annotations

import json
from typing import Annotated

import typer
from pydantic import SecretStr
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from channelmem.display import visible
from channelmem.secrets import MASK
from channelmem.settings import hide, load_settings, sources, unknown, variable


def config(
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON: one object per setting.")] = False,
    changed: Annotated[bool, typer.Option("--changed", help="Show only settings that are set explicitly.")] = False,
) -> None:
    """Show every setting, its value and its source (environment, .env or default). Secrets are masked.

    \b
    Examples:
      channelmem config --changed
      CHANNELMEM_MAX_MESSAGES=100 channelmem config --json
    """
    settings = load_settings()
    origin = sources(settings)
    rows = [
        {"variable": variable(name), "value": hide(_shown(getattr(settings, name)), settings), "from": origin[name]}
        for name in type(settings).model_fields
        if not changed or origin[name] != "default"
    ]
    if as_json:
        print(json.dumps(rows, indent=2))
    else:
        table = Table("variable", "value", "from", title="channelmem settings", title_justify="left")
        for row in rows:
            shown = escape(visible(row["value"]))
            table.add_row(row["variable"], shown, row["from"], style="" if row["from"] == "default" else "bold")
        Console().print(table)
    # On stderr, so that stdout stays parseable.
    for sentence in unknown(settings):
        Console(stderr=True).print(f"[yellow]note:[/] {escape(visible(sentence))}", highlight=False, soft_wrap=True)


def _shown(value: object) -> str:
    if isinstance(value, SecretStr):
        return MASK
    return "" if value is None else str(value)
