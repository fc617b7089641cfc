"""The score of a language model's words: the quotes where the bot shows quotes, its own words where they stand."""

from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest
from llm_server import LlmServer, llm_server, say

from channelmem import Answer, Kind, Memory, Settings
from channelmem.embedding.embed import Embedder
from channelmem.llm.opening import open_responder
from channelmem.types import Route
from scripts.eval_scenes import Judged, Speaker, friend_line, model_lines, row_of, told_right
from scripts.scenes import Scene, read_scenes, replay

SCENE = """!scene office 2026-03-10T07:42 Bob=bob Carol=carol Ann=ann
Bob {broken}: the deploy is broken again
Carol {fixed}: i fixed the deploy, it was the cache
Bob {lunch}: lunch is at 12:30 at the corner place
Ann {turtles}: turtles are slow
? +2m Ann [who]: who fixed the deploy
  = any fixed
? +1m Ann [when]: when is lunch
  = any lunch | must 12:30
? +1m Ann [no]: did anyone mention the budget
  = no
? +1m Ann [none]: write a haiku about the sea
  = none
"""


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    (tmp_path / "office.txt").write_text(SCENE)
    return read_scenes(tmp_path)[0]


@pytest.fixture
async def server() -> AsyncIterator[LlmServer]:
    async with llm_server() as running:
        yield running


async def rows_of(server: LlmServer, settings: Settings, embedder: Embedder, scene: Scene) -> list[Judged]:
    clock = [0.0]
    model = {"llm_model": "any", "llm_base_url": server.openai_url, "llm_api_key": "none", "llm_tool": False}
    settings = Settings(**{**settings.model_dump(), **model})
    async with Memory.open(settings, embedder=embedder, clock=lambda: clock[0]) as memory:
        responder = open_responder(settings, memory, clock=lambda: clock[0])
        assert responder is not None
        speak = Speaker(responder)
        turns = replay(memory, scene, (1, 1), clock, None, speak)
        rows = [row_of(scene, turn, answer, list(said.values()), speak) async for turn, answer, said in turns]
        await responder.close()
    return rows


async def test_with_a_model_that_is_wrong_the_quotes_count(
    server: LlmServer, settings: Settings, embedder: Embedder, scene: Scene
) -> None:
    server.will(say("Bob fixed the deploy."), say("Turtles are slow."), say("Bob did."), say("The sea is wide."))
    rows = await rows_of(server, settings, embedder, scene)
    assert [bool(row.words) for row in rows] == [False, False, False, True]
    assert [row.spoken for row in rows] == [row.friend for row in rows]


async def test_with_a_model_that_is_right_its_own_words_count(
    server: LlmServer, settings: Settings, embedder: Embedder, scene: Scene
) -> None:
    server.will(say("Carol."), say("Lunch is at half 12."), say("Nobody mentioned it."), say("The sea is wide."))
    rows = await rows_of(server, settings, embedder, scene)
    assert [row.words != "" and row.spoken for row in rows] == [True] * 4
    assert next(line for line in reversed(list(model_lines(rows)))).endswith("friend=4 (100.0%) in its words=4")


@pytest.mark.parametrize(
    ("at", "words", "right"),
    [
        (0, "Carol did.", True),
        (0, "Bob did.", False),
        (0, "Yes.", False),
        (1, "At half past twelve.", True),
        (1, "At the corner place.", False),
        (2, "I have not seen anything about a budget.", True),
        (2, "The budget is 300 euros.", False),
        (3, "waves upon the sand", True),
        (3, "“turtles are slow”", False),
    ],
)
def test_a_models_words_are_right_if_the_gold_message_says_them(scene: Scene, at: int, words: str, right: bool) -> None:
    said = [turn for turn in scene.turns if not turn.expected]
    assert told_right(scene.questions[at], words, said) == right


def test_a_friend_quotes_nothing_beside_the_point(scene: Scene) -> None:
    turn, ids = scene.questions[0], {turn.text.split()[0]: turn.id for turn in scene.turns}

    def row(*shown: str, verdict: str = "right") -> Judged:
        return Judged("office", turn, Answer("", Route(Kind.CHANNEL)), tuple(ids[one] for one in shown), verdict)

    rows: Sequence[Judged] = [row("i"), row("i", "turtles"), row("turtles", "i"), row(verdict="wrong")]
    assert [one.friend for one in rows] == [True, False, False, False]
    assert friend_line(rows) == "FRIEND n=4 friend=1 (25.0%) lead=2/4 (50.0%) off=2"
