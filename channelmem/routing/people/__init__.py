"""Who is meant: the roster of a channel, and the people that a question names."""
