"""/memory and /memory-channel: people control what the bot keeps of them, managers what it keeps of a channel."""
