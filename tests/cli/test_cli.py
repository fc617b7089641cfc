"""The command line as a newcomer meets it."""

import io
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from clock import pause
from processes import run as run_process
from processes import started
from rich.console import Console
from typer.testing import CliRunner

from channelmem.cli import COMMANDS, app, demo

LIMIT_S = 300.0
"""Against a hang only: beside busy cores a command takes its time."""
pytestmark = pytest.mark.timeout(3 * LIMIT_S)
# A busy machine must not look like a Redis that does not answer.
PATIENT = {"CHANNELMEM_REDIS_TIMEOUT_S": "60"}


def run(*arguments: str, stdin: str = "", **env: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "channelmem.cli", *arguments]
    return run_process(command, stdin=stdin, env={**os.environ, **PATIENT, **env}, timeout_s=LIMIT_S)


def test_help_names_every_command_with_a_sentence() -> None:
    shown = CliRunner().invoke(app, ["--help"]).stdout
    for command in COMMANDS:
        assert command in shown


@pytest.mark.parametrize("command", COMMANDS)
def test_each_command_has_a_help(command: str) -> None:
    done = CliRunner().invoke(app, [command, "--help"])
    assert done.exit_code == 0
    assert "Usage" in done.stdout


@pytest.mark.parametrize("command", sorted(set(COMMANDS) - {"bot"}))
def test_each_help_shows_an_example_that_starts_with_the_command(command: str) -> None:
    shown = CliRunner().invoke(app, [command, "--help"]).stdout
    _, _, examples = shown.partition("Examples:")
    assert f"channelmem {command}" in examples


@pytest.mark.parametrize("command", COMMANDS)
def test_no_command_offers_a_completion_that_would_not_work(command: str) -> None:
    assert "completion" not in CliRunner().invoke(app, [command, "--help"]).stdout
    for option in ("--install-completion", "--show-completion"):
        assert CliRunner().invoke(app, [command, option, "bash"]).exit_code == 2


@pytest.mark.process
def test_a_wrong_setting_is_one_sentence_and_exit_status_1() -> None:
    done = run("config", CHANNELMEM_MAX_MESSAGES="many")
    assert done.returncode == 1
    assert "CHANNELMEM_MAX_MESSAGES" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.process
def test_the_demo_answers_the_questions_of_the_mission_without_torch(redis_url: str) -> None:
    # The embedder was exported by an earlier test or is now; the second run must not need torch.
    code = (
        "import sys; sys.argv = ['channelmem', 'demo', '--json']\n"
        "from channelmem.cli import main\n"
        "try:\n    main()\n"
        "except SystemExit as done:\n    assert not done.code\n"
        "assert not {'torch', 'sentence_transformers', 'transformers'} & set(sys.modules)"
    )
    env = {**os.environ, **PATIENT, "REDIS_URL": redis_url}
    run("demo", "--fast", REDIS_URL=redis_url)
    done = run_process([sys.executable, "-c", code], env=env, timeout_s=LIMIT_S)
    assert done.returncode == 0, done.stderr
    answers = {one["question"]: one for one in json.loads(done.stdout)["answers"]}
    turtles = answers["what did I just say about turtles?"]
    assert turtles["route"] == "channel"
    assert turtles["hits"][0]["author"] == "Mark"
    assert "recursive spirals of turtles" in turtles["text"]
    assert "turtles" in answers["did anyone mention reptiles?"]["text"]
    assert "release notes" in answers["what did Ann just say?"]["text"]
    assert answers["what did people say about llamas?"]["hits"] == []
    assert answers["tell me a joke"]["route"] == "none"
    assert set(turtles["ms"]) == {"route", "embed", "search", "total"}


@pytest.mark.process
def test_the_demo_leaves_no_channel_behind(redis_url: str, tmp_path: Path) -> None:
    env = {"REDIS_URL": redis_url, "CHANNELMEM_KEY_PREFIX": f"demo-{tmp_path.name}"}
    assert run("demo", "--fast", **env).returncode == 0
    assert json.loads(run("inspect", "--json", **env).stdout) == []


def test_the_demo_proposes_commands_that_work_as_they_stand() -> None:
    console = Console(file=io.StringIO(), width=80)
    with console.capture() as captured:
        console.print(demo._next_steps())
    proposed = re.findall(r"channelmem (\w+(?: (?:start|url))?)", captured.get())
    assert {command.split()[0] for command in proposed} <= set(COMMANDS)
    assert proposed.index("redis start") < proposed.index("redis url"), "without a server there is no URL"


@pytest.mark.process
def test_chat_keeps_its_history_between_runs_and_explains_itself(redis_url: str, tmp_path: Path) -> None:
    env = {"REDIS_URL": redis_url, "CHANNELMEM_KEY_PREFIX": f"chat-{tmp_path.name}"}
    first = run("chat", stdin="mark: the bridge opens in may\n/quit\n", **env)
    assert first.returncode == 0, first.stderr
    second = run("chat", stdin="ann: @bot what did mark say about the bridge?\n/why\n/why --verbose\n", **env)
    assert "the bridge opens in may" in second.stdout
    brief, verbose = second.stdout.split("route  ")[1:]
    assert brief.startswith("It asks for mark's words about “the bridge”. It is clearly about this channel.")
    assert "by wording" not in brief
    assert re.search(r"clues  p \d\.\d\d by wording: ", verbose)


@pytest.mark.process
def test_inspect_shows_the_buffer_and_what_lies_near(redis_url: str, tmp_path: Path) -> None:
    env = {"REDIS_URL": redis_url, "CHANNELMEM_KEY_PREFIX": f"inspect-{tmp_path.name}"}
    run("chat", stdin="mark: the bridge opens in may\nann: bridges are long\n", **env)
    run("worker", "--until-done", **env)
    (listed,) = json.loads(run("inspect", "--json", **env).stdout)
    rows = json.loads(run("inspect", str(listed["channel"]), "--json", **env).stdout)
    assert [(row["author"], row["state"]) for row in rows] == [("ann", "embedded"), ("mark", "embedded")]
    near = run("inspect", str(listed["channel"]), "--near", str(rows[0]["id"]), "--json", **env)
    assert json.loads(near.stdout)[0]["cosine"] == pytest.approx(1.0, abs=0.01)
    unknown = run("inspect", str(listed["channel"]), "--near", "1", **env)
    assert unknown.returncode == 1
    assert "Message 1 is not stored in channel" in unknown.stderr
    assert "Traceback" not in unknown.stderr


@pytest.mark.process
def test_inspect_of_an_unknown_channel_is_no_error_but_of_an_unknown_message_is(redis_url: str, tmp_path: Path) -> None:
    env = {"REDIS_URL": redis_url, "CHANNELMEM_KEY_PREFIX": f"unknown-{tmp_path.name}"}
    for said in ("", "mark: the bridge opens in may\n"):  # on a Redis that holds nothing yet, and on one that does
        if said:
            run("chat", stdin=said, **env)
        unknown = run("inspect", "4711", **env)
        assert (unknown.returncode, unknown.stdout) == (
            0,
            "Nothing is stored in channel 4711; run `channelmem inspect` to list all channels.\n",
        )
        near = run("inspect", "4711", "--near", "7", **env)
        assert (near.returncode, near.stdout) == (1, "")
        assert "Message 7 is not stored in channel 4711" in near.stderr
        assert "Traceback" not in near.stderr


def test_inspect_near_a_message_needs_a_channel() -> None:
    done = CliRunner().invoke(app, ["inspect", "--near", "7"])
    assert done.exit_code == 2
    assert "--near needs a channel" in done.output


@pytest.mark.process
def test_the_bot_without_a_token_says_where_to_get_one(redis_url: str) -> None:
    done = run("bot", REDIS_URL=redis_url, DISCORD_TOKEN="")
    assert done.returncode == 1
    assert "DISCORD_TOKEN" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.process
def test_a_pasted_link_is_said_by_whoever_speaks(redis_url: str, tmp_path: Path) -> None:
    env = {"REDIS_URL": redis_url, "CHANNELMEM_KEY_PREFIX": f"link-{tmp_path.name}"}
    run("chat", stdin="mark: look\nhttps://example.com/a\nann: https://example.com/b\nnice\n12:30 lunch?\n", **env)
    (listed,) = json.loads(run("inspect", "--json", **env).stdout)
    rows = json.loads(run("inspect", str(listed["channel"]), "--json", **env).stdout)
    assert [(row["author"], row["text"]) for row in reversed(rows)] == [
        ("mark", "look"),
        ("mark", "https://example.com/a"),
        ("ann", "https://example.com/b"),
        ("ann", "nice"),
        ("ann", "12:30 lunch?"),
    ]


@pytest.mark.process
def test_only_the_bots_whole_name_is_a_question(redis_url: str, tmp_path: Path) -> None:
    env = {"REDIS_URL": redis_url, "CHANNELMEM_KEY_PREFIX": f"bottle-{tmp_path.name}"}
    asked = run("chat", stdin="mark: @bottle is mine\n@BOT, what did I just say?\n", **env)
    assert re.search(r"You said, (just now|\d+s ago): “@bottle is mine”", " ".join(asked.stdout.split()))


def await_reading_stdin(pid: int) -> None:
    """Until the main thread sleeps in read(0). A signal just before that call would be noticed after it only."""
    deadline = time.monotonic() + LIMIT_S
    reads = {"x86_64": "0", "aarch64": "63"}[os.uname().machine]
    while Path(f"/proc/{pid}/syscall").read_text().split()[:2] != [reads, "0x0"]:
        assert time.monotonic() < deadline, "the prompt never read"
        pause()


@pytest.mark.process
@pytest.mark.skipif(not Path("/proc/self/syscall").exists(), reason="needs /proc to see what the prompt waits for")
def test_ctrl_c_ends_the_chat_without_waiting_for_a_line(redis_url: str, tmp_path: Path) -> None:
    env = {**os.environ, **PATIENT, "REDIS_URL": redis_url, "CHANNELMEM_KEY_PREFIX": f"interrupt-{tmp_path.name}"}
    # A test run in the background passes on an ignored SIGINT; a terminal does not.
    heeding = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)"
    command = [sys.executable, "-c", f"{heeding}; from channelmem.cli import main; main()", "chat"]
    with started(command, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as chat:
        assert chat.stdout is not None
        shown = b""
        while b"me>" not in shown:
            shown += (piece := os.read(chat.stdout.fileno(), 1_000))
            assert piece, shown
        await_reading_stdin(chat.pid)
        chat.send_signal(signal.SIGINT)
        assert chat.wait(LIMIT_S) == 0


@pytest.mark.process
def test_a_terminal_that_knows_ascii_alone_is_no_traceback(redis_url: str, tmp_path: Path) -> None:
    env = {
        "REDIS_URL": redis_url, "CHANNELMEM_KEY_PREFIX": f"ascii-{tmp_path.name}", "PYTHONIOENCODING": "ascii"
    }  # fmt: skip
    chat = run("chat", stdin="mark: lunch\n@bot what did I just say?\n", **env)
    assert re.search(r"You said, (just now|\d+s ago): \?lunch\?", " ".join(chat.stdout.split()))
    row = json.loads(run("route", "what did Zoë say?", "--roster", "Zoë", "--json", **env).stdout)
    assert row["speakers"] == ["zoë"]
