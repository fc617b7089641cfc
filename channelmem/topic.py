"""What a question is about: what is left when scaffolding, people and time words are taken away.

Enters: the line and the clause that was found. Leaves: the text that gets embedded, "" when there is none.
"""

from __future__ import annotations

import re

from channelmem.clues import Finding
from channelmem.letters import Line

_ABOUT = re.compile("a")
# Around a topic these say nothing: pronouns, prepositions, adverbs, fillers, punctuation ...
_EDGE_LEFT = frozenset("jlzkMpfayieWgs&.,@NdDbBvnmoqhRr")
_EDGE_RIGHT = frozenset("jlzkMpfayieWg&.,@tdDbBvnmoqhs")
_DROP_INSIDE = frozenset("zlk@")
_NO_TOPIC = frozenset(
    [
        "message",
        "messages",
        "post",
        "posts",
        "comment",
        "comments",
        "reply",
        "replies",
        "response",
        "responses",
        "answer",
        "answers",
        "question",
        "questions",
        "thing",
        "things",
        "point",
        "words",
        "said",
        "say",
        "kind",
        "type",
        "sort",
        "exactly",
        "happened",
        "talk",
        "talking",
        "topic",
        "statement",
        "chat",
        "conversation",
        "discussion",
        "channel",
        "thread",
        "convo",
        "mean",
        "latest",
        "last",
        "newest",
        "new",
        "more",
        "other",
        "previous",
        "word",
        "anything",
        "something",
    ]
)
_TAIL = re.compile(r"[.,]*(?:q[bB][jtse]{0,2}|q|h[bB][se]?|oB?[se]?|[mD]yR.*|R.*)[jl.,]*$")


def topic(line: Line, finding: Finding | None) -> str:
    letters = line.letters
    about = letters.find("a", finding.verb[1] if finding else 0)
    if about >= 0 and about + 1 < len(letters):
        text = _phrase(line, about + 1, len(letters))
        if text:
            return text
    if finding is None:
        return _phrase(line, 0, len(letters))
    after = _phrase(line, finding.end, len(letters))
    return " ".join(part for part in (_before(line, finding), after) if part)


def _before(line: Line, finding: Finding) -> str:
    """What stands between the question word and the clause: "which restaurant did Ann suggest"."""
    start = 0
    for i in range(finding.start - 1, -1, -1):
        if line.letters[i] in "qohR.,":
            start = i + 1
            break
    return _phrase(line, start, finding.start)


def _phrase(line: Line, first: int, last: int) -> str:
    letters = line.letters
    tail = _TAIL.search(letters, first, last)
    if tail and tail.start() > first:
        last = tail.start()
    while first < last and _idle(line, first, _EDGE_LEFT):
        first += 1
    while last > first and _idle(line, last - 1, _EDGE_RIGHT):
        last -= 1
    kept = [line.tokens[i].text for i in range(first, last) if letters[i] not in _DROP_INSIDE and line.tokens[i].text]
    if len(kept) > 1 and kept[0].lower() in {"that", "to", "if", "whether"}:
        kept = kept[1:]
    text = " ".join(kept)
    for mark in (" ,", " .", " '", " ?", " !", " :", " ;"):
        text = text.replace(mark, mark[1])
    return text


def _idle(line: Line, i: int, edge: frozenset[str]) -> bool:
    return line.letters[i] in edge or line.tokens[i].word in _NO_TOPIC
