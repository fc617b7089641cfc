"""The Discord bot: a module per feature, wired together by `client`."""
