"""Lines of chat by their text alone: stems, words as typed, and how much of each line is questions.

Both sides of a comparison must come through here. Redis stems its own full-text index; its results are counted again
with these stems, so that messages from the buffer, the archive and the platform's history are ranked by one measure.
Irregular forms ("won", "children") map to their base form, which no stemmer does.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Final, NamedTuple

import numpy as np
import snowballstemmer
from numpy.typing import NDArray

from channelmem.store.documents import AnyMessage

_WORD: Final = re.compile(r"[^\W_]+(?:['’.+#-][^\W_]+)*[+#]*")  # noqa: RUF001  (people type this apostrophe)
_PARTS: Final = re.compile(r"[^\W\d_]{3,}|\d{2,}")
_STEMMER: Final = snowballstemmer.stemmer("english")

_STOP_WORDS: Final = """
a about above after again against all also am an and any anybody anyone anything are aren't as at be because
been before being below between both but by can can't cannot could couldn't did didn't do does doesn't doing
don't down during each else ever every few for from further get gets getting go going gonna got had hadn't has
hasn't have haven't having he he'd he'll he's her here hers herself hey hi him himself his how i i'd i'll i'm
i've if in into is isn't it it'd it'll it's its itself just let's like many me might more most much must my
myself no nor not now of off oh ok okay on once only or other ought our ours out over own please really said
same say saying says shall she she'd she'll she's should shouldn't since so some somebody someone something such
than that that's the their theirs them themselves then there there's these they they'd they'll they're they've
thing things this those though through thus to too under until up upon us very was wasn't we we'd we'll we're
we've well were weren't what what's whatever when where where's whether which while who who's whom whose why
will with without won't would wouldn't yeah yes yet you you'd you'll you're you've your yours yourself dont im
ive cant doesnt didnt isnt thats whats lol went gone
whos wheres whens hows whys wat wats wot wut u ur r ya im pls plz tho gonna wanna gotta lemme rn abt cuz cos bc dunno
"""
STOP: Final = frozenset(_STOP_WORDS.split())
FRAGMENT: Final = 3
"""A text with fewer stems is a fragment."""

_FORMS: Final = """
buy bought; win won; make made; take took taken; see saw seen; give gave given; find found; think thought; write
wrote written; run ran; meet met; tell told; teach taught; sing sang sung; swim swam swum; draw drew drawn; feel
felt; leave left; lose lost; begin began begun; eat ate eaten; drive drove driven; fly flew flown; grow grew
grown; know knew known; speak spoke spoken; choose chose chosen; break broke broken; build built; send sent;
spend spent; sell sold; keep kept; hold held; hear heard; bring brought; catch caught; come came; become became;
wear wore worn; ride rode ridden; sleep slept; stand stood; understand understood; pay paid; fall fell fallen;
forget forgot forgotten; hide hid hidden; throw threw thrown; wake woke woken; fight fought; shoot shot; freeze
froze frozen; steal stole stolen; shake shook shaken; bite bit bitten; blow blew blown; child children; person
people ppl; woman women; man men; mouse mice; foot feet; tooth teeth; wife wives; life lives; knife knives; mother
mom mum; father dad; photo photograph picture pic; movie film; bike bicycle; favorite favourite; color colour;
minute min; hour hr; week wk; year yr; video vid; message msg; password pw pwd; information info; birthday bday;
ticket tix; microphone mic; tomorrow tmrw tmr tomoz 2moro; yesterday yday; tonight tonite 2nite; weekend wknd;
tuesday tue tues; wednesday weds; thursday thu thur thurs; friday fri; saturday sat; january jan; february feb;
september sept; october oct; november nov; december dec
"""


def _bases() -> dict[str, str]:
    groups = [group.split() for group in _FORMS.split(";")]
    return {form: str(_STEMMER.stemWord(group[0])) for group in groups for form in group}


_BASES: Final = _bases() | {f"{form}s": base for form, base in _bases().items()}


@lru_cache(maxsize=65_536)
def stem(word: str) -> str:
    """The stem of one lower-case word; empty for a stop word."""
    word = word.replace("’", "'")  # noqa: RUF001
    if word in STOP:
        return ""
    word = word.removesuffix("'s")
    if word[-1:].isdigit():
        return word  # the stemmer looks at endings only, and takes its time to find none
    return _BASES.get(word) or str(_STEMMER.stemWord(word))


class Word(NamedTuple):
    """What one lower-case word counts as; the parts of "perl-base5.10" and the "wifi" of "Wi-Fi" follow the whole."""

    stems: tuple[str, ...]
    forms: tuple[str, ...]


@lru_cache(maxsize=65_536)
def _split(word: str) -> Word:
    whole = stem(word)
    if word.isalpha():
        return Word((whole,) if whole else (), (word,))
    parts = (*_PARTS.findall(word), word.replace("-", ""))
    more = [part for part in map(stem, parts) if part and part != whole] if whole else []
    return Word((whole, *more) if whole else (), (word, *parts))


@lru_cache(maxsize=65_536)
def read_chunk(chunk: str) -> Word:
    """The same for what stands between two spaces, such as "(tomorrow," or "yes/no": no word crosses a space, so a text
    is split there first, which takes a tenth of the time of looking for words."""
    if chunk.isalnum():
        return _split(chunk)
    words = [_split(word) for word in _WORD.findall(chunk)]
    return Word(
        tuple([one for word in words for one in word.stems]),
        tuple([one for word in words for one in word.forms]),
    )


@lru_cache(maxsize=16_384)
def stems(text: str) -> tuple[str, ...]:
    """The stems of a text in order, without stop words."""
    return tuple([one for chunk in text.lower().split() for one in read_chunk(chunk).stems])


def emoji_of(text: str) -> tuple[str, ...]:
    """The emoji of a text that has no word worth searching for, each once; empty for any other text."""
    if text.isascii() or stems(text):
        return ()
    return tuple(dict.fromkeys(char for char in text if unicodedata.category(char) == "So"))


def words(text: str) -> tuple[str, ...]:
    """The words as written (lower case) that have a stem, each once: the query for a full-text index."""
    return tuple(dict.fromkeys(word for word in _WORD.findall(text.lower()) if stem(word)))


_SENTENCE: Final = re.compile(r"[^.!?]+[.!?]*")


def text_of(message: AnyMessage) -> str:
    return message.searchable if message.attachments else message.content


def forget_read() -> None:
    """Clears the caches: removed messages must not stay in memory for the sake of speed."""
    for cached in (tells, stems, read_chunk, _split, stem):
        cached.cache_clear()


@lru_cache(maxsize=16_384)
def tells(text: str, pattern: re.Pattern[str]) -> bool:
    """Whether the pattern occurs."""
    return pattern.search(text) is not None


def asking(text: str) -> float:
    """The share of a text that is questions."""
    if "?" not in text:
        return 0.0
    sentences = [sentence.strip() for sentence in _SENTENCE.findall(text)]
    asked = sum(len(sentence) for sentence in sentences if sentence.endswith("?"))
    return asked / max(1, sum(map(len, sentences)))


# --- lines ---


Floats = NDArray[np.float64]

BEGINNING: Final = 6
MIN_TYPO, MIN_TWO_TYPOS = 5, 8
"""From so many letters on, a word that nobody used may be another one with a slip, or with two."""


class Lines(NamedTuple):
    """One row per line."""

    chunks: Sequence[Sequence[str]]
    """Each line in lower case, split at its spaces."""
    known: Mapping[str, Word]
    """What each distinct chunk counts as."""
    asking: Floats
    """The share of the line that is questions."""
    length: Floats
    """In words, including stop words."""
    is_fragment: NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.chunks)

    def having(self, topic: str, *, forgiving: bool = False) -> tuple[Floats, Floats]:
        """1 where a line has a word of the topic, in any form; and 1 where it has the very form that was asked for. A
        column per stem of the topic. `forgiving`: a word that no line has may be misspelt."""
        columns = {word: column for column, word in enumerate(dict.fromkeys(stems(topic)))}
        forms = [form for chunk in topic.lower().split() for form in read_chunk(chunk).forms]
        typed = {form: columns[base] for form in forms if (base := stem(form)) in columns}
        present, literal = np.zeros((2, len(self.chunks), len(columns)))
        columns |= self._misspelt(columns) if forgiving else {}
        wanted = frozenset((*columns, *typed))
        topical = frozenset(
            chunk
            for chunk, word in self.known.items()
            if not (wanted.isdisjoint(word.stems) and wanted.isdisjoint(word.forms))
        )
        for row, chunks in enumerate(self.chunks):
            for chunk in topical.intersection(chunks):
                word = self.known[chunk]
                present[row, [columns[one] for one in word.stems if one in columns]] = 1.0
                literal[row, [typed[one] for one in word.forms if one in typed]] = 1.0
        return present, literal * present

    def _misspelt(self, columns: Mapping[str, int]) -> dict[str, int]:
        """The columns by stems of the lines that a stem of the topic misspells, if no line has that itself."""
        said = frozenset[str]().union(*(word.stems for word in self.known.values()))
        missing = [one for one in columns if one not in said and len(one) >= MIN_TYPO and one.isalpha()]
        found: dict[str, int] = {}
        for one in missing:
            most = 2 if len(one) >= MIN_TWO_TYPOS else 1
            near = [other for other in said if other[0] == one[0] and abs(len(other) - len(one)) <= most]
            for other in near:
                if len(set(one) ^ set(other)) <= 2 * most and other not in columns and slips(one, other) <= most:
                    found[other] = columns[one]
        return found


def slips(one: str, other: str) -> int:
    """How many insertions, deletions, substitutions and swaps of neighbours lie between two words."""
    before, last = [0] * (len(other) + 1), list(range(len(other) + 1))
    for i, a in enumerate(one):
        row = [i + 1]
        for j, b in enumerate(other):
            best = min(last[j] + (a != b), last[j + 1] + 1, row[j] + 1)
            swapped = i and j and a == other[j - 1] and one[i - 1] == b
            row.append(min(best, before[j - 1] + 1) if swapped else best)
        before, last = last, row
    return last[-1]


def read_lines(texts: Sequence[str]) -> Lines:
    chunks = [text.lower().split() for text in texts]
    known = {chunk: read_chunk(chunk) for chunk in set[str]().union(*chunks)}
    counts = {chunk: len(word.stems) for chunk, word in known.items()}
    return Lines(
        chunks,
        known,
        np.array([asking(text) if "?" in text else 0.0 for text in texts], float),
        np.array(list(map(len, chunks)), float),
        np.array([_is_fragment(line, counts) for line in chunks], bool),
    )


def _is_fragment(line: Sequence[str], counts: Mapping[str, int]) -> bool:
    """Its beginning mostly has enough stems, and then the rest need not be counted."""
    count = counts.__getitem__
    return sum(map(count, line[:BEGINNING])) < FRAGMENT and sum(map(count, line)) < FRAGMENT
