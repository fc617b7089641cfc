"""What each form of a question still has to prove: that its subject and its verb belong to this conversation.

Enters: a `Line` and a `Finding` of one of the forms in `clauses`. Leaves: `CHECKS`, a proof by the name of its form.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from channelmem.routing.clauses import Finding
from channelmem.routing.grounds import (
    OURS,
    PLAINLY_SAID,
    PRESENT_GROUP,
    asks,
    elsewhere,
    sure,
)
from channelmem.routing.lexicon import word_set
from channelmem.routing.people.naming import Line
from channelmem.routing.reported import told
from channelmem.routing.times.spans import Clue
from channelmem.routing.verbs import AFFAIRS, OUTCOMES, TALK_NOUNS
from channelmem.routing.world import FAMOUS, MANKIND, WORLD

_TALKED_OF = word_set("mention mentions talk discussion")
_TALKED = word_set("conversation discussion chat thread")
# Groups that may be this channel's people.
_OPEN_GROUP = word_set("anyone anybody someone somebody")
# Passive without an agent is about us only with these.
_SAID = word_set(
    """said mentioned discussed decided agreed suggested posted shared linked asked brought talked told promised
    planned settled concluded argued came proposed debated tagged pinged quoted"""
)
# Who wrote, announced, chose: mostly general knowledge.
_WRITTEN = word_set("wrote written announced declared reported described picked chose planned revealed meant thought")
_LAST = word_set("last latest previous recent newest first prior final")
_LATEST_OF = word_set(
    """message messages post posts comment comments reply replies link links question questions answer answers thing
    things response joke picture photo image meme gif video file screenshot suggestion update announcement"""
)
_FINDABLE = word_set(
    """message messages post posts comment comments link links mention mentions replies thread threads talk discussion
    conversation"""
)
_MOODS = word_set("like hate love want prefer enjoy react")
_ANY_OF = word_set(
    "reply replies answer answers response responses messages objections complaints comments reactions votes"
)
_PAST_NOUNS = _ANY_OF | word_set(
    """plan link suggestion idea question decision joke message point argument proposal recommendation promise vote
    announcement meme pic picture screenshot quote reaction"""
)
_WORLDLY = WORLD | FAMOUS


def _who(line: Line, finding: Finding) -> bool:
    if finding.verb_word == "decided" and not {"a", "an"}.isdisjoint(line.words[finding.end : finding.end + 2]):
        return False  # "who decided that a byte has 8 bits"
    if "ever" in line.words and not {"first", "most"}.isdisjoint(line.words):
        return False
    if line.letters[finding.end :].strip("lj.,") == "Z" and "just" not in line.words:
        return False  # a quotation without a word of when or where is the world's
    if finding.verb_word in _WRITTEN:
        rest = line.letters[finding.end :].strip("lj.")
        if rest[:1] not in {"t", "s", "k", "z", ""} or rest[1:2] not in {"", "k", "z", "K", "L"}:
            return False
    worldly = finding.verb_word not in PLAINLY_SAID and not _WORLDLY.isdisjoint(line.words)
    return not (worldly or elsewhere(line))


_PLACED = re.compile(r"p[tj]*x")
_IDIOMS = word_set("end detail general private voice vc dm dms passing person public total response reply regard case")


def _at_some_place(line: Line, finding: Finding) -> bool:
    """ "What was agreed in the treaty of Versailles": not here."""
    if line.words[finding.end : finding.end + 1] not in (["in"], ["at"]):
        return False
    match = _PLACED.match(line.letters, finding.end)
    return match is not None and line.words[match.end() - 1] not in _IDIOMS | AFFAIRS | TALK_NOUNS


def _asked(line: Line, finding: Finding) -> bool:
    """Did they ever explain in Lost: people whom nobody named, at some other place."""
    unnamed = finding.who in {"e", "g", "tg"} and not line.persons
    return sure(line, finding) and not (unnamed and _at_some_place(line, finding))


def _passive(line: Line, finding: Finding) -> bool:
    if _at_some_place(line, finding) or _by_others(line, finding):
        return False
    if "m" in line.letters[max(0, finding.start - 2) : finding.start]:
        return False  # "what could have been said"
    between = line.letters[finding.start + 1 : finding.verb[0]]
    if between.rstrip("x")[-1:] == "s" and between[-1:] == "x" and "thing" in line.words:
        return False  # "the last thing somebody unknown said"
    if line.letters[finding.start] == "t" and line.words[finding.start] not in {"any", "no"}:
        return False
    named = line.letters[finding.verb[0] - 1] == "p"  # "a synonym for said"
    if named or finding.verb_word not in _SAID or "most" in line.words or elsewhere(line):
        return False
    return not line.letters[: finding.start].strip("jtl") or asks(line, line.letters)


_DECREED = word_set("decided announced declared revealed")


def _by_others(line: Line, finding: Finding) -> bool:
    """ "Has the ECB decided": somebody else's words, unless a thing of ours was settled."""
    between = slice(finding.start + 1, finding.verb[0])
    letters, words = line.letters[between], line.words[between]
    if line.letters[finding.start] != "v" or "x" not in letters or "n" in letters or finding.verb_word not in _DECREED:
        return False
    return AFFAIRS.isdisjoint(words) and TALK_NOUNS.isdisjoint(words) and OUTCOMES.isdisjoint(words)


def _raised(_line: Line, finding: Finding) -> bool:
    return finding.verb_word in {"come", "came"}


def _owned(line: Line, finding: Finding) -> bool:
    after = line.letters[finding.end :].lstrip("jzlk")[:1]
    return after not in frozenset("bBmvdx") or asks(line, line.letters)


def _own(line: Line, finding: Finding) -> bool:
    if not _LAST.isdisjoint(line.words[finding.start : finding.end]):
        return True
    lead = line.letters[: finding.start]
    if re.search("(?:^|y)[jl,.]*(?:R|r|RM)[jl]*$", lead):
        return line.letters[finding.start] == "u" and finding.verb_word in _LATEST_OF
    return re.search("qB[jt]?$", lead) is not None


def _sent(line: Line, finding: Finding) -> bool:
    if line.letters[finding.verb[0]] == "x":
        return finding.verb_word in {"news", "word", "sign", "trace"}
    return "N" in finding.who or finding.verb_word in _LATEST_OF


def _according(_line: Line, finding: Finding) -> bool:
    return finding.verb_word == "according"


def _heard(_line: Line, finding: Finding) -> bool:
    return finding.verb_word in {"hear", "heard", "get", "got", "receive", "received", "learn", "learned"}


def _quoted(_line: Line, finding: Finding) -> bool:
    return finding.verb_word == "quote"


def _opinion(line: Line, finding: Finding) -> bool:
    words = line.words[finding.subject[0] : finding.subject[1]]
    if line.words[:1] == ["why"] and OURS.isdisjoint(line.letters) and "k" not in line.letters:
        return False  # "why does everyone say Python is slow"
    if finding.who[:1] == "t":
        return line.words[finding.subject[0]] == "the"
    if finding.verb_word in {"agree", "disagree"}:
        return True
    if finding.verb_word in {"say", "tell"} and not WORLD.isdisjoint(line.words):
        return False  # "what does Rose say to Jack in Titanic"
    here = "k" in line.letters[finding.start : finding.end + 1]
    return here or "g" not in finding.who or not PRESENT_GROUP.isdisjoint(words)


def _meaning(_line: Line, finding: Finding) -> bool:
    return finding.verb_word == "mean"


_UNKNOWN_SAID = re.compile(r"x{1,3}[jv]*c")


def _last(line: Line, finding: Finding) -> bool:
    rest = line.letters[finding.end :]
    if line.letters[0] == "x" and finding.start > 0:
        return False  # an order: "delete the last message"
    if "ever" in line.words or (rest[:1] == "." and rest.strip("lj.")):
        return False
    if (rest[:1] == "y" and rest[1:2] not in {"c", "G", "j"}) or _UNKNOWN_SAID.match(rest):
        return False  # "the last thing you learned", "the last thing Steve Jobs said"
    return line.words[finding.start] in _LAST and finding.verb_word in _LATEST_OF


def _messages(line: Line, finding: Finding) -> bool:
    word = line.words[finding.end - 1]
    whose = word == "of" and (
        line.letters[finding.end : finding.end + 1] in {"N", "M"} or finding.verb_word in _TALKED_OF
    )
    joined = line.letters[finding.end - 1] != "p" or word == "with" or whose
    return joined and finding.verb_word in _FINDABLE and not elsewhere(line)


def _anyone(line: Line, finding: Finding) -> bool:
    return line.words[finding.subject[0]] in _OPEN_GROUP and finding.verb_word in PLAINLY_SAID


def _noun(line: Line, finding: Finding) -> bool:
    """What was the plan."""
    if line.words[finding.end : finding.end + 1] in (["of"], ["in"]) and line.letters[finding.end + 1] not in "NPuMWtk":
        return False  # "what was the message of 1984"
    return "ever" not in line.words and (finding.verb_word in _PAST_NOUNS or "again" in line.words)


def _between(line: Line, finding: Finding) -> bool:
    return line.words[finding.subject[0] - 1] in {"between", "from", "with", "of", "by"}


def _remembered(_line: Line, finding: Finding) -> bool:
    return finding.verb_word == "remember"


def _past(line: Line, finding: Finding) -> bool:
    """Did they do something: of known people anything counts, of others only what a channel can know."""
    subject, words = finding.who, set(line.words)
    if line.words[finding.start] == "got":
        return False
    if "N" in subject or "e" in subject:
        return "N" in subject or bool(line.persons) or not {"he", "she"}.isdisjoint(words)
    if not words.isdisjoint(WORLD):
        return False
    if subject == "y":
        return finding.verb_word == "call" and "me" in words
    if "W" in subject:
        return MANKIND.isdisjoint(words)
    return _by_some(line, finding)


def _by_some(line: Line, finding: Finding) -> bool:
    """Whether a group that is here did it, or a talk took its course."""
    group = set(line.words[finding.subject[0] : finding.subject[1]])
    if "H" in finding.who:
        return not _TALKED.isdisjoint(group)
    if "people" in group and finding.verb_word in _MOODS:
        return True
    if "the" in group and "people" not in group:
        return True
    if line.letters[finding.subject[1] : finding.subject[1] + 2] == "px":
        return False  # "everyone in Pompeii"
    open_group = bool(group & _OPEN_GROUP) and ("ever" not in line.words or "k" in line.letters)
    return "g" in finding.who and (bool(group & PRESENT_GROUP) or open_group)


_ELSEWHERE_DOING = re.compile(r"p[tj]*x{2,}")


def _present(line: Line, finding: Finding) -> bool:
    if any(each.span.clue is Clue.FUTURE for each in line.times) or "going" in line.words:
        return False
    subject, after = finding.who, line.letters[finding.end : finding.end + 1]
    if (after == "t" and line.letters[0] == "b") or (after == "C" and not WORLD.isdisjoint(line.words)):
        return False  # "is Ann a common name", "what does Rose say in Titanic"
    if subject == "e":
        return not {"he", "she"}.isdisjoint(line.words)
    if subject in {"g", "H"}:
        if _ELSEWHERE_DOING.match(line.letters, finding.subject[1]) and line.words[-1].endswith("ing"):
            return False  # "everybody in old movies smoking"
        return WORLD.isdisjoint(line.words) and not PRESENT_GROUP.isdisjoint(
            line.words[finding.subject[0] : finding.subject[1]]
        )
    return "t" not in subject


CHECKS: dict[str, Callable[[Line, Finding], bool]] = {
    "asked": _asked, "perfect": sure, "continuous": sure, "anyone": _anyone, "who": _who, "whose": _who,
    "told": told, "passive": _passive, "raised": _raised, "owned": _owned, "own": _own, "sent": _sent,
    "according": _according, "heard": _heard, "between": _between, "quoted": _quoted, "opinion": _opinion,
    "meaning": _meaning, "last": _last, "messages": _messages, "noun": _noun, "remembered": _remembered,
    "past": _past, "present": _present,
}  # fmt: skip
