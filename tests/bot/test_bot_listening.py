"""What the bot hears reaches Memory: whose words, in which form, in which order; what it does not hear stays out."""

from __future__ import annotations

import pytest
from loopback import PUBLIC_THREAD, VOICE
from loopback.payloads import Json, attachment
from loopback.recorder import Recorder
from loopback.scene import Scene

from bot.client import Bot
from channelmem.types import Attachment

pytest_plugins = ["loopback.fixtures"]


async def heard(scene: Scene, recorder: Recorder, text: str) -> None:
    await scene.server.until(lambda: text in recorder.texts)


async def settled(scene: Scene, recorder: Recorder) -> None:
    """Everything said before has been handled: events of a channel are applied in order."""
    await scene.server.say(scene.general, scene.ann, "(end)")
    await heard(scene, recorder, "(end)")


async def test_a_message_is_remembered_with_the_names_that_people_see(
    scene: Scene, recording: Bot, recorder: Recorder
) -> None:
    scene.guild.members[scene.mark.id].nick = "Captain"
    await scene.server.say(scene.general, scene.mark, "It's turtles.")
    await heard(scene, recorder, "It's turtles.")
    [message] = recorder.messages.values()
    assert (message.guild_id, message.channel_id) == (scene.guild.id, scene.general.id)
    assert (message.author, message.aliases) == ("Captain", ("Mark", "mark_77"))
    assert not message.own
    assert not message.addressed


@pytest.mark.parametrize("held", [False, True])
async def test_order_holds_although_every_event_is_its_own_task(
    scene: Scene, recording: Bot, recorder: Recorder, held: bool
) -> None:
    if held:  # the first message of a channel waits for a lookup, the others behind it
        recorder.may_look.clear()
    for n in range(50):
        await scene.server.say(scene.general, scene.mark, f"line {n}")
    await scene.server.until(lambda: recorder.looks)
    recorder.may_look.set()
    await settled(scene, recorder)
    assert recorder.texts[:-1] == [f"line {n}" for n in range(50)]


async def test_commands_bots_webhooks_and_direct_messages_are_left_out(
    scene: Scene, recording: Bot, recorder: Recorder
) -> None:
    server, general = scene.server, scene.general
    other_bot = server.world.add_user("dyno", bot=True)
    scene.guild.members[other_bot.id] = type(scene.guild.members[scene.mark.id])(other_bot)
    await server.say(general, scene.mark, "!play something")
    await server.say(general, other_bot, "now playing")
    await server.say(general, scene.mark, "from a webhook", extra={"webhook_id": "1"})
    await server.say(general, scene.mark, "", extra={"type": 7})
    await server.say(server.world.add_dm(scene.mark), scene.mark, "psst")
    await server.say(general, scene.mark, "...so anyway, $5 it is")
    await settled(scene, recorder)
    assert recorder.texts == ["...so anyway, $5 it is", "(end)"]


@pytest.mark.parametrize("text", [".net 9 is out", "$AAPL is up", "!important"])
async def test_a_word_after_a_mark_is_no_command(scene: Scene, recording: Bot, recorder: Recorder, text: str) -> None:
    await scene.server.say(scene.general, scene.mark, text)
    await heard(scene, recorder, text)


async def test_threads_and_voice_chats_are_heard(scene: Scene, recording: Bot, recorder: Recorder) -> None:
    thread = await scene.server.add_thread(scene.general, "a thread")
    assert thread.type == PUBLIC_THREAD
    await scene.server.say(thread, scene.mark, "in the thread")
    await heard(scene, recorder, "in the thread")
    assert [m.channel_id for m in recorder.messages.values()] == [thread.id]


async def test_a_question_is_flagged_and_the_answer_is_stored_as_the_bots_own(
    scene: Scene, recording: Bot, recorder: Recorder
) -> None:
    recorder.answer = (
        "You said: “turtles” https://discord.com/channels/1/2/3\n- and more https://discord.com/channels/1/2/4"
    )
    await scene.server.ask(scene.general, scene.mark, "what did I say?")
    await heard(scene, recorder, "You said: “turtles”\n- and more")
    question, said = recorder.messages.values()
    assert question.addressed
    assert question.content == "@Memo what did I say?"
    assert (said.own, said.addressed, said.author) == (True, False, "Memo")


async def test_an_edit_replaces_and_a_link_preview_does_not(scene: Scene, recording: Bot, recorder: Recorder) -> None:
    message = await scene.server.say(scene.general, scene.mark, "see https://example.org")
    preview: Json = {"type": "link", "title": "Example"}
    message["embeds"] = [preview]
    await scene.server.edit(message, message["content"], unfurl=True)
    await settled(scene, recorder)
    assert recorder.named("edit") == []
    await scene.server.edit(message, "see nothing")
    await scene.server.until(lambda: recorder.named("edit"))
    edited = recorder.messages[int(message["id"])]
    assert edited.content.startswith("see nothing")
    assert edited.revision > 0


async def test_an_edit_into_a_command_takes_the_old_words_away(
    scene: Scene, recording: Bot, recorder: Recorder
) -> None:
    message = await scene.server.say(scene.general, scene.mark, "play something")
    await scene.server.edit(message, "!play something")
    await scene.server.until(lambda: recorder.named("edit"))
    assert recorder.texts == [""]


async def test_deletes_and_bulk_deletes_arrive(scene: Scene, recording: Bot, recorder: Recorder) -> None:
    ids = [int((await scene.server.say(scene.general, scene.mark, f"line {n}"))["id"]) for n in range(4)]
    await scene.server.delete(scene.general, ids[0])
    await scene.server.delete(scene.general, *ids[1:3])
    await settled(scene, recorder)
    assert recorder.texts == ["line 3", "(end)"]


async def test_removed_threads_channels_and_guilds_are_forgotten(
    scene: Scene, recording: Bot, recorder: Recorder
) -> None:
    thread = await scene.server.add_thread(scene.general, "a thread")
    await scene.server.remove_channel(thread)
    await scene.server.remove_channel(scene.general)
    await scene.server.remove_bot(scene.guild)
    await scene.server.until(lambda: recorder.named("delete_guild"))
    assert recorder.named("delete_channel") == [(scene.guild.id, thread.id), (scene.guild.id, scene.general.id)]
    assert recorder.named("delete_guild") == [(scene.guild.id,)]


POLL: Json = {
    "question": {"text": "Which turtle?"},
    "answers": [
        {"answer_id": 1, "poll_media": {"text": "green"}},
        {"answer_id": 2, "poll_media": {"text": "leatherback"}},
    ],
    "expiry": "2030-01-01T00:00:00.000000+00:00",
    "allow_multiselect": False,
    "layout_type": 1,
}
SNAPSHOT: Json = {
    "type": 0,
    "content": "forwarded words",
    "mentions": [],
    "mention_roles": [],
    "attachments": [],
    "embeds": [],
    "timestamp": "2026-01-01T00:00:00.000000+00:00",
    "edited_timestamp": None,
    "flags": 0,
    "components": [],
}


@pytest.mark.parametrize(
    ("content", "extra", "text"),
    [
        ("<:turtle:123> and <a:spin:456>", {}, ":turtle: and :spin:"),
        ("", {"sticker_items": [{"id": "1", "name": "Wave", "format_type": 1}]}, "[sticker: Wave]"),
        ("look", {"attachments": [attachment(1, "shell.png", "image/png")]}, "look\n[image: shell.png]"),
        ("", {"attachments": [attachment(1, "a.pdf", "application/pdf", "plans")]}, "[file: a.pdf (plans)]"),
        ("", {"embeds": [{"type": "rich", "title": "A", "description": "b"}]}, "[link: A: b]"),
        ("", {"poll": POLL}, "[poll: Which turtle? green / leatherback]"),
        (
            "",
            {
                "message_reference": {"type": 1, "message_id": "5", "channel_id": "6"},
                "message_snapshots": [{"message": SNAPSHOT}],
            },
            "[forwarded: forwarded words]",
        ),
    ],
)
async def test_what_is_no_plain_text_becomes_readable(
    scene: Scene, recording: Bot, recorder: Recorder, content: str, extra: Json, text: str
) -> None:
    await scene.server.say(scene.general, scene.mark, content, extra=extra)
    await settled(scene, recorder)
    assert recorder.texts[0] == text
    assert next(iter(recorder.messages.values())).reply_to is None


async def test_attachments_are_kept_beside_the_text_that_names_them(
    scene: Scene, recording: Bot, recorder: Recorder
) -> None:
    voice = attachment(2**63 + 1, "voice-message.ogg", "audio/ogg") | {"duration_secs": 12.5, "waveform": "AAAA"}
    files = [attachment(1, "cat.png", "image/png", "a cat"), voice]
    await scene.server.say(scene.general, scene.mark, "look", extra={"attachments": files})
    await settled(scene, recorder)
    kept = next(iter(recorder.messages.values()))
    assert kept.content == "look\n[image: cat.png (a cat)]\n[voice message]"
    assert kept.attachments == (
        Attachment(1, files[0]["url"], "image/png", "cat.png", 10, "a cat"),
        Attachment(2**63 + 1, voice["url"], "audio/ogg", "voice-message.ogg", 10, "", 12.5),
    )


async def test_attachments_of_a_forward_are_kept(scene: Scene, recording: Bot, recorder: Recorder) -> None:
    inner = SNAPSHOT | {"attachments": [attachment(7, "map.png", "image/png")]}
    reference = {"type": 1, "message_id": "5", "channel_id": "6"}
    forward = {"message_reference": reference, "message_snapshots": [{"message": inner}]}
    await scene.server.say(scene.general, scene.mark, "", extra=forward)
    await settled(scene, recorder)
    kept = next(iter(recorder.messages.values()))
    assert kept.content == "[forwarded: forwarded words\n[image: map.png]]"
    assert [one.name for one in kept.attachments] == ["map.png"]


async def test_mentions_and_channels_become_names(scene: Scene, recording: Bot, recorder: Recorder) -> None:
    scene.guild.members[scene.ann.id].nick = "Annie"
    text = f"{scene.ann.mention} look at <#{scene.general.id}>, <#1> and <@&{scene.guild.id}>"
    await scene.server.say(scene.general, scene.mark, text)
    await settled(scene, recorder)
    assert recorder.texts[0] == "@Annie look at #general, #channel and @@everyone"
    assert next(iter(recorder.messages.values())).mentions == (scene.ann.id,)


async def test_a_reply_names_what_it_answers(scene: Scene, recording: Bot, recorder: Recorder) -> None:
    first = await scene.server.say(scene.general, scene.mark, "first")
    second = await scene.server.say(scene.general, scene.ann, "second", reply_to=first)
    await heard(scene, recorder, "second")
    assert recorder.messages[int(second["id"])].reply_to == int(first["id"])


async def test_a_voice_channels_chat_is_heard(scene: Scene, recording: Bot, recorder: Recorder) -> None:
    voice = scene.server.world.add_channel(scene.guild, "lounge", VOICE)
    await scene.server.invite_bot(scene.guild)
    await scene.server.say(voice, scene.mark, "can you hear me?")
    await heard(scene, recorder, "can you hear me?")


async def test_the_answer_to_a_slash_command_is_remembered_once_it_has_words(
    scene: Scene, recording: Bot, recorder: Recorder
) -> None:
    await scene.server.answered(await scene.server.slash(scene.general, scene.mark, "ask", question="well?"))
    await heard(scene, recorder, recorder.answer)
    assert [(m.content, m.own) for m in recorder.messages.values()] == [(recorder.answer, True)]
