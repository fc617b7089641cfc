"""From a Route to messages: candidates, their ranking, and which message answers which."""
