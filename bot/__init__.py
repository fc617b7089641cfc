"""The Discord bot: one package per feature, wired together by `client`."""
