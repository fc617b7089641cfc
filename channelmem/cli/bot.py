"""`channelmem bot`: starts the Discord bot, like `python -m bot`. In: the environment. Out: an exit code."""

from __future__ import annotations

import typer

from bot.__main__ import main

app = typer.Typer()


@app.command()
def bot() -> None:
    """Start the Discord bot. DISCORD_TOKEN comes from the environment or .env; Ctrl-C or SIGTERM stops it cleanly."""
    raise typer.Exit(main())
