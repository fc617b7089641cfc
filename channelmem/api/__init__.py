"""The HTTP API: an adapter over Memory. `channelmem serve` runs it; docs/api.md describes it."""
