"""Is a question about this conversation, and who is its subject: patterns over the letters of `lexicon`.

Enters: a `Line`. Leaves: `Judged`, with the clause of communication and the places of its subject and verb, or the
recap that is asked for. Tense carries most of it: what somebody *said* is about the conversation, what
one *should say* is not.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from channelmem.letters import Line
from channelmem.recap import Recap, recap
from channelmem.spans import Clue

# Between the parts of a clause people put adverbs, time words, fillers and asides; "_" in a pattern stands for these.
_GAP = "[jzlk]*"
_ONE = "(?:t?[gH]|[iyeWM]|N)"
_SUBJECT = f"(?P<subject>{_ONE}(?:,?&?j?{_ONE})*)"
_NAMED = "(?P<subject>N(?:,?&?N)*)"
_PRESENT_GROUP = frozenset(["everyone", "everybody", "yall", "you", "chat", "others"])
_OPEN_GROUP = frozenset(["anyone", "anybody", "someone", "somebody"])


# Forms that ask for what somebody did, not for what they said.
LIFE = frozenset({"past", "present", "theirs", "tale", "made"})


@dataclass(frozen=True, slots=True)
class Finding:
    """A clause of communication: letters[subject] does it, letters[verb] is it."""

    name: str
    subject: tuple[int, int]
    verb: tuple[int, int]
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Judged:
    """What the patterns say, and whether the words place it in time."""

    finding: Finding | None = None
    recap: Recap | None = None
    why: str = "nothing points to this conversation"
    just: bool = False
    told_before: bool = False

    asks_for_topic: bool = False
    """"What are they talking about": the answer is what the talk is about."""

    @property
    def about_life(self) -> bool:
        return self.finding is not None and self.finding.name in LIFE

    @property
    def about(self) -> bool:
        return self.finding is not None or self.recap is not None


def _pattern(text: str) -> re.Pattern[str]:
    return re.compile(text.replace("_", _GAP))


# In order of how sure the form is. The first of a name that passes its check wins.
_CLAUSES: tuple[tuple[str, re.Pattern[str]], ...] = (
    ("asked", _pattern(f"d_{_SUBJECT}_(?P<verb>[CcKGH])")),
    ("perfect", _pattern(f"v_{_SUBJECT}_(?:n_)?(?P<verb>[cGCK])")),
    ("continuous", _pattern(f"[bB]_{_SUBJECT}_(?P<verb>G)")),
    ("who", _pattern(r"(?P<subject>o)(?:_[bB]_st?)?_(?:[vbB]_)?(?:n_)?(?P<verb>[cG])")),
    ("who", _pattern(r"(?P<subject>q)(?:_s)?_p[yWM]_(?:v_)?(?P<verb>c)")),
    ("whose", _pattern(r"(?P<subject>o)_(?P<verb>[KL])")),
    ("told", _pattern(f"{_SUBJECT}_(?:[vB]_)?(?:n_)?(?P<verb>[cG])")),
    ("passive", _pattern(r"(?P<subject>)[Bnvb]_(?:[tsxLKuUwP&p]_){0,5}n?_(?P<verb>c)")),
    ("passive", _pattern(r"(?P<subject>)[sKL]_(?P<verb>c)")),
    ("raised", _pattern(r"[dv]_(?P<subject>)[txLKZspP]{1,6}_(?P<verb>[Cc])")),
    ("owned", _pattern(r"(?P<subject>P)_(?:[xt]_){0,2}(?P<verb>[KLG])")),
    ("own", _pattern(r"(?P<subject>[uU])_(?:x_)?(?P<verb>[KL])")),
    ("sent", _pattern(f"(?P<verb>[KLs])_f_{_SUBJECT}")),
    ("between", _pattern(f"(?P<verb>[KLH])_[fp]_{_NAMED}")),
    ("quoted", _pattern(r"(?P<verb>K)_(?P<subject>N(?:,?&?N)*)")),
    ("opinion", _pattern(r"D_(?P<subject>N(?:,?&?N)*|e|t?g)_(?P<verb>[CK])")),
    ("meaning", _pattern(r"qD_(?P<subject>y)_(?P<verb>C)")),
    ("last", _pattern(r"(?P<subject>)x_(?:x_)?(?P<verb>[KLs])")),
    ("messages", _pattern(r"(?P<subject>)(?P<verb>[KL])_(?:[aGp]|q)")),
    ("made", _pattern(r"[KLs]_(?P<subject>[NW])(?P<verb>x)")),
    ("past", _pattern(f"[dv]_{_SUBJECT}_(?P<verb>[xvRDn]?)")),
    ("past", _pattern(r"B_(?P<subject>N(?:,?&?N)*|e|W)(?P<verb>)")),
    ("present", _pattern(r"D_(?P<subject>N(?:,?&?N)*)(?P<verb>)")),
    ("present", _pattern(r"(?<=q)(?:[xLK]|_){0,3}b_(?P<subject>N(?:,?&?N)*|t?[gH])(?P<verb>)(?![NP])")),
    ("present", _pattern(r"^[l,.j]*b_(?P<subject>N(?:,?&?N)*)(?P<verb>)")),
    ("theirs", _pattern(r"(?:[BdD]|qb)_(?P<subject>P)(?P<verb>)")),
    ("tale", _pattern(f"{_NAMED}_(?P<verb>[vB])")),
)
# Passive without an agent is about us only with these.
_SAID = frozenset(
    [
        "said",
        "mentioned",
        "discussed",
        "decided",
        "agreed",
        "suggested",
        "posted",
        "shared",
        "linked",
        "asked",
        "brought",
        "talked",
        "told",
        "promised",
        "planned",
        "settled",
        "concluded",
        "argued",
        "came",
        "proposed",
        "debated",
    ]
)
_WRITTEN = frozenset(
    [
        "wrote",
        "written",
        "announced",
        "declared",
        "reported",
        "described",
        "picked",
        "chose",
        "planned",
        "revealed",
        "meant",
        "thought",
    ]
)
_MINDED = frozenset(["thought", "think", "feel", "felt", "picked"])
_LAST = frozenset(["last", "latest", "previous", "recent", "newest", "first", "prior", "final"])
_LATEST_OF = frozenset(
    [
        "message",
        "messages",
        "post",
        "posts",
        "comment",
        "comments",
        "reply",
        "replies",
        "link",
        "links",
        "question",
        "questions",
        "answer",
        "answers",
        "thing",
        "things",
        "response",
        "joke",
        "picture",
        "photo",
        "image",
        "meme",
        "gif",
        "video",
        "file",
        "screenshot",
        "suggestion",
        "update",
        "announcement",
    ]
)
_FINDABLE = frozenset(
    [
        "message",
        "messages",
        "post",
        "posts",
        "comment",
        "comments",
        "link",
        "links",
        "mention",
        "mentions",
        "replies",
        "thread",
        "threads",
    ]
)
_MEDIA = frozenset(
    [
        "article",
        "book",
        "bible",
        "movie",
        "film",
        "episode",
        "podcast",
        "documentary",
        "docs",
        "documentation",
        "paper",
        "constitution",
        "quran",
        "lyrics",
        "speech",
        "interview",
        "news",
        "novel",
        "poem",
        "series",
        "manual",
        "wikipedia",
        "reddit",
        "twitter",
        "tv",
        "congress",
        "parliament",
        "press",
    ]
)
_GENERIC_WE = frozenset(
    [
        "moon",
        "mars",
        "space",
        "evolve",
        "evolved",
        "apes",
        "earth",
        "humans",
        "humanity",
        "universe",
        "dinosaurs",
        "aliens",
        "language",
    ]
)
_OURS = frozenset("NiyWP")
_START = r"(?:^|[.,&l]|z(?=[qho]))[jl]*"
_ASKING = re.compile(rf"{_START}(?:[qho]|[dDbBvm]|R|r)|[qho][bB]_?[stejMx]|[qho][l.]*$|mj*yj*R".replace("_?", ""))
_IMPERATIVE = re.compile(r"^[l,.j]*(?:m_?yj*)?[CK]".replace("_?", "j*"))
_ADVICE = re.compile(r"(?:h[x]?|q[xL]{0,2})j*(?:Dj*[iWgy]|mj*[iWge])")


_TALKS = frozenset(
    [
        "talk",
        "talking",
        "talked",
        "discuss",
        "discussing",
        "discussed",
        "argue",
        "arguing",
        "argued",
        "debating",
        "on",
        "laughing",
        "laugh",
    ]
)


def judge(line: Line) -> Judged:
    """Whether the line is about this conversation."""
    summary = recap(line)
    if refusal := _refused(line):
        return Judged(why=refusal)
    finding = _clause(line)
    if finding is None:
        return Judged(recap=summary, why=f"recap: {summary.words}") if summary else Judged()
    words = line.words[finding.start : finding.end]
    return Judged(
        finding,
        summary,
        f"about this conversation: {' '.join(words)}",
        just="just" in words,
        told_before=_told_before(line, finding),
        asks_for_topic=_verb(line, finding) in _TALKS,
    )


def _refused(line: Line) -> str:
    """Requests that only look like questions about the conversation."""
    letters, words = line.letters, line.words
    if words[:3] == ["remind", "me", "to"]:
        return "a reminder to be set"
    ordered = letters[0] == "C" and letters[1:2] not in {"M", "q", "o"}
    if ordered or (letters[0] == "K" and words[0] != "quote" and "q" not in letters):
        return "an order to say or do something"
    advice = _ADVICE.match(letters.lstrip("lj,."))
    if advice and "mean" not in words and _PRESENT_GROUP.isdisjoint(words[: advice.end()]):
        return "asks how things are done, not what was said"
    if letters[0] in "qh" and words[1:2] == ["to"]:
        return "asks how things are done, not what was said"
    return ""


def _clause(line: Line) -> Finding | None:
    for name, pattern in _CLAUSES:
        for match in pattern.finditer(line.letters):
            finding = Finding(name, match.span("subject"), match.span("verb"), match.start(), match.end())
            if _CHECKS[name](line, finding):
                return finding if name in _MAIN else _main_clause(line, finding)
    return None


# Forms that carry their own question; others may stand in a side clause.
_MAIN = frozenset(["asked", "perfect", "continuous", "who", "whose", "opinion", "meaning"]) | LIFE
_LIFE_QUESTION = _pattern(f"[dv]_{_NAMED}_(?P<verb>[xvDn]?)")


def _main_clause(line: Line, finding: Finding) -> Finding:
    """ "How did Ann feel when somebody wrote to her": the question is about Ann, not about somebody."""
    match = _LIFE_QUESTION.search(line.letters, 0, finding.start)
    if match is None or line.letters[match.end() : match.end() + 1] == "R":
        return finding
    return Finding("past", match.span("subject"), match.span("verb"), match.start(), match.end())


def _verb(line: Line, finding: Finding) -> str:
    """The verb's word; some patterns end with the subject."""
    return line.tokens[finding.verb[0]].word if finding.verb[0] < len(line.tokens) else ""


def _sure(line: Line, finding: Finding) -> bool:
    subject = line.letters[slice(*finding.subject)]
    if subject == "y" and _verb(line, finding) in _MINDED | {"laugh", "joking", "freaking", "writing", "plan"}:
        return False
    return not _OURS.isdisjoint(subject) or not _elsewhere(line)


def _elsewhere(line: Line) -> bool:
    """Words of a book or a show are not words of the channel."""
    words = line.words
    for i, word in enumerate(words):
        if word in _MEDIA and i and ("p" in line.letters[max(0, i - 2) : i] or words[i - 1] == "tv"):
            return "k" not in line.letters
    return False


def _who(line: Line, finding: Finding) -> bool:
    verb = _verb(line, finding)
    if verb in _WRITTEN and line.letters[finding.end : finding.end + 1] not in {"t", "s", "k", "z", "", "."}:
        return False
    if verb in _WRITTEN and line.letters[finding.end :].strip("lj.")[1:2] not in {"", "k", "z", ".", "K", "L"}:
        return False
    return not _elsewhere(line)


def _told(line: Line, finding: Finding) -> bool:
    """A statement is a question about it only with a question beside it."""
    subject, verb = line.letters[slice(*finding.subject)], _verb(line, finding)
    if subject in {"i", "W"} and verb in _MINDED:
        return False
    if (
        line.letters[finding.verb[0]] == "G"
        and "B" not in line.letters[finding.start : finding.end]
        and "N" not in subject
    ):
        return False
    if subject in {"M", "y"} and line.letters[finding.verb[0]] == "G":
        return False
    if finding.start and line.letters[finding.start - 1] in "qsLK":
        return _sure(line, finding)
    rest = line.letters[: finding.start] + "." + line.letters[finding.end :]
    says_something = line.letters[finding.end : finding.end + 2] in {"sa", "sp"} and subject != "i"
    return (bool(_ASKING.search(rest)) or says_something) and _sure(line, finding)


def _passive(line: Line, finding: Finding) -> bool:
    return (
        _verb(line, finding) in _SAID
        and not _elsewhere(line)
        and bool(finding.start == 0 or _ASKING.search(line.letters))
    )


def _quoted(line: Line, finding: Finding) -> bool:
    return _verb(line, finding) == "quote"


def _raised(line: Line, finding: Finding) -> bool:
    return _verb(line, finding) in {"come", "came"}


def _owned(line: Line, finding: Finding) -> bool:
    after = line.letters[finding.end :].lstrip("jzlk")[:1]
    return after not in set("bBmvdx") - {""} or bool(_ASKING.search(line.letters))


def _own(line: Line, finding: Finding) -> bool:
    last = not _LAST.isdisjoint(line.words[finding.start : finding.end])
    asked = re.search(r"q[Bb][jt]?$|qBj?$", line.letters[: finding.start])
    was = asked is not None and "B" in asked[0]
    return last or (was and _verb(line, finding) in _LATEST_OF)


def _sent(line: Line, finding: Finding) -> bool:
    return "N" in line.letters[slice(*finding.subject)] or _verb(line, finding) in _LATEST_OF


def _opinion(line: Line, finding: Finding) -> bool:
    subject = line.letters[slice(*finding.subject)]
    return "g" not in subject or not _PRESENT_GROUP.isdisjoint(line.words[slice(*finding.subject)])


def _meaning(line: Line, finding: Finding) -> bool:
    return _verb(line, finding) == "mean"


def _last(line: Line, finding: Finding) -> bool:
    return line.words[finding.start] in _LAST and _verb(line, finding) in _LATEST_OF


def _messages(line: Line, finding: Finding) -> bool:
    return _verb(line, finding) in _FINDABLE and not _elsewhere(line)


def _past(line: Line, finding: Finding) -> bool:
    """Did they do something: of known people anything counts, of others only what a channel can know."""
    subject, words = line.letters[slice(*finding.subject)], set(line.words)
    if "N" in subject:
        return True
    if "e" in subject:
        return bool(line.persons)
    if "W" in subject:
        return words.isdisjoint(_GENERIC_WE)
    if "g" not in subject:
        return False
    group = set(line.words[slice(*finding.subject)])
    return bool(group & _PRESENT_GROUP) or (bool(group & _OPEN_GROUP) and "ever" not in words)


def _present(line: Line, finding: Finding) -> bool:
    if any(each.span.clue is Clue.FUTURE for each in line.times) or "going" in line.words:
        return False
    subject = line.letters[slice(*finding.subject)]
    if subject in {"g", "H"}:
        return not _PRESENT_GROUP.isdisjoint(line.words[slice(*finding.subject)])
    return "t" not in subject


def _tale(line: Line, finding: Finding) -> bool:
    return bool(_ASKING.search("." + line.letters[finding.end :])) and "q" in line.letters + line.letters.replace(
        "h", "q"
    )


def _any(_line: Line, _finding: Finding) -> bool:
    return True


_CHECKS = {
    "asked": _sure, "perfect": _sure, "continuous": _sure, "who": _who, "whose": _who, "told": _told, "passive": _passive, "raised": _raised, "quoted": _quoted,
    "owned": _owned, "own": _own, "sent": _sent, "between": _any, "opinion": _opinion, "meaning": _meaning, "last": _last,
    "messages": _messages, "made": _any, "past": _past, "present": _present, "theirs": _present, "tale": _tale,
}  # fmt: skip


def _told_before(line: Line, finding: Finding) -> bool:
    """The asker refers to what they told earlier: the seeds call that memory when no time is given."""
    words = line.words
    for i, word in enumerate(words[:-1]):
        if word == "remember" and words[i + 1] in {"when", "how", "that", "the", "my"}:
            return True
    subject, verb = line.letters[slice(*finding.subject)], _verb(line, finding)
    if subject != "i":
        return False
    if verb in {"told", "tell"}:
        return "you" in words[finding.end : finding.end + 2] or finding.name == "told"
    before = words[finding.start - 1] if finding.start else ""
    return finding.name == "perfect" or (
        finding.name == "told" and verb in {"said", "mentioned"} and (before != "what" or "remember" in words)
    )
