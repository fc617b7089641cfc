"""Builds the wheel as a stranger gets it and uses it outside any clone.

    python -m scripts.try_wheel

`make test-wheel` calls it: sdist, the wheel from it, a clean virtual environment with the locked releases, then `demo`,
`bot` and `serve --demo` in an empty folder. It ends with an AssertionError where something is missing.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import tempfile
import time
import zipfile
from pathlib import Path

import httpx

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = {"channelmem": "channelmem", "bot": "channelmem_bot"}
"""Folder here -> folder in the wheel."""
PIP = ("-m", "pip", "--disable-pip-version-check", "install", "--quiet", "--no-deps")
LIMIT_S = 300
STARTED = time.perf_counter()


class Stranger:
    """An empty folder with a virtual environment, and nothing of a clone in the environment variables."""

    def __init__(self, folder: Path) -> None:
        self.home, self.python = folder / "home", folder / "venv" / "bin" / "python"
        self.home.mkdir()
        ours = ("CHANNELMEM_", "REDIS_", "DISCORD_", "PYTHONPATH")
        kept = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
        folders = {"CHANNELMEM_DATA_DIR": str(folder / "data"), "CHANNELMEM_CACHE_DIR": str(folder / "cache")}
        self.environment = kept | folders | {"COLUMNS": "200"}
        subprocess.run([sys.executable, "-m", "venv", folder / "venv"], check=True)

    def command(self, *arguments: str) -> list[str]:
        return [str(self.python.with_name("channelmem")), *arguments]

    def run(self, *command: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            command, cwd=self.home, env=self.environment, capture_output=True, text=True, timeout=LIMIT_S, check=False
        )

    def install(self, *what: str) -> None:
        done = self.run(str(self.python), *PIP, *what)
        assert done.returncode == 0, done.stderr

    def install_locked(self, *stages: str) -> None:
        files = [f"--requirement={ROOT / 'requirements' / stage}.txt" for stage in stages]
        self.install("--require-hashes", "--only-binary=:all:", *files)


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="channelmem-wheel-") as scratch:
        folder = Path(scratch)
        tell("building sdist and wheel")
        wheel = build(folder / "dist")
        holds_everything(wheel)
        tell("installing it with memory and command line")
        stranger = Stranger(folder)
        stranger.install_locked("base")
        stranger.install(str(wheel))
        try:
            try_memory(stranger)
            tell("installing what bot and service need")
            stranger.install_locked("bot", "service")
            try_bot(stranger)
            try_service(stranger)
        finally:
            stranger.run(*stranger.command("redis", "stop"))
    tell("the wheel works")


def tell(step: str) -> None:
    print(f"{time.perf_counter() - STARTED:5.0f} s  {step}", flush=True)


def build(into: Path) -> Path:
    # Not isolated: the build back end is the locked one, from requirements/build.txt.
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(into), str(ROOT)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    (wheel,) = into.glob("*.whl")
    return wheel


def holds_everything(wheel: Path) -> None:
    """Every module and data file of the clone, and no top-level package but ours."""
    files = {
        f"{named}/{path.relative_to(ROOT / folder).as_posix()}"
        for folder, named in PACKAGES.items()
        for path in (ROOT / folder).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    packed = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    assert packed == files, sorted(packed ^ files)


def try_memory(stranger: Stranger) -> None:
    tell("channelmem demo")
    demo = stranger.run(*stranger.command("demo"))
    assert demo.returncode == 0, demo.stderr
    assert "turtles" in demo.stdout, demo.stdout
    for command, extra in (("bot", "discord"), ("serve", "service")):
        missing = stranger.run(*stranger.command(command))
        assert (missing.returncode, missing.stdout) == (1, ""), missing
        assert f"pip install '.[{extra}]'" in missing.stderr, missing.stderr


def try_bot(stranger: Stranger) -> None:
    tell("channelmem bot, without a token and beside somebody's own package `bot`")
    (stranger.home / "bot.py").write_text("raise SystemExit('this is not the bot of channelmem')\n")
    python = str(stranger.python)
    for command in (stranger.command("bot"), [python, "-m", "channelmem_bot"], [python, "-m", "channelmem", "bot"]):
        done = stranger.run(*command)
        assert done.returncode == 1, done
        assert "DISCORD_TOKEN is not set." in done.stderr, done.stderr
        assert "Traceback" not in done.stderr, done.stderr
    assert stranger.run(python, "-m", "pip", "check").returncode == 0


def try_service(stranger: Stranger) -> None:
    tell("channelmem serve --demo")
    with subprocess.Popen(
        stranger.command("serve", "--demo", "--port", "0"),
        cwd=stranger.home, env=stranger.environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
    ) as service:  # fmt: skip
        try:
            url, token, question = demo_channel(service)
            for page in ("/healthz", "/docs", "/static/inspector.css", "/static/inspector.js", "/static/icon.svg", "/"):
                answer = httpx.get(url + page, follow_redirects=True, trust_env=False)
                assert answer.status_code == 200, (page, answer)
            asked = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
            told = httpx.post(f"{url}/v1/ask", headers=asked, content=question, trust_env=False, timeout=60)
            assert "turtles" in told.json()["text"], told.text
        finally:
            service.send_signal(signal.SIGTERM)
    assert service.returncode in {0, -signal.SIGTERM}, service.returncode


def demo_channel(service: subprocess.Popen[str]) -> tuple[str, str, str]:
    """URL, token and question, as the service prints them."""
    assert service.stdout is not None
    printed = ""
    for line in service.stdout:
        printed += line
        if found := re.search(r"TOKEN=(\S+).*curl -s (http://[^/]+)/.*-d '(.*)'", printed, re.DOTALL):
            return found[2], found[1], found[3]
    raise AssertionError(f"it ended and printed {printed!r}")


if __name__ == "__main__":
    main()
