"""Redis: the connection, every key, the index, what changes messages, what reads them, consent and channel state."""
