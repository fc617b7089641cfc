"""The channel as a tool that language-model agents can call."""
