"""Writes `.env.example` and docs/settings.md from the Settings class, so that neither can fall behind it."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from pydantic.fields import FieldInfo

from channelmem.settings import SECRETS, Settings, variable

ROOT = Path(__file__).resolve().parent.parent
ENV, TABLE = ROOT / ".env.example", ROOT / "docs" / "settings.md"


def default(name: str, field: FieldInfo) -> str:
    """What `.env.example` shows as the value; empty where the default depends on the machine or is unset."""
    if name in SECRETS or field.default_factory is not None or field.default is None or field.default == ():
        return ""
    value = field.default
    return str(value).lower() if isinstance(value, bool) else str(value)


def env_example() -> str:
    lines = ["# Copy to .env and change what you need; every line shows the default.", ""]
    for name, field in Settings.model_fields.items():
        lines += [f"# {field.description}", f"#{variable(name)}={default(name, field)}"]
    lines += ["# Only for `make up` (docker compose), which does not start without it: the password of its Redis."]
    lines += ["#REDIS_PASSWORD="]
    return "\n".join(lines) + "\n"


def table() -> str:
    lines = [
        "# Settings",
        "",
        "Read once at the start from the environment and from `.env` in the working directory; the environment wins.",
        "`channelmem config` shows the effective values and where each came from.",
        "This page is written by `scripts/settings_docs.py`.",
        "",
        "| variable | default | meaning |",
        "|---|---|---|",
    ]
    for name, field in Settings.model_fields.items():
        shown = default(name, field)
        lines.append(f"| `{variable(name)}` | {f'`{shown}`' if shown else ''} | {field.description} |")
    return "\n".join(lines) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 if a file is out of step")
    wanted = {ENV: env_example(), TABLE: table()}
    if parser.parse_args().check:
        return int(any(not path.exists() or path.read_text() != text for path, text in wanted.items()))
    for path, text in wanted.items():
        path.write_text(text)
        print(f"wrote {path.relative_to(ROOT)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
