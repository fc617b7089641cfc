"""What a message probably answers: soft links to earlier messages of its channel."""
