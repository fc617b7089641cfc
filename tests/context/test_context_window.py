"""/context, /new and /context edit on a real Redis: replies, arithmetic, and what they leave behind."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace

import pytest
from conftest import CHANNEL, GUILD, NOW, Clock, FakeEmbedder, message

from channelmem import context_window as module
from channelmem.context_window import (
    ALL_GONE,
    BEGUN,
    CANCELLED,
    EDIT_EXAMPLES,
    FUTURE,
    MAX_AGE,
    NO_AMOUNT,
    NO_LIMIT,
    NOTHING_STORED,
    TOO_LITTLE,
    TOO_MANY,
    TOO_MUCH,
    UNREADABLE,
    Command,
    ContextWindow,
    EditError,
    Step,
)
from channelmem.memory import Memory
from channelmem.policy.cascade import AUTO, OFF, Boundary, Level, Place
from channelmem.settings import Settings
from channelmem.types import MEMORY_OFF, Person, Question

HOUR = 3_600.0
MODERATOR = 77
HERE = Command(GUILD, CHANNEL, by=MODERATOR, at=NOW, character="Frodo")
FRODO = Place.of_character(GUILD, "Frodo")


@pytest.fixture
async def memory(settings: Settings, fake_embedder: FakeEmbedder, clock: Clock) -> AsyncIterator[Memory]:
    async with Memory.open(settings, clock=clock, embedder=fake_embedder) as opened:
        yield opened


@pytest.fixture
def window(memory: Memory) -> ContextWindow:
    return ContextWindow(memory)


# --- the time window ---


async def test_without_an_override_the_default_is_shown_with_examples(window: ContextWindow) -> None:
    now = "Right now: 0 summaries, 0 raw messages."
    assert await window.show(HERE) == f"Context window: 8h (default: 8h). This is the default.\n{now}\n{EDIT_EXAMPLES}"


async def test_what_that_is_at_the_moment_is_shown_in_one_line(memory: Memory, window: ContextWindow) -> None:
    said = [message(number, ts=NOW - hours * HOUR) for number, hours in enumerate((7, 5, 2, 0.01), 1)]
    await memory.policies.set(Place.everywhere(), "context_messages", 2)
    await memory.remember_many(said)
    await memory.summaries.update(GUILD, CHANNEL)
    assert (await window.show(HERE)).splitlines()[1] == "Right now: 2 summaries, 2 raw messages."
    await memory.policies.set(Place.channel(GUILD, CHANNEL), "enabled", value=False)
    assert (await window.show(HERE)).splitlines()[1] == MEMORY_OFF


async def test_what_is_set_is_shown_with_its_source(window: ContextWindow) -> None:
    assert await window.change(Step.SET, "24h", HERE) == "Context window set to 24h."
    first, *_ = (await window.show(HERE)).split("\n")
    assert first == "Context window: 24h (default: 8h). This is set for Frodo in this server."


@pytest.mark.parametrize(
    ("place", "source"),
    [(Place.everywhere(), "all servers"), (Place.channel(GUILD, CHANNEL), "this channel")],
    ids=["global", "channel"],
)
async def test_what_others_set_is_shown_as_the_default(
    memory: Memory, window: ContextWindow, place: Place, source: str
) -> None:
    await memory.policies.set(place, MAX_AGE, 12 * HOUR)
    assert (await window.show(HERE)).startswith(f"Context window: 12h (default: 12h). This is set for {source}.")
    assert await window.reset(HERE) == "Context window reset to default (12h)."


@pytest.mark.parametrize(
    ("step", "text", "reply", "hours"),
    [
        (Step.SET, "2h 30m", "Context window set to 2h 30m.", 2.5),
        (Step.SET, "2 days", "Context window set to 48h.", 48),
        (Step.SET, "1 week", "Context window set to 168h.", 168),
        (Step.SET, "8 days", f"Context window set to 168h. {TOO_MUCH}", 168),
        (Step.SET, "5 minutes", f"Context window set to 1h. {TOO_LITTLE}", 1),
        (Step.ADD, "8h", "Context window set to 16h.", 16),
        (Step.ADD, "1 week", f"Context window set to 168h. {TOO_MUCH}", 168),
        (Step.SUB, "4h", "Context window set to 4h.", 4),
        (Step.SUB, "1 day", f"Context window set to 1h. {TOO_LITTLE}", 1),
    ],
)
async def test_the_window_is_set_added_to_and_subtracted_from(
    memory: Memory, window: ContextWindow, step: Step, text: str, reply: str, hours: float
) -> None:
    assert await window.change(step, text, HERE) == reply
    assert memory.policies.of(GUILD, CHANNEL, "Frodo").context_max_age_s == hours * HOUR
    (change,) = (await memory.policies.read(FRODO)).changes
    assert (change.by, change.new) == (MODERATOR, hours * HOUR)


@pytest.mark.parametrize(
    ("step", "text", "reply"),
    [
        (Step.SET, "tomorrow", FUTURE),
        (Step.SET, "banana", UNREADABLE),
        (Step.SET, "", UNREADABLE),
        (Step.ADD, "yesterday", NO_AMOUNT),
        (Step.SUB, "-5m", NO_AMOUNT),
    ],
)
async def test_what_can_not_be_read_changes_nothing(
    memory: Memory, window: ContextWindow, step: Step, text: str, reply: str
) -> None:
    assert await window.change(step, text, HERE) == reply
    assert (await memory.policies.read(FRODO)).values == {}


async def test_steps_follow_each_other(window: ContextWindow) -> None:
    for step, text, reply in (
        (Step.SET, "24h", "Context window set to 24h."),
        (Step.ADD, "8h", "Context window set to 32h."),
        (Step.SUB, "4h", "Context window set to 28h."),
    ):
        assert await window.change(step, text, HERE) == reply
    assert await window.reset(HERE) == "Context window reset to default (8h)."
    assert await window.change(Step.ADD, "1h", HERE) == "Context window set to 9h."


async def test_default_means_reset(memory: Memory, window: ContextWindow) -> None:
    await window.change(Step.SET, "24h", HERE)
    assert await window.change(Step.SET, "default", HERE) == "Context window reset to default (8h)."
    assert (await memory.policies.read(FRODO)).values == {}


async def test_each_character_and_server_has_its_own_window(memory: Memory, window: ContextWindow) -> None:
    await window.change(Step.SET, "24h", HERE)
    await window.change(Step.SET, "48h", replace(HERE, character="Sam"))
    assert memory.policies.of(GUILD, CHANNEL, "Frodo").context_max_age_s == 24 * HOUR
    assert memory.policies.of(GUILD, CHANNEL, "Sam").context_max_age_s == 48 * HOUR
    assert memory.policies.of(GUILD + 1, CHANNEL, "Frodo").context_max_age_s == 8 * HOUR


async def test_a_channels_cap_is_told_and_does_not_lower_what_is_stored(memory: Memory, window: ContextWindow) -> None:
    await memory.policies.set(Place.channel(GUILD, CHANNEL), MAX_AGE, 4 * HOUR)
    reply = await window.change(Step.SET, "24h", HERE)
    assert reply == "Context window set to 24h. In this channel it is 4h: capped by the channel."
    assert (await window.show(HERE)).startswith("Context window: 4h (default: 4h). It is capped by the channel.")
    assert (await window.change(Step.ADD, "1h", HERE)).startswith("Context window set to 25h.")
    elsewhere = replace(HERE, channel_id=CHANNEL + 1)
    assert (await window.show(elsewhere)).startswith("Context window: 25h (default: 8h).")
    in_a_thread = replace(HERE, channel_id=CHANNEL + 2, thread_of=CHANNEL)
    assert (await window.show(in_a_thread)).startswith("Context window: 4h")


@pytest.mark.parametrize("level", [Level.GLOBAL, Level.CHARACTER])
async def test_without_a_limit_there_is_nothing_to_add_to(memory: Memory, window: ContextWindow, level: Level) -> None:
    place = FRODO if level is Level.CHARACTER else Place.everywhere()
    await memory.policies.set(place, MAX_AGE, OFF)
    assert await window.change(Step.ADD, "8h", HERE) == NO_LIMIT
    assert await window.change(Step.SUB, "8h", HERE) == NO_LIMIT
    assert (await window.show(HERE)).startswith("Context window: no limit (default: ")
    assert memory.policies.of(GUILD, CHANNEL, "Frodo").context_max_age_s is None
    assert await window.change(Step.SET, "8h", HERE) == "Context window set to 8h."
    await memory.policies.set(place, MAX_AGE, AUTO)


# --- fresh starts ---


async def told(memory: Memory, *numbers: int) -> None:
    for number in numbers:
        await memory.remember(message(number, f"tale {number}"))


def lines(text: str) -> list[str]:
    return [line for line in text.split("\n") if line.startswith("[")]


async def context(memory: Memory, at: float = NOW + 60) -> str:
    question = Question(GUILD, CHANNEL, 999, 5, "Ann", "hello there", at, bot=Person(99, "Bot"), character="Frodo")
    return (await memory.context(question, await memory.ask(question))).text


async def test_a_fresh_start_leaves_out_what_was_said_before_and_removes_nothing(
    memory: Memory, window: ContextWindow
) -> None:
    await told(memory, 1, 2)
    assert "tale 2" in await context(memory)
    assert await window.begin(HERE) == BEGUN
    await memory.remember(message(700, "tale 700", ts=NOW + 5))
    given = await context(memory)
    assert "tale 700" in given
    assert "tale 2" not in given
    assert [one.content for one in await memory.recent(GUILD, CHANNEL, 10)] == ["tale 1", "tale 2", "tale 700"]
    assert "fresh start here was" in await window.show(replace(HERE, at=NOW + 3_600))
    asked = Question(GUILD, CHANNEL, 998, 5, "Ann", "what did I say about tale 2?", NOW + 60, bot=Person(99, "Bot"))
    assert "tale 2" in (await memory.ask(asked)).text


async def test_an_edited_file_brings_back_what_was_before_a_fresh_start(memory: Memory, window: ContextWindow) -> None:
    await told(memory, 1, 2, 3)
    await window.begin(HERE)
    later = replace(HERE, at=NOW + 10)
    text = await window.edit_file(later, "Save:")
    assert [line[22:] for line in lines(text)] == ["Ann: tale 1", "Ann: tale 2", "Ann: tale 3"]
    assert "CLEARED" not in text
    reply = await window.keep(text.replace(lines(text)[1], ""), replace(later, at=NOW + 20))
    assert reply.startswith('[PRIOR_CONTEXT_PROVIDED] 2 messages, "tale 1"\nFrodo starts with these messages')
    given = await context(memory)
    assert '[PRIOR_CONTEXT_PROVIDED] 2 messages, "tale 1"' in given
    assert "tale 3" in given
    assert "tale 2" not in given
    assert memory.policies.boundary(GUILD, CHANNEL) == Boundary(NOW + 10, (1, 3))


async def test_what_is_said_while_somebody_edits_is_not_left_out(memory: Memory, window: ContextWindow) -> None:
    await told(memory, 1, 2)
    text = await window.edit_file(HERE, "Save:")
    await memory.remember(message(700, "meanwhile", ts=NOW + 5))
    assert "[PRIOR_CONTEXT_PROVIDED] 2 messages" in await window.keep(text, replace(HERE, at=NOW + 20))
    assert "meanwhile" in await context(memory)


async def test_a_fresh_start_while_somebody_edits_still_counts(memory: Memory, window: ContextWindow) -> None:
    await told(memory, 1)
    text = await window.edit_file(HERE, "Save:")
    await memory.remember(message(700, "meanwhile", ts=NOW + 5))
    await window.begin(replace(HERE, by=78, at=NOW + 10))
    await window.keep(text, replace(HERE, at=NOW + 20))
    given = await context(memory)
    assert "tale 1" in given
    assert "meanwhile" not in given


async def test_messages_that_vanish_meanwhile_are_not_kept(memory: Memory, window: ContextWindow) -> None:
    await told(memory, 1, 2)
    text = await window.edit_file(HERE, "Save:")
    await memory.delete(GUILD, CHANNEL, [1])
    assert (await window.keep(text, HERE)).startswith('[PRIOR_CONTEXT_PROVIDED] 1 message, "tale 2"')
    text = await window.edit_file(HERE, "Save:")
    await memory.delete(GUILD, CHANNEL, [2])
    await memory.remember(message(3, "tale 3"))
    assert await window.keep(text, HERE) == ALL_GONE


async def test_kept_messages_obey_later_edits_deletions_and_opt_outs(memory: Memory, window: ContextWindow) -> None:
    await told(memory, 1, 2)
    await memory.remember(message(3, "tale of Bob", author_id=6, author="Bob"))
    await window.keep(await window.edit_file(HERE, "Save:"), HERE)
    assert "tale 1" in await context(memory)
    await memory.edit(message(1, "a better story", revision=NOW + 1))
    await memory.delete(GUILD, CHANNEL, [2])
    await memory.opt_out(6)
    given = await context(memory)
    assert '[PRIOR_CONTEXT_PROVIDED] 1 message, "a better story"' in given
    assert "tale" not in given


async def test_people_who_opted_out_are_not_in_the_file(memory: Memory, window: ContextWindow) -> None:
    await told(memory, 1)
    await memory.remember(message(3, "tale of Bob", author_id=6, author="Bob"))
    await memory.opt_out(6)
    assert "Bob" not in await window.edit_file(HERE, "Save:")


async def test_a_file_of_another_process_is_compared_with_what_is_stored(memory: Memory, window: ContextWindow) -> None:
    await told(memory, 1, 2)
    text = await window.edit_file(HERE, "Save:")
    restarted = ContextWindow(memory)
    assert "not a line of my file" in await restarted.keep(text.replace("tale 1", "tale X"), HERE)
    assert "[PRIOR_CONTEXT_PROVIDED] 2 messages" in await restarted.keep(text, HERE)


async def test_a_refused_or_empty_file_changes_nothing(memory: Memory, window: ContextWindow) -> None:
    await told(memory, 1, 2)
    text = await window.edit_file(HERE, "Save:")
    number = text.split("\n").index(lines(text)[1]) + 1
    assert (await window.keep(text.replace("tale 2", "I agree"), HERE)).startswith(f"Line {number} is not a line")
    assert await window.keep("", HERE) == CANCELLED
    assert memory.policies.boundary(GUILD, CHANNEL) is None
    assert "[PRIOR_CONTEXT_PROVIDED]" in await window.keep(text, HERE), "they may try again"


async def test_more_than_a_model_takes_is_cut_to_the_newest(
    memory: Memory, window: ContextWindow, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MOST_KEPT", 2)
    await told(memory, 1, 2, 3)
    reply = await window.keep(await window.edit_file(HERE, "Save:"), HERE)
    assert reply.startswith('[PRIOR_CONTEXT_PROVIDED] 2 messages, "tale 2"')
    assert reply.endswith(TOO_MANY)


async def test_without_messages_there_is_nothing_to_edit(memory: Memory, window: ContextWindow) -> None:
    with pytest.raises(EditError, match=NOTHING_STORED):
        await window.edit_file(HERE, "Save:")


async def test_where_memory_is_off_nothing_is_shown(memory: Memory, window: ContextWindow) -> None:
    await told(memory, 1)
    text = await window.edit_file(HERE, "Save:")
    await memory.policies.set(Place.channel(GUILD, CHANNEL), "enabled", False)
    with pytest.raises(EditError, match=MEMORY_OFF):
        await window.edit_file(HERE, "Save:")
    assert await window.keep(text, HERE) == MEMORY_OFF
