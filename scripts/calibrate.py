"""Shows the errors of each threshold between "found" and "nobody said that", on the IRC questions.

    python -m scripts.calibrate --data DIR [--json] [--held-out]

For each question and its buffer of 50 messages it takes the best message's evidence (share of the topic covered, plus
half the cosine), both for the question's own topic and for every topic from another channel that shares no stem with
the buffer; once for the requested speaker's messages and once for everybody's. A threshold is a value of
`CHANNELMEM_SEMANTIC_THRESHOLD`: the cosine required among 50 messages that share no word with the topic; fewer messages
require less (see `recall.needed`). It needs no Redis: it ranks only, with links as made at ingest. `--held-out`
retrains the linker without each channel in turn (a few minutes), since the shipped weights have seen the data; it makes
the hit@1 figures an honest estimate for unseen channels.
"""

from __future__ import annotations

import argparse
import asyncio
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from rich.progress import track

from channelmem.embedding.embed import Embedder, open_embedder
from channelmem.linking.linker import Networks
from channelmem.recalling.ranking.line import stems
from channelmem.recalling.ranking.rank import Pool, RankingQuery, order, rank
from channelmem.recalling.recall import needed
from channelmem.recalling.sources.pool import linked
from channelmem.settings import Settings
from channelmem.types import Message
from scripts.eval_links import channels as annotated_channels
from scripts.replay import Row, Talk, read, talks

BUFFER = 50
THRESHOLDS = (0.25, 0.30, 0.32, 0.34, 0.36, 0.38, 0.40, 0.42, 0.45, 0.50)
Vectors = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Best:
    """The strongest evidence for a topic among `compared` messages."""

    evidence: float
    compared: int
    is_present: bool
    of_speaker: bool


@dataclass(frozen=True, slots=True)
class View:
    """The buffer of one question."""

    row: Row
    messages: tuple[Message, ...]
    vectors: Vectors
    speaker_id: int
    gold: int

    def best(self, topic: str, vector: Vectors, *, is_present: bool) -> list[Best]:
        pool = Pool(self.messages, (self.vectors @ vector).astype(float))
        evidence = rank(pool, RankingQuery(topic, frozenset({self.speaker_id}))).evidence
        theirs = [i for i, one in enumerate(self.messages) if one.author_id == self.speaker_id]
        return [
            Best(float(evidence[theirs].max()), len(theirs), is_present, of_speaker=True),
            Best(float(evidence.max()), len(evidence), is_present, of_speaker=False),
        ]

    def is_first(self, vector: Vectors) -> bool:
        """Whether the intended message ranks first among the speaker's."""
        pool = Pool(self.messages, (self.vectors @ vector).astype(float))
        scores = rank(pool, RankingQuery(" ".join(self.row["topic"]), frozenset({self.speaker_id})))
        theirs = [i for i in order(pool, scores) if self.messages[i].author_id == self.speaker_id]
        return self.messages[theirs[0]].id == self.gold


def links_without(data: Path) -> dict[str, Networks]:
    """For each channel, linker networks trained without it."""
    # Imported here because it loads torch, which nothing else in this script needs.
    from scripts.train_links import Recipe, lessons, train  # noqa: PLC0415

    rows = annotated_channels(data / "irc_messages.jsonl")
    return {
        name: train(lessons(other for label, other in rows.items() if label != name), Recipe())
        for name in track(rows, "training without each channel")
    }


async def views(data: Path, embedder: Embedder, networks: Mapping[str, Networks]) -> list[View]:
    channels = {talk.name: talk for talk in talks(data / "irc_messages.jsonl", "channel", 1)}
    heard = {name: linked(talk.messages, networks.get(name)) for name, talk in channels.items()}
    vectors = {
        name: await embedder.embed_messages([one.content for one in messages]) for name, messages in heard.items()
    }
    rows = read(data / "irc_queries.jsonl")
    return [_view(row, channels[row["channel"]], heard[row["channel"]], vectors[row["channel"]]) for row in rows]


def _view(row: Row, talk: Talk, messages: Sequence[Message], vectors: Vectors) -> View:
    end = talk.id_of[row["buffer_last"]] - talk.messages[0].id + 1
    start = max(0, end - BUFFER)
    speaker_id = talk.author_of[row["author"].casefold()]
    return View(row, tuple(messages[start:end]), vectors[start:end], speaker_id, talk.id_of[row["gold"]])


async def measure(data: Path, embedder: Embedder, networks: Mapping[str, Networks]) -> tuple[list[Best], list[Row]]:
    """The evidence for present and absent topics, and whether each question's message ranked first."""
    every = await views(data, embedder, networks)
    topics = sorted({" ".join(view.row["topic"]) for view in every})
    vectors = dict(zip(topics, await embedder.embed_messages(topics), strict=True))
    found: list[Best] = []
    for view in every:
        here = {stem for one in view.messages for stem in stems(one.content)}
        mine = " ".join(view.row["topic"])
        found += view.best(mine, vectors[mine], is_present=True)
        elsewhere = {" ".join(other.row["topic"]) for other in every if other.row["channel"] != view.row["channel"]}
        for topic in sorted(elsewhere):
            if not here.intersection(stems(topic)):
                found += view.best(topic, vectors[topic], is_present=False)
    return found, [
        {"kind": view.row["kind"], "first": view.is_first(vectors[" ".join(view.row["topic"])])} for view in every
    ]


def hits(first: Sequence[Row]) -> dict[str, float]:
    """hit@1 by kind, in percent."""
    kinds = ("all", *dict.fromkeys(row["kind"] for row in first))
    some = {kind: [row["first"] for row in first if kind in ("all", row["kind"])] for kind in kinds}
    return {kind: round(100 * sum(right) / len(right), 1) for kind, right in some.items()}


def errors(found: Sequence[Best]) -> list[dict[str, float]]:
    """For each threshold, how often an absent topic is found and a present one is missed, in percent."""
    return [
        {
            "threshold": threshold,
            **{
                f"{name}, {who}": _wrong(threshold, [b for b in found if (b.is_present, b.of_speaker) == (there, own)])
                for name, there in (("false yes", False), ("false no", True))
                for who, own in (("speaker", True), ("anybody", False))
            },
        }
        for threshold in THRESHOLDS
    ]


def _wrong(threshold: float, some: Sequence[Best]) -> float:
    wrong = [(best.evidence >= needed(threshold, best.compared)) != best.is_present for best in some]
    return round(100 * sum(wrong) / max(1, len(wrong)), 1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, metavar="DIR", help="folder with the evaluation data")
    parser.add_argument("--json", action="store_true", help="print JSON on standard output")
    parser.add_argument("--held-out", action="store_true", help="retrain the linker without each channel in turn")
    options = parser.parse_args()
    networks = links_without(options.data) if options.held_out else {}
    embedder = open_embedder(Settings())
    try:
        found, first = asyncio.run(measure(options.data, embedder, networks))
    finally:
        embedder.close()
    if options.json:
        print(json.dumps({"thresholds": errors(found), "hit@1": hits(first)}))
        return
    for line in (*errors(found), {f"hit@1 {kind}": value for kind, value in hits(first).items()}):
        print("  ".join(f"{name} {value:g}" for name, value in line.items()))


if __name__ == "__main__":
    main()
