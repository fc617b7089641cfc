"""The command line. A command is loaded only when it is called, so that `--help` of one stays quick.

It is a function of its own name in the module of that name, or in the one that `ELSEWHERE` names; a command with
commands of its own is a Typer app called `app`.
"""

from __future__ import annotations

import io
import logging
import sys
from contextlib import suppress
from importlib import import_module
from importlib.metadata import version
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from typer.core import TyperGroup

from channelmem.display import visible
from channelmem.errors import ChannelmemError, ConfigError
from channelmem.settings import hide, load_settings

COMMANDS = (
    "demo", "chat", "route", "summarise", "summaries", "doctor", "config", "settings", "inspect", "redis", "worker",
    "reindex", "rebucket", "bot", "mcp", "serve", "token",
)  # fmt: skip
ELSEWHERE = {"bot": "serve", "mcp": "serve", "worker": "upkeep", "reindex": "upkeep", "rebucket": "upkeep"}
COMPLETION = {"install_completion", "show_completion"}


class LazyGroup(TyperGroup):
    """Imports a command's module when that command is looked up."""

    def list_commands(self, ctx: Any) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if cmd_name not in COMMANDS:
            return None
        module = import_module(f"channelmem.cli.{ELSEWHERE.get(cmd_name, cmd_name)}")
        group = getattr(module, "app", None)
        if group is None:
            group = typer.Typer()
            group.command()(getattr(module, cmd_name))
        command = typer.main.get_command(group)
        command.name = cmd_name
        # Typer would offer to install a completion for each command, as if it were a program; that does not work.
        command.params = [param for param in command.params if param.name not in COMPLETION]
        return command


app = typer.Typer(
    cls=LazyGroup,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Semantic channel memory for chat bots, on Redis Stack. Start with: channelmem demo",
)


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"channelmem {version('channelmem')}")
        raise typer.Exit


@app.callback()
def _root(
    _version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Typer needs a callback to treat a group without own commands as one."""


class _VisibleLines(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        return visible(super().format(record))


def main() -> None:
    """Entry point of the console script: our own errors are one sentence and exit status 1."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal without curly quotes gets "?", not a traceback
    if logging.lastResort is not None:  # what prints warnings where a command sets up no log
        logging.lastResort.setFormatter(_VisibleLines())
    try:
        app(prog_name="channelmem")
    except ChannelmemError as error:
        text = str(error)
        with suppress(ConfigError):  # our own sentence about a setting quotes no secret; errors of libraries may
            text = hide(text, load_settings())
        shown = escape(visible(text))
        Console(stderr=True).print(f"[bold red]channelmem:[/] {shown}", highlight=False, soft_wrap=True)
        sys.exit(1)
