"""`python -m bot`: the same as `channelmem bot`. Without the `discord` extra, one sentence says what to install."""

from __future__ import annotations

import sys

from channelmem.errors import ConfigError
from channelmem.extras import BOT, load


def main() -> int:
    try:
        client = load(f"{BOT}.client", "discord", "The Discord bot")
    except ConfigError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    code: int = client.main()
    return code


if __name__ == "__main__":
    sys.exit(main())
