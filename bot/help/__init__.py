"""/help: what the bot can do for whoever asks."""
