"""Settings that people change while the bot runs: what there is to set, at which levels, and how levels combine."""
