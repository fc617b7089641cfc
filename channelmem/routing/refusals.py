"""Requests that only look like questions about the conversation: tasks, orders, advice, languages.

Enters: a `Line`. Leaves: why it is refused, "" when it is not.
"""

from __future__ import annotations

import re

from channelmem.routing.evidence import TASKS
from channelmem.routing.naming import Line
from channelmem.routing.proofs import PRESENT_GROUP
from channelmem.routing.verbs import TALK_NOUNS
from channelmem.routing.world import LANGUAGES

_ADVICE = re.compile(r"(?:hx?|q[xL]{0,2})j*(?:Dj*[iWgy]|mj*[iWge])")
_ADVISE = (["should", "i"], ["should", "we"], ["shall", "i"], ["shall", "we"])
_REPORTED = re.compile(r"[BN]j*c")
_ANOTHER_QUESTION = re.compile(r"[.,]j*[qhod]")
_EXPLAINED = re.compile(rf"explain (?:the|that|this) (?:{'|'.join(sorted(TALK_NOUNS))})(?!\S)")
_POSTED = re.compile(r"K[jz]*[NgWi][jz]*c")


def refused(line: Line) -> str:
    """Requests that only look like questions about the conversation."""
    letters, words = line.letters, line.words
    if words[:3] == ["remind", "me", "to"] or (words[0] == "say" and "again" not in words):
        return "a reminder to be set, or words to be said"
    if (words[0] in TASKS and letters[0] == "x" and not {"q", "o", "h"} & set(letters)) or words[:2] in _ADVISE:
        return "a task or a question for advice"
    if not LANGUAGES.isdisjoint(words) and ("mean" in words or (words[0] == "translate" and not line.persons)):
        return "a question about a language"
    ordered = letters[0] == "C" and letters[1:2] not in {"M", "q", "o"} and not _EXPLAINED.match(" ".join(words))
    noted = letters[0] == "K" and words[0] != "quote" and "q" not in letters and not _POSTED.match(letters)
    if (ordered or noted) and not _ANOTHER_QUESTION.search(letters):
        return "an order to say or do something"
    advice = _ADVICE.match(letters.lstrip("lj,."))
    reported = "mean" in words or ("W" in letters and "again" in words) or _REPORTED.search(letters)
    asked_how = advice and not reported and PRESENT_GROUP.isdisjoint(words[: advice.end()]) and "here" not in words
    if asked_how or (letters[0] in "qh" and words[1:2] == ["to"]):
        return "asks how things are done, not what was said"
    return ""
