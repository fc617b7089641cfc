"""The router: which memory a question wants, how it is looked up, about what, and why."""

from __future__ import annotations

import pytest
from asking import CAROL, SCENE, ask

from channelmem.routing.route import route, should_skip
from channelmem.routing.words import written_out
from channelmem.types import Aside, Kind, Mode, Source, Wants


def _share(texts: list[str], kind: Kind) -> float:
    """How many of these the wording alone decides right. It is learned, so single rows may go wrong; the evidence has
    the last word anyway."""
    return sum(ask(text).kind is kind for text in texts) / len(texts)


OF_THE_CHANNEL = [
    "what did I just say about turtles?",
    "what was said earlier?",
    "catch me up",
    "what's going on?",
    "what did you say?",
    "wait what did he just say lol",
    "waht did bob siad",
    "wat r u guys talkin abt",
    "who came up with the pub idea",
    "bob's last message pls",
    "bob just said what???",
    "can u check if alice replied",
    "any messages about kubernetes?",
    "whose idea was that",
    "was redis mentioned",
    "is anyone talking about redis",
    "did alice get a new job",
    "explain what bob meant",
    "the thing alice said about cats, what was it",
    "where were we",
    "what do you mean",
]


def test_a_question_about_the_conversation_without_a_past_time_goes_to_the_channel() -> None:
    assert _share(OF_THE_CHANNEL, Kind.CHANNEL) >= 0.9


OF_MEMORY = [
    "what did I say last week?",
    "what did carol say this morning",
    "remember when I told you about my cat?",
    "I mentioned my sister's name once, what was it?",
    "I told you my birthday before, when is it?",
    "what happened in here over the weekend?",
    "did we talk about moving to berlin last month",
    "who posted that meme the other day",
    "have I told you about my dog?",
    "summarize yesterday",
    "carol posted a recipe last sunday can u find it",
]


def test_a_past_time_or_something_told_before_goes_to_memory() -> None:
    assert _share(OF_MEMORY, Kind.MEMORY) >= 0.9


OF_THE_WORLD = [
    "just tell me a joke",
    "who won the match yesterday?",
    "what did Einstein say about dice?",
    "is it earlier in Tokyo?",
    "translate 'I said hello'",
    "summarize this article: people said the server is down",
    "summarize the french revolution",
    "hello how are you",
    "!play what did bob say",
    "fix this: ```what did bob say```",
    "> what did bob say\nnice one",
    "what should i say to bob",
    "what will bob say tomorrow",
    "tell bob i said happy birthday",
    "remind me to text bob at noon",
    "bob said hi",
    "i told you so",
    "what happened to the dinosaurs",
    "my sister said yesterday that cats can't taste sugar. is that true",
    "what do people think of tesla",
    "how do you say thank you in vietnamese",
    "who is bob ross",
    "will it rain tomorrow",
    "thanks for your answer",
    "what did jesus say in the bible",
    "",
    "🐢",
]


def test_what_is_not_about_the_conversation_is_none() -> None:
    assert _share(OF_THE_WORLD, Kind.NONE) >= 0.8


@pytest.mark.parametrize(
    ("text", "topic"),
    [
        ("what did bob say about the deploy?", "the deploy"),
        ("what did I just say about turtles?", "turtles"),
        ("what did you say?", ""),
        ("did alice mention anything about grub keyboard", "grub keyboard"),
        ("can you find bob's message about license", "license"),
        ("earlier bob said something about wifi, what was it?", "wifi"),
        ("bob just mentioned menu, what was it", "menu"),
        ("what did she mean by 'spirals'?", "spirals"),
        ("who said that the server is down?", "the server is down"),
        ("what did alice say yesterday about the budget?", "the budget"),
        ("did anyone bring up pizza in the last 20 minutes?", "pizza"),
        ("which restaurant did alice suggest", "restaurant"),
        ("remember when I told you about my cat?", "my cat"),
        ("what did bob say about last night", "last night"),
        ("did anyone mention me", "Mark"),
        ("what did bob say about me", "Mark"),
        ("who mentioned alice", "alice"),
        ("was redis mentioned", "redis"),
        ("catch me up on the migration", "the migration"),
        ("When did Carol go to the support group?", "go to the support group"),
        ("What book did Carol read in June 2023?", "book read in June 2023"),
        ("what did bob answer to my question", ""),
    ],
)
def test_the_topic_is_what_is_left(text: str, topic: str) -> None:
    assert ask(text).topic == topic


@pytest.mark.parametrize(
    ("text", "mode"),
    [
        ("what did alice just say?", Mode.LATEST),
        ("what did alice say about pizza", Mode.TOPIC),
        ("catch me up", Mode.RECAP),
        ("what were we talking about?", Mode.RECAP),
        ("catch me up on the deploy", Mode.RECAP),
        ("what was the first thing alice said?", Mode.FIRST),
    ],
)
def test_the_mode_follows_from_topic_and_recap(text: str, mode: Mode) -> None:
    assert ask(text).mode is mode


def test_the_order_of_what_to_try_follows_the_kind() -> None:
    assert ask("what did bob say").sources == (Source.BUFFER, Source.ARCHIVE, Source.HISTORY)
    assert ask("what did bob say last week").sources == (Source.ARCHIVE, Source.BUFFER, Source.HISTORY)


def test_a_direct_message_is_none_and_says_why() -> None:
    found = ask("what did bob say?", is_dm=True)
    assert (found.aside, found.why) == (Aside.DIRECT, ("a direct message has no channel around it",))


def test_the_skip_flag_asks_for_isolation() -> None:
    assert should_skip("what did bob say? 🚫")
    assert not should_skip("what did bob say?")
    assert ask("🚫 what did bob say?").kind is Kind.NONE


def test_a_forced_kind_leaves_the_rest_to_the_router() -> None:
    found = route("Would Carol likely enjoy Vivaldi?", SCENE, Kind.MEMORY)
    assert (found.kind, found.speakers, found.topic) == (Kind.MEMORY, (CAROL,), "likely enjoy Vivaldi")
    assert found.sources[0] is Source.ARCHIVE


def test_the_route_explains_itself() -> None:
    why = " | ".join(ask("what did bob say yesterday?").why)
    assert "by wording" in why
    assert "yesterday" in why
    assert "words of bob" in why


UNKNOWN_FORMS = [
    ("who broke the build", Kind.CHANNEL),
    ("so who's bringing snacks", Kind.CHANNEL),
    ("did it get resolved", Kind.CHANNEL),
    ("what's the verdict on movie night", Kind.CHANNEL),
    ("wasn't there something about a deadline", Kind.CHANNEL),
    ("can't find where alice put the slides", Kind.CHANNEL),
    ("alice refuses to play, how come", Kind.CHANNEL),
    ("45 minutes ago someone had the same error. what fixed it", Kind.MEMORY),
    ("long ago we had a rule about spoilers, what was it", Kind.MEMORY),
    ("who painted the mona lisa", Kind.NONE),
    ("did they ever find amelia earhart", Kind.NONE),
    ("can you write a poem about bob", Kind.NONE),
    ("will alice come tomorrow", Kind.NONE),
    ("alice you were right yesterday", Kind.NONE),
    ("what is a mutex", Kind.NONE),
    ('who said "to be or not to be"', Kind.NONE),
]


def test_without_a_known_form_the_words_decide() -> None:
    assert sum(ask(text).kind is kind for text, kind in UNKNOWN_FORMS) / len(UNKNOWN_FORMS) >= 0.85


ONLY_MENTIONED = [
    "i agree with what bob said",
    "alice broke her arm yesterday, how long does it take to heal",
    "my teacher told us yesterday about mitosis, can you explain it",
    "delete what i just wrote",
    "make up a story where bob and alice argue",
    "what did bob marley sing about",
    "did mark twain write huckleberry finn",
    "is the name alice more common than carol",
    "how many people said yes to brexit",
    "what was agreed in the treaty of versailles",
    "what did people talk about before smartphones",
    "what would you have said",
    "when someone says that, what do they mean",
    "what were people saying about it in 1999",
    "let bob know i'm late",
    "print('what did bob say') why is this wrong",
    "recap()",
    "`recap()` is empty",
    "chat.recap() of bob",
]


def test_what_is_only_mentioned_told_or_ordered_is_none() -> None:
    assert _share(ONLY_MENTIONED, Kind.NONE) >= 0.7


TERSE = [
    "did the meeting get moved",
    "who's against the idea",
    "any blockers mentioned",
    "what's left to decide",
    "how many said no",
    "final headcount?",
    "was that ever resolved",
    "i'd like to know whether carol ever replied",
    "main points of the discussion",
    "whats the third option you listed",
    "translate what alice said",
    "is alice for or against moving it",
]


def test_terse_and_indirect_questions_are_the_channels() -> None:
    assert _share(TERSE, Kind.CHANNEL) >= 0.8


def test_the_wording_that_decided_is_told() -> None:
    why = ask("who broke the build").why[0]
    assert why.startswith("p 0.")
    assert "“" in why


def test_what_the_wording_cannot_decide_is_looked_up_anyway() -> None:
    found = ask("what is pgbouncer?")
    assert found.kind is Kind.NONE
    assert found.sources
    assert 0.0 < found.p < 0.5


@pytest.mark.parametrize(
    ("text", "aside"),
    [
        ("hi", Aside.GREETING),
        ("hey bot", Aside.GREETING),
        ("<@1>", Aside.GREETING),
        ("good morning everyone!", Aside.GREETING),
        ("thanks!", Aside.THANKS),
        ("ok thx chan", Aside.THANKS),
        ("thanks carol, that was it", Aside.THANKS),
        ("bye chan", Aside.GOODBYE),
        ("good night all", Aside.GOODBYE),
        ("ok", Aside.NOD),
        ("k cool", Aside.NOD),
        ("👍🏽", Aside.NOD),
        ("lol", Aside.LAUGH),
        ("hahaha", Aside.LAUGH),
        ("haha good one", Aside.PRAISE),
        ("good bot", Aside.PRAISE),
        ("you're the best ❤️", Aside.PRAISE),
        ("bad bot", Aside.COMPLAINT),
        ("sry", Aside.SORRY),
        ("sorry my bad", Aside.SORRY),
        ("hey, how are you?", Aside.FEELING),
        ("how r u doing today", Aside.FEELING),
        ("who are you?", Aside.NAME),
        ("who even are you", Aside.NAME),
        ("what can u do exactly", Aside.HELP),
        ("what's your name", Aside.NAME),
        ("are you a bot?", Aside.NAME),
        ("help", Aside.HELP),
        ("what can you do?", Aside.HELP),
    ],
)
def test_small_talk_is_for_a_friendly_word(text: str, aside: Aside) -> None:
    found = ask(text)
    assert (found.kind, found.wants, found.sources, found.aside) == (Kind.NONE, Wants.HELLO, (), aside)


@pytest.mark.parametrize(
    "text",
    [
        "how are you all getting there",
        "who are you bringing",
        "what are you two arguing about",
        "ok and what did bob say",
        "lol who said that",
        "sorry what did carol say",
        "who said sorry",
        "right?",
        "again?",
        "then?",
        "is it good",
        "how is it going with the hall",
        "good morning, did anyone bring the key?",
    ],
)
def test_what_only_begins_like_small_talk_is_a_question(text: str) -> None:
    assert ask(text).aside is None


def test_a_name_that_nobody_has_is_a_stranger() -> None:
    assert ask("what did Zofia say about the rota?").stranger == "Zofia"
    assert ask("did the deploy come up?").stranger == ""
    assert ask("what did bob say?").stranger == ""


def test_quoted_words_are_meant_literally_where_somebody_said_them() -> None:
    assert ask('who said "masterpiece"?').literal == ("masterpiece",)
    assert ask("who said hi?").literal == ("hi",)
    assert ask('when does "Solaris" start?').literal == ()


FURTHER_BACK = [
    "what did we plan before the semester started",
    "befor i joined did they talk about me",
    "last season bob swore he'd quit, tell me i'm not making this up",
    "alice apologised to me once in here, what for",
    "remember bob's meltdown after the game? what were his exact words",
    "i told you what I'm allergic to, right? what did i say",
    "what's become of the plan we hatched on friday",
    "we had a vote on the 12th, bob counted it. outcome?",
    "alice left instructions for the oven this morning, i need them",
    "before i was in this server did anybody ever run a portrait swap",
    "how did the naming vote end the day before yesterday",
    "yday bob put up a spreadsheet with the jersey sizes, link?",
]


def test_what_lies_further_back_is_memory_in_less_common_words_too() -> None:
    assert _share(FURTHER_BACK, Kind.MEMORY) >= 0.9


LESS_COMMON = [
    "which one of you called it a robbery",
    "has there been any reply to my message",
    "have there been any complaints?",
    "is it ok to ask what I missed?",
    "if alice said 5 people, how many did bob say?",
    "what's an option that was suggested",
    "what is a quick recap",
    "would you mind checking if i sent the file",
    "make up your mind, what did we decide?",
    "could you search if we already talked about pizza",
    "has the client said anything",
    "what did bob say when i was gone",
    "one line version of the last 20 min thx",
    "would you check if i missed anything",
    "pls tell me nobody spoiled the finale in here while i was making tea",
    "what changed in the plan?",
    "way too many messages in here, gimme three bullet points",
    "bob and carol all typing at once, what scheme have they settled on",
    "sumarise evrything since my last msg",
    "who was against the new rule?",
    "im confused, first it was saturday now everyone's writing sunday, what changed",
]


def test_less_common_ways_to_ask_for_the_talk_are_the_channels() -> None:
    assert _share(LESS_COMMON, Kind.CHANNEL) >= 0.9


SOUNDS_LIKE_TALK = [
    "make up a fake argument between two wizards over who posted the wrong spell",
    "invent a quarrel between two vampires who shared a flat last winter",
    "would you lie to me if i asked you to",
    "what has the ECB decided about interest rates this week?",
    "if bob has 12 apples and gives alice 5, how many does he still have",
    "why is everybody in old movies smoking",
    "which git command shows who changed a line last",
    "who built you and what language are you written in",
    "what is a conversation summary buffer in LangChain?",
    "what became of rome",
    "what if you just quit",
    "have you just crashed",
    "who called it football first",
    "yes exactly what I meant",
    "nobody said it was easy, what song is that from",
    "is it ok if we water down preworkout or does that ruin it",
    "what did van gogh write to zoe about the sunflowers",
    "can you ping carol when the vote opens",
    "lol same, i forgot everything my teacher said on monday",
]


def test_what_only_sounds_like_the_talk_of_the_channel_is_none() -> None:
    assert _share(SOUNDS_LIKE_TALK, Kind.NONE) >= 0.8


@pytest.mark.parametrize(("text", "kind"), [("!play something", Kind.NONE), ("$AAPL: what did bob say?", Kind.CHANNEL)])
def test_a_command_is_no_question_and_a_ticker_no_command(text: str, kind: Kind) -> None:
    assert ask(text).kind is kind


def test_slang_and_typos_of_common_words_are_written_out() -> None:
    assert written_out("whats teh plan for tmrw, Gaz?") == "what is the plan for tomorrow, Gaz?"
    assert written_out("the café is open") == "the café is open"
