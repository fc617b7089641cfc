"""A made-up server for screenshots and tests of the inspector: a week of conversations, names, pictures and replies."""

from __future__ import annotations

import time
from dataclasses import dataclass

from channelmem import Attachment, Memory, Message

GUILD = 811_111_111_111_111_111
GENERAL, DEPLOYS, LUNCH = 922_222_222_222_222_201, 922_222_222_222_222_202, 922_222_222_222_222_203
NAMES = {GENERAL: "general", DEPLOYS: "deploys", LUNCH: "lunch"}
PEOPLE = {"Ann": 101, "Bob": 102, "Carol": 103, "Mark": 104, "Priya": 105, "turtlebot": 99}


@dataclass(frozen=True, slots=True)
class Said:
    minutes_ago: float
    who: str
    text: str
    reply: int | None = None
    """How many lines back the message stands that it answers."""
    picture: str = ""
    """What is seen on an attached picture."""
    to_bot: bool = False


TODAY = (
    Said(26, "Carol", "morning! did the backup job finish last night?"),
    Said(25.2, "Bob", "it did, took 40 minutes because the disk was nearly full", reply=1),
    Said(24.5, "Carol", "ok, I'll order two more disks today", reply=1),
    Said(21, "Mark", "It's turtles. All the way down it is recursive spirals of turtles!"),
    Said(20.2, "Ann", "that's a very slow stack trace, Mark", reply=1),
    Said(19.1, "Carol", "my cat would disagree, it is obviously cats", reply=2),
    Said(15, "Ann", "the ramen place has a new menu, I book a table at half past twelve"),
    Said(14.5, "Carol", "count me in, but no mushrooms please", reply=1),
    Said(8.6, "Priya", "heads-up: the certificate of the login service expires on Thursday"),
    Said(8.2, "Ann", "noted, that makes four of us", reply=2),
    Said(7.9, "Bob", "I'll renew it today, thanks for checking", reply=2),
    Said(6.1, "Bob", "the deploy of the login service is green again, it was the stale certificate", reply=1),
    Said(4, "Mark", "can we go at one? the review runs long", reply=3),
    Said(2.2, "Priya", "the errors are gone", reply=2, picture="a line chart of login errors that drops to zero"),
    Said(1, "Ann", "sure, I called them", reply=2),
)
WEEK = (
    (
        ("Ann", "the sprint review moves to Tuesday at ten"),
        ("Bob", "fine with me, can somebody take notes?"),
        ("Priya", "I will, room 4 is booked until noon"),
    ),
    (
        ("Carol", "the new logo is ready, there are two versions"),
        ("Mark", "the green one reads better on dark backgrounds"),
        ("Ann", "agreed, let's go with green"),
    ),
    (
        ("Mark", "who has the key of the server room?"),
        ("Carol", "it is in the drawer at reception"),
    ),
    (
        ("Priya", "we decided to postpone the database migration to the 24th"),
        ("Bob", "because of the holiday?"),
        ("Priya", "yes, and the backup test is on Monday anyway"),
    ),
    (
        ("Bob", "a customer reports slow search since 9:30"),
        ("Priya", "the index was rebuilt, p95 was 900 ms for a while"),
        ("Bob", "looks better now, p95 is 40 ms, closing the ticket"),
    ),
    (
        ("Ann", "the coffee machine is broken again"),
        ("Carol", "the service comes at two"),
        ("Ann", "fixed, a valve was stuck"),
    ),
    (
        ("Mark", "shall we use Postgres 17 for the reports?"),
        ("Priya", "I tested it, the planner is much faster for our joins"),
        ("Mark", "final decision: Postgres 17"),
    ),
    (
        ("Carol", "two disks arrived, I put them on the shelf next to the printer"),
        ("Bob", "thanks, I'll build them in on Wednesday evening"),
    ),
    (
        ("Ann", "anybody up for climbing on Saturday?"),
        ("Mark", "yes! the hall near the river opens at nine"),
        ("Priya", "I can drive three people"),
    ),
    (
        ("Bob", "the nightly tests fail on the payment module"),
        ("Carol", "the sandbox of the bank is down, nothing to do with us"),
        ("Bob", "ok, I muted that alert until tomorrow"),
    ),
    (
        ("Priya", "the invoice of the hosting company is twice as high this month"),
        ("Ann", "that is the traffic of the product launch"),
        ("Priya", "makes sense, I'll tell accounting"),
    ),
    (
        ("Mark", "reading a paper on vector quantisation, half the memory for one percent of recall"),
        ("Bob", "send it over, our index could need that"),
    ),
    (
        ("Carol", "my cat learned to open the fridge"),
        ("Ann", "pictures please"),
        ("Mark", "mine only learned to close it, with me outside"),
    ),
    (
        ("Ann", "the office is closed on Friday, the heating is being replaced"),
        ("Bob", "good to know, I'll work from home"),
    ),
)
DEPLOY_LINES = (
    "deploy 214 of login is out",
    "deploy 215 of search is out",
    "rolling back 215, memory grows",
    "215 fixed, out again as 216",
    "deploy 217 of billing waits for approval",
    "approved by Carol",
)


async def fill(memory: Memory) -> None:
    now = time.time()
    await memory.overview.tell_names(GUILD, "Turtle Works", NAMES)
    await memory.remember_many(_week(now))
    await memory.remember_many(_today(now))
    lines = [
        Message(GUILD, DEPLOYS, 5_000 + at, PEOPLE["Bob"], "Bob", text, now - 3_600 * (30 - 4 * at))
        for at, text in enumerate(DEPLOY_LINES)
    ]
    lunch = [Message(GUILD, LUNCH, 7_000, PEOPLE["Ann"], "Ann", "ramen today, who joins?", now - 1_000)]
    await memory.remember_many([*lines, *lunch])
    await memory.flush()
    await memory.summaries.update(GUILD, GENERAL)


def _week(now: float) -> list[Message]:
    """Conversations of the last days, two a day, at different hours."""
    messages: list[Message] = []
    for talk, lines in enumerate(WEEK):
        began = now - (len(WEEK) - talk) * 11.3 * 3_600
        for at, (who, text) in enumerate(lines):
            number = 1_000 + len(messages)
            reply = number - 1 if at else None
            messages.append(Message(GUILD, GENERAL, number, PEOPLE[who], who, text, began + 70 * at, reply_to=reply))
    return messages


def _today(now: float) -> list[Message]:
    return [_message(now, at, said) for at, said in enumerate(TODAY)]


def _message(now: float, at: int, said: Said) -> Message:
    picture = Attachment(at + 1, content_type="image/png", name="dashboard.png", size=48_200, text=said.picture)
    return Message(
        GUILD,
        GENERAL,
        2_000 + at,
        PEOPLE[said.who],
        said.who,
        said.text,
        now - said.minutes_ago * 60,
        reply_to=2_000 + at - said.reply if said.reply else None,
        attachments=(picture,) if said.picture else (),
        addressed=said.to_bot,
    )
