"""Write down the releases of this environment that channelmem[dev] uses, for `pip install --constraint`.

    python -m scripts.lock [constraints.txt]

`make lock` calls it. Only names and versions are written, without local parts such as +cpu: where packages come from
is the business of the machine that installs them.
"""

from __future__ import annotations

import sys
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

ROOT = Path(__file__).resolve().parent.parent
HEADER = """\
# The releases that development, CI and the image are tested with. Made by `make lock`; do not edit.
# Use: pip install --constraint constraints.txt channelmem
"""


def main() -> None:
    file = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "constraints.txt"
    found = locked("channelmem", {"dev"})
    file.write_text(HEADER + "".join(f"{name}=={release}\n" for name, release in sorted(found.items())))
    print(f"{file}: {len(found)} packages")


def locked(name: str, extras: set[str]) -> dict[str, str]:
    """Every package that `name` with these extras leads to here, itself left out, and its release."""
    found: dict[str, str] = {}
    open_ends, seen = [(name, extra) for extra in ("", *extras)], set[tuple[str, str]]()
    while open_ends:
        at = open_ends.pop()
        if at in seen:
            continue
        seen.add(at)
        for requirement in _required(*at):
            needed = canonicalize_name(requirement.name)
            if needed not in {name, "pip"} and (release := _release(needed)):  # pip is what installs
                found[needed] = release
            open_ends += [(needed, extra) for extra in ("", *requirement.extras)]
    return found


def _required(name: str, extra: str) -> list[Requirement]:
    """What the installed release of `name` asks for with this extra on this machine."""
    try:
        listed = [Requirement(line) for line in requires(name) or []]
    except PackageNotFoundError:
        return []
    return [one for one in listed if one.marker is None or one.marker.evaluate({"extra": extra})]


def _release(name: str) -> str:
    try:
        return Version(version(name)).public
    except PackageNotFoundError:
        return ""


if __name__ == "__main__":
    main()
