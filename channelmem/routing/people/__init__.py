"""Who is meant: the roster of a channel, and the people a question names."""
