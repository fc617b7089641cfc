"""Fits the weights for somebody's words (channelmem/recalling/rank.py) to questions made from annotated IRC.

    python -m scripts.train_rank --data DIR                     fit on all channels and print the weights
    python -m scripts.train_rank --data DIR --cross-validate    leave out a quarter of the channels at a time
    ... --annotated-links                                       use annotated links, to see what link errors cost

For each annotated message of at least seven words it asks "what did its author say about T", over a buffer of 50 that
ends 0 to 44 messages later. T is one of three kinds: a word that none of the author's other lines there has (kw), that
word plus one or two from elsewhere in the thread (kw+ctx), or one or two words of the answered message that are not in
this one (ctx). The given questions (irc_queries.jsonl) are never trained on; they are scored with weights from other
channels. Training maximises the likelihood of the right line among its author's lines. Links come from networks trained
without the channel, since they would be trusted too much otherwise. Data: Kummerfeld et al., ACL 2019; Gouravajhala et
al., ALTA 2023 (CC BY 4.0).
"""

from __future__ import annotations

import argparse
import asyncio
import random
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from rich.progress import track
from scipy.optimize import minimize  # type: ignore[import-untyped]

from channelmem.embedding.embed import Embedder, open_embedder
from channelmem.linking.linker import Networks
from channelmem.recalling.candidates import linked
from channelmem.recalling.rank import SHIPPED, Pool, RankingQuery, SpeakerWeights, rank
from channelmem.settings import Settings
from channelmem.text import STOP
from channelmem.types import Message
from scripts.eval_links import FILES
from scripts.eval_links import channels as annotated_channels
from scripts.replay import Row, Talk, read, talks

BUFFER, OLDEST, AGAIN, LEAST_WORDS, LEAST_LINES = 50, 44, 2, 7, 3
FOLDS = 4
SHARPNESS = 5.0
"""Log odds for a covered topic. The larger it is, the more the formula counts relative to the fitted weights."""
PULL = 1.0
"""Regularisation towards zero, per standard deviation of a column."""
MOST = {"rarest": 0.3, "length": 0.3, "age": 0.2}
"""Upper limits for weights that reflect how questions are generated: few words, about a long and rather recent line.
Without them the fit learns that bias, and topics as people phrase them suffer."""
_COMMON = """
able actually already always anyone anyway around asked back because believe better call called came change changed
check click close come comes cool different done easy enough even everyone everything fine first found give good
great guess hard hate hello help here hope install installed installing instead keep kind know last later little long
look looking looks love made make makes maybe mean means must need needed needs never next nice nothing open people
perhaps person probably quite read remove right run running same seem seems should simple something sometimes soon
sorry start started still stop stuff supposed sure take talk talking tell thank thanks think thought today told
tomorrow tried tries trying turn type used uses using wait want wanted wants welcome wonder wondering work working
works would write wrong yesterday
"""
_NO_TOPIC = STOP | frozenset(_COMMON.split())
_WORD = re.compile(r"[a-z]+")

Floats = NDArray[np.float64]
NAMES = tuple(field.name for field in fields(SpeakerWeights))


@dataclass(frozen=True, slots=True)
class Asked:
    """A question over a buffer; positions are positions in the channel."""

    channel: str
    kind: str
    topic: tuple[str, ...]
    gold: int
    first: int
    last: int
    given: bool = False


@dataclass(frozen=True, slots=True)
class Channel:
    """One recorded channel with links and vectors."""

    talk: Talk
    messages: Sequence[Message]
    vectors: NDArray[np.float32]
    is_ubuntu: bool

    def place(self, name: str) -> int | None:
        number = self.talk.id_of.get(name)
        return None if number is None else number - self.talk.messages[0].id


@dataclass(frozen=True, slots=True)
class Example:
    """The speaker's lines: the formula's score of each, what each weight would add, and which is right."""

    asked: Asked
    base: Floats
    seen: Floats
    right: int

    def hit(self, weights: Floats) -> bool:
        return int((self.base + self.seen @ weights).argmax()) == self.right


# --- questions ---


class Maker:
    """Generates the questions of one channel."""

    def __init__(self, name: str, channel: Channel) -> None:
        self._name, self._channel, self._rows = name, channel, channel.talk.rows
        self._words = [frozenset(_WORD.findall(row["text"].lower())) for row in self._rows]
        nicks = {word for row in self._rows for word in _WORD.findall(row["author"].lower())}
        self._topics = [
            frozenset(word for word in found if len(word) > 3 and word not in _NO_TOPIC | nicks)
            for found in self._words
        ]

    def questions(self, seed: int) -> Iterator[Asked]:
        chance = random.Random(seed)  # noqa: S311  (repeatable, not secret)
        for gold, row in enumerate(self._rows):
            if "reply_to" in row and len(row["text"].split()) >= LEAST_WORDS:
                for kind in ("kw", "kw+ctx", "ctx") * AGAIN:
                    last = min(gold + chance.randint(0, OLDEST), len(self._rows) - 1)
                    topic = self._topic(kind, gold, last, chance) if last >= BUFFER - 1 else ()
                    if topic:
                        yield Asked(self._name, kind, topic, gold, last - BUFFER + 1, last)

    def _topic(self, kind: str, gold: int, last: int, chance: random.Random) -> tuple[str, ...]:
        """Words for the question, or none if the message cannot be asked about this way."""
        rows, author = self._rows, self._channel.messages[gold].author_id
        buffer = range(last - BUFFER + 1, last + 1)
        others = [at for at in buffer if at != gold and self._channel.messages[at].author_id == author]
        parents = self._parents(gold)
        if len(others) + 1 < LEAST_LINES or any(at not in buffer for at in parents):
            return ()
        own = sorted(self._topics[gold].difference(*(self._words[at] for at in others)))
        if kind == "kw":
            return (chance.choice(own),) if own else ()
        if kind == "ctx":
            # If the question describes the answered message, this must be the author's only answer to it.
            if any(set(rows[at].get("reply_to", ())) & set(rows[gold]["reply_to"]) for at in others):
                return ()
            elsewhere = [at for at in parents if self._channel.messages[at].author_id != author]
            return self._some(elsewhere, gold, chance, (1, 1, 1, 2))
        thread = [at for at in buffer if at != gold and rows[at].get("thread") == rows[gold]["thread"]]
        more = self._some(thread, gold, chance, (1, 1, 2))
        topic = (chance.choice(own), *more) if own and more else ()
        return () if any(set(topic) <= self._words[at] for at in others) else topic

    def _parents(self, gold: int) -> list[int]:
        found = (self._channel.place(name) for name in self._rows[gold]["reply_to"])
        return [at for at in found if at is not None]

    def _some(self, places: Iterable[int], gold: int, chance: random.Random, sizes: tuple[int, ...]) -> tuple[str, ...]:
        words = sorted(frozenset[str]().union(*(self._topics[at] for at in places)) - self._words[gold])
        return tuple(chance.sample(words, min(len(words), chance.choice(sizes))))


def given(data: Path, channels: Mapping[str, Channel]) -> Iterator[Asked]:
    for row in read(data / "irc_queries.jsonl"):
        channel = channels[row["channel"]]
        last, gold = channel.place(row["buffer_last"]), channel.place(row["gold"])
        if last is not None and gold is not None:
            first = max(0, last - BUFFER + 1)
            yield Asked(row["channel"], row["kind"], tuple(row["topic"]), gold, first, last, given=True)


# --- features ---


async def listen(data: Path, embedder: Embedder, *, annotated: bool) -> dict[str, Channel]:
    networks = {} if annotated else links_without(data)
    found: dict[str, Channel] = {}
    for file, first in zip(FILES, (200, 300), strict=True):
        for talk in talks(data / file, "channel", first):
            messages = _annotated(talk) if annotated else linked(talk.messages, networks.get(talk.name))
            vectors = await embedder.embed_messages([one.content for one in messages])
            found[talk.name] = Channel(talk, messages, vectors, is_ubuntu=file == FILES[0])
    return found


def _annotated(talk: Talk) -> list[Message]:
    return [replace(one, parents=_links(talk, row)) for one, row in zip(talk.messages, talk.rows, strict=True)]


def _links(talk: Talk, row: Row) -> tuple[tuple[int, float], ...]:
    parents = [talk.id_of[name] for name in row.get("reply_to", ()) if name in talk.id_of]
    return tuple((parent, 1 / len(parents)) for parent in parents)


def example(asked: Asked, channel: Channel, topic: NDArray[np.float32]) -> Example:
    """The score is linear in the weights, so each column is what a weight of 1 adds."""
    messages = channel.messages[asked.first : asked.last + 1]
    pool = Pool(messages, (channel.vectors[asked.first : asked.last + 1] @ topic).astype(float))
    speaker = channel.messages[asked.gold].author_id
    ask = RankingQuery(" ".join(asked.topic), frozenset({speaker}))
    mine = [at for at, one in enumerate(messages) if one.author_id == speaker]
    base = rank(pool, ask, replace(SHIPPED, said=None)).rank[mine]
    zero = SpeakerWeights(**dict.fromkeys(NAMES, 0.0))
    ones = [replace(SHIPPED, said=replace(zero, **{name: 1.0})) for name in NAMES]
    seen = np.column_stack([rank(pool, ask, weights).rank[mine] - base for weights in ones])
    return Example(asked, base, seen, mine.index(asked.gold - asked.first))


async def examples(data: Path, embedder: Embedder, *, annotated: bool) -> list[Example]:
    channels = await listen(data, embedder, annotated=annotated)
    asked = [one for name, channel in channels.items() for one in Maker(name, channel).questions(len(name))]
    asked += given(data, channels)
    topics = sorted({" ".join(one.topic) for one in asked})
    vectors = dict(zip(topics, await embedder.embed_messages(topics), strict=True))
    return [example(one, channels[one.channel], vectors[" ".join(one.topic)]) for one in track(asked, "questions")]


# --- fitting ---


def fit(some: Sequence[Example]) -> Floats:
    """Non-negative weights that make the right lines likeliest; each kind of question counts the same."""
    counts = Counter(one.asked.kind for one in some)
    share = [1 / len(counts) / counts[one.asked.kind] for one in some]
    scale = np.concatenate([one.seen for one in some]).std(axis=0) + 1e-3

    def loss(scaled: Floats) -> tuple[float, Floats]:
        value, slope = PULL / len(some) * float(scaled @ scaled) / 2, PULL / len(some) * scaled
        for one, weight in zip(some, share, strict=True):
            scores = SHARPNESS * (one.base + one.seen @ (scaled / scale))
            odds = np.exp(scores - scores.max())
            odds /= odds.sum()
            value -= weight * float(np.log(odds[one.right]))
            slope = slope + weight * SHARPNESS * ((odds @ one.seen) - one.seen[one.right]) / scale
        return value, slope

    bounds = [(0.0, MOST.get(name, np.inf) * size) for name, size in zip(NAMES, scale, strict=True)]
    found = minimize(loss, np.zeros(len(NAMES)), jac=True, method="L-BFGS-B", bounds=bounds, options={"maxiter": 60})
    weights: Floats = found.x / scale
    return weights


def cross_validated(some: Sequence[Example]) -> list[tuple[Example, bool]]:
    names = sorted({one.asked.channel for one in some})
    found: list[tuple[Example, bool]] = []
    for start in range(FOLDS):
        left_out = frozenset(names[start::FOLDS])
        weights = fit([one for one in some if one.asked.channel not in left_out and not one.asked.given])
        found += [(one, one.hit(weights)) for one in some if one.asked.channel in left_out]
    return found


def show(label: str, results: Iterable[tuple[Example, bool]], ubuntu: frozenset[str]) -> None:
    """Prints hit@1 in percent for each set of questions, overall and by kind."""
    hits: dict[str, dict[str, list[bool]]] = defaultdict(lambda: defaultdict(list))
    for one, hit in results:
        made = "made, #ubuntu" if one.asked.channel in ubuntu else "made, other channels"
        for kind in ("all", one.asked.kind):
            hits["given" if one.asked.given else made][kind].append(hit)
    for name, kinds in hits.items():
        figures = "  ".join(f"{kind} {100 * np.mean(kinds[kind]):.1f}" for kind in ("all", "kw", "kw+ctx", "ctx"))
        print(f"{label:>18}  {name:>20}  {figures}  n {len(kinds['all'])}")


def links_without(data: Path) -> dict[str, Networks]:
    """For each channel, linker networks trained without it."""
    # Imported here because it loads torch, which nothing else in this script needs.
    from scripts.train_links import Recipe, lessons, train  # noqa: PLC0415

    rows = annotated_channels(data / "irc_messages.jsonl")
    return {
        name: train(lessons(other for label, other in rows.items() if label != name), Recipe())
        for name in track(rows, "training without each channel")
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, metavar="DIR", help="folder with the evaluation data")
    parser.add_argument("--cross-validate", action="store_true", help="leave out a quarter of the channels at a time")
    parser.add_argument("--annotated-links", action="store_true", help="use annotated instead of predicted links")
    options = parser.parse_args()
    embedder = open_embedder(Settings())
    try:
        found = asyncio.run(examples(options.data, embedder, annotated=options.annotated_links))
    finally:
        embedder.close()
    ubuntu = frozenset(row["channel"] for row in read(options.data / FILES[0]))
    if options.cross_validate:
        show("formula alone", [(one, one.hit(np.zeros(len(NAMES)))) for one in found], ubuntu)
        show("with what is said", cross_validated(found), ubuntu)
        return
    weights = fit([one for one in found if not one.asked.given])
    print("\n".join(f"{name}: float = {value:.2f}" for name, value in zip(NAMES, weights, strict=True)))


if __name__ == "__main__":
    main()
