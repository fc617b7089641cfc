"""The embedded Redis: found, started, supervised and stopped. Its front is `lease`."""
