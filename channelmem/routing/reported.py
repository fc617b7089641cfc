"""Is a statement about what somebody said a question: "what Ann said", "Ann said something, what was it"?

Enters: a `Line` and its "told" clause. Leaves: whether that is asked for, and not only told, liked or passed on.
"""

from __future__ import annotations

import re

from channelmem.routing.asking import ends_generally
from channelmem.routing.clauses import Finding
from channelmem.routing.grounds import MINDED, PLAINLY_SAID, asks, sure
from channelmem.routing.lexicon import word_set
from channelmem.routing.people.naming import Line
from channelmem.routing.verbs import WONDERING
from channelmem.routing.world import WORLD


def told(line: Line, finding: Finding) -> bool:
    """A statement is a question about it only with a question beside it."""
    letters, subject, verb = line.letters, finding.who, finding.verb_word
    if _only_told(line, finding, subject, verb):
        return False
    if "N" in subject and verb in {"answered", "replied", "responded"} and not {"never", "yet"}.isdisjoint(line.words):
        return True
    if _wanted(line, finding):
        return sure(line, finding)
    beside = letters[: finding.start].removesuffix("q") + "." + letters[finding.end :]
    after = letters[finding.end : finding.end + 4].replace("z", "")
    says_something = _WISHED.match(letters[: finding.start]) is None and (
        (_SOMETHING_ABOUT.match(after) and subject != "i") or (after[:2] in {"s", "ps"} and "N" in subject)
    )
    either = ("W" in subject or "e" in subject) and "or" in line.words[finding.end :]  # "we agreed on Thai or Korean"
    return (says_something or either or asks(line, beside)) and sure(line, finding)


_SOMETHING_ABOUT = re.compile(r"sx?[ap]")
_ACCOUNTS = word_set("resume version list transcript log account record report")
_WISHED = re.compile(r"[jl,.]*i[jm]*[xC]")
_THE_THING = re.compile(r"[tuw][jx]*[sLK]$")
_LIKED = re.compile(r"[jl,.]*i[jmvD]*[xV]")


def _wanted(line: Line, finding: Finding) -> bool:
    """ "What Ann said" is asked for at the head of a clause or after "tell me"; "I agree with what Ann said" is not."""
    lead = line.letters[: finding.start]
    if lead[-1:] in {"s", "L", "K"}:
        thing = _THE_THING.search(lead)
        before = lead[: thing.start()].rstrip("jl") if thing else ""
        return before[-1:] not in {"x", "V"} and _LIKED.match(lead) is None
    if lead[-1:] != "q":
        return False
    before = lead[:-1].rstrip("jlzk")
    if len(before) > 1 and line.words[len(before) - 1] in {"of", "on", "about"}:
        before = before[:-1]
        if line.words[len(before) - 1] in _ACCOUNTS:
            return True
    return not before or before[-1] in ".,&RrMC" or line.words[len(before) - 1] in WONDERING


def _only_told(line: Line, finding: Finding, subject: str, verb: str) -> bool:
    """The words are nobody's here, or the question beside them is another."""
    letters, lead = line.letters, line.letters[: finding.start]
    if ends_generally(line.words, letters) or letters.startswith("tbq"):
        return True
    if lead.rstrip("j")[-1:] == "m" or line.words[: finding.start] in (["as"], ["like"]):
        return True  # "what would you have said", "as Ann said"
    if "would" in line.words[: finding.start] and line.words[finding.start - 1] == "if":
        return True  # "would you lie if I asked you to"
    return _of_others(line, finding, subject, verb) or _not_theirs(line, finding, subject)


def _of_others(line: Line, finding: Finding, subject: str, verb: str) -> bool:
    """I thought, I told my mum, people voted in an election."""
    if (subject in {"i", "W"} and verb in MINDED) or (subject == "i" and verb == "meant"):
        return True
    if subject == "i" and verb in {"told", "asked"} and line.letters[finding.end : finding.end + 2] == "ux":
        return True
    counted = "how" in line.words[: finding.start]
    return "g" in subject and not WORLD.isdisjoint(line.words) and (counted or verb not in PLAINLY_SAID)


def _not_theirs(line: Line, finding: Finding, subject: str) -> bool:
    """I was told: by whom is not said; "telling" without a person who does it."""
    if subject == "y" and line.letters[finding.start - 1 : finding.start] == "b":
        return True  # "what language are you written in"
    clause, verb = line.letters[finding.start : finding.end], line.letters[finding.verb[0]]
    was = "B" in clause
    if verb == "G":
        return subject in {"M", "y"} or not (was or "N" in subject)
    return was and "n" not in clause
