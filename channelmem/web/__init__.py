"""The inspector: pages that show what the memory holds and why it answers as it does, at / of the service."""
