"""/summary: a span in words, what a model is given of the past, and rebuilding summaries."""
