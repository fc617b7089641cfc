"""What kind of answer a question needs, read once here for every later stage.

Enters: the question's text and its route so far. Leaves: the route with `wants`, `saying` and `binds`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from channelmem.routing.lexicon import word_set
from channelmem.types import Mode, Route, Wants

_MENTIONS: Final = re.compile(r"<@!?\d+>")
_LEAD: Final = r"\W*(?:and |so |but |hey |ok |okay )*"
_WHO: Final = re.compile(_LEAD + r"who(?:'s|s|se)?\b", re.IGNORECASE)
_WHETHER: Final = re.compile(
    _LEAD + r"(?:did(?:n't)?|has(?:n't)?|have(?:n't)?|was|were|is|are)\b.*"
    r"\b(?:mention|talk|bring up|brought up|discuss|post|speak|spoken|ask(?:ed)? about"
    r"|(?:say|said|saying|write|wrote|written) (?:any|some)thing)",
    re.IGNORECASE | re.DOTALL,
)
_SAYING: Final = re.compile(
    r"\b(?:sa(?:y|id|ys|ying)|mention(?:s|ed|ing)?|t(?:ell|old|elling)|talk(?:s|ed|ing)?|ask(?:s|ed|ing)?|messages?"
    r"|suggest(?:s|ed|ing)?)\b",
    re.IGNORECASE,
)
# Actions that leave a message behind. They name who did it, but do not bind: "what did Ann write in her diary?"
_POSTING: Final = re.compile(r"\b(?:bring|brought|post|wr[io]te|spoke|speak|discuss|link|shar)", re.IGNORECASE)
_ASKED: Final = re.compile(r"\b(?:ask(?:s|ed|ing)?|question)\b", re.IGNORECASE)
_WHEN: Final = re.compile(r"\b(?:when|until|(?:what|which) (?:date|day|month|year|time))(?:'?s)?\b", re.IGNORECASE)
_COUNT: Final = re.compile(r"\bhow many (?:messages|posts|lines)\b", re.IGNORECASE)
_AMOUNT: Final = re.compile(r"\bhow (?:many|much|long|often|old|far|big)\b", re.IGNORECASE)
_LINK: Final = re.compile(r"\b(?:links?|urls?)\b", re.IGNORECASE)
_FILE: Final = re.compile(r"\b(?:image|picture|photo|pic|screenshot|file|attachment|gif|meme|video)s?\b", re.IGNORECASE)
_WHERE: Final = re.compile(r"\bwhere(?:'?s)?\b", re.IGNORECASE)
_WHY: Final = re.compile(r"\b(?:why|how come)\b", re.IGNORECASE)
_BY_WORDS: Final = (
    (Wants.COUNT, _COUNT.search),
    (Wants.WHO, _WHO.match),
    (Wants.WHETHER, _WHETHER.match),
    (Wants.WHEN, _WHEN.search),
    (Wants.AMOUNT, _AMOUNT.search),
    (Wants.LINK, _LINK.search),
    (Wants.FILE, _FILE.search),
    (Wants.WHERE, _WHERE.search),
    (Wants.WHY, _WHY.search),
)


def with_wants(route: Route, text: str, *, of_words: bool = False) -> Route:
    """The route with what the text asks for. A follow-up such as "and Bob?" inherits the previous `saying`.

    `of_words`: whether its clause asks for what somebody said, and not for what they did.
    """
    said = route.saying or _SAYING.search(text) is not None
    binds = of_words or said
    wants = _wanted(route, text) or (Wants.WORDS if binds else Wants.FACT)
    if wants in _BARE and _BARE[wants].issuperset(route.topic.lower().split()):
        # "Which link did Ann post?": there is nothing to compare, only to look through.
        route, binds = replace(route, mode=Mode.LATEST, topic=""), True
    posting = _POSTING.search(text) is not None
    return replace(
        route,
        wants=wants,
        saying=said or posting,
        binds=binds,
        of_questions=_ASKED.search(text) is not None,
        literal=route.literal if binds else (),
    )


_BARE: Final = {
    Wants.COUNT: word_set("many messages message posts lines are there were was in here sent send written wrote got"),
    Wants.LINK: word_set("the a any link links url urls"),
    Wants.FILE: word_set(
        "the a any image images picture pictures photo photos pic pics screenshot file files video gif"
    ),
}
"""What may be in a topic without being one."""


def _wanted(route: Route, text: str) -> Wants | None:
    if route.mode is Mode.RECAP:
        return Wants.RECAP
    return next((wants for wants, matches in _BY_WORDS if matches(text)), None)


_GREETINGS: Final = word_set(
    """hi hey hello hiya yo sup greetings morning afternoon evening night good gm gn there all everyone everybody again
    bot thanks thank thx ty you so much very cheers a lot bye goodbye nice great perfect awesome cool love it ok okay"""
)
_THANKS: Final = re.compile(r"\W*(?:thanks|thank you|thx|ty|cheers)\b[^?]{0,60}$", re.IGNORECASE)
_HELP: Final = re.compile(
    r"\W*(?:help(?: me)?|what can (?:you|u|this bot) do|how do (?:you|u|i use you) (?:work|this)?|what do you do"
    r"|how does this (?:bot )?work|commands)\W*",
    re.IGNORECASE,
)


def small_talk(words: Sequence[str], text: str) -> str:
    """Why it needs a friendly word instead of an answer; "" if it is a question."""
    if _HELP.fullmatch(_MENTIONS.sub("", text)):
        return "asks for help"
    if "?" not in text and _THANKS.match(text):
        return "a greeting"
    return "" if not _GREETINGS.issuperset(words) or len(words) > 8 else "a greeting"
