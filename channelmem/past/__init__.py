"""A channel's past for people, whoever offers it: a span in words, what a model would be given, a file to keep."""
