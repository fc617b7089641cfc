"""Summaries of what people wrote, chosen sentence by sentence, without a language model: where sentences of a chat end,
what they are about, and which of them fit and say most."""

from __future__ import annotations

import heapq
import math
import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from channelmem.display import cut, flatten, named, plain_name
from channelmem.summaries.pyramid import ClosedWindow, Summary, SummaryLine, base, base_of_pair, silence
from channelmem.text import stem, stems
from channelmem.types import Message

LONGEST_CHARS: Final = 280
"""Longer sentences are folded: pasted text without marks would otherwise fill a summary or never fit into one."""

_ABBREVIATIONS: Final = "e.g i.e vs mr mrs dr prof st approx nr fig cf inc ltd jr sr a.m p.m"
_SHORT: Final = re.compile(
    rf"(?:^|[\s(])(?:{'|'.join(map(re.escape, _ABBREVIATIONS.split()))}|[^\W\d_])\.$|^\d{{1,3}}\.$", re.IGNORECASE
)
# Chinese and Japanese put no space after their marks.
_END: Final = re.compile(r"[.!?…]+[\"'”’)\]*_~]*(?=\s)|[。！？]+")  # noqa: RUF001  (full-width marks)
_LETTER: Final = re.compile(r"\w")


def sentences(text: str) -> list[str]:
    """The sentences in order; what has no letter and no digit (an emoji, a row of dashes) is none."""
    found = [sentence for line in text.splitlines() for sentence in _of_line(flatten(line))]
    return [piece for sentence in found for piece in _folded(sentence)]


def is_question(sentence: str) -> bool:
    return sentence.rstrip("\"'”’)]*_~ ").endswith(("?", "？"))  # noqa: RUF001


def _of_line(line: str) -> list[str]:
    cuts, start = [], 0
    for end in _END.finditer(line):
        if not _SHORT.search(line[start : end.end()]):
            cuts.append(line[start : end.end()])
            start = end.end()
    return [piece for cut in (*cuts, line[start:]) if _LETTER.search(piece := cut.strip())]


def _folded(sentence: str) -> list[str]:
    """The sentence in pieces of at most `LONGEST_CHARS`, cut between words where there are any."""
    pieces = []
    while len(sentence) > LONGEST_CHARS:
        edge = sentence.rfind(" ", LONGEST_CHARS // 2, LONGEST_CHARS)
        edge = edge if edge > 0 else LONGEST_CHARS
        pieces.append(sentence[:edge].rstrip())
        sentence = sentence[edge:].lstrip()
    return [*pieces, sentence] if sentence else pieces


# --- light words ---


_COURTESY: Final = """
amazing awesome great good nice cool glad happy love thanks thank wow sound wonderful fantastic incredible sure
definitely totally absolutely hope proud excited exciting fun best luck congrats congratulations keep feel sorry hear
interesting inspiring bet super kinda lot bit way stuff thing pretty yay haha beautiful lovely enjoy wish appreciate
hey agree
"""
_EMPTY: Final = "know think look want make mean see time take tell lately check chat talk day new need help try"

LIGHT: Final = frozenset(stem(word) for word in (_COURTESY + _EMPTY).split())
_SHORTEST_NAME: Final = 3


def name_forms(names: Iterable[str]) -> frozenset[str]:
    """The words of these names in lower case, their stems, and short forms: "mel" for Melanie."""
    words = {word for name in set(names) for word in name.lower().split()}
    short = {word[:end] for word in words for end in range(_SHORTEST_NAME, len(word))}
    return frozenset(words | short | {stem(word) for word in words})


# --- topics ---


MOST_TOPICS: Final = 4
TOPIC_CHARS: Final = 32
_WORD: Final = re.compile(r"[^\W\d_][\w'’.+#-]*[\w+#]")  # noqa: RUF001  (people type this apostrophe)
_LINK: Final = re.compile(r"https?://\S+|www\.\S+")
_SHORTEST: Final = 3
_LONG: Final = 5
# What people did, wanted or felt is rarely what they talked about.
_OTHER_WORDS: Final = """
back come came start started find found give gave put work working use used using last next today yesterday tomorrow
monday tuesday wednesday thursday friday saturday sunday week month year weekend ago always never maybe first one two
people someone guys guy everyone others around still even already soon later long little big old right left wait
remember forget believe guess seem happen learn share show spend meet met important special perfect hard easy tough
better real life moment experience idea place end turn run made let call ask getting part set kind able recently
morning evening night tonight minute hour together currently
"""
_NO_TOPIC: Final = frozenset(stem(word) for word in _OTHER_WORDS.split())


@dataclass(slots=True)
class _Term:
    """A word or two that may be a topic."""

    messages: set[int] = field(default_factory=set)
    forms: Counter[str] = field(default_factory=Counter)
    names: int = 0  # how often it was capitalised inside a sentence

    def worth(self, words: int) -> float:
        """Pairs of words say more than words, names more than nouns, long words more than short ones."""
        spread = len(self.messages)
        named = 1.5 if 2 * self.names > self.forms.total() else 1.0
        length = 1.0 if max(map(len, self.forms)) > _LONG else 0.8
        # A pair that was said once is chance, unless it is a name.
        paired = 1.0 if words == 1 else 2.0 if spread > 1 or named > 1 else 0.4
        return spread * named * length * paired

    def shown(self) -> str:
        """As most people wrote it."""
        return min(self.forms.items(), key=lambda form: (-form[1], form[0]))[0]


def topics(texts: Sequence[str], speakers: Collection[str] = ()) -> tuple[str, ...]:
    """What these messages are about; `speakers` has the stems of names that are no topic."""
    terms: dict[tuple[str, ...], _Term] = {}
    for at, text in enumerate(texts):
        _count(terms, at, _LINK.sub(" ", text), speakers)
    ranked = sorted(terms, key=lambda key: (-terms[key].worth(len(key)), min(terms[key].messages), key))
    chosen: list[tuple[str, ...]] = []
    for key in ranked:
        if len(chosen) == MOST_TOPICS:
            break
        shown = terms[key].shown()
        # "support group" and "group" are one topic.
        if len(shown) <= TOPIC_CHARS and not any(set(key) & set(other) for other in chosen):
            chosen.append(key)
    return tuple(terms[key].shown() for key in chosen)


def common_topics(older: Sequence[str], newer: Sequence[str], text: str) -> tuple[str, ...]:
    """The topics of two neighbours as one list: what both have, then what the text still speaks of, by rank."""
    told = text.lower()
    place = {topic: at for some in (newer, older) for at, topic in enumerate(some)}
    both = {topic.lower() for topic in older} & {topic.lower() for topic in newer}
    ranked = sorted(
        dict.fromkeys((*older, *newer)), key=lambda one: (one.lower() not in both, one.lower() not in told, place[one])
    )
    distinct = {topic.lower(): topic for topic in reversed(ranked)}
    return tuple(reversed(distinct.values()))[:MOST_TOPICS]


def _count(terms: dict[tuple[str, ...], _Term], at: int, text: str, speakers: Collection[str]) -> None:
    before: tuple[str, str, bool, int] | None = None
    for found in _WORD.finditer(text):
        word, base = found[0], _topical(found[0], speakers)
        if not base:
            before = None
            continue
        inside = word[0].isupper() and bool(
            re.search(r"[\w,;:'\"(&-]\s$", text[max(0, found.start() - 2) : found.start()])
        )
        shown = word if inside or word.isupper() else word.lower()
        _note(terms, (base,), at, shown, named=inside)
        if before is not None and text[before[3] : found.start()].isspace():
            _note(terms, (before[0], base), at, f"{before[1]} {shown}", named=inside and before[2])
        before = (base, shown, inside, found.end())


def _note(terms: dict[tuple[str, ...], _Term], key: tuple[str, ...], at: int, shown: str, *, named: bool) -> None:
    term = terms.setdefault(key, _Term())
    term.messages.add(at)
    term.forms[shown] += 1
    term.names += named


def _topical(word: str, speakers: Collection[str]) -> str:
    """The word's stem; empty if it cannot be part of a topic."""
    base = stem(word.lower())
    useless = base in LIGHT or base in _NO_TOPIC or base in speakers or len(word) < _SHORTEST
    return "" if useless else base


# --- extractive ---


MODEL: Final = "extractive"
SUMMARY_CHARS: Final = 700  # ten to twelve sentences: a quarter of a lively half hour


@dataclass(frozen=True, slots=True)
class SentenceWeights:
    """How much kinds of sentences and words count. Fitted roughly, on half of LoCoMo's conversations and to a mean over
    five lengths of summaries: the differences between neighbouring values are noise."""

    length: float = 0.6
    """The power of the length by which the worth of a sentence is divided: 1 prefers fragments, 0 long sentences."""
    label_chars: float = 5.0  # added to the length: every sentence costs part of a name and a line
    own: float = 1.2  # for "I", "my", "we": people tell about themselves and ask about others
    other: float = 0.7  # for "you" without "I": encouragement and advice
    time: float = 1.5  # for a word that says when
    name: float = 2.0  # for a capitalised word inside the sentence
    number: float = 1.2
    settled: float = 1.5  # for a decision or a correction. The fitting set has neither; the value is that of a time.
    marks: float = 0.3  # for tables, code and logs: every token of them is rare, and hardly any answers a question
    question: float = 0.5
    answer: float = 1.3  # for what follows somebody else's question
    least: float = 0.1  # a line worth less than this share of the first one is left out, even if there is room
    light: float = 0.3  # for words that any chat is full of


SHIPPED: Final = SentenceWeights()

_OWN: Final = re.compile(r"\b(?:i|i'm|i've|i'll|i'd|im|ive|my|me|mine|we|we're|we've|we'll|our|us)\b", re.IGNORECASE)
_OTHER: Final = re.compile(r"\b(?:you|you're|you've|you'll|you'd|your|yours|u|ur)\b", re.IGNORECASE)
_TIME: Final = re.compile(
    r"\b(?:yesterday|today|tomorrow|tonight|last|next|ago|since|until|(?:mon|tues|wednes|thurs|fri|satur|sun)day|january"
    r"|february|march|april|may|june|july|august|september|october|november|december|weekend|weeks?|months?|years?"
    r"|morning|afternoon|evening|noon|midnight|recently|soon|later|first|\d{1,2}(?::\d\d)? ?[ap]m|\d{1,2}:\d\d)\b",
    re.IGNORECASE,
)
_NAME: Final = re.compile(r"(?<=[\w,;:'\"(&-] )[\"'(#@]?([A-Z][a-z]+|[A-Z]{2,})")
_SETTLED: Final = re.compile(
    r"\b(?:decid\w+|decision|agree[ds]?|settled|let's (?:go with|do|use|take|meet)|we(?:'ll| will) (?:go with|use|take)"
    r"|final(?:ly|ised|ized)?|confirm\w*|deadline|approved|cancel\w+|correction|actually|instead|changed|moved to"
    r"|postponed|no longer|not anymore|scratch that)\b",
    re.IGNORECASE,
)
_CORRECTING: Final = re.compile(
    r"\b(?:correction|actually|instead|changed|moved to|postponed|cancel\w+|no longer|not anymore|scratch that)\b",
    re.IGNORECASE,
)
_DIGIT: Final = re.compile(r"\d")
_APOSTROPHES: Final = str.maketrans("’", "'")  # noqa: RUF001  (people type it)


def summarise(
    window: ClosedWindow,
    *,
    created: float,
    limit: int = SUMMARY_CHARS,
    people: Mapping[int, str] | None = None,
    weights: SentenceWeights = SHIPPED,
) -> Summary:
    """A window's summary of level 1. `people` has names by id, to show mentions as people see them."""
    whole = base(window, MODEL, created)
    lines = _lines(window.messages, people, weights)
    texts = [" ".join(line.text for line in lines if line.message_id == one.id) for one in window.messages]
    return replace(
        _written(whole, lines, limit, weights), topics=topics(texts, name_forms(line.author for line in lines))
    )


def combine(
    older: Summary, newer: Summary, *, created: float, limit: int = SUMMARY_CHARS, weights: SentenceWeights = SHIPPED
) -> Summary:
    """The summary of two neighbours, from their lines."""
    whole = base_of_pair(older, newer, MODEL, created)
    lines = (*lines_of(older), *lines_of(newer))
    gap = (silence(newer.start - older.end), newer.start)
    written = _written(whole, lines, limit, weights, gap)
    return replace(written, topics=common_topics(older.topics, newer.topics, written.text))


def lines_of(summary: Summary) -> tuple[SummaryLine, ...]:
    """What a summary keeps; the sentences of one that a language model wrote are nobody's."""
    if summary.lines or summary.model == MODEL:
        return summary.lines
    return tuple(SummaryLine(0, 0, "", summary.start, sentence) for sentence in sentences(summary.text))


def shortened(summary: Summary, limit: int) -> Summary:
    """The same stretch in fewer characters, from the lines it keeps."""
    return _written(summary, lines_of(summary), limit, SHIPPED)


def of_lines(summary: Summary, lines: tuple[SummaryLine, ...]) -> Summary:
    """An extractive summary with some of its lines only."""
    return replace(summary, lines=lines, text="\n".join(filter(None, (_text(lines), str(summary.shared)))))


def _lines(
    messages: Sequence[Message], people: Mapping[int, str] | None, weights: SentenceWeights
) -> tuple[SummaryLine, ...]:
    """Every sentence of the messages, weighed."""
    found: list[SummaryLine] = []
    speakers = name_forms(one.author for one in messages)
    for before, one in zip((None, *messages), messages, strict=False):
        answers = before is not None and before.author_id != one.author_id and "?" in before.content
        for sentence in sentences(named(one.content, people)):
            weight = round(_kind(sentence, speakers, weights) * (weights.answer if answers else 1.0), 4)
            found.append(SummaryLine(one.id, one.author_id, plain_name(one.author), one.ts, sentence, weight))
    return tuple(found)


def _kind(sentence: str, speakers: Collection[str], weights: SentenceWeights) -> float:
    plain = sentence.translate(_APOSTROPHES)
    about = weights.own if _OWN.search(plain) else weights.other if _OTHER.search(plain) else 1.0
    kinds = (
        (_TIME.search(plain), weights.time),
        (any(found[1].lower() not in speakers for found in _NAME.finditer(plain)), weights.name),
        (_DIGIT.search(plain), weights.number),
        (_SETTLED.search(plain), weights.settled),
        (is_question(plain), weights.question),
        (3 * sum(char.isalpha() or char == " " for char in plain) < 2 * len(plain), weights.marks),
    )
    return about * math.prod(factor for found, factor in kinds if found)


Gap = tuple[str, float]  # a silence line, and the time before which it stands


def _written(
    whole: Summary, lines: Sequence[SummaryLine], limit: int, weights: SentenceWeights, gap: Gap = ("", 0.0)
) -> Summary:
    """The summary with the lines that fit and its text."""
    shared = str(whole.shared)
    shared = shared if len(shared) <= limit else ""
    chosen = _chosen(lines, limit - (len(shared) + 1 if shared else 0), weights, gap)
    text = "\n".join(filter(None, (_text(chosen, gap), shared)))
    return replace(whole, lines=tuple(chosen), text=text)


def _chosen(lines: Sequence[SummaryLine], limit: int, weights: SentenceWeights, gap: Gap) -> list[SummaryLine]:
    """Greedy: the best line first, then the best of what adds to it. Worth only shrinks as the summary grows, so a line
    that is still the best after its worth was computed anew is the best of all."""
    words = [frozenset(stems(line.text)) for line in lines]
    worth = _worth(words, lines, weights)
    correcting = [bool(_CORRECTING.search(line.text)) for line in lines]
    told: set[str] = set()

    def value(at: int) -> float:
        # A correction repeats the words of what it corrects: they count again.
        new = words[at] if correcting[at] else words[at] - told
        line = lines[at]
        gain = line.weight * sum(worth[one] for one in sorted(new))
        return gain / math.pow(len(line.text) + weights.label_chars, weights.length)

    heap = [(-value(at), at) for at in range(len(lines))]
    heapq.heapify(heap)
    least = heap[0][0] * weights.least if heap else 0.0
    chosen: list[int] = []
    while heap:
        old, at = heapq.heappop(heap)
        now = -value(at)
        if now >= least:
            continue
        if now > old + 1e-12:
            heapq.heappush(heap, (now, at))
            continue
        grown = sorted([*chosen, at])
        if len(_text([lines[one] for one in grown], gap)) <= limit:
            chosen = grown
            told |= words[at]
    return [lines[at] for at in chosen] or _cut_to_fit(lines, limit)


def _worth(words: Sequence[frozenset[str]], lines: Sequence[SummaryLine], weights: SentenceWeights) -> dict[str, float]:
    """What each word is worth: rare ones more, names of the people who speak nothing, since lines have them anyway."""
    count = Counter(word for some in words for word in some)
    speakers = name_forms(line.author for line in lines)
    return {
        word: 0.0 if word in speakers else math.log(1 + len(words) / times) * (weights.light if word in LIGHT else 1.0)
        for word, times in sorted(count.items())
    }


def _cut_to_fit(lines: Sequence[SummaryLine], limit: int) -> list[SummaryLine]:
    """Where not one line fits, or none has a word worth keeping: the first, cut."""
    for line in lines:
        room = limit - len(_text([replace(line, text="")], ("", 0.0)))
        if room > 1:
            return [replace(line, text=cut(line.text, room))]
    return []


def _text(lines: Sequence[SummaryLine], gap: Gap = ("", 0.0)) -> str:
    """The lines in order; what the same person goes on to say stays on one line."""
    told: list[str] = []
    labels = _labels(lines)
    before: SummaryLine | None = None
    words, ts = gap
    for line in lines:
        if words and line.ts >= ts:
            told += [words] if told else []
            words, before = "", None
        if before is not None and before.author_id == line.author_id:
            told[-1] += f"{' ' if before.text[-1:] in '.!?…' else '; '}{line.text}"
        else:
            told.append(f"{labels[line.author_id]}{line.text}")
        before = line
    return "\n".join(told)


def _labels(lines: Sequence[SummaryLine]) -> dict[int, str]:
    """ "Ann: " by id. Two people of one name are told apart by the end of their ids."""
    labels: dict[int, str] = {}
    for line in lines:
        if line.author_id not in labels:
            label = f"{line.author}: " if line.author else ""
            taken = label and label in labels.values()
            labels[line.author_id] = f"{line.author}#{line.author_id % 10_000:04}: " if taken else label
    return labels
