"""The gist of a stretch of talk: the few lines that say what was settled, when and where, who does what, and what is
still open.

Enters: messages in order of time and, for the recap of a topic or of plans for a day, what that is. Leaves: at most
eight of them. What makes a line worth telling is a matter of degree: a linear model weighs what the line says, what
came after it, and how close it is to the topic. `scripts/train_gist.py` fits it to the recaps of the scenes.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, tzinfo
from functools import cached_property
from typing import Final, NamedTuple

import numpy as np

from channelmem.recalling.rank import CORRECTS, Floats
from channelmem.text import asking, stems
from channelmem.types import Message

MOST_POINTS: Final = 8
LEAST_POINTS: Final = 3
SOON: Final = 24
"""A correction comes within so many lines of what it corrects."""
SESSION_S: Final = 3_600.0
LINK_MIN: Final = 0.4
FRESH_S: Final = 12 * 3_600.0
SPREAD: Final = 8
"""How many lines further a talk about one thing is felt."""
REPEATED, WORSE = 0.5, 2.0
"""What it costs a line to repeat one that is told; how much worse than the best it may be."""


class About(NamedTuple):
    """How much a message is about the topic of a recap."""

    words: float
    """The share of the topic's words that it has."""
    thread: float
    """The same with what it answers."""
    near: float
    """What its neighbours have of them."""
    cosine: float
    """Its similarity to the topic."""
    cosine_near: float


@dataclass(frozen=True, slots=True)
class Stretch:
    """Messages in order of time, and what of them is asked for."""

    messages: Sequence[Message]
    about: Sequence[About] = ()
    """How much each is about the topic; empty if there is none."""
    day: str = ""
    """The day whose plans are asked for, in the asker's words."""
    now: float = 0.0
    tz: tzinfo | None = None


@dataclass(frozen=True, slots=True)
class Highlight:
    """A line of a recap."""

    message: Message
    is_open: bool = False
    """Whether it asks for something that nobody answered."""


def points(stretch: Stretch) -> tuple[Highlight, ...]:
    """The lines that are worth telling, in order of time."""
    if not stretch.messages:
        return ()
    reader = _Reader(stretch.messages)
    worth = features(stretch, reader) @ np.array(list(WEIGHTS.values()))
    chosen = sorted(_chosen(reader, worth))
    return tuple(Highlight(stretch.messages[at], reader.is_open(at)) for at in chosen)


def _chosen(reader: _Reader, worth: Floats) -> list[int]:
    """Greedy: the best line first, then the best of those that do not repeat it."""
    saying = [at for at in range(len(worth)) if reader.says_something(at)]
    left, chosen = np.full(len(worth), -np.inf), list[int]()
    left[saying or 0] = worth[saying or 0]
    while len(chosen) < min(MOST_POINTS, max(1, len(saying))):
        at = int(left.argmax())
        if left[at] < worth.max() - WORSE and len(chosen) >= LEAST_POINTS:
            break
        chosen.append(at)
        left -= [REPEATED * reader.shared(at, other) for other in range(len(worth))]
        left[chosen] = -np.inf
    return chosen


# --- what a line says ---


_WORD: Final = re.compile(r"[^\W_]+")
_COURTESIES: Final = """
ok okay k kk yes yep yup yeah ya yay sure nice cool lol lmao lmaoo rofl ha haha hahaha hehe omg wow same thanks thank
thx ty you cheers great good perfect love it lovely hi hey hello morning all everyone night gm gn bye legend hero hmm
ugh aww oh ooh ah no way fine grand brilliant amazing wtf rip xd noted right so very much sorry oops
"""
_COURTESY: Final = frozenset(_COURTESIES.split())
_TIME: Final = re.compile(
    r"\b(?:\d{1,2}(?::\d\d|h\d{0,2}\b|\s?[ap]m\b|st\b|nd\b|rd\b|th\b)|(?:mon|tues?|wed(?:nes)?|thu(?:rs)?|fri"
    r"|sat(?:ur)?"
    r"|sun)(?:day)?s?\b|(?:jan|feb|mar|apr|jun|jul|aug|sept?|oct|nov|dec)[a-z]*\b|today|tomorrow|tonight|tmr?w?|noon"
    r"|midnight|morning|evening|afternoon|weekend|half \w+|quarter (?:to|past)|(?:at|by|from|til|till|until) \d)",
    re.IGNORECASE,
)
_NUMBER: Final = re.compile(
    r"\d|\b(?:one|two|three|four|five|six|seven|eight|nine|ten|dozen|half|both|none|couple)\b", re.IGNORECASE
)
_LINK: Final = re.compile(r"https?://|www\.")
_SETTLES: Final = re.compile(
    r"\b(?:settled|decided|booked|confirmed|done|deal|agreed?|final|going with|go with|it is|locked|sorted"
    r"|fixed|ordered"
    r"|paid|sent|signed|approved|submitted|then|so its|stays|instead|moved|postponed|cancell?ed|off|bust|now|only|must"
    r"|ha(?:ve|s) to|needs? to|dont|pls|please|deadline|rule|no more)\b",
    re.IGNORECASE,
)
_DECIDES: Final = re.compile(
    r"\b(?:then|it is|final|settled|decided|booked|confirmed|deal|agreed|sorted|approved)\W*$|\b(?:it is"
    r"|going with|go with"
    r"|final|settled|decided|booked|confirmed)\b|^ok(?:ay)? (?!cool|great|good|nice|thx|thanks|fine|bye)\w+ ",
    re.IGNORECASE,
)
_TAKES_ON: Final = re.compile(
    r"\b(?:i'?ll|i will|i can|i could|we'?ll|we can|i'?m (?:bringing|on|doing|in)|i got|i'?ve got|i have|mine"
    r"|on me|leave it"
    r" to me|let me|me and|is me|count me|i'?d|my turn)\b|^me\b",
    re.IGNORECASE,
)
_ASSIGNS: Final = re.compile(
    r"\b(?:can|could|will|would) (?:you|u|someone|somebody|anyone)\b|\b(?:brings?|drives?|picks? up|takes?|does"
    r"|fetch(?:es)?"
    r"|owns?|writes?|makes?|cooks?|handles?|covers?|don'?t forget|remember to)\b",
    re.IGNORECASE,
)
_YES: Final = re.compile(
    r"^\W*(?:ok(?:ay)?|k|kk|yes+|yep|yup|yeah|ya|sure|deal|done|agreed|fine|grand|perfect|great|good|nice|cool|works?"
    r"|sounds? good|go for it|approved|same|me too|i'?m in|in|sold|right|brilliant|lovely|noted|will do|on it"
    r"|go on|\+1)\b"
    r"|^[👍✅🙌🎉💪]+",
    re.IGNORECASE,
)
_LAUGHS: Final = re.compile(
    r"\b(?:lol|lmao+|rofl|ha(?:ha)+h?|hehe|omg|wtf|jk|rip|xd|ffs|smh|legend|hero|ngl|tbh|bruh|bro)\b|[😂🤣😭🙃🥲😅💀😆🤡🙄😏🫠]",
    re.IGNORECASE,
)
_GREETS: Final = re.compile(
    r"^\W*(?:hi|hey|hello|(?:good )?morning|evening|gm|gn|night|thanks?|thank you|thx|ty|cheers|bye|welcome|yay"
    r"|congrats"
    r"|happy birthday|oops|wow|ooh|aww+|ugh|hmm+|what\W*$|no way)\b",
    re.IGNORECASE,
)
_NAMES: Final = re.compile(r"(?<=[\w,;:'\"(&-] )[\"'(#@]?(?:[A-Z][a-z]+|[A-Z]{2,})")
_SHOUTS: Final = re.compile(r"\b[A-Z]{4,}\b|!!")
_ASKS: Final = re.compile(
    r"^\W*(?:so |and |but |ok |hey |wait )*(?:who|what|when|where|why|how|which|whos|whats|whens|wheres|hows"
    r"|did|does|do|is"
    r"|are|was|can|could|will|should|shall|any|anyone|anybody|has|have)\b",
    re.IGNORECASE,
)
_VALUES: Final = {
    "clock": re.compile(r"\b\d{1,2}(?::\d\d|\s?[ap]m\b)|\bhalf \d\b|(?<=at )\d{1,2}\b"),
    "weekday": re.compile(r"\b(?:mon|tue|wed|thu|fri|sat|sun)(?=s|nes|rs|r|ur|day|\b)"),
    "number": re.compile(r"(?<![\d:.])\d+(?![\d:.]|\s?[ap]m)"),
}
WEIGHTS: Final = {
    "length": 0.20,
    "short": -0.07,
    "long": 0.26,
    "time": 0.13,
    "number": 0.25,
    "link": 0.25,
    "settles": 0.25,
    "decides": 0.44,
    "takes_on": 0.24,
    "assigns": 0.12,
    "yes": 0.33,
    "laughs": -0.33,
    "greets": 0.16,
    "names": 0.20,
    "shouts": -0.12,
    "asks": -0.77,
    "accepted": 0.25,
    "open": -1.17,
    "replies": 0.06,
    "answers": -0.04,
    "corrects": 0.38,
    "replaced": -0.45,
    "worth": 0.49,
    "central": 0.59,
    "ends": 0.02,
    "late": 0.23,
    "fresh": 0.77,
    "topic_words": -1.34,
    "topic_thread": 1.06,
    "topic_near": -0.42,
    "topic_cosine": 0.46,
    "topic_cosine_near": -0.59,
    "topic_top": 1.12,
    "topic_wide": 3.57,
    "topic_wide_top": -1.07,
    "topic_fresh": 0.46,
    "same_day": 0.27,
    "other_day": -1.10,
    "near_day": 0.44,
    "day_fresh": 0.96,
}
"""What each feature is worth, in the order of the columns of `features`."""


def features(stretch: Stretch, reader: _Reader | None = None) -> Floats:
    """One row per message, one column per feature."""
    reader = reader or _Reader(stretch.messages)
    lines = np.array([[*_of_text(one.content), *reader.row(at)] for at, one in enumerate(stretch.messages)], float)
    fresh = np.exp(-(stretch.messages[-1].ts - np.array([one.ts for one in stretch.messages])) / FRESH_S)
    return np.column_stack((lines, fresh, _topical(stretch, fresh), _on_day(stretch, fresh)))


def _of_text(text: str) -> Iterator[float]:
    count = len(text.split())
    yield from (min(1.0, count / 8), count <= 2, min(1.0, max(0, count - 12) / 20))
    searched = (_TIME, _NUMBER, _LINK, _SETTLES, _DECIDES, _TAKES_ON, _ASSIGNS, _YES, _LAUGHS, _GREETS, _NAMES, _SHOUTS)
    yield from (pattern.search(text) is not None for pattern in searched)


def _topical(stretch: Stretch, fresh: Floats) -> Floats:
    """Zeros without a topic: its weights then have no say."""
    if not stretch.about:
        return np.zeros((len(fresh), len(About._fields) + 4))
    about = np.nan_to_num(np.array(stretch.about, float))
    top = _of_most(about.sum(axis=1))
    wide = _of_most(_spread(stretch.messages, about[:, 0] + about[:, 3]))
    return np.column_stack((about, top, wide, wide * top, fresh))


def _on_day(stretch: Stretch, fresh: Floats) -> Floats:
    """What each line has to do with the day whose plans are asked for."""
    wanted = _days(stretch.day, stretch.now, stretch.tz)
    if not wanted:
        return np.zeros((len(fresh), 4))
    named = [_days(one.content, one.ts, stretch.tz) for one in stretch.messages]
    same = np.array([not wanted.isdisjoint(days) for days in named], float)
    other = np.array([bool(days) and wanted.isdisjoint(days) for days in named], float)
    return np.column_stack((same, other, np.minimum(_spread(stretch.messages, same), 1.0), fresh))


def _of_most(values: Floats) -> Floats:
    share: Floats = values / max(1e-9, float(values.max(initial=0.0)))
    return share


def _spread(messages: Sequence[Message], values: Floats) -> Floats:
    """What the lines around a line have, less the further away: a talk goes on for a while about one thing."""
    times, found = np.array([one.ts for one in messages]), values.copy()
    for step in range(1, min(SPREAD + 1, len(messages))):
        share = (1.0 - step / (SPREAD + 1)) * (times[step:] - times[:-step] < SESSION_S)
        found[:-step] += share * values[step:]
        found[step:] += share * values[:-step]
    return found


# --- days ---


_MONTH: Final = "(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*"
_DATE: Final = re.compile(
    r"\b(?:(?P<weekday>mon|tue|wed|thu|fri|sat|sun)(?:s|nes|rs|r|ur)?(?:day)?s?|(?P<weekend>weekend|wknd)"
    rf"|(?P<nth>\d{{1,2}})(?:st|nd|rd|th)|(?P<of>\d{{1,2}})\.? (?:of )?{_MONTH}|{_MONTH} (?P<month>\d{{1,2}})"
    r"|(?P<next>tomorrow|tmr?w?|2moro)|today|tonight|this (?:morning|afternoon|evening))\b",
    re.IGNORECASE,
)
_WEEKDAYS: Final = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")


def _days(text: str, ts: float, tz: tzinfo | None) -> frozenset[str]:
    """The days that a text names, as weekdays and as days of the month: people write "sat", "the 14th" or "tmrw"."""
    return frozenset(day for found in _DATE.finditer(text) for day in _day(found, ts, tz))


def _day(found: re.Match[str], ts: float, tz: tzinfo | None) -> tuple[str, ...]:
    """A weekday also as the date it has next, and a date also as its weekday."""
    then = datetime.fromtimestamp(ts, tz)
    if found["weekend"]:
        return _WEEKDAYS[5:]
    if found["weekday"]:
        after = (_WEEKDAYS.index(found["weekday"].lower()) - then.weekday()) % 7
        return (found["weekday"].lower(), str((then + timedelta(days=after)).day))
    if number := found["nth"] or found["of"] or found["month"]:
        coming = (then + timedelta(days=after) for after in range(31))
        return (str(int(number)), *(_WEEKDAYS[one.weekday()] for one in coming if one.day == int(number)))
    day = then + timedelta(days=1 if found["next"] else 0)
    return (_WEEKDAYS[day.weekday()], str(day.day))


# --- what came after a line ---


class _Reader:
    """Reads each message among the others."""

    def __init__(self, messages: Sequence[Message]) -> None:
        self._messages = messages
        self._stems = [frozenset(stems(message.content)) for message in messages]
        self._asking = [_asks(message.content) for message in messages]
        at = {message.id: place for place, message in enumerate(messages)}
        self._parents = [_parent(message, at) for message in messages]
        self._children: dict[int, list[int]] = {}
        for place, parent in enumerate(self._parents):
            if parent is not None and parent < place:
                self._children.setdefault(parent, []).append(place)

    def shared(self, at: int, other: int) -> float:
        """The share of words that two lines have in common."""
        one, two = self._stems[at], self._stems[other]
        return len(one & two) / (min(len(one), len(two)) + 1)

    def says_something(self, at: int) -> bool:
        """Whether it is more than a yes, a laugh or a greeting."""
        return not _COURTESY.issuperset(_WORD.findall(self._messages[at].content.lower()))

    def is_open(self, at: int) -> bool:
        """Whether it asks for something that nobody answered."""
        return "?" in self._messages[at].content and self._asking[at] > 0.5 and not self._answered(at)

    def row(self, at: int) -> Iterator[float]:
        yield self._asking[at]
        yield self._accepted(at)
        yield self._asking[at] > 0.5 and not self._answered(at)
        yield min(3, len(self._children.get(at, ()))) / 3
        yield self._answers(at)
        yield CORRECTS.search(self._messages[at].content) is not None
        yield self._replaced(at)
        worth, common = (sum(self._rarity[one] for one in some) for some in (self._stems[at], self._repeated(at)))
        yield min(1.0, worth / 25)
        yield common / (worth + 5.0)
        yield self._ends(at)
        yield at / max(1, len(self._messages) - 1)

    @cached_property
    def _count(self) -> Counter[str]:
        return Counter(word for some in self._stems for word in some)

    @cached_property
    def _rarity(self) -> dict[str, float]:
        return {word: math.log(1 + len(self._messages) / times) for word, times in self._count.items()}

    def _repeated(self, at: int) -> list[str]:
        return [word for word in sorted(self._stems[at]) if self._count[word] > 1]

    def _others_after(self, at: int, within: int) -> list[int]:
        """The lines by others that may answer it: those linked to it, and the next ones."""
        message, end = self._messages[at], min(at + within + 1, len(self._messages))
        near = [one for one in range(at + 1, end) if self._messages[one].ts - message.ts < SESSION_S]
        found = dict.fromkeys((*self._children.get(at, ()), *near))
        return [one for one in found if self._messages[one].author_id != message.author_id]

    def _accepted(self, at: int) -> bool:
        return any(_YES.search(self._messages[one].content) for one in self._others_after(at, 2))

    def _answered(self, at: int) -> bool:
        return any(self._asking[one] < 0.5 for one in self._others_after(at, 2))

    def _answers(self, at: int) -> bool:
        """Whether it answers somebody's question with something that settles it."""
        parent = self._parents[at]
        asked = [one for one in (parent, at - 1) if one is not None and one >= 0 and self._asking[one] > 0]
        by_others = any(self._messages[one].author_id != self._messages[at].author_id for one in asked)
        text = self._messages[at].content
        return by_others and any(one.search(text) for one in (_SETTLES, _NUMBER, _TAKES_ON))

    def _ends(self, at: int) -> bool:
        """Whether nothing more was said to it, and it says something after others did."""
        return self._parents[at] is not None and at not in self._children and len(self._stems[at]) > 1

    def _replaced(self, at: int) -> bool:
        """Whether a later line of the same talk settles or corrects it with another time, day or number."""
        mine = self._values[at]
        end = min(len(self._messages), at + SOON)
        return bool(mine) and any(self._replaces(one, at, mine) for one in range(at + 1, end))

    def _replaces(self, later: int, at: int, mine: dict[str, str]) -> bool:
        other, text = self._values[later], self._messages[later].content
        if all(other.get(kind, value) == value for kind, value in mine.items()) or self._asking[later] > 0.5:
            return False
        if not (_DECIDES.search(text) or CORRECTS.search(text)):
            return False
        return self._roots[later] == self._roots[at] or len(self._stems[later] & self._stems[at]) > 1

    @cached_property
    def _values(self) -> list[dict[str, str]]:
        """Per line, what kinds of value it has, if one of each."""
        found = []
        for message in self._messages:
            every = [
                (kind, one) for kind, pattern in _VALUES.items() for one in pattern.findall(message.content.lower())
            ]
            kinds = Counter(kind for kind, _ in every)
            found.append({kind: one for kind, one in every if kinds[kind] == 1})
        return found

    @cached_property
    def _roots(self) -> list[int]:
        """The first line of each line's talk."""
        roots: list[int] = []
        for at, parent in enumerate(self._parents):
            roots.append(roots[parent] if parent is not None and parent < at else at)
        return roots


def _parent(message: Message, places: dict[int, int]) -> int | None:
    """The place of what a message answers."""
    if message.reply_to in places:
        return places[message.reply_to]
    return next((places[one] for one, chance in message.parents if chance >= LINK_MIN and one in places), None)


def _asks(text: str) -> float:
    """The share of a text that asks; people leave out the mark, too."""
    if "?" in text:
        return asking(text)
    return 0.7 if _ASKS.match(text) and len(text.split()) > 2 else 0.0
