"""Ways to ask and how answers arrive: mention, reply, /ask, /why, thumbs down, cool-downs, long and slow answers."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncIterator

import pytest
from loopback import PUBLIC_THREAD
from loopback.bots import running
from loopback.payloads import Role
from loopback.recorder import Recorder
from loopback.scene import Scene
from loopback.server import PATIENCE_S

from bot import answers, client
from bot.asking import (
    ASKER_CANT_READ,
    BOT_CANT_SEE,
    DIRECT_MESSAGE,
    EMPTY_QUESTION,
    EXCLUDED_CHANNEL,
    NOT_ANSWERED,
    UNDECIDED,
)
from bot.client import Bot
from bot.history import DiscordHistory
from channelmem.llm import Location, ResponderError
from channelmem.settings import Settings
from channelmem.types import Answer, Kind, Origin, Question

pytest_plugins = ["loopback.fixtures"]


async def test_a_mention_is_answered_with_a_reply_that_pings_nobody(
    scene: Scene, recording: Bot, recorder: Recorder
) -> None:
    recorder.answer = "@everyone <@1> said so"
    asked = await scene.server.say(scene.general, scene.mark, f"{scene.server.world.bot.mention}  what did I say?")
    reply = await scene.server.reply(asked)
    assert reply["content"] == recorder.answer
    assert reply["_allowed_mentions"] == {"parse": []}
    [question] = recorder.questions
    assert (question.text, question.asker, question.kind) == ("what did I say?", "Mark", None)
    assert (question.id, question.bot.name) == (int(asked["id"]), "Memo")


async def test_a_reply_to_the_bot_is_a_question_without_a_mention(
    scene: Scene, recording: Bot, recorder: Recorder
) -> None:
    asked = await scene.server.say(scene.general, scene.mark, f"{scene.server.world.bot.mention} hello?")
    answer = await scene.server.reply(asked)
    follow_up = await scene.server.say(scene.general, scene.mark, "and Ann?", reply_to=answer)
    follow_up_reply = await scene.server.reply(follow_up)
    assert follow_up_reply["content"] == recorder.answer
    assert [q.text for q in recorder.questions] == ["hello?", "and Ann?"]
    assert recorder.questions[1].reply_to == int(answer["id"])


async def test_a_mention_of_the_bots_own_role_counts(scene: Scene, quick: Settings, recorder: Recorder) -> None:
    role = Role(scene.server.world.snowflake(), "Memo", 0, bot_id=scene.server.world.bot.id)
    scene.guild.roles.append(role)
    async with running(scene.server, quick, recorder, DiscordHistory(quick)):
        asked = await scene.server.say(
            scene.general, scene.mark, f"<@&{role.id}> what now?", extra={"mention_roles": [str(role.id)]}
        )
        await scene.server.reply(asked)
    assert recorder.questions[0].text == "what now?"


async def test_people_talking_among_themselves_get_no_answer(scene: Scene, recording: Bot, recorder: Recorder) -> None:
    first = await scene.server.say(scene.general, scene.mark, f"{scene.ann.mention} what did I say?")
    await scene.server.say(scene.general, scene.ann, "no idea", reply_to=first)
    await scene.server.ask(scene.general, scene.mark, "well?")
    assert [q.text for q in recorder.questions] == ["well?"]


async def test_the_no_entry_sign_asks_for_an_answer_without_memory(
    scene: Scene, recording: Bot, recorder: Recorder
) -> None:
    await scene.server.ask(scene.general, scene.mark, "🚫 what is a turtle?")
    assert recorder.questions[0].kind is Kind.NONE
    assert recorder.questions[0].text == "what is a turtle?"


async def test_mentioned_people_are_named_and_the_bot_is_not_one_of_them(
    scene: Scene, recording: Bot, recorder: Recorder
) -> None:
    scene.guild.members[scene.ann.id].nick = "Annie"
    await scene.server.ask(scene.general, scene.mark, f"what did {scene.ann.mention} say?")
    [question] = recorder.questions
    assert question.text == "what did @Annie say?"
    assert [(p.id, p.name, p.aliases) for p in question.mentions] == [(scene.ann.id, "Annie", ("Ann", "ann"))]


async def test_who_is_only_replied_to_is_not_mentioned(scene: Scene, recording: Bot, recorder: Recorder) -> None:
    said = await scene.server.say(scene.general, scene.ann, "turtles")
    await scene.server.ask(scene.general, scene.mark, "what did Ann say?", reply_to=said)
    assert recorder.questions[0].mentions == ()


async def test_a_bare_mention_gets_a_hint(scene: Scene, recording: Bot, recorder: Recorder) -> None:
    assert await scene.server.ask(scene.general, scene.mark, "") == EMPTY_QUESTION


async def test_in_a_direct_message_the_bot_says_that_there_is_no_channel(
    scene: Scene, recording: Bot, recorder: Recorder
) -> None:
    dm = scene.server.world.add_dm(scene.mark)
    asked = await scene.server.say(dm, scene.mark, "what did I just say?")
    assert (await scene.server.reply(asked))["content"] == DIRECT_MESSAGE
    assert recorder.questions == []


async def test_a_guild_that_is_not_known_is_no_direct_message(scene: Scene, recording: Bot, recorder: Recorder) -> None:
    said = scene.server.world.post(scene.general, scene.mark, "just talking")
    event = scene.server.world.event(said) | {"guild_id": "12345"}
    await scene.server.gateway.dispatch("MESSAGE_CREATE", event, scene.guild.id)
    assert await scene.server.ask(scene.general, scene.mark, "well?") == recorder.answer
    assert [m["content"] for m in scene.server.sent(scene.general)] == [recorder.answer]


async def test_slash_ask_is_public_or_private(scene: Scene, recording: Bot, recorder: Recorder) -> None:
    public = await scene.server.slash(scene.general, scene.mark, "ask", question="what did I say?")
    assert await scene.server.answered(public) == recorder.answer
    assert not public.ephemeral
    private = await scene.server.slash(scene.general, scene.mark, "ask", question="and Ann?", private=True)
    assert await scene.server.answered(private) == recorder.answer
    assert private.ephemeral
    assert len(scene.server.sent(scene.general)) == 1


async def test_slash_ask_looks_up_who_is_mentioned(scene: Scene, recording: Bot, recorder: Recorder) -> None:
    scene.guild.members[scene.ann.id].nick = "Annie"
    asked = await scene.server.slash(
        scene.general, scene.mark, "ask", question=f"what did {scene.ann.mention} and <@12345> say?"
    )
    await scene.server.answered(asked)
    [question] = recorder.questions
    assert question.text == "what did @Annie and  say?"
    assert [p.name for p in question.mentions] == ["Annie"]


@pytest.mark.parametrize("digits", ["9" * 19, "9" * 23, "9" * 5000])
async def test_slash_ask_survives_a_mention_that_is_no_id(
    scene: Scene, recording: Bot, recorder: Recorder, digits: str
) -> None:
    asked = await scene.server.slash(scene.general, scene.mark, "ask", question=f"what did <@{digits}> say?")
    assert await scene.server.answered(asked) == recorder.answer
    assert recorder.questions[0].mentions == ()


async def test_why_explains_the_latest_answer_to_the_asker_only(
    scene: Scene, recording: Bot, recorder: Recorder
) -> None:
    await scene.server.ask(scene.general, scene.mark, "what did I say?")
    mine = await scene.server.slash(scene.general, scene.mark, "why")
    text = await scene.server.answered(mine)
    assert text.startswith("**Understood** It asks what was said. It is clearly about this channel.\n")
    assert "a topic" not in text
    assert mine.ephemeral
    others = await scene.server.slash(scene.general, scene.ann, "why")
    assert await scene.server.answered(others) == NOT_ANSWERED


async def test_why_shows_the_weights_if_asked_to(scene: Scene, recording: Bot, recorder: Recorder) -> None:
    await scene.server.ask(scene.general, scene.mark, "what did I say?")
    why = await scene.server.slash(scene.general, scene.mark, "why", verbose=True)
    lines = (await scene.server.answered(why)).splitlines()
    assert lines[0].startswith("**Understood** It asks")
    assert lines[1:3] == ["**Route** channel, topic; speaker: anyone; topic: none", "**Clues** a topic"]


async def test_a_person_whom_the_question_only_mentions_is_not_named_after_they_opted_out(
    scene: Scene, recording: Bot, recorder: Recorder
) -> None:
    recorder.topic = f"<@{scene.ann.id}>"
    await scene.server.ask(scene.general, scene.mark, f"who mentioned <@{scene.ann.id}>?")
    named = await scene.server.answered(await scene.server.slash(scene.general, scene.mark, "why"))
    recorder.out = {scene.ann.id}
    gone = await scene.server.answered(await scene.server.slash(scene.general, scene.mark, "why"))
    assert "about “@Ann”" in named
    assert gone == NOT_ANSWERED


async def test_an_answer_can_be_explained_as_soon_as_people_see_it(
    scene: Scene, recording: Bot, recorder: Recorder
) -> None:
    told: list[str] = []

    async def ask_why() -> None:
        """The answer is in the channel; Discord's confirmation is still on its way to the bot."""
        why = await scene.server.slash(scene.general, scene.mark, "why")
        told.append(await scene.server.answered(why))

    scene.server.rest.on_the_way[rf"/{scene.general.id}/messages$"] = ask_why
    await scene.server.ask(scene.general, scene.mark, "what did I say?")
    await scene.server.until(lambda: told)
    assert told[0].startswith("**Understood** It asks")


async def test_an_answer_that_nobody_saw_is_not_explained(scene: Scene, recording: Bot, recorder: Recorder) -> None:
    scene.server.fail("POST", rf"/{scene.general.id}/messages$", 403)
    await scene.server.say(scene.general, scene.mark, f"{scene.server.world.bot.mention} well?")
    await scene.server.until(lambda: scene.server.calls("POST", rf"/{scene.general.id}/messages$"))
    await scene.server.until(lambda: not recording.traces.latest(scene.mark.id, scene.general.id))
    text = await scene.server.answered(await scene.server.slash(scene.general, scene.mark, "why"))
    assert text == NOT_ANSWERED


@pytest.mark.parametrize("command", ["memory forget me", "memory opt-out"])
async def test_nothing_is_left_to_explain_to_who_wants_to_be_forgotten(
    scene: Scene, recording: Bot, recorder: Recorder, command: str
) -> None:
    await scene.server.ask(scene.general, scene.mark, "what did I say?")
    await scene.server.answered(await scene.server.slash(scene.general, scene.mark, command))
    text = await scene.server.answered(await scene.server.slash(scene.general, scene.mark, "why"))
    assert text == NOT_ANSWERED


async def test_an_answer_that_names_somebody_who_opted_out_elsewhere_is_not_explained(
    scene: Scene, recording: Bot, recorder: Recorder
) -> None:
    await scene.server.ask(scene.general, scene.mark, "what did I say?")
    recorder.reachable = False
    unknown = await scene.server.answered(await scene.server.slash(scene.general, scene.mark, "why"))
    recorder.reachable, recorder.out = True, {scene.mark.id}
    gone = await scene.server.answered(await scene.server.slash(scene.general, scene.mark, "why"))
    assert (unknown, gone) == (UNDECIDED, NOT_ANSWERED)
    assert recording.traces.latest(scene.mark.id, scene.general.id) is None


async def test_an_answer_under_way_leaves_nothing_to_explain_to_who_wants_to_be_forgotten(
    scene: Scene, recording: Bot, recorder: Recorder
) -> None:
    recorder.may_answer.clear()
    asking = asyncio.create_task(scene.server.ask(scene.general, scene.mark, "what did I say?"))
    await scene.server.until(lambda: recorder.questions)
    await scene.server.answered(await scene.server.slash(scene.general, scene.mark, "memory forget me"))
    assert not asking.done()
    recorder.may_answer.set()
    await asking
    text = await scene.server.answered(await scene.server.slash(scene.general, scene.mark, "why"))
    assert text == NOT_ANSWERED


async def test_a_thumbs_down_is_counted_once_per_person(scene: Scene, recording: Bot, recorder: Recorder) -> None:
    asked = await scene.server.say(scene.general, scene.mark, f"{scene.server.world.bot.mention} well?")
    answer = await scene.server.reply(asked)
    await scene.server.until(lambda: recording.traces.of_message(int(answer["id"])))
    for person, emoji in ((scene.mark, "👎"), (scene.mark, "👎"), (scene.ann, "👍"), (scene.ann, "👎🏽")):
        await scene.server.react(answer, person, emoji)

    def count() -> float:
        return (
            recording.metrics.registry.get_sample_value(
                "channelmem_disliked_total", {"kind": "channel", "mode": "topic"}
            )
            or 0.0
        )

    await scene.server.until(lambda: count() == 2)


async def test_a_long_answer_is_split_and_only_the_first_part_is_a_reply(
    scene: Scene, recording: Bot, recorder: Recorder
) -> None:
    recorder.answer = "\n\n".join(f"Paragraph {n}. " + "turtles " * 60 for n in range(10))
    asked = await scene.server.say(scene.general, scene.mark, f"{scene.server.world.bot.mention} recap")
    await scene.server.until(lambda: len(scene.server.sent(scene.general)) == 3)
    sent = scene.server.sent(scene.general)
    assert scene.server.replies(asked) == sent[:1]
    assert all(m["content"].startswith("Paragraph") for m in sent)
    slash = await scene.server.slash(scene.general, scene.mark, "ask", question="recap", private=True)
    assert await scene.server.answered(slash, messages=3) == "\n".join(m["content"] for m in sent)


async def typed(scene: Scene) -> None:
    await scene.server.until(lambda: scene.server.calls("POST", "/typing"))


async def test_an_answer_that_comes_in_time_shows_no_typing(
    scene: Scene, recording: Bot, recorder: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(answers, "TYPING_AFTER_S", PATIENCE_S)
    await scene.server.ask(scene.general, scene.mark, "fast?")
    assert scene.server.calls("POST", "/typing") == []


async def test_typing_is_shown_while_an_answer_is_slow(
    scene: Scene, recording: Bot, recorder: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(answers, "TYPING_AFTER_S", 0.0)
    recorder.may_answer.clear()
    asking = asyncio.create_task(scene.server.ask(scene.general, scene.mark, "slow?"))
    await typed(scene)
    recorder.may_answer.set()
    assert await asking == recorder.answer


async def test_an_answer_does_not_wait_for_the_typing_indicator(
    scene: Scene, recording: Bot, recorder: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(answers, "TYPING_AFTER_S", 0.0)
    attempts = 5  # of discord.py, with growing pauses
    scene.server.fail("POST", "/typing", 502, times=attempts)
    recorder.may_answer.clear()
    asking = asyncio.create_task(scene.server.ask(scene.general, scene.mark, "slow?"))
    await typed(scene)
    recorder.may_answer.set()
    assert await asking == recorder.answer
    assert len(scene.server.calls("POST", "/typing")) < attempts


async def test_a_question_that_was_deleted_meanwhile_is_still_answered(
    scene: Scene, recording: Bot, recorder: Recorder
) -> None:
    recorder.may_answer.clear()
    asked = await scene.server.say(scene.general, scene.mark, f"{scene.server.world.bot.mention} well?")
    await scene.server.until(lambda: recorder.questions)
    await scene.server.delete(scene.general, int(asked["id"]))
    recorder.may_answer.set()
    await scene.server.until(lambda: scene.server.sent(scene.general))


async def test_a_failure_of_ours_is_admitted_and_the_next_question_is_answered(
    scene: Scene, recording: Bot, recorder: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def broken(question: Question) -> Answer:
        raise ZeroDivisionError("inner detail")

    with monkeypatch.context() as patch:
        patch.setattr(recorder, "ask", broken)
        sorry = await scene.server.ask(scene.general, scene.mark, "well?")
    assert sorry.startswith("Something went wrong on my side (request `")
    assert "inner detail" not in sorry
    assert await scene.server.ask(scene.general, scene.mark, "well?") == recorder.answer


async def test_an_answer_that_takes_too_long_for_a_bot_that_leaves_ends_without_noise(
    scene: Scene, quick: Settings, recorder: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "DRAIN_S", 0.0)
    complaints: list[str] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: complaints.append(context["message"]))
    recorder.may_answer.clear()
    async with running(scene.server, quick, recorder, DiscordHistory(quick)):
        await scene.server.say(scene.general, scene.mark, f"{scene.server.world.bot.mention} well?")
        await scene.server.until(lambda: recorder.questions)
    gc.collect()
    assert complaints == []


async def test_where_the_bot_may_not_write_it_stays_silent_and_alive(
    scene: Scene, recording: Bot, recorder: Recorder
) -> None:
    mute = scene.server.world.add_channel(scene.guild, "mute")
    scene.server.world.deny(mute, scene.server.world.bot, send_messages=True)
    await scene.server.say(mute, scene.mark, f"{scene.server.world.bot.mention} hello?")
    await scene.server.until(lambda: [c.status for c in scene.server.calls("POST", f"/{mute.id}/messages")] == [403])
    assert await scene.server.ask(scene.general, scene.mark, "alive?") == recorder.answer


async def test_a_second_question_too_soon_gets_an_hourglass(scene: Scene, recorder: Recorder) -> None:
    slow = Settings(cooldown_user_s=60, cooldown_channel_s=0)
    async with running(scene.server, slow, recorder, DiscordHistory(slow)):
        await scene.server.ask(scene.general, scene.mark, "first")
        second = await scene.server.say(scene.general, scene.mark, f"{scene.server.world.bot.mention} second")
        await scene.server.until(lambda: second.get("_reactions"))
        slash = await scene.server.slash(scene.general, scene.mark, "ask", question="third")
        assert "Try again in" in await scene.server.answered(slash)
        await scene.server.ask(scene.general, scene.ann, "somebody else")
    assert [q.text for q in recorder.questions] == ["first", "somebody else"]


async def test_a_blocked_channel_is_neither_remembered_nor_asked(scene: Scene, recorder: Recorder) -> None:
    closed = Settings(channels_block=(scene.general.id,), cooldown_user_s=0)
    async with running(scene.server, closed, recorder, DiscordHistory(closed)):
        assert await scene.server.ask(scene.general, scene.mark, "what did I say?") == EXCLUDED_CHANNEL
    assert recorder.messages == {}
    assert recorder.questions == []


async def test_only_allowed_channels_and_their_threads_are_remembered(scene: Scene, recorder: Recorder) -> None:
    other = scene.server.world.add_channel(scene.guild, "other")
    only = Settings(channels_allow=(scene.general.id,))
    async with running(scene.server, only, recorder, DiscordHistory(only)):
        thread = await scene.server.add_thread(scene.general, "a thread")
        await scene.server.say(other, scene.mark, "not this")
        await scene.server.say(thread, scene.mark, "this")
        await scene.server.until(lambda: recorder.texts == ["this"])


async def test_a_thread_that_nobody_told_us_of_is_not_heard_where_channels_are_blocked(
    scene: Scene, recorder: Recorder
) -> None:
    closed = Settings(channels_block=(scene.general.id,), cooldown_user_s=0, cooldown_channel_s=0)
    async with running(scene.server, closed, recorder, DiscordHistory(closed)):
        # It was archived when the bot came, and its first message arrives before the news that it is open again.
        thread = scene.server.world.add_channel(scene.guild, "a thread", PUBLIC_THREAD, parent=scene.general)
        await scene.server.say(thread, scene.mark, "not this")
        assert await scene.server.ask(thread, scene.mark, "what did I say?") == EXCLUDED_CHANNEL
        slash = await scene.server.slash(thread, scene.mark, "ask", question="what did I say?")
        assert await scene.server.answered(slash) == EXCLUDED_CHANNEL
    assert recorder.messages == {}
    assert recorder.questions == []


async def test_slash_ask_knows_the_parent_of_a_thread_that_nobody_told_us_of(scene: Scene, recorder: Recorder) -> None:
    only = Settings(channels_allow=(scene.general.id,), cooldown_user_s=0, cooldown_channel_s=0)
    async with running(scene.server, only, recorder, DiscordHistory(only)):
        thread = scene.server.world.add_channel(scene.guild, "a thread", PUBLIC_THREAD, parent=scene.general)
        slash = await scene.server.slash(thread, scene.mark, "ask", question="what did I say?")
        assert await scene.server.answered(slash) == recorder.answer


@pytest.mark.parametrize("in_thread", [False, True])
async def test_who_may_not_read_the_past_is_not_told_it(scene: Scene, recorder: Recorder, in_thread: bool) -> None:
    quick = Settings(cooldown_user_s=0, cooldown_channel_s=0)
    scene.server.world.deny(scene.general, scene.mark, read_message_history=True)
    async with running(scene.server, quick, recorder, DiscordHistory(quick)):
        here = await scene.server.add_thread(scene.general, "a thread") if in_thread else scene.general
        assert await scene.server.ask(here, scene.mark, "what was said?") == ASKER_CANT_READ
        private = await scene.server.slash(here, scene.mark, "ask", question="what was said?", private=True)
        assert await scene.server.answered(private) == ASKER_CANT_READ
        assert recorder.questions == []
        assert await scene.server.ask(here, scene.ann, "what was said?") == recorder.answer


async def test_who_may_not_read_the_past_may_ask_in_isolation(scene: Scene, recorder: Recorder) -> None:
    quick = Settings(cooldown_user_s=0, cooldown_channel_s=0)
    scene.server.world.deny(scene.general, scene.mark, read_message_history=True)
    async with running(scene.server, quick, recorder, DiscordHistory(quick)):
        assert await scene.server.ask(scene.general, scene.mark, "🚫 what is a turtle?") == recorder.answer
    assert [question.kind for question in recorder.questions] == [Kind.NONE]


async def test_a_channel_that_was_closed_to_the_bot_is_not_told_of(scene: Scene, recorder: Recorder) -> None:
    quick = Settings(cooldown_user_s=0, cooldown_channel_s=0)
    scene.server.world.hide(scene.general, scene.server.world.bot)
    async with running(scene.server, quick, recorder, DiscordHistory(quick)):
        slash = await scene.server.slash(scene.general, scene.mark, "ask", question="what was said?", private=True)
        assert await scene.server.answered(slash) == BOT_CANT_SEE
    assert recorder.questions == []


class Parrot:
    """A responder whose text grows, and which may fail half-way."""

    def __init__(self, *steps: str, breaks: bool = False) -> None:
        self.steps, self.breaks = steps, breaks
        self.may_speak, self.may_go_on = asyncio.Event(), asyncio.Event()
        self.may_speak.set()
        self.may_go_on.set()
        self.closed = False
        self.location: Location | None = None

    async def respond(
        self, question: Question, answer: Answer, location: Location, quoted: set[Origin]
    ) -> AsyncIterator[str]:
        self.location = location
        await self.may_speak.wait()
        for step in self.steps:
            yield step
            await self.may_go_on.wait()
        if self.breaks:
            raise ResponderError("the model went away")

    async def close(self) -> None:
        self.closed = True


@pytest.fixture
def edited_only_at_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answers, "EDIT_EVERY_S", PATIENCE_S)


@pytest.mark.usefixtures("edited_only_at_the_end")
async def test_a_growing_text_ends_in_one_message(scene: Scene, quick: Settings, recorder: Recorder) -> None:
    parrot = Parrot("Pol", "Polly wants", "Polly wants a turtle.")
    async with running(scene.server, quick, recorder, DiscordHistory(quick), parrot):
        asked = await scene.server.say(scene.general, scene.mark, f"{scene.server.world.bot.mention} well?")
        reply = await scene.server.reply(asked)
        await scene.server.until(lambda: reply["content"] == "Polly wants a turtle.")
    assert parrot.location == Location("Turtle Club", "general")
    assert parrot.closed
    [post], [patch] = scene.server.calls("POST", "/messages$"), scene.server.calls("PATCH", "/messages/")
    suppress_embeds = 4
    assert (post.body["flags"], patch.body["flags"]) == (suppress_embeds, suppress_embeds)
    assert post.body["allowed_mentions"] == patch.body["allowed_mentions"] == {"parse": []}


async def test_an_answer_that_is_still_growing_can_be_explained_and_disliked(
    scene: Scene, quick: Settings, recorder: Recorder
) -> None:
    parrot = Parrot("Pol", "Polly wants a turtle.")
    parrot.may_go_on.clear()
    async with running(scene.server, quick, recorder, DiscordHistory(quick), parrot) as bot:
        asked = await scene.server.say(scene.general, scene.mark, f"{scene.server.world.bot.mention} well?")
        reply = await scene.server.reply(asked)
        why = await scene.server.slash(scene.general, scene.mark, "why")
        assert "**Understood** It asks" in await scene.server.answered(why)
        await scene.server.until(lambda: bot.traces.of_message(int(reply["id"])))
        parrot.may_go_on.set()


async def test_a_responder_that_thinks_for_long_is_seen_typing(
    scene: Scene, quick: Settings, recorder: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(answers, "TYPING_AFTER_S", 0.0)
    parrot = Parrot("Sorry for the wait.")
    parrot.may_speak.clear()
    async with running(scene.server, quick, recorder, DiscordHistory(quick), parrot):
        asking = asyncio.create_task(scene.server.ask(scene.general, scene.mark, "well?"))
        await typed(scene)
        parrot.may_speak.set()
        assert await asking == "Sorry for the wait."
        slash = await scene.server.slash(scene.general, scene.mark, "ask", question="well?", private=True)
        await scene.server.until(lambda: slash.text == "Sorry for the wait.")
    assert slash.ephemeral


@pytest.mark.usefixtures("edited_only_at_the_end")
async def test_a_responder_that_fails_is_replaced_by_the_quoting_answer(
    scene: Scene, quick: Settings, recorder: Recorder
) -> None:
    parrot = Parrot("Pol", breaks=True)
    async with running(scene.server, quick, recorder, DiscordHistory(quick), parrot):
        asked = await scene.server.say(scene.general, scene.mark, f"{scene.server.world.bot.mention} well?")
        reply = await scene.server.reply(asked)
        await scene.server.until(lambda: reply["content"] == recorder.answer)
    assert len(scene.server.sent(scene.general)) == 1


@pytest.mark.parametrize(("private", "expected"), [(False, {"open"}), (True, {"open", "staff"})])
async def test_a_question_sees_only_channels_that_asker_and_bot_may_read(
    scene: Scene, recorder: Recorder, private: bool, expected: set[str]
) -> None:
    world = scene.server.world
    rooms = {name: world.add_channel(scene.guild, name) for name in ("open", "staff", "not-mark", "not-bot", "adult")}
    world.hide_from_everyone(rooms["staff"])
    for person in (scene.mark, world.bot):
        world.allow(rooms["staff"], person, view_channel=True)
    world.hide(rooms["not-mark"], scene.mark)
    world.hide(rooms["not-bot"], world.bot)
    rooms["adult"].nsfw = True
    wide = Settings(cross_channel=True, cooldown_user_s=0, cooldown_channel_s=0)
    async with running(scene.server, wide, recorder, DiscordHistory(wide)):
        slash = await scene.server.slash(scene.general, scene.mark, "ask", question="well?", private=private)
        await scene.server.answered(slash)
    names = {room.id: name for name, room in rooms.items()}
    assert {names[id_] for id_ in recorder.questions[0].readable_channel_ids} == expected
