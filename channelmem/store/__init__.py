"""Redis: every key, the index, what changes the memory, what reads it, and the workers that add vectors."""
