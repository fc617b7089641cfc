"""Is a question about this conversation, and who is its subject.

Enters: a `Line`. Leaves: `Judged`, with the clause of communication and the places of its subject and verb, or
the recap that is asked for. Tense carries most of it: what somebody *said* is about the conversation, what one
*should say* is not.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from channelmem.routing.clauses import CLAUSES, LIFE, LIFE_QUESTION, MAIN, Finding
from channelmem.routing.evidence import LANGUAGES, TASKS, WORLD
from channelmem.routing.lexicon import word_set
from channelmem.routing.naming import Line
from channelmem.routing.recap import Recap, recap
from channelmem.routing.spans import Clue
from channelmem.routing.weigh import THRESHOLD, weigh


@dataclass(frozen=True, slots=True)
class Judged:
    """What the patterns say, and whether the words place it in time."""

    finding: Finding | None = None
    recap: Recap | None = None
    why: str = "nothing points to this conversation"
    just: bool = False
    told_before: bool = False
    asks_for_topic: bool = False
    """What they are talking about: the answer is what the talk is about."""

    @property
    def about_life(self) -> bool:
        finding = self.finding
        return finding is not None and finding.name in LIFE and (finding.name != "weighed" or finding.subject != (0, 0))

    @property
    def about(self) -> bool:
        return self.finding is not None or self.recap is not None


# Groups that are this channel's people, and those that may be.
_PRESENT_GROUP = word_set("everyone everybody yall you chat others")
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
_MEDIA = word_set(
    """article book bible movie film episode podcast documentary docs documentation paper constitution quran lyrics
    speech interview news novel poem series manual wikipedia reddit twitter tv congress parliament press"""
)
_TALKS = word_set("talk talking talked discuss discussing discussed argue arguing argued debating on laughing laugh")
_MOODS = word_set("like hate love want prefer enjoy react")
_ANY_OF = word_set(
    "reply replies answer answers response responses messages objections complaints comments reactions votes"
)
_PAST_NOUNS = _ANY_OF | word_set(
    """plan link suggestion idea question decision joke message point argument proposal recommendation promise vote
    announcement meme pic picture screenshot quote"""
)
_PLAINLY_SAID = word_set("say mention talk discuss ask post share link answer reply")
_ASKED_FOR = word_set("name title link url source details")
_OURS = frozenset("NiyWP")
_REMEMBERED = word_set("when how that the my")

# A question beside a statement: at the start of a clause, "what was it" anywhere, or at the very end.
_ASKING = re.compile(r"(?:^|[.,&l]|z(?=[qho]))[jl]*(?:[qhodDbBvmRr])|[qho][bB][stejMx]|[qho][l.]*$|mj*yj*R")
_ADVICE = re.compile(r"(?:hx?|q[xL]{0,2})j*(?:Dj*[iWgy]|mj*[iWge])")
_ADVISE = (["should", "i"], ["should", "we"], ["shall", "i"], ["shall", "we"])
_REPORTED = re.compile(r"[BN]j*c")
_ANOTHER_QUESTION = re.compile(r"[.,]j*[qhod]")
_POSTED = re.compile(r"K[jz]*[NgWi][jz]*c")


def judge(line: Line) -> Judged:
    """Whether the line is about this conversation."""
    if refusal := _refused(line):
        return Judged(why=refusal)
    summary, finding = recap(line), _clause(line)
    if finding is None:
        return Judged(recap=summary, why=f"recap: {summary.words}") if summary else _weighed(line)
    words = line.words[finding.start : finding.end]
    return Judged(
        finding,
        summary,
        f"about this conversation: {' '.join(words)}",
        just="just" in words,
        told_before=_told_before(line, finding),
        asks_for_topic=_verb(line, finding) in _TALKS,
    )


def _weighed(line: Line) -> Judged:
    """No form fits: the clues are added up."""
    found = weigh(line)
    why = f"weighed {found.total} of {THRESHOLD}: {', '.join(found.clues) or 'nothing points to this conversation'}"
    if not found.enough:
        return Judged(why=why)
    if found.open:
        return Judged(recap=Recap("an absence", len(line.letters)), why=why)
    end = len(line.letters)
    return Judged(Finding("weighed", found.subject, (end, end), 0, end), why=why, told_before=found.told)


def _refused(line: Line) -> str:
    """Requests that only look like questions about the conversation."""
    letters, words = line.letters, line.words
    if words[:3] == ["remind", "me", "to"]:
        return "a reminder to be set"
    if (words[0] in TASKS and letters[0] == "x" and not {"q", "o"} & set(letters)) or words[:2] in _ADVISE:
        return "a task or a question for advice"
    if not LANGUAGES.isdisjoint(words) and ("mean" in words or (words[0] == "translate" and not line.persons)):
        return "a question about a language"
    ordered = letters[0] == "C" and letters[1:2] not in {"M", "q", "o"}
    noted = letters[0] == "K" and words[0] != "quote" and "q" not in letters and not _POSTED.match(letters)
    if (ordered or noted) and not _ANOTHER_QUESTION.search(letters):
        return "an order to say or do something"
    advice = _ADVICE.match(letters.lstrip("lj,."))
    reported = "mean" in words or ("W" in letters and "again" in words) or _REPORTED.search(letters)
    asked_how = advice and not reported and _PRESENT_GROUP.isdisjoint(words[: advice.end()]) and "here" not in words
    if asked_how or (letters[0] in "qh" and words[1:2] == ["to"]):
        return "asks how things are done, not what was said"
    return ""


def _clause(line: Line) -> Finding | None:
    for name, pattern in CLAUSES:
        if pattern.search(line.letters) is None:
            continue
        matches = (Finding.of(name, match) for match in pattern.finditer(line.letters))
        fit = [each for each in matches if _CHECKS[name](line, each)]
        if fit:
            # "Somebody told me Ann said": the one who is known is meant.
            best = next((each for each in fit if "N" in _subject(line, each)), fit[0])
            return best if name in MAIN else _main_clause(line, best)
    return None


def _main_clause(line: Line, finding: Finding) -> Finding:
    """How did Ann feel when somebody wrote to her: the question is about Ann, not about somebody."""
    match = LIFE_QUESTION.search(line.letters, 0, finding.start)
    if match is None or line.letters[match.end() : match.end() + 1] == "R":
        return finding
    return Finding.of("past", match)


def _subject(line: Line, finding: Finding) -> str:
    return line.letters[finding.subject[0] : finding.subject[1]]


def _verb(line: Line, finding: Finding) -> str:
    """The verb's word; some forms end with the subject."""
    return line.words[finding.verb[0]] if finding.verb[0] < len(line.words) else ""


def _asks(line: Line, letters: str) -> bool:
    last = line.words[len(line.letters.rstrip("lj.,")) - 1]
    return _ASKING.search(letters) is not None or last in _ASKED_FOR


def _elsewhere(line: Line) -> bool:
    """Words of a book or a show are not words of the channel."""
    if _MEDIA.isdisjoint(line.words) or "k" in line.letters:
        return False
    return any(word in _MEDIA and "p" in line.letters[max(0, i - 2) : i] for i, word in enumerate(line.words))


# --- what each form still has to prove ---


def _sure(line: Line, finding: Finding) -> bool:
    subject = _subject(line, finding)
    if subject == "y" and _verb(line, finding) in _NOT_OF_BOT:
        return False
    return not _OURS.isdisjoint(subject) or not _elsewhere(line)


def _who(line: Line, finding: Finding) -> bool:
    if line.letters[finding.end :].strip("lj.,") == "Z" and "just" not in line.words:
        return False  # a quotation without a word of when or where is the world's
    if _verb(line, finding) in _WRITTEN:
        rest = line.letters[finding.end :].strip("lj.")
        if rest[:1] not in {"t", "s", "k", "z", ""} or rest[1:2] not in {"", "k", "z", "K", "L"}:
            return False
    return not _elsewhere(line)


def _told(line: Line, finding: Finding) -> bool:
    """A statement is a question about it only with a question beside it."""
    letters, subject, verb = line.letters, _subject(line, finding), _verb(line, finding)
    if (subject in {"i", "W"} and verb in _MINDED) or letters.startswith("tbq"):
        return False
    if "N" in subject and verb in {"answered", "replied", "responded"} and not {"never", "yet"}.isdisjoint(line.words):
        return True
    if letters[finding.verb[0]] == "G":
        was = "B" in letters[finding.start : finding.end]
        if subject in {"M", "y"} or not (was or "N" in subject):
            return False
    if finding.start and letters[finding.start - 1] in "qsLK":
        return _sure(line, finding)
    after = letters[finding.end : finding.end + 4].replace("z", "")
    says_something = (after[:2] in {"sa", "sp"} and subject != "i") or (after[:2] in {"s", "ps"} and "N" in subject)
    beside = letters[: finding.start] + "." + letters[finding.end :]
    return (says_something or _asks(line, beside)) and _sure(line, finding)


def _passive(line: Line, finding: Finding) -> bool:
    named = line.letters[finding.verb[0] - 1] == "p"  # "a synonym for said"
    if named or _verb(line, finding) not in _SAID or "most" in line.words or _elsewhere(line):
        return False
    return finding.start == 0 or _asks(line, line.letters)


def _raised(line: Line, finding: Finding) -> bool:
    return _verb(line, finding) in {"come", "came"}


def _owned(line: Line, finding: Finding) -> bool:
    after = line.letters[finding.end :].lstrip("jzlk")[:1]
    return after not in frozenset("bBmvdx") or _asks(line, line.letters)


def _own(line: Line, finding: Finding) -> bool:
    if not _LAST.isdisjoint(line.words[finding.start : finding.end]):
        return True
    return re.search("qB[jt]?$", line.letters[: finding.start]) is not None and _verb(line, finding) in _LATEST_OF


def _sent(line: Line, finding: Finding) -> bool:
    return "N" in _subject(line, finding) or _verb(line, finding) in _LATEST_OF


def _quoted(line: Line, finding: Finding) -> bool:
    return _verb(line, finding) == "quote"


def _opinion(line: Line, finding: Finding) -> bool:
    words = line.words[finding.subject[0] : finding.subject[1]]
    return "g" not in _subject(line, finding) or not _PRESENT_GROUP.isdisjoint(words)


def _meaning(line: Line, finding: Finding) -> bool:
    return _verb(line, finding) == "mean"


def _last(line: Line, finding: Finding) -> bool:
    rest = line.letters[finding.end :]
    if line.letters[0] == "x" and finding.start > 0:
        return False  # an order: "delete the last message"
    if "ever" in line.words or (rest[:1] == "." and rest.strip("lj.")):
        return False
    return line.words[finding.start] in _LAST and _verb(line, finding) in _LATEST_OF


def _messages(line: Line, finding: Finding) -> bool:
    joined = line.letters[finding.end - 1] != "p" or line.words[finding.end - 1] in {"with", "of"}
    return joined and _verb(line, finding) in _FINDABLE and not _elsewhere(line)


def _anyone(line: Line, finding: Finding) -> bool:
    return line.words[finding.subject[0]] in _OPEN_GROUP and _verb(line, finding) in _PLAINLY_SAID


def _noun(line: Line, finding: Finding) -> bool:
    """What was the plan."""
    return "ever" not in line.words and (_verb(line, finding) in _PAST_NOUNS or "again" in line.words)


def _between(line: Line, finding: Finding) -> bool:
    return line.words[finding.subject[0] - 1] in {"between", "from", "with", "of", "by"}


def _remembered(line: Line, finding: Finding) -> bool:
    return _verb(line, finding) == "remember"


def _past(line: Line, finding: Finding) -> bool:
    """Did they do something: of known people anything counts, of others only what a channel can know."""
    subject, words = _subject(line, finding), set(line.words)
    if "N" in subject or "e" in subject:
        return "N" in subject or bool(line.persons) or not {"he", "she"}.isdisjoint(words)
    if not words.isdisjoint(WORLD):
        return False
    if subject == "y":
        return _verb(line, finding) == "call" and "me" in words
    return "W" in subject or _by_some(line, finding)


def _by_some(line: Line, finding: Finding) -> bool:
    """Whether a group that is here did it, or a talk took its course."""
    group = set(line.words[finding.subject[0] : finding.subject[1]])
    if "H" in _subject(line, finding):
        return not _TALKED.isdisjoint(group)
    if "people" in group and _verb(line, finding) in _MOODS:
        return True
    open_group = bool(group & _OPEN_GROUP) and "ever" not in line.words
    return "g" in _subject(line, finding) and (bool(group & _PRESENT_GROUP) or open_group)


def _present(line: Line, finding: Finding) -> bool:
    if any(each.span.clue is Clue.FUTURE for each in line.times) or "going" in line.words:
        return False
    subject, after = _subject(line, finding), line.letters[finding.end : finding.end + 1]
    if after == "t" and line.letters[0] == "b":
        return False  # "is Ann a common name"
    if subject == "e":
        return not {"he", "she"}.isdisjoint(line.words)
    if subject in {"g", "H"}:
        return not _PRESENT_GROUP.isdisjoint(line.words[finding.subject[0] : finding.subject[1]])
    return "t" not in subject


_CHECKS: dict[str, Callable[[Line, Finding], bool]] = {
    "asked": _sure, "perfect": _sure, "continuous": _sure, "anyone": _anyone, "who": _who, "whose": _who,
    "told": _told, "passive": _passive, "raised": _raised, "owned": _owned, "own": _own, "sent": _sent,
    "between": _between, "quoted": _quoted, "opinion": _opinion, "meaning": _meaning, "last": _last,
    "messages": _messages, "noun": _noun, "remembered": _remembered, "past": _past, "present": _present,
}  # fmt: skip


def _told_before(line: Line, finding: Finding) -> bool:
    """The asker refers to what they told earlier: the seeds call that memory when no time is given."""
    words, verb = line.words, _verb(line, finding)
    if any(word == "remember" and words[i + 1] in _REMEMBERED for i, word in enumerate(words[:-1])):
        return True
    if _subject(line, finding) != "i":
        return False
    if verb in {"told", "tell"}:
        return "you" in words[finding.end : finding.end + 2] or finding.name == "told"
    before = words[finding.start - 1] if finding.start else ""
    if finding.name == "perfect":
        return verb in {"said", "mentioned", "talked"} and before != "what"
    stated = finding.name == "told" and verb in {"said", "mentioned"} and "last" not in words
    return stated and (before != "what" or "remember" in words)
