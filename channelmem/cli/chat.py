"""`channelmem chat`: try the memory in a terminal, with several people sharing one keyboard."""

from __future__ import annotations

import asyncio
import hashlib
import re
import signal
import threading
import time
from collections.abc import AsyncIterator, Coroutine, Iterator
from contextlib import asynccontextmanager, contextmanager, nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeVar

import typer
from rich.console import Console
from rich.text import Text

from channelmem.cli.chat_input import ChatContext, ChatHistory, EditorError, Typed, at_terminal, edited, is_edit
from channelmem.cli.show import ModelProgress, explain
from channelmem.context_window import EditError
from channelmem.display import visible
from channelmem.errors import ChannelmemError
from channelmem.extras import load
from channelmem.memory import Memory
from channelmem.settings import Settings, load_settings
from channelmem.types import Answer, Message, Origin, Outcome, Person, Question

if TYPE_CHECKING:
    from channelmem.llm import Responder

T = TypeVar("T")

GUILD, BOT = 2 << 22, Person(99, "bot")
QUIT: Final = {"/quit", "/exit", "/q"}
CLEAR: Final = "/clear"
_CALLED = re.compile(r"(?<![\w/@+-])@bot\b", re.IGNORECASE)  # neither in an address nor in a link
_LETTER = re.compile(r"[^\W\d_]")  # a name has a letter, so "12:30 lunch?" has no speaker
HELP = """Type `mark: hello` to speak as mark; lines without a name belong to the last speaker.
Write @bot anywhere in a line to ask: `@bot what did I just say?` or `ann: hey @bot, what did mark say?`
/why explains the last answer (/why --verbose: with the weights), /clear forgets this chat, /help shows this, /quit or
Ctrl-D leaves.
/context shows how far back a language model looks unasked. /context 24h, add 8h, sub 4h and reset change that.
/new starts fresh without forgetting anything; /context edit opens $EDITOR to choose what to start with."""
EDITING = "Up and Down recall what you typed. Ctrl-C drops a line or stops an answer."


def chat(
    channel: Annotated[str, typer.Option(help="Conversation to continue; each has its own memory.")] = "chat",
    name: Annotated[str, typer.Option(help="Speaker of lines that do not start with a name.")] = "me",
    history: Annotated[
        bool, typer.Option("--history/--no-history", help="Keep typed lines, so that Up recalls them in later runs.")
    ] = True,
) -> None:
    """Chat with the memory in this terminal. Messages survive between runs, as long as the settings keep them.

    Type `mark: hello` to speak as mark, and write @bot anywhere in a line to ask: `ann: hey @bot, what did mark say?`
    With CHANNELMEM_LLM_MODEL set, a language model words the answers.

    \b
    Examples:
      channelmem chat
      channelmem chat --channel lunch --name Ann
      channelmem chat --no-history
    """
    console, settings, channel_id = Console(), load_settings(), _number(channel)
    with _loop_beside() as run:
        with ModelProgress(console) as progress:
            opening = _opened(settings, progress)
            memory, responder = run(opening.__aenter__())
        try:
            typed = Typed(console, channel_id, ChatHistory(settings), keep=history)
            _greet(console, settings, run(memory.status(GUILD, channel_id)).messages)
            context = ChatContext(memory, settings, GUILD, channel_id)
            _converse(ChatSession(memory, context, responder, channel, console, channel_id, name), typed, run)
        finally:
            run(opening.__aexit__(None, None, None))


@asynccontextmanager
async def _opened(settings: Settings, progress: ModelProgress) -> AsyncIterator[tuple[Memory, Responder | None]]:
    """Raises ConfigError, with the fix, if a configured model can't be used. Without one, no package of the extra is
    loaded."""
    words = load("channelmem.llm.opening", "llm", "CHANNELMEM_LLM_MODEL") if settings.llm_model else None
    sums_up = load("channelmem.llm.opening", "llm", "CHANNELMEM_SUMMARY_MODEL") if settings.summary_model else None
    async with (
        sums_up.summariser_of(settings) if sums_up else nullcontext() as summariser,
        Memory.open(settings, summariser=summariser, progress=progress) as memory,
    ):
        if summariser is not None:
            summariser.attach(memory.spending)
        responder = words.open_responder(settings, memory) if words else None
        try:
            yield memory, responder
        finally:
            if responder is not None:
                await responder.close()


def _greet(console: Console, settings: Settings, remembered: int) -> None:
    console.print(HELP, markup=False)
    if at_terminal():
        console.print(EDITING, markup=False)
    if settings.llm_model:
        console.print(Text(f"{visible(settings.llm_model)} words the answers.", "dim"))
    console.print(f"[dim]Messages remembered from earlier runs: {remembered}.[/]")


class Run:
    """Runs a coroutine on another thread's event loop and waits for its result."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop

    def __call__(self, work: Coroutine[Any, Any, T]) -> T:
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result()
        except KeyboardInterrupt:
            future.cancel()  # or an unwanted answer would go on behind the next prompt
            raise


@contextmanager
def _loop_beside() -> Iterator[Run]:
    """The prompt blocks this thread, where Ctrl-C can interrupt it; the other thread keeps embedding messages."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=_run_beside, args=(loop,), name="channelmem chat")
    thread.start()
    try:
        yield Run(loop)
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.run_until_complete(loop.shutdown_default_executor())
        loop.close()


def _run_beside(loop: asyncio.AbstractEventLoop) -> None:
    # The kernel may hand Ctrl-C to any thread that accepts it, and the prompt would not notice. The threads that this
    # one starts inherit the mask.
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    loop.run_forever()


def _converse(conversation: ChatSession, typed: Typed, run: Run) -> None:
    while True:
        try:
            lines = typed.read(conversation.name)
        except EOFError:
            return
        for line in lines:
            if line in QUIT:
                return
            typed.add(line)
            if not _take(conversation, typed, run, line):
                break


def _take(conversation: ChatSession, typed: Typed, run: Run, line: str) -> bool:
    """Whether the line was dealt with; Ctrl-C at a terminal stops it, and what was pasted along with it."""
    try:
        if is_edit(line):
            _edit(conversation, run)
        else:
            run(conversation.take(line))
    except KeyboardInterrupt:
        if not at_terminal():
            raise
        conversation.note("\nStopped.", "dim")
        return False
    if line == CLEAR:
        typed.forget()
    return True


def _edit(conversation: ChatSession, run: Run) -> None:
    """On this thread, which reads the terminal otherwise: the editor gets it while nobody waits for a line."""
    try:
        text = run(conversation.context.edit_file())
        conversation.note(run(conversation.context.keep(edited(text))), "")
    except (ChannelmemError, EditError, EditorError) as refused:
        conversation.note(str(refused), "yellow")


def _number(name: str) -> int:
    """A name maps to the same id in every run."""
    return int.from_bytes(hashlib.sha256(name.casefold().encode()).digest()[:7])


def asked(text: str) -> str | None:
    """The question in a line that calls the bot, without the call; None for any other line."""
    before, *after = _CALLED.split(text)
    if not after:
        return None
    question = " ".join(" ".join([before, *(part.lstrip(" ,:") for part in after)]).split())
    bare = question.rstrip("?!.")
    return bare.rstrip(" ,:") + question[len(bare) :]  # "what did Ann say, @bot?"


class ChatSession:
    """`responder` puts answers into a language model's words; without it they are quotes."""

    def __init__(
        self,
        memory: Memory,
        context: ChatContext,
        responder: Responder | None,
        channel: str,
        console: Console,
        channel_id: int,
        name: str,
    ) -> None:
        self._memory, self._console, self._channel_id = memory, console, channel_id
        self._responder, self._channel = responder, channel
        self.context, self.name = context, name
        self._last: tuple[Question, Answer] | None = None

    async def take(self, line: str) -> None:
        if line in {"/why", "/why --verbose"}:
            self._why(verbose=line != "/why")
        elif line == CLEAR:
            await self._memory.delete_channel(GUILD, self._channel_id)
            self._last = None
            self.note("Forgotten.", "dim")
        elif self.context.takes(line):
            try:
                self.note(await self.context.take(line), "")
            except ChannelmemError as problem:
                self.note(str(problem), "yellow")
        elif line.startswith("/"):
            self._console.print(HELP, markup=False)
        else:
            who, text = self._speaker(line)
            question = asked(text)
            await (self._say(who, text) if question is None else self._ask(who, question))

    def note(self, text: str, style: str) -> None:
        self._console.print(Text(visible(text), style))

    def _speaker(self, line: str) -> tuple[str, str]:
        who, _, text = line.partition(":")
        link = text.startswith("//")
        is_name = len(who) <= 32 and _LETTER.search(who) and "@" not in who and len(who.split()) <= 3
        if text.strip() and not link and is_name:
            self.name = who.strip()
            return self.name, text.strip()
        return self.name, line

    async def _say(self, who: str, text: str) -> None:
        said = Message(GUILD, self._channel_id, time.time_ns(), _number(who), who, text, time.time())
        outcome = await self._memory.remember(said)
        if outcome is not Outcome.STORED:
            self.note(outcome.value, "yellow")

    async def _ask(self, who: str, text: str) -> None:
        now = time.time()
        # Only a language model has a character, with settings of its own.
        character = self.context.character(text) if self._responder else ""
        place = (GUILD, self._channel_id, time.time_ns())
        question = Question(*place, _number(who), who, text, now, bot=BOT, character=character)
        shown = set[Origin]()
        words, answer = await self._words(question, await self._recalled(question), shown)
        recalled = f" (recalled in {answer.ms.total:.1f} ms)"
        self._console.print(Text.assemble(("bot ", "bold green"), visible(words), (recalled, "dim")))
        # For "what did you just say?". It is forgotten with whatever it quotes.
        own = Message(GUILD, self._channel_id, time.time_ns(), BOT.id, BOT.name, words, time.time(), own=True)
        await self._memory.remember(replace(own, derived_from=(*answer.origins, *shown)))

    async def _recalled(self, question: Question) -> Answer:
        answer = await self._memory.ask(question)
        self._last = (question, answer)
        return answer

    async def _words(self, question: Question, answer: Answer, shown: set[Origin]) -> tuple[str, Answer]:
        """What the bot says, and the answer that it rests on; notes what a language model was `shown` for it."""
        if self._responder is None:
            return answer.text, answer
        llm = load("channelmem.llm", "llm", "CHANNELMEM_LLM_MODEL")
        text, location = "", llm.Location(channel=self._channel)
        try:
            with self._console.status("[dim]thinking[/]"):
                async for grown in self._responder.respond(question, answer, location, shown):
                    text = grown
        except llm.ResponderError as error:
            self.note(f"No answer from the language model: {error}. Here are quotes instead.", "yellow")
            # The model took its time: messages deleted or edited meanwhile must not be quoted.
            again = await self._recalled(question)
            return again.text, again
        return text, answer

    def _why(self, *, verbose: bool) -> None:
        if self._last is None:
            self.note("Nothing asked yet; write @bot in a line to ask.", "dim")
        else:
            tz = self._memory.policy(GUILD, self._channel_id).tz
            explain(self._console, *self._last, tz, verbose=verbose)
