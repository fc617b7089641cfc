"""Answers on Discord that quote what is gone: replaced, where that is still possible."""
