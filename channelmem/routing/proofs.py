"""What each form of a question still has to prove: that its subject and its verb belong to this conversation.

Enters: a `Line` and a `Finding` of one of the forms in `clauses`. Leaves: `CHECKS`, a proof by the name of its form.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from channelmem.routing.asking import ends_generally
from channelmem.routing.clauses import Finding
from channelmem.routing.lexicon import word_set
from channelmem.routing.naming import Line
from channelmem.routing.spans import Clue
from channelmem.routing.verbs import WONDERING
from channelmem.routing.world import FAMOUS, MANKIND, MEDIA, WORLD

# Groups that are this channel's people, and those that may be.
PRESENT_GROUP = word_set("everyone everybody yall you chat others")
_TALKED_OF = word_set("mention mentions talk discussion")
_TALKED = word_set("conversation discussion chat thread")
_OPEN_GROUP = word_set("anyone anybody someone somebody")
# Passive without an agent is about us only with these.
_SAID = word_set(
    """said mentioned discussed decided agreed suggested posted shared linked asked brought talked told promised
    planned settled concluded argued came proposed debated tagged pinged quoted"""
)
# Who wrote, announced, chose: mostly general knowledge.
_WRITTEN = word_set("wrote written announced declared reported described picked chose planned revealed meant thought")
_MINDED = word_set("thought think feel felt picked")
_NOT_OF_BOT = _MINDED | word_set("laugh joking freaking writing plan")
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
_PLAINLY_SAID = word_set(
    """say mention talk discuss ask post share link answer reply said mentioned mentioning saying talked talking asked
    asking posted posting shared linked brought bringing"""
)
_ASKED_FOR = word_set("name title link url source details")
_OURS = frozenset("NiyWP")
_WORLDLY = WORLD | FAMOUS

# A question beside a statement: at the start of a clause, "what was it" anywhere, or at the very end.
_ASKING = re.compile(
    r"(?:^|[.,&l]|z(?=[qho]))[jl]*(?:[qhodDbBvmRr])|[qho][bB][stejMx]|[qho][l.]*$|mj*yj*R|[.,][jlz]*yj*[vR]|i[jm]*p{0,2}R"
)


def subject_of(line: Line, finding: Finding) -> str:
    return line.letters[finding.subject[0] : finding.subject[1]]


def verb_of(line: Line, finding: Finding) -> str:
    """The verb's word; some forms end with the subject."""
    return line.words[finding.verb[0]] if finding.verb[0] < len(line.words) else ""


def _asks(line: Line, letters: str) -> bool:
    last = line.words[len(line.letters.rstrip("lj.,")) - 1]
    return _ASKING.search(letters) is not None or last in _ASKED_FOR


def _elsewhere(line: Line) -> bool:
    """Words of a book or a show are not words of the channel."""
    if MEDIA.isdisjoint(line.words) or "k" in line.letters:
        return False
    return any(word in MEDIA and "p" in line.letters[max(0, i - 2) : i] for i, word in enumerate(line.words))


# People of another time: "before smartphones", "in the 80s".
_OTHER_TIMES = re.compile(r"\d0s$|^ages$|^medieval$|^ancient$")


def _of_old(line: Line) -> bool:
    words = line.words
    later = any(word == "before" and line.letters[i + 1] == "x" for i, word in enumerate(words[:-1]))
    return later or any(_OTHER_TIMES.search(word) for word in words)


def _sure(line: Line, finding: Finding) -> bool:
    subject = subject_of(line, finding)
    if subject == "g" and line.words[finding.subject[0]] == "people" and _of_old(line):
        return False
    if subject == "y" and verb_of(line, finding) in _NOT_OF_BOT:
        return False
    return not _OURS.isdisjoint(subject) or not _elsewhere(line)


def _who(line: Line, finding: Finding) -> bool:
    if verb_of(line, finding) == "decided" and not {"a", "an"}.isdisjoint(line.words[finding.end : finding.end + 2]):
        return False  # "who decided that a byte has 8 bits"
    if "ever" in line.words and not {"first", "most"}.isdisjoint(line.words):
        return False
    if line.letters[finding.end :].strip("lj.,") == "Z" and "just" not in line.words:
        return False  # a quotation without a word of when or where is the world's
    if verb_of(line, finding) in _WRITTEN:
        rest = line.letters[finding.end :].strip("lj.")
        if rest[:1] not in {"t", "s", "k", "z", ""} or rest[1:2] not in {"", "k", "z", "K", "L"}:
            return False
    worldly = verb_of(line, finding) not in _PLAINLY_SAID and not _WORLDLY.isdisjoint(line.words)
    return not (worldly or _elsewhere(line))


def _told(line: Line, finding: Finding) -> bool:
    """A statement is a question about it only with a question beside it."""
    letters, subject, verb = line.letters, subject_of(line, finding), verb_of(line, finding)
    if _only_told(line, finding, subject, verb):
        return False
    if "N" in subject and verb in {"answered", "replied", "responded"} and not {"never", "yet"}.isdisjoint(line.words):
        return True
    if _wanted(line, finding):
        return _sure(line, finding)
    beside = letters[: finding.start].removesuffix("q") + "." + letters[finding.end :]
    after = letters[finding.end : finding.end + 4].replace("z", "")
    says_something = _WISHED.match(letters[: finding.start]) is None and (
        (after[:2] in {"sa", "sp"} and subject != "i") or (after[:2] in {"s", "ps"} and "N" in subject)
    )
    return (says_something or _asks(line, beside)) and _sure(line, finding)


_AS_SAID = re.compile(r"(?:as|like)$")
_WISHED = re.compile(r"[jl,.]*i[jm]*[xC]")
_LIKED = re.compile(r"[jl,.]*i[jmvD]*[xV]")


def _wanted(line: Line, finding: Finding) -> bool:
    """ "What Ann said" is asked for at the head of a clause or after "tell me"; "I agree with what Ann said" is not."""
    lead = line.letters[: finding.start]
    if lead[-1:] in {"s", "L", "K"}:
        return _LIKED.match(lead) is None
    if lead[-1:] != "q":
        return False
    before = lead[:-1].rstrip("jlzk")
    if line.words[len(before) - 1] in {"of", "on", "about"}:
        before = before[:-1]
    return not before or before[-1] in ".,&RrMC" or line.words[len(before) - 1] in WONDERING


def _only_told(line: Line, finding: Finding, subject: str, verb: str) -> bool:
    """What would you have said, I told my mum, people voted in an election."""
    letters = line.letters
    if ends_generally(line.words, letters) or _AS_SAID.match(" ".join(line.words[: finding.start])):
        return True
    if letters[: finding.start].rstrip("j")[-1:] == "m" or letters.startswith("tbq"):
        return True
    if subject in {"i", "W"} and verb in _MINDED:
        return True
    if subject == "i" and verb in {"told", "asked"} and letters[finding.end : finding.end + 2] == "ux":
        return True
    counted = "how" in line.words[: finding.start]
    if "g" in subject and not WORLD.isdisjoint(line.words) and (counted or verb not in _PLAINLY_SAID):
        return True
    was = "B" in letters[finding.start : finding.end]
    return letters[finding.verb[0]] == "G" and (subject in {"M", "y"} or not (was or "N" in subject))


def _passive(line: Line, finding: Finding) -> bool:
    if line.letters[finding.end : finding.end + 1] == "p" and not WORLD.isdisjoint(line.words[finding.end :]):
        return False  # "what was agreed in the treaty"
    if "m" in line.letters[max(0, finding.start - 2) : finding.start]:
        return False  # "what could have been said"
    if line.letters[finding.start] == "t" and line.words[finding.start] not in {"any", "no"}:
        return False
    named = line.letters[finding.verb[0] - 1] == "p"  # "a synonym for said"
    if named or verb_of(line, finding) not in _SAID or "most" in line.words or _elsewhere(line):
        return False
    return finding.start == 0 or _asks(line, line.letters)


def _raised(line: Line, finding: Finding) -> bool:
    return verb_of(line, finding) in {"come", "came"}


def _owned(line: Line, finding: Finding) -> bool:
    after = line.letters[finding.end :].lstrip("jzlk")[:1]
    return after not in frozenset("bBmvdx") or _asks(line, line.letters)


def _own(line: Line, finding: Finding) -> bool:
    if not _LAST.isdisjoint(line.words[finding.start : finding.end]):
        return True
    lead = line.letters[: finding.start]
    if re.search("(?:^|y)[jl,.]*(?:R|r|RM)[jl]*$", lead):
        return line.letters[finding.start] == "u" and verb_of(line, finding) in _LATEST_OF
    return re.search("qB[jt]?$", lead) is not None


def _sent(line: Line, finding: Finding) -> bool:
    if line.letters[finding.verb[0]] == "x":
        return verb_of(line, finding) in {"news", "word", "sign", "trace"}
    return "N" in subject_of(line, finding) or verb_of(line, finding) in _LATEST_OF


def _according(line: Line, finding: Finding) -> bool:
    return verb_of(line, finding) == "according"


def _heard(line: Line, finding: Finding) -> bool:
    return verb_of(line, finding) in {"hear", "heard", "get", "got", "receive", "received", "learn", "learned"}


def _quoted(line: Line, finding: Finding) -> bool:
    return verb_of(line, finding) == "quote"


def _opinion(line: Line, finding: Finding) -> bool:
    words = line.words[finding.subject[0] : finding.subject[1]]
    if line.words[:1] == ["why"] and _OURS.isdisjoint(line.letters) and "k" not in line.letters:
        return False  # "why does everyone say Python is slow"
    if subject_of(line, finding)[:1] == "t":
        return line.words[finding.subject[0]] == "the"
    if verb_of(line, finding) in {"agree", "disagree"}:
        return True
    here = "k" in line.letters[finding.start : finding.end + 1]
    return here or "g" not in subject_of(line, finding) or not PRESENT_GROUP.isdisjoint(words)


def _meaning(line: Line, finding: Finding) -> bool:
    return verb_of(line, finding) == "mean"


def _last(line: Line, finding: Finding) -> bool:
    rest = line.letters[finding.end :]
    if line.letters[0] == "x" and finding.start > 0:
        return False  # an order: "delete the last message"
    if "ever" in line.words or (rest[:1] == "." and rest.strip("lj.")):
        return False
    if rest[:1] == "y" and rest[1:2] not in {"c", "G", "j"}:
        return False  # "the last thing you learned"
    return line.words[finding.start] in _LAST and verb_of(line, finding) in _LATEST_OF


def _messages(line: Line, finding: Finding) -> bool:
    word = line.words[finding.end - 1]
    whose = word == "of" and (
        line.letters[finding.end : finding.end + 1] in {"N", "M"} or verb_of(line, finding) in _TALKED_OF
    )
    joined = line.letters[finding.end - 1] != "p" or word == "with" or whose
    return joined and verb_of(line, finding) in _FINDABLE and not _elsewhere(line)


def _anyone(line: Line, finding: Finding) -> bool:
    return line.words[finding.subject[0]] in _OPEN_GROUP and verb_of(line, finding) in _PLAINLY_SAID


def _noun(line: Line, finding: Finding) -> bool:
    """What was the plan."""
    return "ever" not in line.words and (verb_of(line, finding) in _PAST_NOUNS or "again" in line.words)


def _between(line: Line, finding: Finding) -> bool:
    return line.words[finding.subject[0] - 1] in {"between", "from", "with", "of", "by"}


def _remembered(line: Line, finding: Finding) -> bool:
    return verb_of(line, finding) == "remember"


def _past(line: Line, finding: Finding) -> bool:
    """Did they do something: of known people anything counts, of others only what a channel can know."""
    subject, words = subject_of(line, finding), set(line.words)
    if line.words[finding.start] == "got":
        return False
    if "N" in subject or "e" in subject:
        return "N" in subject or bool(line.persons) or not {"he", "she"}.isdisjoint(words)
    if not words.isdisjoint(WORLD):
        return False
    if subject == "y":
        return verb_of(line, finding) == "call" and "me" in words
    if "W" in subject:
        return MANKIND.isdisjoint(words)
    return _by_some(line, finding)


def _by_some(line: Line, finding: Finding) -> bool:
    """Whether a group that is here did it, or a talk took its course."""
    group = set(line.words[finding.subject[0] : finding.subject[1]])
    if "H" in subject_of(line, finding):
        return not _TALKED.isdisjoint(group)
    if "people" in group and verb_of(line, finding) in _MOODS:
        return True
    if "the" in group and "people" not in group:
        return True
    if line.letters[finding.subject[1] : finding.subject[1] + 2] == "px":
        return False  # "everyone in Pompeii"
    open_group = bool(group & _OPEN_GROUP) and "ever" not in line.words
    return "g" in subject_of(line, finding) and (bool(group & PRESENT_GROUP) or open_group)


def _present(line: Line, finding: Finding) -> bool:
    if any(each.span.clue is Clue.FUTURE for each in line.times) or "going" in line.words:
        return False
    subject, after = subject_of(line, finding), line.letters[finding.end : finding.end + 1]
    if after == "t" and line.letters[0] == "b":
        return False  # "is Ann a common name"
    if subject == "e":
        return not {"he", "she"}.isdisjoint(line.words)
    if subject in {"g", "H"}:
        return WORLD.isdisjoint(line.words) and not PRESENT_GROUP.isdisjoint(
            line.words[finding.subject[0] : finding.subject[1]]
        )
    return "t" not in subject


CHECKS: dict[str, Callable[[Line, Finding], bool]] = {
    "asked": _sure, "perfect": _sure, "continuous": _sure, "anyone": _anyone, "who": _who, "whose": _who,
    "told": _told, "passive": _passive, "raised": _raised, "owned": _owned, "own": _own, "sent": _sent,
    "according": _according, "heard": _heard, "between": _between, "quoted": _quoted, "opinion": _opinion,
    "meaning": _meaning, "last": _last, "messages": _messages, "noun": _noun, "remembered": _remembered,
    "past": _past, "present": _present,
}  # fmt: skip
