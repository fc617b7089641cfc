"""Plays a scripted dialogue with the bot and writes it to docs/transcript.md, word for word as users see it.

    python -m scripts.record_transcript [--out FILE]

Nothing is made up: the bot runs over real sockets against the tests' loopback Discord, with Redis and MiniLM as in
production.
"""

from __future__ import annotations

import argparse
import asyncio
import re
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests"))

from loopback import Channel, Json, Loopback, User  # noqa: E402  (it lives with the tests)
from loopback.bots import running  # noqa: E402

from bot.history import DiscordHistory  # noqa: E402
from channelmem.memory import Memory  # noqa: E402
from channelmem.settings import Settings  # noqa: E402

PAGE = ROOT / "docs" / "transcript.md"
HEAD = """# A conversation with the bot

Written by `python -m scripts.record_transcript`, not by hand: discord.py against the tests' loopback Discord, real
Redis, real MiniLM, no language model. Links to the quoted messages are shown as ↗; only the asker sees replies marked
as private.

"""


class Recording:
    """Lets people speak and the bot answer, and writes down every line."""

    def __init__(self, server: Loopback) -> None:
        world = server.world
        self.server = server
        self.mark, self.ann, self.bob = (world.add_user(n.lower(), n) for n in ("Mark", "Ann", "Bob"))
        guild = world.add_guild("Turtle Club", self.mark, self.ann, self.bob)
        self.general: Channel = world.add_channel(guild, "general")
        self.parts: list[tuple[str, list[str]]] = []

    def note(self, who: str, text: str) -> None:
        shown = re.sub(r"\[↗\]\(\S+\)|https://discord\.com/channels/[\d/]+", "↗", text)
        self.parts[-1][1].append(f"**{who}**: {shown}")

    def happens(self, what: str) -> None:
        self.parts[-1][1].append(f"*{what}*")

    def part(self, title: str) -> None:
        self.parts.append((title, []))

    def page(self) -> str:
        """A heading per part, followed by its conversation as one block quote."""
        parts = (f"## {title}\n\n" + ">\n".join(map(_quote, lines)) for title, lines in self.parts)
        return HEAD + "\n".join(parts)

    async def say(self, person: User, text: str) -> Json:
        self.note(str(person.global_name), text)
        return await self.server.say(self.general, person, text)

    async def ask(self, person: User, text: str) -> None:
        self.note(str(person.global_name), f"@Memo {text}")
        self.note("Memo", await self.server.ask(self.general, person, text))

    async def slash(self, person: User, command: str, **values: object) -> None:
        given = "".join(f" {name}: {value}" for name, value in values.items())
        self.note(str(person.global_name), f"`/{command}{given}`")
        done = await self.server.slash(self.general, person, command, **values)
        text = await self.server.answered(done)
        self.note("Memo" + (" (private)" if done.ephemeral else ""), text)


async def play(recording: Recording) -> None:
    mark, ann, bob = recording.mark, recording.ann, recording.bob
    recording.part("What did I just say?")
    await recording.say(mark, "It's turtles. All the way down it is recursive spirals of turtles!")
    await recording.ask(mark, "what did I just say about turtles?")
    recording.part("Not the same word")
    await recording.say(ann, "the release slips to Thursday, the installer still crashes on Windows")
    await recording.say(bob, "I can look at the installer after lunch")
    await recording.ask(bob, "what did Mark say about reptiles?")
    recording.part("Follow-ups")
    await recording.ask(mark, "what did Ann say about the installer?")
    await recording.ask(mark, "and Bob?")
    recording.part("Catching up")
    await recording.ask(mark, "catch me up")
    recording.part("An honest no")
    await recording.ask(ann, "what did Bob say about the budget?")
    recording.part("Edits and deletions are followed at once")
    slip = await recording.say(ann, "the door code is 4711")
    await recording.server.edit(slip, "the door code is with the porter")
    recording.happens('Ann edits that to "the door code is with the porter".')
    await recording.ask(bob, "what did Ann say about the door code?")
    await recording.server.delete(recording.general, int(slip["id"]))
    recording.happens("Ann deletes it.")
    await recording.ask(bob, "what did Ann say about the door code?")
    recording.part("Why, and whose words they are")
    await recording.slash(mark, "ask", question="what did I say about turtles?", private=True)
    await recording.slash(mark, "why")
    await recording.slash(mark, "memory opt-out")


async def record() -> str:
    with tempfile.TemporaryDirectory() as folder:
        settings = Settings(
            _env_file=None, redis_url=None, data_dir=Path(folder), cooldown_user_s=0, cooldown_channel_s=0
        )
        history = DiscordHistory(settings)
        async with Loopback() as server, Memory.open(settings, history=history) as memory:
            recording = Recording(server)
            async with running(server, settings, memory, history):
                await play(recording)
    return recording.page()


def _quote(text: str) -> str:
    # In Markdown, two trailing spaces keep a line break.
    return "  \n".join(f"> {line}" for line in text.split("\n")) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=PAGE, help="file to write (default docs/transcript.md)")
    page: Path = parser.parse_args().out
    page.write_text(asyncio.run(record()))
    print(f"Wrote {page}")


if __name__ == "__main__":
    main()
