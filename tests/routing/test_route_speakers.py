"""The router: whose words a question wants."""

from __future__ import annotations

from dataclasses import replace

import pytest
from asking import ALICE, BOB, BOT, CAROL, MARIA, MARK, SCENE, TEE, WILL, ZOE, ask

from channelmem.routing.people import Roster
from channelmem.routing.route import route
from channelmem.types import Kind, Person

PAIR = replace(SCENE, roster=Roster([MARK, ALICE]))


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
    ("text", "speakers"),
    [
        ("what did bob hear from alice", (ALICE,)),
        ("according to alice, when is the deadline", (ALICE,)),
        ("what was bob's and alice's take", (BOB, ALICE)),
        ("what was your answer to alice's question", (BOT,)),
        ("did people like alice's idea", ()),
        ("does bob like alice's idea", (BOB,)),
        ("find my message about the car", (MARK,)),
        ("is will mad at me", (WILL,)),
        ("what did will and alice agree on", (WILL, ALICE)),
    ],
)
def test_whose_words_are_meant_where_several_are_named(text: str, speakers: tuple[Person, ...]) -> None:
    assert ask(text).speakers == speakers


@pytest.mark.parametrize(
    ("text", "speakers"),
    [
        ("what's the quarrel between alice and bob about", (ALICE, BOB)),
        ("scroll is too long. gimme the gist of bobs rant", (BOB,)),
        ("quote the message where carol mentioned the van keys", (CAROL,)),
        ("at what hour are we meeting? carol wrote it somewhere up there", (CAROL,)),
        ("you just named two museums, what's the second one", (BOT,)),
        ("was it bob or carol who said no to the fireworks", (BOB, CAROL)),
        ("last nite bob posted a savegame right? name of the file?", (BOB,)),
        ("u said smth smart about backlighting yesterday, say it again", (BOT,)),
        ("alice's critique of my value study, in one line", (ALICE,)),
        ("can somebody dig out the dropbox link carol put here", (CAROL,)),
        ("bob and carol seem to disagree. About what?", (BOB, CAROL)),
        ("say your last message again, but shorter", (BOT,)),
        ("What was bob's answer when carol asked him about the cursed ring?", (BOB,)),
    ],
)
def test_whose_words_are_meant_is_found_beside_the_question(text: str, speakers: tuple[Person, ...]) -> None:
    asked = ask(text)
    assert asked.kind is not Kind.NONE
    assert asked.speakers == speakers


def test_part_of_a_name_is_enough_unless_it_is_somebodys_uncle() -> None:
    rob = Person(20, "uncle rob")
    roster = Roster([MARK, rob])
    assert ask("what did rob bring up about grandma", roster=roster).speakers == (rob,)
    assert ask("what was my uncle called", roster=roster).speakers == ()


def test_everyone_of_a_list_is_a_speaker_of_a_recap() -> None:
    assert ask("give me the gist of what bob and carol are discussing").speakers == (BOB, CAROL)


def test_she_is_the_only_other_person() -> None:
    assert route("what did she say?", PAIR).speakers == (ALICE,)
    assert ask("what did she say?").speakers == ()


def test_what_was_said_to_the_bot_counts_flagged_messages() -> None:
    assert ask("what did I ask you?").to_bot
    assert ask("what did you say?").to_bot
    assert not ask("what did bob say?").to_bot


CLUB = [
    Person(30, "Dmitri", ("dima",)),
    Person(31, "Rosalind"),
    Person(32, "Wen"),
    Person(33, "Brad"),
    Person(34, "Bram"),
]


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("how many jars for rosalynd", "Rosalind"),
        ("did dimitry say the heating works", "Dmitri"),
        ("what was broken on dimas car", "Dmitri"),
        ("how is brahm getting there", "Bram"),
        ("what does wens aunt not want", "Wen"),
        ("which part of the talk is rosalinds", "Rosalind"),
        ("what time is dmitris flight", "Dmitri"),
    ],
)
def test_a_name_is_known_with_a_typo_or_without_its_apostrophe(text: str, name: str) -> None:
    scene = replace(SCENE, roster=Roster(CLUB))
    assert [person.name for person in route(text, scene).named] == [name]


@pytest.mark.parametrize(
    "text",
    [
        "who brings the bread",
        "how much bread do we need",
        "is there any break on friday",
        "who wants a dramatic ending",
        "where are the brads",
        "what is the rosalynd",
    ],
)
def test_an_english_word_or_a_thing_is_no_misspelt_name(text: str) -> None:
    assert route(text, replace(SCENE, roster=Roster(CLUB))).named == ()


def test_a_typo_that_fits_two_people_equally_means_neither() -> None:
    scene = replace(SCENE, roster=Roster([Person(1, "Marisa"), Person(2, "Marina")]))
    assert route("when does marika arrive", scene).named == ()
