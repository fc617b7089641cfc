"""A channel's past in few characters: windows, a pyramid of summaries over them, and a cover that fits a limit."""
