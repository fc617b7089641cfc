"""Is a question about this conversation, and who is its subject: patterns over the letters of `lexicon`.

Enters: the question's tokens as one string of class letters. Leaves: a `Clue`-like `Finding` with the place of subject
and verb, or None. Tense carries most of it: what somebody *said* is about the conversation, what one
*should say* is not.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from channelmem.letters import Line
from channelmem.lexicon import CODES
from channelmem.reading import Token
from channelmem.types import Person

# Between the parts of a clause people put adverbs, time words, fillers and parentheses.
_GAP = "[jzlk]*"
_NAMES = "(?:N(?:[,&]{1,2}N)*)"
_SUBJECT = f"(?P<subject>[t]?[iyeWg](?:[&][NiyeWg])*|{_NAMES}(?:[,&]{{1,2}}[iyMg])?|M&N|[uUw]s|)"
_SUBJ = f"(?P<subject>(?:[iyeWgM]|t?g|{_NAMES})(?:[,&]{{1,2}}(?:[iyeWgM]|{_NAMES}))*)"
_TOLD = "[CcKG]"


@dataclass(frozen=True, slots=True)
class Finding:
    """A clause of communication: letters[subject] does it, letters[verb] is it."""

    name: str
    subject: tuple[int, int]
    verb: tuple[int, int]
    start: int
    end: int


def _pattern(text: str) -> re.Pattern[str]:
    return re.compile(text.replace("_", _GAP))


_CLAUSES: tuple[tuple[str, re.Pattern[str]], ...] = (
    ("asked", _pattern(f"d_{_SUBJ}_(?P<verb>[CcKG])")),
    ("perfect", _pattern(f"v_{_SUBJ}_(?:n_)?(?P<verb>[cGCK])")),
    ("continuous", _pattern(f"[bB]_{_SUBJ}_(?P<verb>G)")),
    ("who", _pattern(r"(?P<subject>o)_(?:[vbB]_)?(?:n_)?(?P<verb>[cG])")),
    ("told", _pattern(f"{_SUBJ}_(?:v_)?(?:B_)?(?:n_)?(?P<verb>[cG])")),
    ("passive", _pattern(r"(?P<subject>)[Bnv]_(?:[ts]|x){0,4}_n?_(?P<verb>c)")),
    ("owned", _pattern(r"(?P<subject>P)(?:[jzx]){0,2}(?P<verb>[KL])")),
    ("own", _pattern(r"(?P<subject>[uU])(?:[jzx]){0,2}(?P<verb>[KL])")),
    ("sent", _pattern(f"(?P<verb>[KLs])_(?:k_)?f_{_SUBJ}")),
    ("present", _pattern(f"[D]_(?P<subject>{_NAMES}|e)_(?P<verb>[CK])")),
    ("life", _pattern(f"[dDbBvm]_(?P<subject>{_NAMES})(?P<verb>)")),
    ("life", _pattern(r"(?P<subject>P)(?P<verb>)x")),
)


def clause(letters: str) -> Finding | None:
    """The first clause of communication that a known subject has, in order of how sure its form is."""
    for name, pattern in _CLAUSES:
        match = pattern.search(letters)
        if match:
            return Finding(name, match.span("subject"), match.span("verb"), match.start(), match.end())
    return None


@dataclass(frozen=True, slots=True)
class Judged:
    """What the patterns say: a clause or a recap, and whether its words place it in time."""

    finding: Finding | None
    why: str
    recap: bool = False
    just: bool = False
    remembers: bool = False
    topic: str = ""


_ASKS = re.compile("[qhoRrdDvbB]")
_RECAP = re.compile(
    r"catch (?:me|us) up|fill (?:me|us) in|(?:up|back) to speed|get me up to|did (?:i|we) miss|have (?:i|we) missed|i missed|i have missed|(?:i|we) miss anything"
    r"|what is (?:going on|happening|up)(?: (?:in )?here| in (?:this|the) (?:chat|channel|thread)|$| [.?!]| with)|what (?:happened|went on|has happened)(?: (?:in )?here| in (?:this|the) (?:chat|channel)|$| [.?!])"
    r"|(?:recap|summary|tldr|summarize|summarise|sum up|rundown|gist|highlights)(?: [.?!]| please|$| of (?:the|this|our|what)| (?:the|this|our|today|everything|it|what|so)|)"
    r"|anything (?:new|interesting|important|happen)|(?:was|is|were) there anything|update me|what is the latest|what is new here|what is (?:the|this) (?:conversation|chat|channel|thread|discussion|drama|tea) about"
)


def judge(line: Line) -> Judged:
    """Whether the line is about this conversation."""
    letters, words = line.letters, line.words
    text = " ".join(words)
    recap = _RECAP.search(text)
    finding = clause(letters)
    if finding is not None and (refusal := _refused(line, finding)):
        finding, recap = None, None
        return Judged(None, refusal)
    if finding is None and not recap:
        return Judged(None, "nothing points to this conversation")
    just = finding is not None and "just" in words[finding.start : finding.end]
    remembers = "remember" in words or (finding is not None and _told_before(line, finding))
    why = (
        f"about this conversation: {' '.join(words[finding.start : finding.end])}"
        if finding
        else f"recap: {recap[0] if recap else ''}"
    )
    return Judged(finding, why, bool(recap), just, remembers)


def _refused(line: Line, finding: Finding) -> str:
    if not _ASKS.search(
        line.letters[: finding.start] + line.letters[finding.end :] + ("q" if finding.name not in {"told"} else "")
    ):
        return "a statement, not a question"
    if line.letters[0] in "CK" and line.words[0] not in {"quote"} and line.letters[1:2] != "M":
        return "a command"
    return ""


def _told_before(line: Line, finding: Finding) -> bool:
    subject = line.letters[finding.subject[0] : finding.subject[1]]
    before = line.words[finding.start - 1] if finding.start else ""
    return (
        finding.name == "told"
        and subject == "i"
        and line.words[finding.verb[0]] in {"told", "said", "mentioned"}
        and before != "what"
    )


_GREETING = frozenset("l,.@j")


def without_address(tokens: list[Token], bot: Person) -> list[Token]:
    """The tokens after "@bot hey,": who is addressed and how politely says nothing."""
    names = {bot.name.lower(), f"<@{bot.id}>", f"<@!{bot.id}>", "bot"}
    start = 0
    while start < len(tokens) and (
        tokens[start].word in names or CODES.get(tokens[start].word) == "l" or tokens[start].word in ",.@!:;-"
    ):
        start += 1
    return tokens[start:]
