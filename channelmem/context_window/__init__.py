"""/context, /new and /context edit, the same for every adapter: how far back a model looks and where it starts."""
