"""`channelmem chat`: try the memory in a terminal, with several people sharing one keyboard.

In: typed lines, `name: text` to speak and `@bot ...` to ask. Out: answers; what was said stays in Redis.
"""

from __future__ import annotations

import asyncio
import hashlib
import re
import threading
import time
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from typing import Annotated, Any, TypeVar

import typer
from rich.console import Console
from rich.markup import escape

from channelmem.cli.show import ModelProgress, explain
from channelmem.memory import Memory
from channelmem.settings import load_settings
from channelmem.types import Answer, Message, Outcome, Person, Question

app = typer.Typer()
T = TypeVar("T")

GUILD, BOT = 2 << 22, Person(99, "bot")
_CALLED = re.compile(r"@bot\b[ ,:]*", re.IGNORECASE)
_LETTER = re.compile(r"[^\W\d_]")  # a name has a letter, so "12:30 lunch?" has no speaker
HELP = """Type `mark: hello` to speak as mark; lines without a name belong to the last speaker.
Type `@bot what did I just say?` to ask. /why explains the last answer, /clear forgets this chat, /help, /quit."""


@app.command()
def chat(
    channel: Annotated[str, typer.Option(help="Conversation to continue; each has its own memory.")] = "chat",
    name: Annotated[str, typer.Option(help="Speaker of lines that do not start with a name.")] = "me",
) -> None:
    """Chat with the memory in this terminal. Messages survive between runs, as long as the settings keep them.

    \b
    Examples:
      channelmem chat
      channelmem chat --channel lunch --name Ann
    """
    console = Console()
    with _loop_beside() as run:
        with ModelProgress(console) as progress:
            opening = Memory.open(load_settings(), progress=progress)
            memory = run(opening.__aenter__())
        try:
            status = run(memory.status(GUILD, _number(channel)))
            console.print(f"{HELP}\n[dim]Messages remembered from earlier runs: {status.messages}.[/]")
            _converse(Conversation(memory, console, _number(channel), name), run)
        finally:
            run(opening.__aexit__(None, None, None))


class Run:
    """Runs a coroutine on another thread's event loop and waits for its result."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop

    def __call__(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()


@contextmanager
def _loop_beside() -> Iterator[Run]:
    """The prompt blocks this thread, where Ctrl-C can interrupt it; the other thread keeps embedding messages."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="channelmem chat")
    thread.start()
    try:
        yield Run(loop)
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.run_until_complete(loop.shutdown_default_executor())
        loop.close()


def _converse(conversation: Conversation, run: Run) -> None:
    while True:
        try:
            line = conversation.prompt()
        except (EOFError, KeyboardInterrupt):
            return
        if line in {"/quit", "/exit", "/q"}:
            return
        if line:
            run(conversation.take(line))


def _number(name: str) -> int:
    """A name maps to the same id in every run."""
    return int.from_bytes(hashlib.sha256(name.casefold().encode()).digest()[:7])


class Conversation:
    def __init__(self, memory: Memory, console: Console, channel_id: int, name: str) -> None:
        self._memory, self._console, self._channel_id, self._name = memory, console, channel_id, name
        self._last: Answer | None = None

    def prompt(self) -> str:
        try:
            return self._console.input(f"[bold]{escape(self._name)}>[/] ").strip()
        except UnicodeDecodeError:
            self._console.print("[yellow]That line is not valid UTF-8; check the terminal's encoding.[/]")
            return ""

    async def take(self, line: str) -> None:
        if line == "/why":
            self._why()
        elif line == "/clear":
            await self._memory.delete_channel(GUILD, self._channel_id)
            self._console.print("[dim]Forgotten.[/]")
        elif line.startswith("/"):
            self._console.print(HELP)
        else:
            await self._speak(*self._speaker(line))

    def _speaker(self, line: str) -> tuple[str, str]:
        who, _, text = line.partition(":")
        link = text.startswith("//")
        is_name = _LETTER.search(who) and len(who) <= 32 and "@" not in who and len(who.split()) <= 3
        if text.strip() and not link and is_name:
            self._name = who.strip()
            return self._name, text.strip()
        return self._name, line

    async def _speak(self, who: str, text: str) -> None:
        if called := _CALLED.match(text):
            await self._ask(who, text[called.end() :])
            return
        now = time.time()
        outcome = await self._memory.remember(
            Message(GUILD, self._channel_id, time.time_ns(), _number(who), who, text, now)
        )
        if outcome is not Outcome.STORED:
            self._console.print(f"[yellow]{outcome.value}[/]")

    async def _ask(self, who: str, text: str) -> None:
        now = time.time()
        question = Question(GUILD, self._channel_id, time.time_ns(), _number(who), who, text, now, bot=BOT)
        self._last = await self._memory.ask(question)
        self._console.print(f"[bold green]bot[/] {escape(self._last.text)} [dim]({self._last.ms.total:.1f} ms)[/]")

    def _why(self) -> None:
        if self._last is None:
            self._console.print("[dim]Nothing asked yet; start a line with @bot to ask.[/]")
        else:
            explain(self._console, self._last)
