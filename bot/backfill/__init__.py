"""What the bot missed while it was away: new messages, edits and deletes, read from Discord's history."""
