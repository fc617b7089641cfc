"""For operators: logs, metrics, and the health check."""
