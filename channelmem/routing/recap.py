"""Whether a question asks for everything that was going on: "catch me up", "tl;dr", "what happened here?".

Enters: a `Line`. Leaves: a `Recap` with the words that ask for it and where its object begins, or None. "What happened
to the oven?" asks for one thing and is not a recap.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from channelmem.routing.lexicon import word_set
from channelmem.routing.people import Line


class Recap(NamedTuple):
    words: str
    """The idiom that asks for it."""
    rest: int
    """Where in the line its object begins."""
    sums_up: bool = False
    """Whether it asks for a summary, of everything or of what is named behind it."""


# Idioms that ask for a recap by themselves.
_SURE = (
    r"(?:catch|fill|loop|clue) (?:me|us) (?:back )?(?:up|in)|(?:me|us) catch up",
    r"(?:bring|get|got) (?:me|us) (?:back )?up to (?:speed|date)|up to speed|update me",
    r"(?:did|have|has) (?:i|we) (?:\w+ )?miss(?:ed)?(?: anything| something| much| out)?(?: important| urgent| big)?",
    r"(?:i|we) (?:have )?(?:just )?missed|(?:what|anything) i (?:have )?miss(?:ed)?",
    r"where (?:were|are) we|where do we stand|(?:where|what) did we leave off|read (?:me )?the backlog",
    r"(?:who|anyone|anybody) (?:is |was |were |been )(?:here|online|around|active|talking)",
    r"(?:repeat|say) that(?: again)?|come again|what did i (?:just )?(?:read|walk into)",
)
# Summaries, of everything or of what is named behind them.
_SUM = (
    r"recap|summary|summarize|summarise|tldr|rundown|gist|highlights|digest|overview|(?:key|bullet) points",
    r"(?:short|shorter|quick|brief|line|condensed) version|context",
    r"sum(?: it| this| that| things)? up",
)
# News: about the chat if nothing else is named.
_NEWS = (
    (
        r"(?:what|anything|something|everything)(?: \w+)? "
        r"(?:(?:is|was|has|has been|been|just|is been|is all|interesting|important|exciting|fun) )*"
        r"(?:going on|going down|happening|happened|happen|went on|went down|new|the latest|the news|cooking)"
    ),
    r"(?:was|is|were|are) there anything(?: \w+)?|any (?:news|updates|developments|drama)",
    r"anything (?:new|interesting|important|exciting|noteworthy|urgent)",
    r"what is up|what is (?:so )?funny|what is the (?:latest|word|tea|drama|situation|status|context|vibe|mood)",
    r"what is the (?:update|plan)",
    r"what (?:is|was) the (?:final )?(?:consensus|conclusion|outcome|verdict|decision|agreement|story|deal|fuss)",
)
_PLACES = "conversation|chat|channel|thread|discussion|drama|tea|debate|argument|fuss|topic|subject|vibe"
_TALK = (
    r"what (?:is|was) (?:all )?(?:this|the|that|everyone|everybody) (?:\w+ )?"
    rf"(?:{_PLACES}|about|on about|up to)(?: (?:all )?about)?"
)
_IDIOM = re.compile(
    rf"(?<!\S)(?:(?P<sure>{'|'.join(_SURE)})|(?P<sum>{'|'.join(_SUM)})"
    rf"|(?P<news>{'|'.join(_NEWS)})|(?P<talk>{_TALK}))(?!\S)"
)
# Without one of these words there is no idiom, so most questions pay for a few lookups only.
_HINTS = word_set(
    """catch fill loop clue miss missed backlog recap summary summarize summarise tldr rundown gist highlights digest
    overview sum context news speed date points version update read walk where leave repeat say come here online around
    active talking going happening happened happen went new latest cooking updates developments there interesting
    important exciting noteworthy urgent drama up funny word tea situation status vibe mood plan consensus conclusion
    outcome verdict decision agreement story deal fuss conversation chat channel thread discussion debate argument topic
    subject about"""
)
# Letters that add nothing to an idiom: adverbs, fillers, times, places, punctuation, prepositions, everybody.
_BARE = "jlzkHt,.pMg"


def recap(line: Line) -> Recap | None:
    """The recap that the line asks for, if any."""
    if _HINTS.isdisjoint(line.words):
        return None
    text = " ".join(line.words)
    found = [match for match in _IDIOM.finditer(text) if _asks(line, match)]
    if not found:
        return None
    return Recap(found[0][0], _place(text, found[-1]), found[0].lastgroup == "sum")


def _place(text: str, match: re.Match[str]) -> int:
    return text[: match.end()].count(" ") + 1


def _asks(line: Line, match: re.Match[str]) -> bool:
    """Summaries may have an object; news and talk must not: "what happened to the dinosaurs" asks for one thing."""
    if match.lastgroup in {"sure", "sum"}:
        return True
    left = line.letters[_place(match.string, match) :].strip(_BARE)
    if match[0] == "what is up":
        return not left and not {"k", "z"}.isdisjoint(line.letters)
    return not left
