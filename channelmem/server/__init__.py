"""The embedded Redis: finds, starts, supervises and stops it. The entry point is `lease`."""
