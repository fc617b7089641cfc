"""What a message probably answers: soft links to earlier messages in its channel."""
