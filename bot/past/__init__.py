"""/history: load more of a channel's past, and export it."""
