"""Builds the container image with docker, podman or buildah, and uses it as people do.

    python -m scripts.test_image [--base-image IMAGE] [--redis-image IMAGE] [--if-possible] [--json]

`make test-image` and CI call it. It looks at user, size and health check, runs the demo and a bot without a token.
Where compose answers, a message has to survive `down` and `up` of redis and service. A running channelmem keeps its
containers, ports and .env. It needs nothing but Python. buildah has no compose: that part is left out.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import secrets
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Protocol, TextIO

ROOT = Path(__file__).resolve().parent.parent
LARGEST_MB = 900
TAG = "localhost/channelmem-image-test"
BUILD_S, STEP_S = 3600.0, 300.0
MB = {"B": 1e-6, "kB": 1e-3, "KB": 1e-3, "MB": 1.0, "GB": 1e3}

ITS_OWN = re.compile(r"^(?:subprocess exited with|Error: exit) status \d+\n", re.MULTILINE)
"""What buildah adds when a command has failed."""

# Runs the health check of its first argument. It looks at the arguments of process 1, so here at what follows.
CHECKED = "import json, subprocess, sys; sys.exit(subprocess.run(json.loads(sys.argv[1])).returncode)"
OVERRIDE = """
services:
  redis: {{ports: !reset []}}
  bot: {{image: {tag}}}
  service: {{image: {tag}, ports: !override ["127.0.0.1::8410"]}}
"""
GUILD, CHANNEL = "811111111111111111", "922222222222222222"
SAID = "lunch is at noon, table for four"


class FailedError(Exception):
    """What is wrong, for whoever reads the verdict."""


@dataclass(frozen=True, slots=True)
class Done:
    status: int
    out: str
    err: str

    def well(self) -> str:
        """What it printed; raises if it failed."""
        if self.status:
            raise FailedError(f"exit status {self.status}\n{_tail(self.out + self.err)}")
        return self.out.strip()

    def one_line(self, expected: str) -> str:
        """The only line of a start that failed."""
        lines = (self.out + self.err).strip().splitlines()
        if not self.status or len(lines) != 1 or expected not in lines[0]:
            raise FailedError(
                f"exit status {self.status}, and not one line with {expected}\n{_tail(self.out + self.err)}"
            )
        return lines[0]


def _tail(text: str) -> str:
    return "\n".join(f"        {line}" for line in text.strip().splitlines()[-25:])


def run(*command: str, limit_s: float = STEP_S, **options: Any) -> Done:
    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=limit_s, check=False, **options
        )
    except subprocess.TimeoutExpired:
        raise FailedError(f"`{' '.join(command[:3])}` did not end within {limit_s:.0f} s") from None
    return Done(done.returncode, done.stdout, done.stderr)


class Engine(Protocol):
    """What builds the image and runs it."""

    @property
    def name(self) -> str: ...
    def answers(self) -> bool: ...
    def has(self, image: str) -> bool: ...
    def build(self, *arguments: str) -> Done: ...
    def config(self) -> dict[str, Any]: ...
    def megabytes(self) -> float: ...
    def run(self, *command: str) -> Done: ...
    def remove(self) -> None: ...


@dataclass(frozen=True, slots=True)
class WithContainers:
    """docker and podman, which take the same arguments."""

    name: str

    def answers(self) -> bool:
        return shutil.which(self.name) is not None and not run(self.name, "version").status

    def has(self, image: str) -> bool:
        return not run(self.name, "image", "inspect", image).status

    def build(self, *arguments: str) -> Done:
        # podman's own format has no health checks.
        shape = ("--format", "docker") if self.name == "podman" else ()
        return run(self.name, "build", *shape, *arguments, limit_s=BUILD_S)

    def _inspected(self) -> dict[str, Any]:
        (found,) = json.loads(run(self.name, "image", "inspect", TAG).well())
        return dict(found)

    def config(self) -> dict[str, Any]:
        found = self._inspected()
        return {"Healthcheck": found.get("Healthcheck"), **found["Config"]}  # podman has it beside

    def megabytes(self) -> float:
        return float(self._inspected()["Size"]) / 1e6

    def run(self, *command: str) -> Done:
        program, *arguments = command
        return run(self.name, "run", "--rm", "--entrypoint", program, TAG, *arguments)

    def remove(self) -> None:
        run(self.name, "image", "rm", "--force", TAG)


@dataclass(frozen=True, slots=True)
class Buildah:
    """Without containers: commands run in a changed root, which needs no rights beyond those of the build."""

    name: str = "buildah"

    def answers(self) -> bool:
        return shutil.which(self.name) is not None and not run(self.name, "version").status

    def has(self, image: str) -> bool:
        return not run(self.name, "inspect", "--type", "image", image).status

    def build(self, *arguments: str) -> Done:
        return run(self.name, "build", "--isolation", "chroot", "--format", "docker", *arguments, limit_s=BUILD_S)

    def config(self) -> dict[str, Any]:
        return dict(json.loads(run(self.name, "inspect", "--type", "image", TAG).well())["Docker"]["config"])

    def megabytes(self) -> float:
        number, unit = run(self.name, "images", "--format", "{{.Size}}", TAG).well().split()
        return float(number) * MB[unit]

    def run(self, *command: str) -> Done:
        container = run(self.name, "from", "--pull-never", TAG).well()
        try:
            done = run(self.name, "run", "--isolation", "chroot", container, "--", *command)
            return Done(done.status, done.out, ITS_OWN.sub("", done.err))
        finally:
            run(self.name, "rm", container)

    def remove(self) -> None:
        run(self.name, "rmi", "--force", TAG)


ENGINES: tuple[Engine, ...] = (WithContainers("docker"), WithContainers("podman"), Buildah())


@dataclass(frozen=True, slots=True)
class Images:
    """What is built on and played with: given, or as Dockerfile and compose file have it."""

    base: str
    redis: str
    given: frozenset[str]

    @classmethod
    def of(cls, base: str, redis: str) -> Images:
        own_base = _only(r"^ARG BASE_IMAGE=(\S+)$", "Dockerfile")
        own_redis = _only(r"\$\{REDIS_IMAGE:-([^}]+)\}", "docker-compose.yml")
        return cls(base or own_base, redis or own_redis, frozenset(filter(None, (base, redis))))

    def missing(self, engine: Engine, image: str) -> bool:
        return image not in self.given and not engine.has(image)


def _only(pattern: str, file: str) -> str:
    (found,) = re.findall(pattern, (ROOT / file).read_text(), re.MULTILINE)
    return str(found)


@dataclass(frozen=True, slots=True)
class Check:
    name: str
    ok: bool
    note: str
    seconds: float


@dataclass(slots=True)
class Report:
    engine: str
    base_image: str
    out: TextIO
    megabytes: float | None = None
    checks: list[Check] = field(default_factory=list)

    def say(self, line: str) -> None:
        print(line, file=self.out, flush=True)

    def check(self, name: str, act: Callable[[], str]) -> bool:
        """Does it, and notes how it went."""
        began = time.monotonic()
        try:
            ok, note = True, act()
        except FailedError as error:
            ok, note = False, str(error)
        one = Check(name, ok, note, round(time.monotonic() - began, 1))
        self.checks.append(one)
        self.say(f"{'ok  ' if ok else 'FAIL'} {one.seconds:6.1f} s  {name}{f': {note}' if note else ''}")
        return ok

    def as_json(self) -> str:
        rest = {"engine": self.engine, "base_image": self.base_image, "megabytes": self.megabytes}
        return json.dumps({"ok": self.ok, **rest, "checks": [asdict(one) for one in self.checks]}, indent=2)

    @property
    def ok(self) -> bool:
        return all(one.ok for one in self.checks)


def try_image(engine: Engine, images: Images, report: Report) -> None:
    """What every engine can show."""
    report.say(f"Building with {engine.name} on {images.base}; the first time takes minutes ...")
    if not report.check("the image is built", partial(_build, engine, images)):
        return
    report.check(f"it has at most {LARGEST_MB} MB", partial(_size, engine, report))
    report.check("it runs as an ordinary user", partial(_user, engine))
    report.check("its health check heeds the bot alone", partial(_health, engine))
    report.check("the demo answers", partial(_demo, engine))
    report.check("a bot without a token says so", lambda: engine.run("channelmem", "bot").one_line("DISCORD_TOKEN"))


def _build(engine: Engine, images: Images) -> str:
    done = engine.build("--build-arg", f"BASE_IMAGE={images.base}", "--tag", TAG, str(ROOT))
    if done.status and images.base not in images.given:
        hint = "if the base image can't be pulled here, give your own: make test-image BASE_IMAGE=..."
        raise FailedError(f"exit status {done.status}; {hint}\n{_tail(done.out + done.err)}")
    done.well()
    return ""


def _size(engine: Engine, report: Report) -> str:
    report.megabytes = round(engine.megabytes())
    if report.megabytes > LARGEST_MB:
        raise FailedError(f"{report.megabytes} MB")
    return f"{report.megabytes} MB"


def _user(engine: Engine) -> str:
    uid = engine.run("id", "-u").well()
    if uid == "0" or not engine.config().get("User"):
        raise FailedError(f"it runs as user {uid}")
    engine.run("sh", "-c", 'touch "$CHANNELMEM_DATA_DIR/x"').well()  # where opt-outs are kept
    return uid


def _health(engine: Engine) -> str:
    kind, *command = (engine.config().get("Healthcheck") or {}).get("Test") or ["NONE"]
    if kind != "CMD":
        raise FailedError(f"the image has no health check that it can run: {kind}")
    checked = ("python", "-c", CHECKED, json.dumps(command))
    worker, bot = engine.run(*checked, "worker").status, engine.run(*checked, "bot").status
    # In a changed root, process 1 is the machine's.
    if worker or (not bot and not isinstance(engine, Buildah)):
        raise FailedError(f"exit status {worker} beside a worker, {bot} beside a bot that does not listen")
    return ""


def _demo(engine: Engine) -> str:
    answers = json.loads(engine.run("channelmem", "demo", "--json").well())["answers"]
    if "turtles" not in json.dumps(answers):
        raise FailedError(f"no answer has the turtles\n{_tail(json.dumps(answers, indent=1))}")
    return f"{len(answers)} answers"


class Compose:
    """The compose file as it is, in a folder and a project of its own: other ports, and the image that was built."""

    def __init__(self, engine: Engine, folder: Path, redis_image: str) -> None:
        self._folder = folder
        shutil.copy(ROOT / "docker-compose.yml", folder)
        (folder / "docker-compose.override.yml").write_text(OVERRIDE.format(tag=TAG))
        self._command = (engine.name, "compose", "--project-name", f"channelmem-image-test-{secrets.token_hex(4)}")
        ours = ("COMPOSE_", "DISCORD_", "CHANNELMEM_", "REDIS_")
        outside = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
        self._environment = outside | {"REDIS_IMAGE": redis_image, "REDIS_PASSWORD": secrets.token_hex(24)}

    def __call__(self, *arguments: str, **changes: str) -> Done:
        return run(*self._command, *arguments, cwd=self._folder, env=self._environment | changes)

    def up(self) -> str:
        done = self("--profile", "service", "up", "--detach", "--no-build", "--wait", "redis", "service")
        if done.status:
            raise FailedError(f"exit status {done.status}\n{_tail(done.err + self('logs', '--tail', '20').out)}")
        return ""

    def down(self, *options: str) -> str:
        self("--profile", "service", "down", *options).well()
        return ""

    def url(self) -> str:
        """A new port after every start."""
        return f"http://{self('port', 'service', '8410').well()}"


@contextmanager
def composing(engine: Engine, images: Images) -> Iterator[Compose]:
    with ExitStack() as stack:
        compose = Compose(engine, Path(stack.enter_context(tempfile.TemporaryDirectory())), images.redis)
        stack.callback(compose, "--profile", "service", "down", "--volumes", "--remove-orphans")
        yield compose


def composes(engine: Engine) -> bool:
    return isinstance(engine, WithContainers) and not run(engine.name, "compose", "version").status


def try_compose(compose: Compose, report: Report) -> None:
    """A life with compose, without a token of Discord; each step needs those before it."""
    token: list[str] = []
    steps: tuple[tuple[str, Callable[[], str]], ...] = (
        ("compose: Redis refuses a password that breaks its URL", partial(_refused, compose)),
        ("compose: a token for the service", partial(_token, compose, token)),
        ("compose: redis and service become healthy", compose.up),
        ("compose: the service may write to its volume", partial(_write, compose)),
        ("compose: a message is stored", lambda: _store(compose.url(), token[0])),
        ("compose: a question is answered", lambda: _ask(compose.url(), token[0])),
        ("compose: down", compose.down),
        ("compose: up again", compose.up),
        ("compose: the message is still there", lambda: _ask(compose.url(), token[0])),
        ("compose: a bot without a token says so", partial(_bot, compose)),
        ("compose: all of it goes", partial(compose.down, "--volumes")),
    )
    for name, step in steps:
        if not report.check(name, step):
            return


def _refused(compose: Compose) -> str:
    for password in ("sword/fish", "sword fish", "sword#fish", "sword?fish"):
        done = compose("run", "--rm", "--no-deps", "redis", REDIS_PASSWORD=password)
        Done(done.status, done.out, _last_line(done.err)).one_line("openssl rand -hex 24")
    return ""


def _last_line(text: str) -> str:
    """Before it, compose tells of volumes and networks."""
    return (text.strip().splitlines() or [""])[-1]


def _token(compose: Compose, token: list[str]) -> str:
    made = compose("run", "--rm", "service", "token", "add", "image-test", "--scopes", "read,write", "--guild", GUILD)
    token.append(made.well().splitlines()[-1])
    return ""


def _write(compose: Compose) -> str:
    return compose("exec", "-T", "service", "sh", "-c", 'touch "$CHANNELMEM_DATA_DIR/x"').well()


def _bot(compose: Compose) -> str:
    done = compose("run", "--rm", "--no-deps", "bot")
    return Done(done.status, done.out, _last_line(done.err)).one_line("DISCORD_TOKEN")


def _post(url: str, token: str, body: object) -> Any:
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    request = urllib.request.Request(url, json.dumps(body).encode(), headers)  # noqa: S310  (a URL of our own)
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))  # no proxy for a port of this machine
    try:
        with opener.open(request, timeout=30) as response:
            return json.load(response)
    except OSError as error:
        raise FailedError(f"POST {url}: {error}") from error


def _store(url: str, token: str) -> str:
    message = {"id": "1", "author_id": "5", "author": "Ann", "content": SAID}
    _post(f"{url}/v1/messages", token, [{"guild_id": GUILD, "channel_id": CHANNEL, **message}])
    return ""


def _ask(url: str, token: str) -> str:
    question = {"asker_id": "6", "asker": "Bob", "text": "when is lunch?"}
    text = str(_post(f"{url}/v1/ask", token, {"guild_id": GUILD, "channel_id": CHANNEL, **question})["text"])
    if SAID not in text:
        raise FailedError(f"the answer is: {text}")
    return text


def why_not(images: Images) -> str:
    """Why an image can't be built here without a network; empty if it can."""
    engine = answering()
    if engine is None:
        return "none of docker, podman and buildah answers"
    if images.missing(engine, images.base):
        return f"{images.base} is not on this machine; pull it, or set BASE_IMAGE"
    return ""


def answering() -> Engine | None:
    return next((engine for engine in ENGINES if engine.answers()), None)


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--base-image", default="", help="instead of the Dockerfile's: Debian with Python and venv")
    parser.add_argument("--redis-image", default="", help="instead of the compose file's: Redis Stack")
    parser.add_argument(
        "--if-possible",
        action="store_true",
        help="say in one line what can't be tried here (no engine, images neither here nor given), and pass",
    )
    parser.add_argument("--keep", action="store_true", help=f"keep the image, as {TAG}")
    parser.add_argument("--json", action="store_true", help="print the result as JSON, and progress to standard error")
    return parser.parse_args()


def main() -> int:
    chosen = options()
    images = Images.of(chosen.base_image, chosen.redis_image)
    if chosen.if_possible and (reason := why_not(images)):
        print(f"Image not tested: {reason}.")
        return 0
    engine = answering()
    if engine is None:
        print("No image can be built: none of docker, podman and buildah answers. Debian: apt install buildah")
        return 1
    report = Report(engine.name, images.base, sys.stderr if chosen.json else sys.stdout)
    try:
        try_all(engine, images, report, if_possible=chosen.if_possible)
    finally:
        if not chosen.keep:
            engine.remove()
    print(report.as_json() if chosen.json else verdict(report))
    return int(not report.ok)


def try_all(engine: Engine, images: Images, report: Report, *, if_possible: bool) -> None:
    try_image(engine, images, report)
    if not report.checks[0].ok:
        return
    if not composes(engine):
        report.say(f"Compose not tested: `{engine.name} compose` does not answer.")
    elif if_possible and images.missing(engine, images.redis):
        report.say(f"Compose not tested: {images.redis} is not on this machine; pull it, or set REDIS_IMAGE.")
    else:
        with composing(engine, images) as compose:
            try_compose(compose, report)


def verdict(report: Report) -> str:
    failed = [one.name for one in report.checks if not one.ok]
    if failed:
        return f"{len(failed)} of {len(report.checks)} checks failed: {'; '.join(failed)}."
    return f"The image is fine: {len(report.checks)} checks, {report.megabytes:.0f} MB."


if __name__ == "__main__":
    sys.exit(main())
