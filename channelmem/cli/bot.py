"""`channelmem bot`: starts the Discord bot, like `python -m bot`."""

from __future__ import annotations

import typer

from channelmem.extras import BOT, load

app = typer.Typer()


@app.command()
def bot() -> None:
    """Start the Discord bot. DISCORD_TOKEN comes from the environment or .env; Ctrl-C or SIGTERM stops it cleanly."""
    # Loaded here, since `channelmem --help` looks at every command, with or without discord.py.
    raise typer.Exit(load(f"{BOT}.client", "discord", "The Discord bot").main())
