"""Which line answers: every candidate is described by a row of clues, and a small trained network weighs them.

Enters: a pool that is ranked by words and cosines, and how the question was understood. Leaves: a value per candidate,
how likely the best one answers, and how likely the question is about this conversation at all. A line may answer by its
own words, by those of the line it stands next to ("half 9 then"), or by the kind of thing that is asked for; what is
newer may have taken its place. These are matters of degree, so no rule decides them: `scripts/train_answers.py` fits
`answering.npz` to the scenes in tests/data.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib import resources
from io import BytesIO
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from channelmem.recalling.rank import Floats, Pool, Ranking, Scores, stretches
from channelmem.routing.words import written_out
from channelmem.store.documents import AnyMessage
from channelmem.text import asking, text_of
from channelmem.types import Route, Wants, Window

MOST: Final = 64
"""How many candidates are weighed: the best ones by rank."""
QUESTION: Final = 0.5
"""From this share on, a line counts as a question."""
SESSION_S: Final = 3_600.0
"""After a longer pause, a line does not answer the one before it."""
FAR: Final = 6.0
"""Clues are cut off at this many standard deviations."""

# --- one line ---

_ASKS: Final = re.compile(
    r"^\W*(?:(?:so|and|but|ok|hey|wait|btw|oh|pls|@\w+) )*(?:who|what|when|where|why|how|which|is|are|was|were|did|do"
    r"|does|has|have|had|can|could|should|would|will|shall|may|any(?:one|body)|whos|whats|wheres|hows|whens|isnt|arent"
    r"|didnt|doesnt|cant|shouldnt)\b",
    re.IGNORECASE,
)
UNMARKED: Final = 0.6
"""How much a line counts as a question that begins like one, without a question mark."""
_DAYS: Final = "(?:mon|tue|tues|wed|weds|wednes|thu|thur|thurs|fri|sat|satur|sun)(?:day)?s?"
_MONTHS: Final = (
    "january|february|march|april|june|july|august|september|october|november|december|jan|feb|mar|apr|jun|jul|aug"
    "|sept?|oct|nov|dec"
)


def _words(pattern: str) -> re.Pattern[str]:
    return re.compile(rf"\b(?:{pattern})\b", re.IGNORECASE)


KINDS: Final = {
    "yes": re.compile(
        r"^\W*(?:(?:y(?:es+|ep|up|eah|as)|ok(?:ay)?|sure|same|in|me|i'?m in|\+1|count me in|agreed|deal|done|i can"
        r"|i will|i?'?ll|of course|ofc|def)\b|\+1|👍|🙋|✋)",
        re.IGNORECASE,
    ),
    "no": _words(
        r"no|nope|nah|not|can'?t|cannot|won'?t|don'?t|doesn'?t|didn'?t|isn'?t|aint|never|without|none|nobody|neither"
        r"|except|unless|skip|out|cancel\w*|refus\w+"
    ),
    "me": _words(r"i|i?'?m|i?'?ll|i?'?ve|i?'?d|me|my|mine|we|we'll|our"),
    "clock": _words(
        r"\d{1,2}(?::\d\d|[.h]\d\d)\s?(?:am|pm)?|\d{1,2}\s?(?:am|pm|ish|o'?clock)|half (?:past )?\w+"
        r"|quarter (?:past|to) \w+|noon|midnight|midday|at \d{1,2}"
    ),
    "day": _words(
        rf"{_DAYS}|{_MONTHS}|today|tomorrow|tmrw|tmr|tonight|tonite|weekend|wknd|\d{{1,2}}(?:st|nd|rd|th)|next week"
        r"|this week|morning|evening|afternoon|yesterday"
    ),
    "number": re.compile(
        r"\d|\b(?:one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|dozen|half|both|couple|few|none|all"
        r"|twice|once)\b",
        re.IGNORECASE,
    ),
    "money": re.compile(
        r"[£$€]\s?\d|\d\s?(?:[£$€]|(?:quid|bucks|euros?|pounds?|dollars?|eur|usd|gbp|p|k|each|pp|a head|per)\b)"
        r"|\b(?:free|paid|pay|cost\w*|price\w*|cheap\w*)\b",
        re.IGNORECASE,
    ),
    "place": re.compile(
        r"\b(?:at|in|on|behind|under|next to|by|near|inside|opposite|from|to|room|hall|street|road|st|rd|house|station"
        r"|park|shed|drawer|shelf|corner|building|door|upstairs|downstairs|place|gate|table|floor|bay)\b|://",
        re.IGNORECASE,
    ),
    "reason": _words(
        r"because|cos|cuz|coz|bc|since|due to|so that|reason|so|as|too|otherwise|it'?s|broke\w*|closed|sick|ill"
    ),
    "link": re.compile(r"https?://", re.IGNORECASE),
    "settles": _words(
        r"settled|decided|booked|confirmed|done|deal|agreed|final|going with|it is|locked|update|edit|correction"
        r"|actually|scratch that|instead|changed|moved|postponed|no longer|not anymore|then|make it|ok so|let'?s|new"
    ),
}
"""What a line visibly has."""


@lru_cache(maxsize=16_384)
def asks(text: str) -> float:
    """The share of a line that asks something, with or without a question mark."""
    share = asking(text)
    return share if share or _ASKS.match(text) is None else UNMARKED


@lru_cache(maxsize=16_384)
def kinds_of(text: str) -> tuple[float, ...]:
    return tuple([1.0 if pattern.search(text) else 0.0 for pattern in KINDS.values()])


def forget_read() -> None:
    """Clears the caches: removed messages must not stay in memory for the sake of speed."""
    asks.cache_clear()
    kinds_of.cache_clear()


# --- the question ---

_WH: Final = {
    "who": _words(r"who(?:s|'s|se)?"),
    "when": _words(r"when(?:s|'s)?|(?:what|which|wat|wich) (?:date|day|month|week)"),
    "what time": _words(r"(?:what|which|wat|wot) time|how late|what hour"),
    "where": _words(r"where(?:s|'s)?|(?:what|which) (?:room|place|address|hall|street|station|table|shelf)"),
    "why": _words(r"why|how come|reason"),
    "how much": _words(r"how much|price|costs?"),
    "how many": _words(r"how (?:many|long|often|old|far|big|tall|heavy)"),
    "which": _words(r"which|wich"),
    "what": _words(r"what|whats|wat|wots|wot"),
    "not": _words(
        r"not|\w+n't|cant|cannot|wont|dont|doesnt|didnt|isnt|hasnt|havent|still|without|except|never|against|veto\w*"
        r"|hate\w*|refus\w*"
    ),
    "first": _words(r"first|original\w*|before|initially"),
    "think": _words(r"(?:think|opinion|reckon|feel|like|recommend|suggest)\w*"),
}
_YES_OR_NO: Final = re.compile(
    r"^\W*(?:(?:so|and|but|ok|hey|wait|btw) )*(?:is|are|was|were|did|do|does|has|have|had|can|could|should|would|will"
    r"|isn'?t|aren'?t|didn'?t|doesn'?t|hasn'?t)\b",
    re.IGNORECASE,
)
_FITTING: Final = (
    ("what time", "clock", 1.0),
    ("when", "day", 1.0),
    ("when", "clock", 0.8),
    ("where", "place", 1.0),
    ("why", "reason", 1.0),
    ("how much", "money", 1.0),
    ("how much", "number", 0.5),
    ("how many", "number", 1.0),
    ("who", "me", 1.0),
    ("not", "no", 1.0),
)
"""What a line should have that answers such a question."""
ASKED: Final = (
    *_WH, "whether", "saying", "link", "file", "long", "wording", "no word known", "words", "binds", "of somebody",
    "names", "follows", "reply", "in a window", "marked", "begins with a capital", "ends a sentence", "lower case",
)  # fmt: skip


def read_question(text: str, route: Route, *, missing: float, words: int, reply: bool) -> dict[str, float]:
    """One value per name in `ASKED`. `missing` is the share of its words that nobody used."""
    low = written_out(text).lower().strip()
    found = {name: float(pattern.search(low) is not None) for name, pattern in _WH.items()}
    found["whether"] = float(route.wants is Wants.WHETHER or _YES_OR_NO.match(low) is not None)
    found |= {
        "saying": float(route.saying),
        "link": float(route.wants is Wants.LINK),
        "file": float(route.wants is Wants.FILE),
        "long": min(1.0, len(low.split()) / 25),
        "wording": odds(route.p),
        "no word known": missing,
        "words": words / 8,
        "binds": float(route.binds),
        "of somebody": float(bool(route.speakers)),
        "names": float(bool(route.named)),
        "follows": float(route.follows),
        "reply": float(reply),
        "in a window": float(route.window != Window()),
        "marked": float("?" in text),
        "begins with a capital": float(text[:1].isupper()),
        "ends a sentence": float(low[-1:] in {"?", "."}),
        "lower case": float(text == text.lower()),
    }
    return found


def odds(p: float) -> float:
    """A probability on the scale on which evidence adds up."""
    p = min(max(p, 1e-3), 1.0 - 1e-3)
    return math.log(p / (1.0 - p))


# --- the clues of candidates ---


class Clues(NamedTuple):
    """A row per candidate."""

    places: NDArray[np.int64]
    """Of the candidates in the pool."""
    lines: Floats
    asked: Floats


class ClueReader:
    """Everything that needs no cosines, read while the model embeds the question."""

    def __init__(self, pool: Pool, ranking: Ranking, text: str, route: Route, asker_id: int, now: float) -> None:
        messages = pool.messages
        self._pool, self._ranking, self._route = pool, ranking, route
        self._present, share = ranking.present, ranking.share
        self._own = self._present @ share if len(share) else np.zeros(len(messages))
        self._rarity = ranking.rarity
        stretch = stretches(messages)
        self._same = np.concatenate(([0.0], (stretch[1:] == stretch[:-1]).astype(float)))
        self._authors = np.array([one.author_id for one in messages], np.int64)
        self._asks = np.array([asks(text_of(one)) for one in messages], float)
        self._times = np.array([one.ts for one in messages], float)
        self._text, self._asker_id, self._now = text, asker_id, now
        self._static = self._before_cosines()

    def _before_cosines(self) -> dict[str, Floats]:
        present, share, own, same = self._present, self._ranking.share, self._own, self._same
        replies, rarity = self._ranking.replies, self._rarity
        above = np.minimum(replies.above(present), 1.0)
        before = _moved(present, 1) * same[:, None]
        union = 1.0 - (1.0 - present) * (1.0 - np.maximum(above, 0.9 * before))
        weighed, reached = present * rarity, union @ share
        thread = replies.around(present) @ share
        asks_ = self._asks
        open_ = asks_ <= QUESTION
        other = np.concatenate(([False], self._authors[1:] != self._authors[:-1]))
        answered = np.bincount(replies.answered, replies.chances, minlength=len(own)).astype(float)
        return {
            "own": own,
            "own rarity": weighed.sum(axis=1) / 8,
            "rarest": weighed.max(axis=1, initial=0.0) / 4,
            "parent": above @ share,
            "before": _moved(own, 1) * same,
            "second before": _moved(own, 2),
            "next": _moved(own, -1),
            "second next": _moved(own, -2),
            "reached": reached,
            "thread": thread,
            "own, relative": own - own.max(initial=0.0),
            "reached, relative": reached - reached.max(initial=0.0),
            "asks": asks_,
            "after a question": _moved(asks_, 1) * other * same,
            "after the question": self._after(own),
            "parent asks": replies.above(asks_),
            "parent asks it": replies.above(asks_ * own),
            "answered": np.minimum(answered, 3.0) / 3,
            "taken up later": _later(np.where(open_, np.maximum(reached, 0.7 * thread), 0.0)),
        }

    def _after(self, own: Floats) -> Floats:
        """How much of the question the question just before a line has, if somebody else asked that."""
        found = np.zeros(len(own))
        asked = np.where(self._asks > QUESTION, own, 0.0)
        for step, share in ((1, 1.0), (2, 0.7), (3, 0.5)):
            if step >= len(own):
                break
            fits = (self._authors[step:] != self._authors[:-step]) & (self._asks[step:] <= QUESTION)
            fits &= np.abs(self._times[step:] - self._times[:-step]) < SESSION_S
            found[step:] = np.maximum(found[step:], share * asked[:-step] * fits)
        return found

    def clues(
        self,
        scores: Scores,
        allowed: Sequence[bool],
        near: Floats | None,
        reply_to: int | None,
        corrections: Mapping[int, int],
    ) -> Clues:
        """With the cosines, for the best candidates. `near` is how close each is to what a follow-up refers to."""
        places = np.flatnonzero(np.asarray(allowed, bool))
        if len(places) > MOST:
            places = np.sort(places[np.argsort(-scores.rank[places], kind="stable")[:MOST]])
        cosine = np.nan_to_num(scores.cosine, nan=0.0)
        replies = self._ranking.replies
        found = self._static | {
            "rank": scores.rank,
            "rank, relative": scores.rank - scores.rank.max(initial=-9.0),
            "evidence": scores.evidence,
            "coverage": scores.coverage,
            "cosine": cosine,
            "cosine, relative": cosine - cosine.max(initial=-1.0),
            "cosine before": _moved(cosine, 1) * self._same,
            "cosine of parent": replies.above(np.maximum(cosine, 0.0)),
            "anchor": np.zeros(len(cosine)) if near is None else near,
        }
        missing = self._missing(allowed)
        asked = read_question(
            self._text, self._route, missing=missing, words=self._present.shape[1], reply=reply_to is not None
        )
        rows = {name: values[places] for name, values in found.items()}
        rows |= self._of_candidates(places, rows, asked, reply_to)
        correcting = frozenset(corrections.values())
        rows["corrected"] = np.array([place in corrections for place in places.tolist()], float)
        rows["corrects"] = np.array([place in correcting for place in places.tolist()], float)
        asked |= {f"most {name}": float(rows[name].max(initial=0.0)) for name in MOSTLY}
        table = np.stack([rows[name] for name in LINES], axis=1) if len(places) else np.zeros((0, len(LINES)))
        return Clues(places, table, np.array([asked[name] for name in QUESTIONS]))

    def _missing(self, allowed: Sequence[bool]) -> float:
        share, may = self._ranking.share, np.asarray(allowed, bool)
        return float(share[~self._present[may].any(axis=0)].sum()) if len(share) else 1.0

    def _of_candidates(
        self, places: NDArray[np.int64], rows: dict[str, Floats], asked: dict[str, float], reply_to: int | None
    ) -> dict[str, Floats]:
        messages = [self._pool.messages[at] for at in places.tolist()]
        texts = list(map(text_of, messages))
        has = dict(
            zip(KINDS, np.array([kinds_of(text) for text in texts], float).reshape(-1, len(KINDS)).T, strict=True)
        )
        kind, wanted = np.zeros(len(messages)), False
        for what, shown, share in _FITTING:
            if asked[what]:
                kind, wanted = np.maximum(kind, share * has[shown]), True
        if asked["link"]:
            kind, wanted = np.maximum(kind, has["link"]), True
        length = self._ranking.lines.length[places]
        age = np.maximum(0.0, self._now - self._times[places])
        pool = len(self._pool.messages)
        return {
            **{f"has {name}": values for name, values in has.items()},
            "kind": kind,
            "kind missing": float(wanted) * (1.0 - kind),
            "length": np.minimum(length, 12.0) / 12,
            "one word": (length <= 1.0).astype(float),
            "few words": (length <= 3.0).astype(float),
            "long": np.minimum(length, 60.0) / 60,
            **self._people(messages, texts),
            "fresh": np.exp(-age / (12 * 3_600.0)),
            "very fresh": np.exp(-age / 1_200.0),
            "place": places / max(1, pool - 1),
            "last ten": np.maximum(0.0, 1.0 - (pool - 1 - places) / 10),
            "in window": np.array(
                [self._route.window != Window() and self._route.window.contains(one.ts) for one in messages], float
            ),
            "replied to": np.array([one.id == reply_to for one in messages], float),
            "replies to it": np.array([_answers(one, reply_to) for one in messages], float),
        }  # fmt: skip

    def _people(self, messages: Sequence[AnyMessage], texts: Sequence[str]) -> dict[str, Floats]:
        speakers = {one.id for one in self._route.speakers}
        named = {one.id for one in self._route.named}
        names = [name for one in self._route.named for name in (one.name, *one.aliases) if name.strip()]
        pattern = re.compile("|".join(rf"(?<!\w){re.escape(name)}" for name in names), re.IGNORECASE) if names else None
        by = np.array([one.author_id in named for one in messages], float)
        about = np.array([pattern is not None and pattern.search(text) is not None for text in texts], float)
        return {
            "by speaker": np.array([one.author_id in speakers for one in messages], float),
            "by asker": np.array([one.author_id == self._asker_id for one in messages], float),
            "by who is named": by,
            "names them": about,
            "names nobody of them": float(bool(named)) * (1.0 - np.maximum(by, about)),
        }


def _moved(values: Floats, by: int) -> Floats:
    """The values of the line `by` places before each line; 0 where there is none."""
    found = np.zeros_like(values)
    if by > 0:
        found[by:] = values[:-by]
    else:
        found[:by] = values[-by:]
    return found


def _later(values: Floats) -> Floats:
    """The highest value among the lines after each."""
    found = np.zeros_like(values)
    found[:-1] = np.maximum.accumulate(values[::-1])[::-1][1:]
    return found


def _answers(message: AnyMessage, target: int | None) -> bool:
    if target is None:
        return False
    return message.reply_to == target or any(parent == target and chance > 0.4 for parent, chance in message.parents)


LINES: Final = (
    "own", "own rarity", "rarest", "parent", "before", "second before", "next", "second next", "reached", "thread",
    "own, relative", "reached, relative", "asks", "after a question", "after the question", "parent asks",
    "parent asks it", "answered", "taken up later", "rank", "rank, relative", "evidence", "coverage", "cosine",
    "cosine, relative", "cosine before", "cosine of parent", "anchor", *(f"has {name}" for name in KINDS), "kind",
    "kind missing", "length", "one word", "few words", "long", "corrected", "corrects", "by speaker", "by asker",
    "by who is named", "names them", "names nobody of them", "fresh", "very fresh", "place", "last ten", "in window",
    "replied to", "replies to it",
)  # fmt: skip
"""The clues of a line."""
MOSTLY: Final = ("own", "reached", "cosine", "own rarity", "rank", "evidence")
QUESTIONS: Final = (*ASKED, *(f"most {name}" for name in MOSTLY))
"""The clues of a question."""


# --- weighing ---


@dataclass(frozen=True, slots=True)
class Logistic:
    """A logistic regression."""

    mean: Floats
    spread: Floats
    weights: Floats
    bias: float

    def p(self, values: Floats) -> float:
        scaled = np.clip((values - self.mean) / self.spread, -FAR, FAR)
        return 1.0 / (1.0 + math.exp(-float(scaled @ self.weights) - self.bias))


@dataclass(frozen=True, slots=True)
class Trees:
    """Decision trees whose leaves are averaged, all nodes of all trees in one array. A leaf is its own child."""

    roots: NDArray[np.int64]
    clue: NDArray[np.int64]
    least: NDArray[np.float32]
    children: NDArray[np.int64]
    """Per node: where to go if the clue is at most `least`, and where if it is more."""
    leaf: Floats
    depth: int

    def p(self, values: Floats) -> float:
        at, row = self.roots, values.astype(np.float32)
        for _ in range(self.depth):
            at = self.children[at, (row[self.clue[at]] > self.least[at]).astype(np.int64)]
        return float(self.leaf[at].mean())


@dataclass(frozen=True, slots=True)
class AnswerWeights:
    """What `answering.npz` holds."""

    line_mean: Floats
    line_spread: Floats
    asked_mean: Floats
    asked_spread: Floats
    direct: Floats
    of_line: Floats
    of_question: Floats
    bias: Floats
    out: Floats
    anybody: Trees
    """Whether the best line answers a question, unless that is for somebody's own words."""
    ours: Logistic
    """Whether a question is about this conversation, answered or not."""
    about: Floats
    """For the vector of a question: how much it sounds like one about a conversation; the last value is the bias."""

    def values(self, clues: Clues) -> Floats:
        """How well each candidate answers; only differences mean something."""
        lines = np.clip((clues.lines - self.line_mean) / self.line_spread, -FAR, FAR)
        asked = np.clip((clues.asked - self.asked_mean) / self.asked_spread, -FAR, FAR)
        hidden = np.tanh(lines @ self.of_line + (asked @ self.of_question + self.bias))
        return np.asarray(lines @ self.direct + hidden @ self.out)

    def sure(self, clues: Clues, values: Floats, sounds: float) -> tuple[float, float]:
        """How likely the best candidate answers the question, and how likely that is about this conversation."""
        found = of_any(clues, values, sounds)
        return self.anybody.p(found), self.ours.p(found)


BEST: Final = (
    "own", "reached", "thread", "cosine", "kind", "kind missing", "after the question", "asks", "rarest",
    "by who is named", "names them", "names nobody of them", "parent", "cosine of parent", "parent asks it", "length",
    "fresh", "own rarity", "replied to", "replies to it", "answered", "evidence", "coverage",
)  # fmt: skip
BEST_OF_THREE: Final = ("own", "reached", "cosine", "thread", "rarest", "evidence", "coverage")
_PLACE: Final = {name: place for place, name in enumerate(LINES)}
_WORDING: Final = QUESTIONS.index("wording")


def of_any(clues: Clues, values: Floats, sounds: float) -> Floats:
    """What the decision rests on: the best line, the best three, the question, and how clear the order is.
    `sounds` is what the vector of the question tells."""
    order = np.argsort(-values, kind="stable")[:3]
    best, three = clues.lines[order[0]], clues.lines[order].max(axis=0)
    wording = float(clues.asked[_WORDING])
    top = np.sort(values)[::-1]
    spread = float(np.log(np.exp(values - top[0]).sum()))
    gap = min(float(top[0] - top[1]), 4.0) if len(top) > 1 else 4.0
    return np.array(
        [
            *best[_places(BEST)],
            *three[_places(BEST_OF_THREE)],
            *clues.asked,
            min(wording, 0.0),
            sounds,
            min(sounds, 0.0),
            min(sounds + wording, 0.0),
            min(max(float(top[0]), -10.0), 10.0),
            spread,
            gap,
            best[_PLACE["kind"]] * best[_PLACE["cosine"]],
            math.log(len(values)),
        ]
    )


@cache
def _places(names: tuple[str, ...]) -> list[int]:
    return [_PLACE[name] for name in names]


def load(data: bytes | None = None) -> AnswerWeights:
    """The shipped weights, or others of the same shape."""
    read = data if data is not None else resources.files(__package__).joinpath("answering.npz").read_bytes()
    with np.load(BytesIO(read)) as stored:
        names = json.loads(bytes(stored["names"]).decode())
        if names != [list(LINES), list(QUESTIONS)]:
            raise ValueError("answering.npz was made for other clues; run scripts/train_answers.py --write")
        of = {name: stored[name].astype(float) for name in stored.files if name != "names"}
    parts: dict[str, dict[str, Any]] = {who: {} for who in ("anybody", "ours")}
    for name in [name for name in of if name.partition("__")[0] in parts]:
        who, _, part = name.partition("__")
        parts[who][part] = of.pop(name)
    return AnswerWeights(
        **of,
        anybody=_forest(**parts["anybody"]),
        ours=_logistic(**parts["ours"]),
    )


def _logistic(mean: Floats, spread: Floats, weights: Floats, bias: Floats) -> Logistic:
    return Logistic(mean, spread, weights, float(bias))


def _forest(roots: Floats, clue: Floats, least: Floats, children: Floats, leaf: Floats, depth: Floats) -> Trees:
    whole = [array.astype(np.int64) for array in (roots, clue, children)]
    return Trees(whole[0], whole[1], least.astype(np.float32), whole[2], leaf, int(depth))


@cache
def shipped() -> AnswerWeights:
    return load()
