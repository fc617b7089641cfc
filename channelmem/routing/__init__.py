"""From a question's words to a Route: who, when, about what, and which memory. Pure functions."""
