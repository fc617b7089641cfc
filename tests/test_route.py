from __future__ import annotations

from dataclasses import replace
from datetime import datetime

import pytest

from channelmem.routing.people import Roster
from channelmem.routing.route import Scene, route, should_skip
from channelmem.types import Kind, Mode, Person, Route, Source, Window

NOW = datetime.fromisoformat("2026-03-18T15:30:00+00:00").timestamp()  # a Wednesday
MARK, ALICE, BOB, CAROL = Person(10, "Mark"), Person(11, "Alice", ("ally",)), Person(12, "bob"), Person(13, "Carol")
ZOE, WILL, MARIA, TEE = Person(14, "Zoë"), Person(15, "will"), Person(16, "María José"), Person(17, "Mr. T")
BOT = Person(1, "Chan")
SCENE = Scene(asker=MARK, bot=BOT, roster=Roster([MARK, ALICE, BOB, CAROL, ZOE, WILL, MARIA, TEE]), now=NOW)
PAIR = replace(SCENE, roster=Roster([MARK, ALICE]))


def ask(text: str, **changes: object) -> Route:
    return route(text, replace(SCENE, **changes))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "text",
    [
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
    ],
)
def test_a_question_about_the_conversation_without_a_past_time_goes_to_the_channel(text: str) -> None:
    assert ask(text).kind is Kind.CHANNEL


@pytest.mark.parametrize(
    "text",
    [
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
    ],
)
def test_a_past_time_or_something_told_before_goes_to_memory(text: str) -> None:
    assert ask(text).kind is Kind.MEMORY


@pytest.mark.parametrize(
    "text",
    [
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
    ],
)
def test_what_is_not_about_the_conversation_is_none(text: str) -> None:
    found = ask(text)
    assert found.kind is Kind.NONE
    assert found.sources == ()
    assert found.why


@pytest.mark.parametrize(
    ("text", "speakers"),
    [
        ("what did I say?", (MARK,)),
        ("what did you tell me?", (BOT,)),
        ("what did ALLY say", (ALICE,)),
        ("what did zoe say", (ZOE,)),
        ("what did car say", (CAROL,)),
        ("what did maria jose say", (MARIA,)),
        ("what did Mr. T just call me", (TEE,)),
        ("what did <@12> say", (BOB,)),
        ("what did @bob say", (BOB,)),
        ("what did bob, alice and carol decide", (BOB, ALICE, CAROL)),
        ("what did bob and i decide", (BOB, MARK)),
        ("what was bob's answer", (BOB,)),
        ("any link from alice?", (ALICE,)),
        ("what did bob tell alice about carol", (BOB,)),
        ("has alice answered my question yet?", (ALICE,)),
        ("who replied to bob", ()),
        ("did anyone mention alice", ()),
        ("what did we decide", ()),
        ("what did will say", (WILL,)),
        ("what's the argument between bob and alice about", (BOB, ALICE)),
        ("carol and bob: what did they vote for?", (CAROL, BOB)),
    ],
)
def test_the_subject_is_the_speaker(text: str, speakers: tuple[Person, ...]) -> None:
    assert ask(text).speakers == speakers


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
        ("catch me up on the deploy", Mode.TOPIC),
    ],
)
def test_the_mode_follows_from_topic_and_recap(text: str, mode: Mode) -> None:
    assert ask(text).mode is mode


def test_recent_words_decide_before_a_time_that_belongs_to_the_topic() -> None:
    found = ask("what did alice just say about the meeting on monday")
    assert found.kind is Kind.CHANNEL
    assert found.window == Window(NOW - 1_800, NOW)


def test_the_horizon_is_a_setting() -> None:
    text = "what did bob say an hour ago"
    assert ask(text).kind is Kind.MEMORY
    assert ask(text, horizon_s=7_200.0).kind is Kind.CHANNEL


def test_a_window_that_starts_inside_the_horizon_is_the_channels() -> None:
    assert ask("what did bob say in the last 20 minutes").kind is Kind.CHANNEL
    assert ask("what did bob say in the last 40 minutes").kind is Kind.MEMORY


def test_a_day_is_read_in_the_given_time_zone() -> None:
    tokyo = ask("what did bob say today", tz="Asia/Tokyo").window
    assert tokyo.start == datetime.fromisoformat("2026-03-19T00:00:00+09:00").timestamp()


def test_catch_me_up_means_since_the_asker_last_spoke() -> None:
    found = ask("catch me up", last_spoke_ts=NOW - 600)
    assert found.window == Window(NOW - 600, NOW)
    assert found.sources[0] is Source.BUFFER


def test_a_long_absence_is_recapped_from_the_archive_first() -> None:
    assert ask("what did i miss", last_spoke_ts=NOW - 90_000).sources[0] is Source.ARCHIVE


def test_before_i_joined_is_memory_that_ends_there() -> None:
    found = ask("what was being discussed here before I joined", joined_ts=NOW - 9_000)
    assert found.kind is Kind.MEMORY
    assert found.window.end == NOW - 9_000


def test_the_order_of_what_to_try_follows_the_kind() -> None:
    assert ask("what did bob say").sources == (Source.BUFFER, Source.ARCHIVE, Source.HISTORY)
    assert ask("what did bob say last week").sources == (Source.ARCHIVE, Source.BUFFER, Source.HISTORY)


FIRST = ask("what did alice say about turtles?")


def test_a_follow_up_with_a_name_keeps_the_topic() -> None:
    found = ask("and Bob?", previous=FIRST)
    assert (found.kind, found.speakers, found.topic) == (Kind.CHANNEL, (BOB,), "turtles")


def test_a_follow_up_with_a_time_keeps_speaker_and_topic() -> None:
    found = ask("what about yesterday?", previous=FIRST)
    assert (found.kind, found.speakers, found.topic) == (Kind.MEMORY, (ALICE,), "turtles")
    assert found.window.end == datetime.fromisoformat("2026-03-18T00:00:00+00:00").timestamp()
    assert found.sources[0] is Source.ARCHIVE


def test_a_follow_up_with_a_topic_keeps_the_speaker() -> None:
    found = ask("what about pizza?", previous=FIRST)
    assert (found.speakers, found.topic, found.mode) == ((ALICE,), "pizza", Mode.TOPIC)


def test_a_full_question_that_begins_with_and_inherits_the_topic() -> None:
    found = ask("and what did bob say?", previous=FIRST)
    assert (found.speakers, found.topic) == ((BOB,), "turtles")


def test_about_that_means_the_previous_topic() -> None:
    assert ask("did carol say anything about that?", previous=FIRST).topic == "turtles"


@pytest.mark.parametrize("text", ["and Bob?", "what about yesterday?"])
def test_without_a_previous_question_there_is_nothing_to_follow(text: str) -> None:
    assert ask(text).kind is Kind.NONE


def test_small_talk_after_a_question_is_no_follow_up() -> None:
    assert ask("thanks, that was helpful", previous=FIRST).kind is Kind.NONE


def test_she_is_the_person_of_the_previous_question() -> None:
    assert ask("what else did she say?", previous=FIRST).speakers == (ALICE,)


def test_both_of_them_are_the_people_of_the_previous_question() -> None:
    pair = ask("what did bob and carol say?")
    assert ask("what did both of them say about pizza?", previous=pair).speakers == (BOB, CAROL)


def test_she_is_the_only_other_person() -> None:
    assert route("what did she say?", PAIR).speakers == (ALICE,)
    assert ask("what did she say?").speakers == ()


def test_what_was_said_to_the_bot_counts_flagged_messages() -> None:
    assert ask("what did I ask you?").to_bot
    assert ask("what did you say?").to_bot
    assert not ask("what did bob say?").to_bot


def test_a_direct_message_is_none_and_says_why() -> None:
    assert ask("what did bob say?", is_dm=True).why == ("a direct message has no channel around it",)


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
    assert "did bob say" in why
    assert "yesterday" in why
    assert "words of bob" in why


@pytest.mark.parametrize(
    ("text", "kind"),
    [
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
    ],
)
def test_without_a_known_form_the_evidence_decides(text: str, kind: Kind) -> None:
    assert ask(text).kind is kind


@pytest.mark.parametrize(
    "text",
    [
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
    ],
)
def test_what_is_only_mentioned_told_or_ordered_is_none(text: str) -> None:
    assert ask(text).kind is Kind.NONE


@pytest.mark.parametrize(
    "text",
    [
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
    ],
)
def test_terse_and_indirect_questions_are_the_channels(text: str) -> None:
    assert ask(text).kind is Kind.CHANNEL


@pytest.mark.parametrize(
    ("text", "speakers"),
    [
        ("what did bob hear from alice", (ALICE,)),
        ("according to alice, when is the deadline", (ALICE,)),
        ("what was bob's and alice's take", (BOB, ALICE)),
        ("what was your answer to alice's question", (BOT,)),
        ("did people like alice's idea", ()),
        ("does bob like alice's idea", (BOB,)),
        ("find my message about the car", (MARK,)),
        ("i asked you for a list, what did you put on it", (BOT,)),
        ("is will mad at me", (WILL,)),
        ("what did will and alice agree on", (WILL, ALICE)),
    ],
)
def test_whose_words_are_meant_where_several_are_named(text: str, speakers: tuple[Person, ...]) -> None:
    assert ask(text).speakers == speakers


def test_the_evidence_is_told_in_words() -> None:
    assert "who did it +2" in ask("who broke the build").why[0]
    assert "a deed of history -4" in ask("who painted the mona lisa").why[0]


def test_somebody_absent_gets_a_recap() -> None:
    assert ask("afk for ten, what changed").mode is Mode.RECAP


@pytest.mark.parametrize(
    ("text", "ago_s", "not_ago_s"),
    [
        ("what happened here in the past quarter of an hour", 600, 1_200),
        ("what was posted between 9 and 10 this morning", 6 * 3_600, 4 * 3_600),
        ("what did bob bring up the day before yesterday", 2 * 86_400, 86_400),
        ("summarise today's conversation", 8 * 3_600, 86_400),
    ],
)
def test_windows_of_less_common_expressions(text: str, ago_s: float, not_ago_s: float) -> None:
    window = ask(text).window
    assert window.contains(NOW - ago_s)
    assert not window.contains(NOW - not_ago_s)


def test_a_day_that_was_suggested_is_no_time_to_look_at() -> None:
    assert ask("who suggested thursday").kind is Kind.CHANNEL
    assert ask("which pub did bob pick on friday").kind is Kind.MEMORY


def test_part_of_a_name_is_enough_unless_it_is_somebodys_uncle() -> None:
    rob = Person(20, "uncle rob")
    roster = Roster([MARK, rob])
    assert ask("what did rob bring up about grandma", roster=roster).speakers == (rob,)
    assert ask("what was my uncle called", roster=roster).speakers == ()


def test_everyone_of_a_list_is_a_speaker_of_a_recap() -> None:
    assert ask("give me the gist of what bob and carol are discussing").speakers == (BOB, CAROL)


def test_an_old_channel_is_asked_like_a_new_one() -> None:
    """Replayed with its own clock; only a year that was written down is a time before there were channels."""
    then = datetime.fromisoformat("2004-05-04T12:00:00+00:00").timestamp()
    assert ask("earlier bob said something about grub, what was it?", now=then).kind is Kind.CHANNEL
    assert ask("what did bob say yesterday?", now=then).kind is Kind.MEMORY
    assert ask("what happened in 1998?", now=then).kind is Kind.NONE
    assert ask("what happened in 1998?").kind is Kind.NONE


@pytest.mark.parametrize(
    "text",
    [
        "is bob fine with taking the saturday shift",
        "did somebody take the sunday dm slot already or is it still free",
        "has alice confirmed for the game on friday",
        "did bob claim the wipe is tonight",
        "how many ppl voted for the 7am slot",
        "bob's answer to q3, what was it again",
    ],
)
def test_a_day_that_belongs_to_what_is_planned_is_no_time_to_look_at(text: str) -> None:
    asked = ask(text)
    assert (asked.kind, asked.window) == (Kind.CHANNEL, Window())


@pytest.mark.parametrize(
    ("text", "ago_s"),
    [
        ("which trail did bob suggest last sunday", 3 * 86_400),
        ("what did alice ask for five days ago", 5 * 86_400),
        ("what was on bob's list two evenings ago", 2 * 86_400),
        ("has bob said anything since friday", 2 * 86_400),
        ("has bob posted anything on friday", 5 * 86_400),
        ("who told us the server is down on friday", 5 * 86_400),
        ("i think it was monday, what did alice say", 2 * 86_400),
        ("what did bob say last evening", 20 * 3_600),
        ("what did we decide in the monday meeting", 2 * 86_400),
        ("what did alice write last week or did nobody write", 5 * 86_400),
        ("my phone died for ten min what did yall talk abt", 300),
    ],
)
def test_a_day_gone_by_is_one_whatever_stands_before_it(text: str, ago_s: float) -> None:
    assert ask(text).window.contains(NOW - ago_s)


@pytest.mark.parametrize(
    "text",
    [
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
    ],
)
def test_what_lies_further_back_is_memory_in_less_common_words_too(text: str) -> None:
    assert ask(text).kind is Kind.MEMORY


@pytest.mark.parametrize(
    ("text", "speakers"),
    [
        ("what's the quarrel between alice and bob about", (ALICE, BOB)),
        ("scroll is too long. gimme the gist of bobs rant", (BOB,)),
        ("quote the message where carol mentioned the van keys", (CAROL,)),
        ("at what hour are we meeting? carol wrote it somewhere up there", (CAROL,)),
        ("you just named two museums, what's the second one", (BOT,)),
        ("i made up a rhyme for the bones and told you ages back, how did it go", (MARK,)),
        ("was it bob or carol who said no to the fireworks", (BOB, CAROL)),
        ("last nite bob posted a savegame right? name of the file?", (BOB,)),
        ("u said smth smart about backlighting yesterday, say it again", (BOT,)),
        ("alice's critique of my value study, in one line", (ALICE,)),
        ("can somebody dig out the dropbox link carol put here", (CAROL,)),
        ("bob and carol seem to disagree. About what?", (BOB, CAROL)),
        ("five hours ago I dumped a stack trace in here. which file was it in", (MARK,)),
        ("say your last message again, but shorter", (BOT,)),
        ("What was bob's answer when carol asked him about the cursed ring?", (BOB,)),
    ],
)
def test_whose_words_are_meant_is_found_beside_the_question(text: str, speakers: tuple[Person, ...]) -> None:
    asked = ask(text)
    assert asked.kind is not Kind.NONE
    assert asked.speakers == speakers


@pytest.mark.parametrize(
    "text",
    [
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
    ],
)
def test_less_common_ways_to_ask_for_the_talk_are_the_channels(text: str) -> None:
    assert ask(text).kind is Kind.CHANNEL


@pytest.mark.parametrize(
    "text",
    [
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
    ],
)
def test_what_only_sounds_like_the_talk_of_the_channel_is_none(text: str) -> None:
    assert ask(text).kind is Kind.NONE
