"""/context and /new: how far back the bot looks, and where it starts fresh."""
