"""Each benchmark runs at a tiny size and reports what docs/performance.md shows; speed is not tested here."""

from __future__ import annotations

import json
import os
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from processes import run as run_process

from scripts.bench_knn import FILTERED, IN_PINGS, LATENCY, RECALL
from scripts.bench_media import CONTEXT, READING
from scripts.bench_scale import LATENCY as OPERATIONS
from scripts.bench_scale import REMOVED, RESTART
from scripts.bench_service import ASKING, MANY, TAKING
from scripts.bench_settings import KNOWN, SEEN, UNKNOWN
from scripts.bench_stopped import BACK, FIRST, SECOND
from scripts.fill import Cloud
from scripts.measure import SUBJECTS, Ratio, chat_lines, questions, subject_channel
from scripts.scaling.operations import GUILD_NEAREST, QUESTION

ROOT = Path(__file__).parents[2]
LIMIT_S = 900.0
"""Against a hang only. The model's threads run at low priority, so beside busy cores a benchmark takes minutes."""
pytestmark = pytest.mark.timeout(LIMIT_S + 60)


def run(name: str, url: str, *arguments: str) -> dict[str, Any]:
    command = [sys.executable, "-m", f"scripts.{name}", "--json", *arguments]
    done = run_process(command, env={**os.environ, "REDIS_URL": url}, cwd=ROOT, timeout_s=LIMIT_S)
    assert done.returncode == 0, done.stderr
    report: dict[str, Any] = json.loads(done.stdout)
    assert {"bench", "machine", "tables", "ratios"} <= report.keys()
    return report


@pytest.mark.process
def test_knn_is_measured_for_every_index_and_filter_beside_a_ping(redis_url: str, tmp_path: Path) -> None:
    picture = tmp_path / "knn.png"
    sizes = ("--sizes", "100", "1000", "--rounds", "5", "--recall-queries", "20", "--plot", str(picture))
    report = run("bench_knn", redis_url, *sizes)
    rows = report["tables"][LATENCY]
    assert {row["index"] for row in rows} == {"hnsw-float16", "flat-float16", "hnsw-float32", "flat-float32"}
    assert {row["stored"] for row in rows} == {100, 1000}
    assert all(row[IN_PINGS] == 1.0 for row in rows if row["what"] == "PING")
    assert {"PING", FILTERED, "KNN unfiltered", "nearest, buffer", "nearest, archive"} <= {row["what"] for row in rows}
    assert len(report["ratios"]) == 4
    recall = {(row["what"], row["stored"]): row["recall@10"] for row in report["tables"][RECALL]}
    assert recall["in a channel, as Redis chooses", 1000] == 1.0
    assert recall["unfiltered, ef 100", 1000] >= recall["unfiltered, ef 10", 1000]
    assert picture.read_bytes().startswith(b"\x89PNG")


@pytest.mark.process
def test_a_growing_store_is_measured_with_removals_and_a_restart_and_goes_on_where_it_stopped(tmp_path: Path) -> None:
    picture, folder = tmp_path / "scale.png", ("--dir", str(tmp_path / "scale"), "--rounds", "2")
    first = run("bench_scale", "", "--sizes", "1000", *folder, "--no-removals", "--no-restart")
    assert {row["stored"] for row in first["tables"][OPERATIONS]} == {1000}
    report = run("bench_scale", "", "--sizes", "1000", "2500", *folder, "--plot", str(picture))
    rows = report["tables"][OPERATIONS]
    assert [row for row in rows if row["stored"] == 1000] == first["tables"][OPERATIONS]
    assert {row["what"] for row in rows if row["stored"] == 2500} >= {"PING", QUESTION, GUILD_NEAREST}
    assert [row["what"] for row in report["tables"][REMOVED]] == ["forget", "delete_guild"]
    assert report["tables"][REMOVED][0]["messages"] == 250
    assert report["tables"][RESTART][0]["seconds"] > 0
    assert picture.read_bytes().startswith(b"\x89PNG")


@pytest.mark.process
def test_ingest_is_measured_against_the_embedder_and_with_workers(redis_url: str) -> None:
    arguments = ("--rounds", "1", "--burst", "16", "--workers", "1", "--stored", "0", "100")
    report = run("bench_ingest", redis_url, *arguments)
    assert [row["stored"] for row in report["tables"]["until searchable, by messages already stored"]] == [0, 100]
    assert [row["workers"] for row in report["tables"]["with worker processes"]] == [1]
    assert {"delay p50 ms", "most waiting"} <= report["tables"]["event loop and queue"][0].keys()
    assert len(report["ratios"]) == 2


@pytest.mark.process
def test_every_way_of_using_the_cores_is_timed(redis_url: str) -> None:
    (rows,) = run("bench_layouts", redis_url, "--rounds", "2")["tables"].values()
    assert len(rows) == 4
    assert all(row[name] > 0 for row in rows for name in ("question ms", "after a pause ms", "messages/s", "cores"))


@pytest.mark.slow  # it imports torch three times
def test_the_peers_are_measured_and_all_find_the_answer(redis_url: str) -> None:
    sizes = ("--rounds", "1", "--stored", "100", "--burst", "16", "--backlog", "150", "--starts", "1")
    report = run("bench_peers", redis_url, *sizes)
    asked = report["tables"]["ask: a new question, its answer in a channel of 50"]
    optional = [name for name in ("mem0", "chromadb") if find_spec(name)]
    assert [row["found"] for row in asked if row["found"] != ""] == [1.0] * (5 + len(optional))
    sizes_of = {row["what"]: row["where"] for row in report["tables"]["bytes per message, all in"]}
    in_redis = dict.fromkeys(("channelmem", "redisvl", "JSON, torch"), "memory of Redis")
    assert sizes_of == in_redis | dict.fromkeys(optional, "on disk")
    added = {row["what"] for row in report["tables"]["messages per second until searchable"]}
    assert {"channelmem", "redisvl", "JSON, torch", *optional} <= added
    assert len(report["ratios"]) == 12


@pytest.mark.process
def test_waiting_for_a_stopped_redis_is_measured_on_a_server_of_its_own(redis_url: str) -> None:
    (rows,) = run("bench_stopped", redis_url, "--rounds", "1")["tables"].values()
    took = {row["what"]: row["median"] for row in rows}
    assert took[FIRST] >= 1.0, "one timeout"
    assert took[SECOND] < took[FIRST]
    assert BACK in took


@pytest.mark.process
def test_reading_media_is_timed(redis_url: str) -> None:
    tables = run("bench_media", redis_url, "--rounds", "1")["tables"]
    assert {name: len(rows) for name, rows in tables.items()} == {READING: 5, CONTEXT: 2}
    assert all(0 <= row["median"] <= row["worst"] for rows in tables.values() for row in rows)


@pytest.mark.process
def test_resolving_and_changing_settings_is_timed(redis_url: str) -> None:
    tables = run("bench_settings", redis_url, "--channels", "20", "--rounds", "2")["tables"]
    assert {row["what"] for rows in tables.values() for row in rows} == {
        "start with 20 channels", SEEN, KNOWN, UNKNOWN,
    }  # fmt: skip
    assert all(0 < row["median"] <= row["worst"] for rows in tables.values() for row in rows)


@pytest.mark.process
def test_summaries_are_timed_and_their_round_trips_counted(redis_url: str) -> None:
    tables = run("bench_summaries", redis_url, "--days", "2", "--a-day", "60", "--rounds", "2")["tables"]
    asked = {row["what"]: row for row in tables["per question"]}
    assert asked["context"]["round trips"] == asked["context without summaries"]["round trips"] + 1 <= 3
    assert [row["summaries"] for row in tables["processor seconds"]][1] > 40
    assert all(row["bytes"] > 0 for row in tables["bytes in Redis"])


def test_a_ratio_knows_its_direction() -> None:
    assert Ratio("faster", 4.1, 4, at_least=True).ok
    assert not Ratio("faster", 3.9, 4, at_least=True).ok
    assert Ratio("smaller", 0.5, 0.5).ok
    assert not Ratio("smaller", 0.51, 0.5).ok


def test_generated_lines_are_distinct_and_the_same_every_time() -> None:
    lines = chat_lines(500)
    assert len(set(lines)) == 500
    assert lines == chat_lines(500)
    assert lines != chat_lines(500, seed=2)


def test_questions_are_distinct_and_name_something_that_was_said() -> None:
    said = " ".join(subject_channel())
    asked = [question.text for question, _ in zip(questions(0), range(400), strict=False)]
    assert len(set(asked)) == 400
    assert all(subject in said for subject in SUBJECTS)
    assert all(any(subject in text for subject in SUBJECTS) for text in asked)


def test_vectors_of_the_cloud_are_unit_and_have_near_neighbours() -> None:
    vectors = Cloud().draw(500)
    assert np.allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)
    near = vectors @ vectors.T - np.eye(500)
    assert np.median(near.max(axis=1)) > 0.4
    assert np.median(near) < 0.1


@pytest.mark.process
def test_the_service_is_measured_against_memory_and_the_embedder_with_two_tenants(redis_url: str) -> None:
    arguments = ("--rounds", "3", "--batches", "1", "--askers", "4", "--seconds", "1")
    report = run("bench_service", redis_url, *arguments)
    assert [row["what"] for row in report["tables"][ASKING]][-1] == "added by HTTP"
    assert len(report["tables"][TAKING]) == 3
    (many,) = report["tables"][MANY]
    assert (many["askers"], many["wrong"]) == (4, 0)
    assert many["status 200"] > 0
    assert len(report["ratios"]) == 4
