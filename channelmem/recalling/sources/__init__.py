"""Where candidates come from: the buffer, the archive, the platform's history."""
