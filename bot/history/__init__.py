"""Discord's own history, which answers questions when Memory has nothing stored."""
