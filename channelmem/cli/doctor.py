"""`channelmem doctor`: checks the setup; exit status 1 if any check fails."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape

from channelmem.display import visible
from channelmem.ops.doctor import (
    Check,
    Health,
    check_discord,
    check_machine,
    check_model,
    check_names,
    check_settings_and_server,
)
from channelmem.settings import Settings, load_settings

app = typer.Typer()

MARK = {Health.OK: "[green]OK  [/]", Health.NOTE: "[yellow]note[/]", Health.BAD: "[bold red]BAD [/]"}


@app.command()
def doctor(
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON: one object per check.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print failed checks only.")] = False,
) -> None:
    """Check server, index, model, Discord token, clock, disk and memory, and say how to fix what is wrong.

    Exits with status 1 if a check fails.

    \b
    Examples:
      channelmem doctor
      channelmem doctor --quiet && channelmem bot
    """
    console, found = Console(), []
    for check in _checks(load_settings()):
        found.append(check)
        if not as_json and (check.health is Health.BAD or not quiet):
            console.print(
                f"{MARK[check.health]} {check.name:<13} {escape(visible(check.says))}", highlight=False, soft_wrap=True
            )
    if as_json:
        print(json.dumps([{"name": c.name, "health": c.health.value, "says": c.says} for c in found], indent=2))
    raise typer.Exit(int(any(check.health is Health.BAD for check in found)))


def _checks(settings: Settings) -> Iterator[Check]:
    yield Check("settings", Health.OK, "loaded")
    yield from check_names(settings)
    yield from check_settings_and_server(settings)
    yield check_model(settings)
    yield from asyncio.run(check_discord(settings))
    yield from check_machine(settings)
