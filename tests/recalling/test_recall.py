from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import pytest
from conftest import CHANNEL, GUILD, NOW, Clock, FakeEmbedder, OwnServer, make_settings, message, open_store

from channelmem.ingest.worker import Worker
from channelmem.policy.policy import Policy
from channelmem.recalling.candidates import CUT_SHORT, Asked
from channelmem.recalling.choosing import Beside, Choice
from channelmem.recalling.rank import without_names
from channelmem.recalling.recall import Found, Recall, _chosen
from channelmem.recalling.verdict import Verdict
from channelmem.settings import Settings
from channelmem.store.redis import connect
from channelmem.store.search import Search
from channelmem.store.store import Store
from channelmem.types import Evidence, History, Hit, Kind, Message, Mode, Past, Person, Question, Route, Source, Window

ANN, BOB = Person(5, "Ann"), Person(6, "Bob")
STORED = (Source.BUFFER, Source.ARCHIVE)
EVERYWHERE = (*STORED, Source.HISTORY)


def ask(text: str = "what did Ann say about turtles?", **changes: Any) -> Question:
    return replace(Question(GUILD, CHANNEL, 9_000, 77, "Zoe", text, NOW), **changes)


def about(topic: str = "turtles", **changes: Any) -> Route:
    return replace(Route(Kind.CHANNEL, Mode.TOPIC, topic=topic, sources=STORED), **changes)


class Platform(History):
    """A platform's history that gives what the test put there."""

    def __init__(self, *messages: Message, problem: str = "") -> None:
        self.past = Past(messages, problem)
        self.fetched = 0

    async def fetch(self, question: Question, limit: int, max_age_s: float) -> Past:
        self.fetched += 1
        return self.past

    async def fetch_message(self, channel_id: int, message_id: int) -> Message | None:
        return None

    def jump_url(self, guild_id: int, channel_id: int, message_id: int) -> str:
        return ""


Asking = Callable[[Question, Route], Awaitable[Found]]


def by_policy(recall: Recall, settings: Settings, **changes: Any) -> Asking:
    policy = replace(Policy.of_settings(settings), **changes)
    return lambda question, route: recall(Asked.of(question, route, policy))


@pytest.fixture
def recall(search: Search, fake_embedder: FakeEmbedder, settings: Settings, clock: Clock) -> Asking:
    return by_policy(Recall(search, fake_embedder, clock=clock), settings)


def ids(recalled: Found) -> list[int]:
    return [hit.message.id for hit in recalled.hits]


# --- by topic ---


@pytest.mark.parametrize(
    "route", [about("llamas", literal=("llamas",)), about("", mode=Mode.LATEST, speakers=(Person(5, "Ann"),))]
)
async def test_a_search_that_was_cut_short_is_no_answer(
    store: Store, search: Search, recall: Asking, route: Route
) -> None:
    for first in range(1, 3_000, 500):
        await store.add(
            [message(number, f"turtles {number}", ts=NOW - 5_000 + number) for number in range(first, first + 500)]
        )
    search._index.limit_ms = 0  # which no search can keep
    found = await recall(ask(), replace(route, sources=(Source.ARCHIVE,)))
    assert [report.problem for report in found.reports] == [CUT_SHORT]
    assert not found.hits


async def test_the_message_about_the_topic_comes_first(store: Store, worker: Worker, recall: Asking) -> None:
    await store.add([message(1, "the build is green"), message(2, "turtles are slow"), message(3, "lunch anyone")])
    assert await store.flush()
    found = await recall(ask(), about())
    assert ids(found) == [2]
    assert found.hits[0].source is Source.BUFFER
    assert found.reports[0].count == 3


async def test_only_words_of_the_asked_person_are_hits(store: Store, worker: Worker, recall: Asking) -> None:
    await store.add([message(1, "turtles are slow"), message(2, "turtles are quick", author_id=6, author="Bob")])
    assert await store.flush()
    assert ids(await recall(ask(), about(speakers=(BOB,)))) == [2]


async def test_an_answer_is_found_by_the_words_of_what_it_answers(store: Store, worker: Worker, recall: Asking) -> None:
    asked = message(1, "does anyone know what turtles eat?", author_id=6, author="Bob")
    await store.add([asked, message(2, "salad, mostly, and some fruit", parents=((1, 0.9),))])
    assert await store.flush()
    found = await recall(ask(), about(speakers=(ANN,)))
    assert ids(found) == [2]
    assert [one.id for one in found.hits[0].around] == [1]


async def test_a_topic_nobody_mentioned_is_an_honest_no(store: Store, worker: Worker, recall: Asking) -> None:
    await store.add([message(1, "the build is green"), message(2, "lunch anyone")])
    assert await store.flush()
    found = await recall(ask(), about("llamas"))
    assert not found.hits
    assert [report.source for report in found.reports] == [Source.BUFFER, Source.ARCHIVE]
    assert found.reports[0].count == 2


async def test_what_is_not_embedded_yet_is_found_too(store: Store, recall: Asking, fake_embedder: FakeEmbedder) -> None:
    await store.add([message(1, "zebras everywhere"), message(2, "lunch anyone")])
    found = await recall(ask("what did somebody say about zebras?"), about("zebras"))
    assert ids(found) == [1]
    assert found.hits[0].similarity is not None
    assert fake_embedder.embedded == 2


async def test_a_slow_model_does_not_hold_up_a_question(
    store: Store, search: Search, fake_embedder: FakeEmbedder, settings: Settings, clock: Clock
) -> None:
    fake_embedder.gate.clear()
    await store.add([message(1, "zebras everywhere")])
    impatient = by_policy(Recall(search, fake_embedder, clock=clock, pending_wait_s=0.01), settings)
    found = await impatient(ask(), about("zebras"))
    assert ids(found) == [1]
    assert found.hits[0].similarity is None


async def test_a_cancelled_question_takes_its_topic_back(
    store: Store, search: Search, settings: Settings, clock: Clock
) -> None:
    class Endless(FakeEmbedder):
        def begin_question(self, text: str) -> asyncio.Future[Any]:
            self.topic = asyncio.get_running_loop().create_future()
            return self.topic

    await store.add([message(1, "zebras everywhere")])
    endless = Endless()
    asking = asyncio.ensure_future(by_policy(Recall(search, endless, clock=clock), settings)(ask(), about("zebras")))
    done, _ = await asyncio.wait([asking], timeout=0.05)
    assert not done
    asking.cancel()
    await asyncio.wait([asking])
    assert endless.topic.cancelled()


async def test_the_question_itself_is_never_a_hit(store: Store, worker: Worker, recall: Asking) -> None:
    await store.add([message(1, "turtles are slow"), message(2, "what did Ann say about turtles")])
    assert await store.flush()
    assert ids(await recall(ask(id=2), about())) == [1]


async def test_what_was_said_to_the_bot_counts_only_when_asked_for(
    store: Store, worker: Worker, recall: Asking
) -> None:
    await store.add([message(1, "bot, do you like turtles", addressed=True), message(2, "lunch anyone")])
    assert await store.flush()
    assert ids(await recall(ask(), about())) == []
    assert ids(await recall(ask(), about(to_bot=True))) == [1]


async def test_the_archive_is_asked_when_the_buffer_has_nothing(store: Store, worker: Worker, recall: Asking) -> None:
    old = message(1, "turtles are slow", ts=NOW - 86_400)
    await store.add([old, message(2, "lunch anyone")])
    assert await store.flush()
    found = await recall(ask(), about())
    assert ids(found) == [1]
    assert found.hits[0].source is Source.ARCHIVE
    assert [report.source for report in found.reports] == [Source.BUFFER, Source.ARCHIVE]


async def test_the_archive_finds_an_answer_beside_the_words(store: Store, worker: Worker, recall: Asking) -> None:
    day = NOW - 86_400
    talk = [message(n, f"small talk number {n} about weather", ts=day + n * 30) for n in range(1, 20)]
    talk[9] = message(10, "for how long have you had the turtles?", ts=day + 300, author_id=6, author="Bob")
    talk[10] = message(11, "three years now, they are a joy", ts=day + 330, parents=((10, 0.9),))
    await store.add(talk)
    assert await store.flush()
    fact = about("long turtles", kind=Kind.MEMORY, speakers=(ANN,), sources=(Source.ARCHIVE,), binds=False)
    found = await recall(ask("How long has Ann had the turtles?"), fact)
    assert ids(found)[0] == 11


async def test_a_window_binds_where_words_are_asked_for(store: Store, worker: Worker, recall: Asking) -> None:
    await store.add([message(1, "turtles are slow", ts=NOW - 1_200), message(2, "turtles again", ts=NOW - 60)])
    assert await store.flush()
    assert ids(await recall(ask(), about(window=Window(NOW - 600, NOW)))) == [2]


async def test_other_channels_are_read_only_if_the_asker_may(store: Store, worker: Worker, recall: Asking) -> None:
    await store.add([message(1, "turtles are slow", channel_id=33)])
    assert await store.flush()
    assert ids(await recall(ask(), about())) == []
    assert ids(await recall(ask(readable_channel_ids=(33,)), about())) == [1]


async def test_repeats_are_one_hit(store: Store, worker: Worker, recall: Asking) -> None:
    await store.add([message(1, "turtles are slow"), message(2, "Turtles are slow!")])
    assert await store.flush()
    assert ids(await recall(ask(), about())) == [2]


async def test_at_most_the_limit_is_returned(
    store: Store, worker: Worker, search: Search, fake_embedder: FakeEmbedder, settings: Settings, clock: Clock
) -> None:
    await store.add([message(n, f"turtles number {n}") for n in range(1, 9)])
    assert await store.flush()
    few = by_policy(Recall(search, fake_embedder, clock=clock), settings, recall_limit=3)
    assert len((await few(ask(), about())).hits) == 3


# --- by time ---


async def test_latest_is_newest_first_and_needs_no_model(
    store: Store, recall: Asking, fake_embedder: FakeEmbedder
) -> None:
    await store.add([message(1, "one"), message(2, "two", author_id=6, author="Bob"), message(3, "three")])
    found = await recall(ask(), about("", mode=Mode.LATEST, speakers=(ANN,)))
    assert ids(found) == [3, 1]
    assert found.embed_ms == 0
    assert fake_embedder.embedded == 0


async def test_a_recap_gives_the_window_oldest_first(store: Store, recall: Asking) -> None:
    await store.add([message(1, "early", ts=NOW - 1_500), message(2, "two"), message(3, "three")])
    found = await recall(ask(), about("", mode=Mode.RECAP, window=Window(NOW - 900, NOW)))
    assert [one.id for one in found.messages] == [2, 3]
    assert not found.hits


# --- where to look ---


async def test_history_is_the_last_resort(
    store: Store, search: Search, fake_embedder: FakeEmbedder, settings: Settings, clock: Clock
) -> None:
    await store.add([message(1, "lunch anyone")])
    platform = Platform(message(50, "turtles are slow"), message(51, "bot, turtles?", addressed=True))
    recall = by_policy(Recall(search, fake_embedder, clock=clock, history=platform), settings)
    found = await recall(ask(), about(sources=EVERYWHERE))
    assert ids(found) == [50]
    assert found.hits[0].source is Source.HISTORY
    assert [report.source for report in found.reports] == list(EVERYWHERE)


async def test_history_is_not_fetched_when_the_buffer_has_it(
    store: Store, search: Search, fake_embedder: FakeEmbedder, settings: Settings, clock: Clock
) -> None:
    await store.add([message(1, "turtles are slow")])
    platform = Platform(message(50, "turtles are slow"))
    recall = by_policy(Recall(search, fake_embedder, clock=clock, history=platform), settings)
    await recall(ask(), about(sources=EVERYWHERE))
    assert platform.fetched == 0


async def test_a_problem_of_the_history_is_told(
    search: Search, fake_embedder: FakeEmbedder, settings: Settings, clock: Clock
) -> None:
    platform = Platform(problem="I may not read this channel's history.")
    recall = by_policy(Recall(search, fake_embedder, clock=clock, history=platform), settings)
    found = await recall(ask(), about(sources=EVERYWHERE))
    assert found.reports[-1].problem == "I may not read this channel's history."


@pytest.mark.parametrize("mode", [Mode.TOPIC, Mode.LATEST, Mode.RECAP])
async def test_without_redis_the_history_answers(
    own_server: OwnServer, fake_embedder: FakeEmbedder, clock: Clock, tmp_path: Any, mode: Mode
) -> None:
    settings = make_settings(own_server.url, tmp_path)
    client = connect(own_server.url, settings)
    store = await open_store(client, settings, clock)
    own_server.kill()
    platform = Platform(message(50, "turtles are slow"))
    recall = by_policy(Recall(Search(store.buckets), fake_embedder, clock=clock, history=platform), settings)
    found = await recall(ask(), about(mode=mode, sources=EVERYWHERE))
    assert [one.id for one in found.messages] or ids(found) == [50]
    assert all(report.problem for report in found.reports[:2])
    assert not found.reports[2].problem
    await store.close(wait_s=0)
    await client.aclose()


async def test_a_question_for_no_memory_looks_nowhere(recall: Asking) -> None:
    found = await recall(ask("hello"), Route(Kind.NONE))
    assert (found.hits, found.messages, found.reports) == ((), (), ())


# --- small decisions ---


def test_names_are_taken_out_whole() -> None:
    route = about(speakers=(Person(5, "Ann", ("annie",)),))
    assert (
        without_names("When did Ann's sister meet Annie in Annapolis?", route) == "When did sister meet in Annapolis?"
    )


def test_around_a_hit_are_what_it_answers_and_what_answers_it() -> None:
    talk = [
        message(1, "question"),
        message(2, "aside"),
        message(3, "answer", parents=((1, 0.8), (2, 0.1))),
        message(4, "aside", parents=((2, 0.9),)),
        message(5, "thanks", parents=((3, 0.7),)),
    ]
    assert [talk[at].id for at in Beside(talk).of(2)] == [1, 5]


# --- what the evidence must have ---


@pytest.mark.parametrize(
    ("sure", "similarity", "verdict"),
    [(0.9, 0.2, Verdict.QUOTE), (0.9, 0.05, Verdict.NOTHING), (None, 0.2, Verdict.NOTHING)],
)
def test_a_fragment_may_answer_without_a_word_of_the_question_but_not_for_somebodys_words(
    sure: float | None, similarity: float, verdict: Verdict, settings: Settings
) -> None:
    evidence = Evidence(coverage=0.0, thread=0.0, similarity=similarity, missing=1.0, compared=50)
    choice = Choice((Hit(message(1, "half 9 then"), 1.0),), evidence, sure)
    route = about("start", p=0.9, binds=sure is None)
    assert _chosen(choice, Asked.of(ask("when do we start?"), route, Policy.of_settings(settings))).verdict is verdict


async def test_the_buffer_adds_nothing_to_an_archive_that_was_searched(
    store: Store, worker: Worker, recall: Asking
) -> None:
    await store.add([message(1, "the build is green")])
    assert await store.flush()
    found = await recall(ask(), about("llamas", sources=(Source.ARCHIVE, Source.BUFFER)))
    assert [report.source for report in found.reports] == [Source.ARCHIVE]
