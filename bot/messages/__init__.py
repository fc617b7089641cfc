"""Discord's channels, members and messages as channelmem sees them. Every feature builds on this package."""
