"""Is a question about this conversation when none of the known forms fits: the evidence, added up.

Enters: a `Line` that no form of `clauses` and no idiom of `recap` explains. Leaves: a `Weighed` with the sum, the
clues in words, and where its subject stands. The weights stand in `evidence`; one threshold decides.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from channelmem.routing.asking import silent, task
from channelmem.routing.evidence import CLUES
from channelmem.routing.people.naming import Line
from channelmem.routing.signs import SIGNS, TOLD, YOU_GAVE, signs
from channelmem.routing.verbs import shape
from channelmem.routing.view import view_of

THRESHOLD = 3
_LABELS = {name: f"{name} {weight:+d}" for name, weight, *_ in (*SIGNS, *CLUES)}
_JUST = re.compile(r"(?<=[NWyeogts])j(?=[VcBA])")
_CALLED = re.compile(r"[jl]*N[jl]*[.,]")
_THEM = frozenset("eNP")
_THEIRS = frozenset({"his", "her", "him", "their"})
_YOURS = re.compile(r"^[^NP]*U[jx]*[KLT]")
_I_DID = re.compile(r"(?<=d)i(?![jl]*R)")
_I_PUT = re.compile(r"i(?=[jl]*Vt)")
_SAID_IT = re.compile(r"(?P<who>N)(?:[jl]*c[jl]*s|(?<=[KLT]N)[jl]*[Vc])")
NAMES = re.compile(r"(?:N(?:j*(?:,&?|&)j*))*[NP]")


class Weighed(NamedTuple):
    """What was found; `subject` is where its speakers stand, `told` whether the asker told it before, `just` when."""

    total: int
    clues: tuple[str, ...]
    subject: tuple[int, int] = (0, 0)
    told: bool = False
    just: bool = False
    open: bool = False
    """Nothing but an absence: it asks for all that was said."""

    @property
    def enough(self) -> bool:
        return self.total >= THRESHOLD


def weigh(line: Line) -> Weighed:
    """The sum of all clues; a text that asks nothing of the conversation is not weighed at all."""
    letters = shape(line.words, line.letters)
    called = _CALLED.match(letters)
    if called and _THEM.isdisjoint(letters[called.end() :]) and _THEIRS.isdisjoint(line.words):
        letters = "l" * called.end() + letters[called.end() :]  # "Ann: is there a lock": she is only called
    view = view_of(line, letters)
    if silent(view):
        return Weighed(0, ("nothing is asked of the conversation",))
    if task(view):
        return Weighed(0, ("a task",))
    found = {sign.name: sign.weight for sign in signs(view)}
    found |= {name: weight for name, weight, tells in CLUES if tells(view)}
    told = "told before" in found
    bare = "an absence" in found and "somebody known" not in found and "who did it" not in found
    clues = tuple([_LABELS[name] for name in found])
    just = "just" in view.words and any(line.words[match.start()] == "just" for match in _JUST.finditer(view.shape))
    by_asker = told and not {"i", "u"}.isdisjoint(view.shape[: view.shape.rfind("y")])
    return Weighed(sum(found.values()), clues, _subject(view.shape, told=told), by_asker, just, bare)


def _subject(letters: str, *, told: bool) -> tuple[int, int]:
    """Who did it: the first known people, unless somebody else is the subject before them."""
    if told and (match := TOLD.search(letters)):
        return _teller(letters, match.start())
    if given := YOU_GAVE.search(letters):
        return given.span("you")
    if _YOURS.search(letters):
        at = letters.index("U")
        return at, at + 1
    names, asker = NAMES.search(letters), _I_DID.search(letters)
    if names is None:
        asker = asker or _I_PUT.search(letters)
    if asker and (names is None or asker.start() < names.start()):
        return asker.span()
    if names is None or not {"o", "W", "g"}.isdisjoint(letters[: names.start()]):
        said = _SAID_IT.search(letters)  # "when do we meet? Ann wrote it"; "the link Ann put here"
        return said.span("who") if said else (0, 0)
    return names.span()


def _teller(letters: str, at: int) -> tuple[int, int]:
    """ "What is my dog called? told you once": the asker is only in "my"."""
    if letters[at] not in "iy":
        at = max(letters.find("i", 0, at), letters.find("u"))
    return (at, at + 1) if at >= 0 else (0, 0)
