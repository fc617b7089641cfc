"""From a Route to messages: candidates, their ranking, and what answers what."""
