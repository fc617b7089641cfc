"""Is a question about this conversation, and who is its subject.

Enters: a `Line`. Leaves: `Judged`, with the clause of communication and the places of its subject and verb, or
the recap that is asked for. Tense carries most of it: what somebody *said* is about the conversation, what one
*should say* is not.
"""

from __future__ import annotations

import re
from itertools import compress
from typing import NamedTuple

from channelmem.routing.clauses import CLAUSES, LIFE, LIFE_QUESTION, MAIN, Finding
from channelmem.routing.lexicon import word_set
from channelmem.routing.people.naming import Line
from channelmem.routing.proofs import CHECKS
from channelmem.routing.recap import Recap, recap
from channelmem.routing.refusals import refused
from channelmem.routing.weigh import THRESHOLD, weigh


class Judged(NamedTuple):
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


_TALKS = word_set("talk talking talked discuss discussing discussed argue arguing argued debating on laughing laugh")
_REMEMBERED = word_set("when how that the my")
_THEIR_ANSWER = re.compile(r"q[bB][jl]*(P)[jx]*[KL]")
_SAID_THERE = re.compile(r"q[jl]*(N)[jlv]*c")
_IT_WAS = re.compile(r"[bB]s[jl]*(?P<who>N(?:[&,]+N)*)[jl]*$")
_I_TOLD_YOU = re.compile(r"i[jv]*c[jl]*y")
_NEEDS = tuple(form.needs for form in CLAUSES)


def judge(line: Line) -> Judged:
    """Whether the line is about this conversation."""
    if refusal := refused(line):
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
        asks_for_topic=finding.verb_word in _TALKS,
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
    told = found.told or _recalled(line)
    who = line.letters[slice(*found.subject)]
    finding = Finding("weighed", found.subject, (end, end), 0, end, who)
    return Judged(finding, why=why, just=found.just, told_before=told)


def _clause(line: Line) -> Finding | None:
    letters, words = line.letters, line.words
    for name, _needs, pattern in compress(CLAUSES, map(frozenset(letters).intersection, _NEEDS)):
        if pattern.search(letters) is None:
            continue
        proof = CHECKS[name]
        fit = [each for match in pattern.finditer(letters) if proof(line, each := Finding.of(name, match, words))]
        if fit:
            # "Somebody told me Ann said": the one who is known is meant.
            best = next((each for each in fit if "N" in each.who), fit[0]) if len(fit) > 1 else fit[0]
            return _one_of_them(line, best) if name in MAIN else _main_clause(line, best)
    return None


def _one_of_them(line: Line, finding: Finding) -> Finding:
    """Was it Ann or Bob who said so: one of the two."""
    if finding.who != "o" or not line.persons:
        return finding
    match = _IT_WAS.search(line.letters, 0, finding.start)
    return finding._replace(subject=match.span("who"), who=match["who"]) if match else finding


def _main_clause(line: Line, finding: Finding) -> Finding:
    """How did Ann feel when somebody wrote to her: the question is about Ann, not about somebody."""
    if finding.who == "i" and (answer := line.letters.find("dy", finding.end)) >= 0:
        # "I asked you for a list, what did you put on it"
        return finding._replace(subject=(answer + 1, answer + 2), who="y")
    if finding.name == "messages" and (said := _SAID_THERE.search(line.letters, finding.end - 1)):
        return finding._replace(subject=said.span(1), who="N")  # "the message where Ann mentioned it"
    if finding.name == "told" and (theirs := _THEIR_ANSWER.search(line.letters, 0, finding.start)):
        return finding._replace(subject=theirs.span(1), who="P")  # "Ann's answer when Bob asked her"
    match = LIFE_QUESTION.search(line.letters, 0, finding.start)
    if match is None or line.letters[match.end() : match.end() + 1] == "R":
        return finding
    return Finding.of("past", match, line.words)


def _recalled(line: Line) -> bool:
    """ "Remember when", "remember the", "remember Ann's"."""
    words = line.words
    return "remember" in words and any(
        word == "remember" and (words[i + 1] in _REMEMBERED or line.letters[i + 1] == "P")
        for i, word in enumerate(words[:-1])
    )


def _told_before(line: Line, finding: Finding) -> bool:
    """The asker refers to what they told earlier: the seeds call that memory when no time is given."""
    words, verb = line.words, finding.verb_word
    if _recalled(line):
        return True
    if finding.who != "i":
        return False
    if _I_TOLD_YOU.search(line.letters):
        return True
    if verb in {"told", "tell"}:
        return "you" in words[finding.end : finding.end + 2] or finding.name == "told"
    before = words[finding.start - 1] if finding.start else ""
    if finding.name == "perfect":
        return verb in {"said", "mentioned", "talked"} and before != "what"
    stated = finding.name == "told" and verb in {"said", "mentioned"} and "last" not in words
    return stated and (before != "what" or "remember" in words)
