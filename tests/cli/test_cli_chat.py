"""`channelmem chat`: several people at one keyboard, at a real terminal and through a pipe."""

import asyncio
import json
import os
import re
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from conftest import NOW, Clock
from llm_server import LlmServer, llm_server, say, status
from processes import run as run_process
from redis import Redis
from terminals import CTRL_C, CTRL_D, ENTER, LEFT, LIMIT_S, UP, Terminal, terminal
from waiting import until_true

from channelmem.cli.chat import asked
from channelmem.cli.chat_input import FILE, LINE_CHARS, MAX_LINES, ChatHistory
from channelmem.display import visible
from channelmem.settings import Settings

pytestmark = pytest.mark.timeout(3 * LIMIT_S)
CODE = "from channelmem.cli import main; main()"
needs_proc = pytest.mark.skipif(
    not Path("/proc/self/syscall").exists(), reason="needs /proc to see what the prompt waits for"
)
Env = dict[str, str]


@pytest.fixture
def env(redis_url: str, tmp_path: Path) -> Env:
    # A busy machine must not look like a Redis that does not answer.
    own = {"CHANNELMEM_REDIS_TIMEOUT_S": "60", "CHANNELMEM_DATA_DIR": str(tmp_path / "data"), "REDIS_URL": redis_url}
    return {**os.environ, **own, "CHANNELMEM_KEY_PREFIX": f"chat-{tmp_path.name}", "CHANNELMEM_LLM_MODEL": ""}


@pytest.fixture
async def model(env: Env) -> AsyncIterator[LlmServer]:
    async with llm_server() as server:
        env["CHANNELMEM_LLM_MODEL"] = "openai:gpt-5-mini"
        env["CHANNELMEM_LLM_BASE_URL"] = server.openai_url
        env["CHANNELMEM_LLM_API_KEY"] = "sk-very-secret"
        env["CHANNELMEM_LLM_RETRIES"] = "0"
        yield server


def piped(env: Env, *lines: str, code: str = CODE) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", code, "chat"]
    return run_process(command, stdin="".join(f"{line}\n" for line in lines), env=env, timeout_s=LIMIT_S)


@contextmanager
def at_terminal(env: Env, *arguments: str) -> Iterator[Terminal]:
    with terminal(sys.executable, CODE, "chat", *arguments, env=env) as started:
        started.until("earlier runs")
        started.until("> ")
        yield started


def stored(env: Env) -> list[tuple[str, str]]:
    """Who said what, oldest first, without the bot's answers."""
    command = [sys.executable, "-m", "channelmem.cli", "inspect"]
    channels = json.loads(run_process([*command, "--json"], env=env, timeout_s=LIMIT_S).stdout)
    assert len(channels) == 1
    shown = run_process([*command, str(channels[0]["channel"]), "--json"], env=env, timeout_s=LIMIT_S)
    rows = reversed(json.loads(shown.stdout))
    return [(row["author"], row["text"]) for row in rows if row["author"] != "bot"]


def flat(text: str) -> str:
    return " ".join(text.split())


@pytest.mark.process
def test_the_bot_knows_what_it_just_said_and_what_it_said_that_of(env: Env) -> None:
    lines = (
        "mark: the password is swordfish",
        "@bot what did mark say about the password?",
        "@bot what did you just say?",
    )
    printed = flat(piped(env, *lines).stdout)
    assert "I said" in printed
    assert printed.count("swordfish") == 2
    with Redis.from_url(env["REDIS_URL"]) as redis:
        documents = [redis.hgetall(key) for key in redis.scan_iter(f"{env['CHANNELMEM_KEY_PREFIX']}:*msg:*")]
    first, second = sorted(len(one[b"from"].split()) for one in documents if b"from" in one)
    assert (first, second) == (1, 2), "the second quotes the first, which quotes mark"


# --- asking ---


@pytest.mark.parametrize(
    ("line", "question"),
    [
        ("@bot what did I say?", "what did I say?"),
        ("@BOT, what did I say?", "what did I say?"),
        ("@bot: what did I say?", "what did I say?"),
        ("hey @bot what did Bob say?", "hey what did Bob say?"),
        ("Bob was here, @bot, what did he say?", "Bob was here, what did he say?"),
        ("what did Bob say, @bot?", "what did Bob say?"),
        ("what did Bob say @bot", "what did Bob say"),
        ("@bot @bot what did Bob say?", "what did Bob say?"),
        ("(@bot what did Bob say?)", "( what did Bob say?)"),
        ("@bot", ""),
    ],
)
def test_a_call_anywhere_in_a_line_makes_it_a_question(line: str, question: str) -> None:
    assert asked(line) == question


@pytest.mark.parametrize(
    "line", ["@bottle is mine", "write to me@bot.example", "https://social.example/@bot", "bot, hello", "", "@ bot"]
)
def test_a_line_without_the_bots_whole_name_is_said_to_everybody(line: str) -> None:
    assert asked(line) is None


@pytest.mark.process
def test_people_ask_in_the_middle_of_a_line_and_speak_in_all_others(env: Env) -> None:
    done = piped(
        env,
        "Bob: the ferry leaves at nine",
        "",
        "   ",
        "Ann: hey @bot what did Bob say?",
        "mail me@bot.example",
        "what did Bob say about the ferry, @bot?",
    )
    assert done.returncode == 0, done.stderr
    assert len(re.findall(r"bot Bob said, [^“]+ “the ferry leaves at nine”", flat(done.stdout))) == 2
    assert stored(env) == [("Bob", "the ferry leaves at nine"), ("Ann", "mail me@bot.example")]


@pytest.mark.process
def test_the_chat_teaches_how_to_ask(env: Env) -> None:
    shown = flat(piped(env, "/help", "/why").stdout)
    assert shown.count("Write @bot anywhere in a line to ask") == 2
    assert "Nothing asked yet; write @bot in a line to ask." in shown


@pytest.mark.process
def test_a_very_long_line_is_cut_and_says_so(env: Env) -> None:
    done = piped(env, "Bob: " + "x" * 1_000_000, "Ann: @bot what did Bob say? " + ", " * 500_000)
    assert done.returncode == 0, done.stderr
    assert flat(done.stdout).count(f"too long; I took its first {LINE_CHARS:,} characters") == 2
    assert "Bob said" in done.stdout


# --- what the terminal gets ---


def test_text_for_a_terminal_keeps_lines_and_tabs_but_no_controls() -> None:
    assert visible("a\x1b[2Jb\x9b31mc\td\ne\x07\x7f\u202ef\r") == "a[2Jb31mc\td\nef"


@pytest.mark.process
def test_escape_sequences_in_peoples_words_and_names_do_not_reach_the_terminal(env: Env) -> None:
    red = "\x1b[31m"
    done = piped(env, f"Bo{red}b: the ferry {red}leaves\x07 [red]at[/] nine :wave:", "@bot what did I say?", "/why")
    assert done.returncode == 0, done.stderr
    assert "\x1b" not in done.stdout
    assert "\x07" not in done.stdout
    assert "Bo[31mb>" in done.stdout
    assert "[red]at[/] nine :wave:" in flat(done.stdout)


@pytest.mark.process
def test_a_pipe_loads_neither_line_editing_nor_language_models(env: Env) -> None:
    code = (
        "import sys\nfrom channelmem.cli import main\n"
        "try:\n    main()\n"
        "except SystemExit as done:\n    assert not done.code\n"
        "assert 'readline' not in sys.modules\n"
        "assert not [name for name in sys.modules if name.startswith(('channelmem.llm', 'pydantic_ai'))]"
    )
    done = piped(env, "Bob: hello", "@bot what did I say?", code=code)
    assert done.returncode == 0, done.stderr
    assert not (Path(env["CHANNELMEM_DATA_DIR"]) / FILE).exists()


# --- editing lines ---


@pytest.mark.process
def test_a_line_is_edited_before_it_is_said(env: Env) -> None:
    with at_terminal(env) as chat:
        chat.type(f"Bob: the fery{LEFT}r{ENTER}{ENTER}")
        chat.until("Bob> ")
        chat.type(f"@bot what did I say?{ENTER}")
        chat.until("“the ferry”")
        chat.until("Bob> ")
        chat.type(CTRL_D)
        assert chat.end()[0] == 0
    assert stored(env) == [("Bob", "the ferry")]


@pytest.mark.process
def test_up_recalls_lines_of_earlier_runs_from_a_private_file(env: Env) -> None:
    with at_terminal(env) as chat:
        chat.type(f"Bob: the ferry{ENTER}")
        chat.until("Bob> ")
        chat.type(f"/quit{ENTER}")
        assert chat.end()[0] == 0
    kept = Path(env["CHANNELMEM_DATA_DIR"]) / FILE
    assert kept.stat().st_mode & 0o777 == 0o600
    assert kept.parent.stat().st_mode & 0o777 == 0o700
    with at_terminal(env) as chat:
        chat.type(UP)
        chat.until("Bob: the ferry")
        chat.type(f" leaves{ENTER}")
        chat.until("Bob> ")
        chat.type(f"/clear{ENTER}")
        chat.until("Forgotten.")
        chat.until("> ")
        chat.type(CTRL_D)
        assert chat.end()[0] == 0
    assert kept.read_text() == "", "what is forgotten is not kept on disk"


@pytest.mark.process
def test_without_a_history_nothing_is_recalled_from_or_kept_on_disk(env: Env) -> None:
    settings = Settings(_env_file=None, data_dir=Path(env["CHANNELMEM_DATA_DIR"]))
    with at_terminal(env, "--no-history") as chat:
        chat.type(f"Bob: the ferry{ENTER}")
        chat.until("Bob> ")
        chat.type(UP)
        chat.until("Bob: the ferry")
        chat.type(ENTER)
        chat.until("Bob> ")
        chat.type(CTRL_D)
        assert chat.end()[0] == 0
    assert not (settings.data_dir / FILE).exists()


@pytest.mark.process
def test_a_history_that_cannot_be_kept_is_one_sentence_and_the_chat_goes_on(env: Env) -> None:
    (Path(env["CHANNELMEM_DATA_DIR"]) / FILE).mkdir(parents=True)
    with terminal(sys.executable, CODE, "chat", env=env) as chat:
        chat.until(f"Can't keep typed lines in {Path(env['CHANNELMEM_DATA_DIR']) / FILE}: Is a directory.")
        chat.until("me> ")
        chat.type(f"Bob: the ferry{ENTER}")
        chat.until("Bob> ")
        chat.type(CTRL_D)
        code, shown = chat.end()
    assert code == 0
    assert "Can't" not in shown


@pytest.mark.process
def test_pasted_lines_are_said_one_by_one(env: Env) -> None:
    with at_terminal(env) as chat:
        chat.type(f"\x1b[200~Bob: the ferry\nAnn: at nine\n\x1b[201~{ENTER}")
        chat.until("Ann> ")
        chat.type(CTRL_D)
        assert chat.end()[0] == 0
    assert stored(env) == [("Bob", "the ferry"), ("Ann", "at nine")]


@pytest.mark.process
@needs_proc
def test_ctrl_c_drops_a_half_typed_line_and_on_an_empty_one_ends_the_chat(env: Env) -> None:
    with at_terminal(env) as chat:
        chat.type("Bob: never mi")
        chat.until("never mi")
        chat.interrupt()
        chat.until("me> ")
        chat.type(f"Bob: the ferry{ENTER}")
        chat.until("Bob> ")
        chat.interrupt()
        code, shown = chat.end()
    assert code == 0
    assert "Traceback" not in shown
    assert stored(env) == [("Bob", "the ferry")]


# --- the history's file ---


@pytest.fixture
def settings_here(tmp_path: Path) -> Settings:
    return Settings(_env_file=None, data_dir=tmp_path / "data")


def test_the_history_keeps_the_newest_lines_of_each_conversation(settings_here: Settings) -> None:
    history = ChatHistory(settings_here)
    history.add(2, "elsewhere")
    for number in range(MAX_LINES):
        history.add(1, f"line {number}")
    assert history.of(1) == [f"line {number}" for number in range(MAX_LINES)]
    assert history.of(2) == [], "the oldest line made room"


def test_the_history_forgets_one_conversation(settings_here: Settings) -> None:
    history = ChatHistory(settings_here)
    history.add(1, "here")
    history.add(2, "elsewhere")
    history.forget(1)
    assert (history.of(1), history.of(2)) == ([], ["elsewhere"])
    assert "here\n" not in history.path.read_text().replace("elsewhere", "")


def test_the_history_keeps_no_line_longer_than_the_memory_keeps_messages(settings_here: Settings) -> None:
    clock = Clock(NOW)
    history = ChatHistory(settings_here, clock)
    history.add(1, "old")
    clock.now += settings_here.lifetime_s + 2
    assert history.of(1) == []
    history.add(1, "new")
    assert "old" not in history.path.read_text()


def test_a_history_that_others_could_read_becomes_private_and_damaged_lines_are_skipped(
    settings_here: Settings,
) -> None:
    history = ChatHistory(settings_here)
    history.add(1, "first")
    history.path.write_bytes(history.path.read_bytes() + b"what\n1 2\n\xff\xfe\n")
    history.path.chmod(0o644)
    history.add(1, "second")
    assert history.path.stat().st_mode & 0o777 == 0o600
    assert history.of(1) == ["first", "second"]
    assert [path.name for path in history.path.parent.iterdir()] == [FILE]


# --- a language model ---


@pytest.mark.process
async def test_the_model_words_the_answer_and_no_escape_sequence_of_it_passes(env: Env, model: LlmServer) -> None:
    model.will(say("Bob says:\n\x1b[Hthe ferry, at nine."))
    done = await asyncio.to_thread(piped, env, "Bob: the ferry leaves at nine", "Ann: hey @bot what did Bob say?")
    assert done.returncode == 0, done.stderr
    assert "openai:gpt-5-mini words the answers." in done.stdout
    assert "bot Bob says:\n[Hthe ferry, at nine." in done.stdout
    assert "\x1b" not in done.stdout
    (request,) = model.requests
    assert "#chat" in request.system
    assert "the ferry leaves at nine" in request.user
    assert request.user.endswith("<question>\nhey what did Bob say?\n</question>")


@pytest.mark.process
@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({}, "the language model's server answered with status 500"),
        ({"CHANNELMEM_LLM_DAILY_USD": "0"}, "the cap of 0 USD per day leaves no room for another model call"),
    ],
)
async def test_without_the_models_words_the_answer_quotes_and_says_why(
    env: Env, model: LlmServer, changes: Env, reason: str
) -> None:
    model.will(status(500))
    done = await asyncio.to_thread(piped, env | changes, "Bob: the ferry leaves at nine", "@bot what did I say?")
    assert done.returncode == 0, done.stderr
    shown = flat(done.stdout)
    assert f"No answer from the language model: {reason}. Here are quotes instead. bot You said" in shown
    assert "“the ferry leaves at nine”" in shown
    assert "sk-very-secret" not in done.stdout + done.stderr


@pytest.mark.process
async def test_an_invention_is_replaced_by_quotes_and_marks_do_not_pass(env: Env, model: LlmServer) -> None:
    model.will(say("You adopted kittens in Oslo."), say("<answer>The ferry, at nine.</answer>"))
    lines = ("Bob: the ferry leaves at nine", "@bot what did I say?", "@bot what did I say?")
    done = await asyncio.to_thread(piped, env, *lines)
    assert done.returncode == 0, done.stderr
    shown = flat(done.stdout)
    assert "kittens" not in shown
    assert "does not agree with the messages it was given. Here are quotes instead. bot You said" in shown
    assert "bot The ferry, at nine. (recalled" in shown


@pytest.mark.process
def test_a_model_without_its_packages_is_one_sentence(env: Env) -> None:
    env["CHANNELMEM_LLM_MODEL"] = "openai:gpt-5-mini"
    done = piped(env, "Bob: hello", code=f"import sys; sys.modules['pydantic_ai'] = None; {CODE}")
    assert done.returncode == 1
    (sentence,) = done.stderr.splitlines()
    assert sentence.startswith("channelmem: CHANNELMEM_LLM_MODEL ")
    assert sentence.endswith("run pip install '.[llm]' in a clone of channelmem")


@pytest.mark.process
async def test_ctrl_c_stops_an_answer_and_the_chat_goes_on(env: Env, model: LlmServer) -> None:
    model.will(say("Too late.", gate=asyncio.Event()), say("In time."))
    with at_terminal(env) as chat:
        chat.type(f"@bot what did Bob say?{ENTER}")
        await until_true(lambda: model.requests)
        chat.type(CTRL_C)
        await asyncio.to_thread(chat.until, "Stopped.")
        await asyncio.to_thread(chat.until, "me> ")
        chat.type(f"and now, @bot?{ENTER}")
        await asyncio.to_thread(chat.until, "In time.")
        await asyncio.to_thread(chat.until, "me> ")
        chat.type(CTRL_D)
        code, shown = await asyncio.to_thread(chat.end)
    assert code == 0
    assert "Traceback" not in shown
    assert "Too late" not in shown
