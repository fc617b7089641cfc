"""What a question is about: what is left after removing scaffolding, people and time words.

Enters: the line and what the router concluded about it. Leaves: the text that gets embedded, "" if there is none. After
"about", nearly everything is topic; elsewhere the edges are trimmed harder. A question about somebody's life ("when did
Ann go to Rome?") keeps its verb, its nouns and its dates, since the message that answers it may have any of them.
"""

from __future__ import annotations

import re

from channelmem.routing.clauses import LIFE, Finding
from channelmem.routing.lexicon import word_set
from channelmem.routing.people import Line
from channelmem.routing.recap import Recap
from channelmem.times.dates import is_date

# What may be at the edges of a topic without being part of it, by class letter.
_LEFT_OF_ABOUT = frozenset("jlz.,@")
_RIGHT_OF_ABOUT = frozenset("jlzk.,@pd&")
_LEFT = frozenset("jlzkMpfayieWgs&.,@NdDbBvnmoqhRr")
_RIGHT = frozenset("jlzkMpfayieWg&.,@tdDbBvnmoqhs")
_EMPTY = _LEFT | frozenset("tuUwH")
_LIFE_DROPS = frozenset("qhodDbBvnml.,@yir")
_NO_TOPIC = word_set(
    """message messages post posts comment comments reply replies response responses answer answers question
    questions thing things words said say kind type sort exactly happened talk talking topic statement chat
    conversation discussion channel thread mean anything something quote last latest newest recent first spoke"""
)
_TAIL = re.compile(
    r"[.,z]*(?:q[bB][jtseMl]{0,2}|q|h[bB][sej]?|o[bB]?[se]?|mj*yj*R.*|Djy?R.*|[.,]R.*|[.,]&?j*[ieyWg].*)[jlz.,]*$"
)
_TAIL_HEADS = frozenset("qhomD.,")
# Forms whose topic is between auxiliary and verb ("was redis mentioned"), and forms that have none.
_INNER = frozenset({"passive", "raised"})
_WHOLE = frozenset({"last"})
_PRONOUNS = frozenset("sMeytqpo")
_KINDS = word_set("kind type sort kinds types")
_LINKING = word_set("that to if whether")


def topic(line: Line, finding: Finding | None, recap: Recap | None, asker: str = "") -> str:
    """The text to embed; `asker` is the name to look for if people spoke about the asker."""
    begin = 0 if finding and finding.name == "named" else finding.verb[1] if finding else recap.rest if recap else 0
    about = line.letters.find("a", begin)
    if finding is not None and finding.name in LIFE:
        # "Any news about Acme?" has no clause, but it says what it is about.
        named = about >= 0 and finding.who == "" and _after_about(line, about + 1, asker)
        return named or _life(line, finding)
    if about >= 0 and (text := _after_about(line, about + 1, asker)):
        return text
    if finding is None:
        return _phrase(line, begin, len(line.letters))
    if finding.name in _WHOLE:
        return ""
    inner = _phrase(line, finding.start + 1, finding.verb[0]) if finding.name in _INNER else _before(line, finding)
    rest = _phrase(line, finding.end, len(line.letters))
    return " ".join(filter(None, (inner, rest))) or _person(line, finding, asker)


def _after_about(line: Line, first: int, asker: str) -> str:
    if "me" in line.words and line.letters[first:].strip("jlz.,") == "M" and line.words[first] == "me":
        return asker
    first, last = _trimmed(line, first, _without_tail(line, first, len(line.letters)), _LEFT_OF_ABOUT, _RIGHT_OF_ABOUT)
    return "" if _PRONOUNS.issuperset(line.letters[first:last]) else _text(line, first, last)


def _before(line: Line, finding: Finding) -> str:
    """What comes between the question word and the clause: "which restaurant did Ann suggest"."""
    start = finding.start
    while start and line.letters[start - 1] not in "qohR.,":
        start -= 1
    return _phrase(line, start, finding.start)


def _person(line: Line, finding: Finding, asker: str) -> str:
    """ "Who mentioned Ann": if anybody may have spoken, the person is the topic."""
    if line.letters[slice(*finding.subject)].strip("tgoq"):
        return ""
    for i in range(finding.start if finding.name == "passive" else finding.end, len(line.letters)):
        if line.letters[i] == "N":
            return line.tokens[i].text
        if line.tokens[i].word in {"me", "i"}:
            return asker
    return ""


def _life(line: Line, finding: Finding | None) -> str:
    """Every word that carries meaning, without the person asked about and the words that only ask."""
    dated = {i for each in line.times if is_date(each.phrase) for i in range(each.first, each.last)}
    subject = range(*finding.subject) if finding else range(0)
    kept = [
        i
        for i, letter in enumerate(line.letters)
        if i in dated or not (letter in _LIFE_DROPS or letter in "zNP" or i in subject or _is_kind_of(line, i))
    ]
    while kept and kept[0] not in dated and line.letters[kept[0]] in "jpfasM&tR" and len(kept) > 1:
        kept.pop(0)
    while kept and kept[-1] not in dated and line.letters[kept[-1]] in "jpf&tM":
        kept.pop()
    return _joined([line.tokens[i].text for i in kept])


def _is_kind_of(line: Line, i: int) -> bool:
    if line.words[i] == "of":
        return i > 0 and line.words[i - 1] in _KINDS
    return line.words[i] in _KINDS and line.words[i + 1 : i + 2] == ["of"]


def _phrase(line: Line, first: int, last: int) -> str:
    if first >= last:
        return ""
    first, last = _trimmed(line, first, _without_tail(line, first, last), _LEFT, _RIGHT, _NO_TOPIC)
    return "" if _EMPTY.issuperset(line.letters[first:last]) else _text(line, first, last)


def _without_tail(line: Line, first: int, last: int) -> int:
    """The latest point where the topic can end: before an added question, and at the end of its sentence."""
    if _TAIL_HEADS.isdisjoint(line.letters[first:last]):
        return last
    tail = _TAIL.search(line.letters, first, last)
    last = tail.start() if tail and tail.start() > first else last
    stop = line.letters.find(".", first, last)
    return stop if stop > first else last


def _trimmed(
    line: Line,
    first: int,
    last: int,
    left: frozenset[str],
    right: frozenset[str],
    words: frozenset[str] = frozenset(),
) -> tuple[int, int]:
    letters = line.letters
    while first < last and (letters[first] in left or line.words[first] in words):
        first += 1
    while last > first and (letters[last - 1] in right or line.words[last - 1] in words):
        last -= 1
    return first, last


def _text(line: Line, first: int, last: int) -> str:
    kept = [line.tokens[i].text for i in range(first, last) if line.letters[i] not in "zl@"]
    if len(kept) > 1 and kept[0].lower() in _LINKING:
        kept = kept[1:]
    return _joined(kept)


_BEFORE_MARK = re.compile(r" (?=[,.:;?!)])")


def _joined(words: list[str]) -> str:
    return _BEFORE_MARK.sub("", " ".join(filter(None, words))).strip(" ,.:;")
