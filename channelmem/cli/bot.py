"""`channelmem bot`: starts the Discord bot, as `python -m bot` does."""

from __future__ import annotations

import typer

from bot.__main__ import main

app = typer.Typer()


@app.command()
def bot() -> None:
    """Start the Discord bot. DISCORD_TOKEN comes from the environment or .env; Ctrl-C or SIGTERM stops it in order."""
    raise typer.Exit(main())
