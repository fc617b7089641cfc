"""`channelmem demo`: plays a scripted conversation, then asks the memory about it and shows how it answers."""

from __future__ import annotations

import asyncio
import time
from contextlib import AsyncExitStack
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape
from rich.panel import Panel
from rich.text import Text

from channelmem.cli.show import ModelProgress, explain, to_json
from channelmem.display import visible
from channelmem.memory import Memory
from channelmem.settings import Settings, load_settings
from channelmem.types import Message, Person, Question

Json = dict[str, object]

GUILD, CHANNEL, BOT = 1 << 22, 4_040, Person(99, "Bot")
PEOPLE = {"Mark": 7, "Ann": 8, "Bob": 9, "Carol": 10}
# (minutes ago, who, what)
CONVERSATION = (
    (26, "Carol", "morning! did the backup job finish last night?"),
    (25, "Bob", "it did, took 40 minutes because the disk was nearly full"),
    (24, "Carol", "ok, I'll order two more disks today"),
    (17, "Ann", "who is in for lunch? the ramen place has a new menu"),
    (16, "Bob", "me! but no mushrooms please"),
    (15, "Ann", "noted, table for four at half past twelve"),
    (9, "Bob", "the deploy of the login service is green again, it was a stale certificate"),
    (8, "Carol", "nice catch, I was already looking at the load balancer"),
    (4, "Mark", "It's turtles. All the way down it is recursive spirals of turtles!"),
    (3, "Ann", "that's a very slow stack trace, Mark"),
    (2, "Carol", "my cat would disagree, it is obviously cats"),
    (1, "Ann", "by the way, the release notes are in the wiki now"),
)
QUESTIONS = (
    ("Mark", "what did I just say about turtles?"),
    ("Mark", "did anyone mention reptiles?"),
    ("Mark", "what did Ann just say?"),
    ("Carol", "what was Bob saying about the login service?"),
    ("Mark", "catch me up"),
    ("Mark", "what did people say about llamas?"),
    ("Mark", "tell me a joke"),
)


def demo(
    fast: Annotated[bool, typer.Option("--fast", help="Skip the pauses.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print only the answers, as JSON.")] = False,
) -> None:
    """Play a short conversation, then ask the memory about it and show route, hits, scores and timing.

    Needs no token, API key or Docker. The first run exports the embedding model, which takes a few seconds.

    \b
    Examples:
      channelmem demo
      channelmem demo --json
    """
    settings = load_settings()
    console = Console(quiet=as_json)
    asked = asyncio.run(_play(settings, console, pause_s=0 if fast or as_json else 0.35))
    if as_json:
        print(to_json({"answers": asked}, indent=2))


async def _play(settings: Settings, console: Console, pause_s: float) -> list[Json]:
    # Each run uses its own channel and removes it afterwards, so the demo leaves nothing behind.
    channel_id = CHANNEL + time.time_ns()
    async with AsyncExitStack() as stack:
        with ModelProgress(console) as progress:
            memory = await stack.enter_async_context(Memory.open(settings, progress=progress))
        stack.push_async_callback(memory.delete_channel, GUILD, channel_id)
        await _converse(memory, console, channel_id, pause_s)
        asked = [await _ask(memory, console, channel_id, who, text, pause_s) for who, text in QUESTIONS]
        console.print(_next_steps())
        return asked


def conversation(channel_id: int) -> list[Message]:
    """The scripted messages, as if they had been sent in the last half hour."""
    now = time.time()
    return [
        Message(GUILD, channel_id, n, PEOPLE[who], who, text, now - minutes * 60)
        for n, (minutes, who, text) in enumerate(CONVERSATION, 1)
    ]


async def _converse(memory: Memory, console: Console, channel_id: int, pause_s: float) -> None:
    console.print(Panel("A channel where nobody is talking to the bot", style="bold", width=84))
    for message, (minutes, who, text) in zip(conversation(channel_id), CONVERSATION, strict=True):
        console.print(f"  [dim]{minutes:>2} min ago[/]  [bold]{who:<6}[/] {escape(text)}", soft_wrap=True)
        await memory.remember(message)
        await asyncio.sleep(pause_s)
    await memory.flush()


async def _ask(memory: Memory, console: Console, channel_id: int, who: str, text: str, pause_s: float) -> Json:
    console.print()
    console.print(f"[bold]{who}:[/] [cyan]@Bot[/] {escape(text)}")
    await asyncio.sleep(2 * pause_s)
    question = Question(GUILD, channel_id, time.time_ns(), PEOPLE[who], who, text, time.time(), bot=BOT)
    answer = await memory.ask(question)
    console.print(Text.assemble(("Bot: ", "bold green"), (visible(answer.text), "green")), soft_wrap=True)
    explain(console, question, answer, memory.policy(GUILD, channel_id).tz)
    return {
        "question": text,
        "route": answer.route.kind.value,
        "text": answer.text,
        "hits": [
            {"author": hit.message.author, "content": hit.message.content, "score": round(hit.score, 4)}
            for hit in answer.hits
        ],
        "ms": {name: round(getattr(answer.ms, name), 3) for name in ("route", "embed", "search", "total")},
    }


def _next_steps() -> Panel:
    return Panel(
        "channelmem chat         try it yourself, with several people at one keyboard\n"
        "channelmem doctor       check this machine's setup\n"
        "channelmem bot          run the Discord bot (set DISCORD_TOKEN first)\n"
        "channelmem serve --demo the same over HTTP, for bots in any language\n"
        "channelmem redis start  keep the embedded server running\n"
        "channelmem redis url    print its URL for RedisInsight or redis-cli",
        title="Next steps",
        width=84,
    )
