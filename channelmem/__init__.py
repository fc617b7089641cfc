"""Semantic channel memory for chat bots, on Redis Stack."""
