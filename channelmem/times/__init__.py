"""When is meant: time expressions in a question, as windows in UTC."""
