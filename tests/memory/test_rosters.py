"""Who is known in a channel: from what was stored, what passes by, and what was removed meanwhile."""

from dataclasses import replace

from conftest import CHANNEL, GUILD, NOW, message

from channelmem.policy.policy import Policy
from channelmem.scenes import KnownPeople, Rosters
from channelmem.settings import Settings
from channelmem.store.store import Store
from channelmem.types import History, Message, Past, Person, Question

ZOE = Person(9, "Zoe")
POLICY = Policy.of_settings(Settings())


def ask(store: Store) -> Question:
    return Question(GUILD, CHANNEL, 9, 5, "Ann", "who?", store.buckets.clock())


def nobody(_guild_id: int, _channel_id: int) -> list[Person]:
    return []


async def test_people_are_known_by_what_was_stored_before(store: Store) -> None:
    await store.add([message(1, author_id=5, author="Ann"), message(2, author_id=6, author="Bob")])
    rosters = Rosters(store, None, nobody)
    people = await rosters.of(ask(store), POLICY)
    assert {person.name for person in people.roster.people} == {"Ann", "Bob"}
    assert people.spoke[5] == message(1).ts
    assert not rosters.is_unknown(ask(store), people)


async def test_whoever_speaks_is_known_without_another_look(store: Store) -> None:
    rosters = Rosters(store, None, nobody)
    assert not (await rosters.of(ask(store), POLICY)).seen
    rosters.hear(message(3, author_id=7, author="Carol"))
    rosters.hear(message(4, author_id=8, author="Memo", own=True))
    people = await rosters.of(ask(store), POLICY)
    assert {person.name for person in people.roster.people} == {"Carol"}


async def test_speaking_to_the_bot_is_not_speaking_to_the_channel(store: Store) -> None:
    rosters = Rosters(store, None, nobody)
    await rosters.of(ask(store), POLICY)
    rosters.hear(message(3, author_id=7, author="Carol", ts=NOW - 60))
    rosters.hear(message(4, author_id=7, author="Carol", ts=NOW - 5, addressed=True))
    assert (await rosters.of(ask(store), POLICY)).spoke == {7: NOW - 60}


async def test_a_roster_that_races_with_a_removal_serves_one_question_only(store: Store) -> None:
    await store.add([message(1, author_id=5, author="Ann")])

    class Racing(Rosters):
        async def _read(self, question: Question, policy: Policy):  # type: ignore[no-untyped-def]
            entries, _ = await super()._read(question, policy)
            return entries, False

    rosters = Racing(store, None, nobody)
    assert (await rosters.of(ask(store), POLICY)).seen
    rosters.hear(message(2, author_id=6, author="Bob"))
    assert {one.name for one in (await rosters.of(ask(store), POLICY)).seen.values()} == {"Ann"}


async def test_a_forgotten_person_is_not_in_the_next_roster(store: Store) -> None:
    await store.add([message(1, author_id=5, author="Ann"), message(2, author_id=6, author="Bob")])
    rosters = Rosters(store, None, nobody)
    await rosters.of(ask(store), POLICY)
    await store.consent.opt_out(6)
    rosters.drop(lambda _: True)
    assert {one.name for one in (await rosters.of(ask(store), POLICY)).seen.values()} == {"Ann"}


class Platform(History):
    async def fetch(self, question: Question, limit: int, max_age_s: float) -> Past:
        return Past((message(1, author_id=9, author="Zoe"),))

    async def fetch_message(self, channel_id: int, message_id: int) -> Message | None:
        return None

    def jump_url(self, guild_id: int, channel_id: int, message_id: int) -> str:
        return ""


async def test_the_platform_knows_who_spoke_where_nobody_is_known(store: Store) -> None:
    rosters = Rosters(store, Platform(), nobody)
    assert rosters.is_unknown(ask(store), await rosters.of(ask(store), POLICY))
    from_history = await rosters.from_history(ask(store), POLICY)
    assert list(from_history.seen.values()) == [ZOE]


def test_who_is_mentioned_is_meant_and_nobody_else_of_that_name() -> None:
    ann, other, anna = Person(1, "Ann"), Person(2, "annie", ("ANN", "ann_the_second")), Person(3, "Anna")
    known = KnownPeople({person.id: person for person in (ann, other, anna)})
    assert known.roster_of([]) is known.roster
    assert known.roster_of([anna]) is known.roster
    assert known.roster_of([ann]).people == (anna, ann)
    assert known.roster_of([ann, other]).find(["ann"], 0)[0] == (ann, other)
    assert known.roster_of([ZOE]).by_id(ZOE.id) == ZOE  # who never spoke here can be meant too


async def test_whoever_wrote_last_is_an_example_but_neither_the_asker_nor_the_bot(store: Store) -> None:
    rosters = Rosters(store, None, nobody)
    assert rosters.somebody(ask(store)) == ""
    await store.add([message(1, author_id=5, author="Ann"), message(2, author_id=6, author="Bob", ts=NOW - 90)])
    await rosters.of(ask(store), POLICY)
    assert rosters.somebody(ask(store)) == "Bob"
    rosters.hear(message(3, author_id=7, author="Carol", ts=NOW - 60))
    rosters.hear(message(4, author_id=8, author="Memo", ts=NOW - 50))
    question = replace(ask(store), bot=Person(8, "Memo"))
    assert rosters.somebody(question) == "Carol"
    assert rosters.somebody(replace(question, channel_id=CHANNEL + 1)) == ""


async def test_who_opted_out_or_was_forgotten_is_no_example(store: Store) -> None:
    rosters = Rosters(store, None, nobody)
    await store.add([message(1, author_id=6, author="Bob")])
    await store.consent.opt_out(6)
    await rosters.of(ask(store), POLICY)
    assert rosters.somebody(ask(store)) == ""
    rosters.hear(message(2, author_id=7, author="Carol"))
    rosters.drop(lambda _: True)
    assert rosters.somebody(ask(store)) == ""
