"""What people write, edit and delete: Discord's events become Memory calls."""
