"""Whether a question asks for everything that was going on: "catch me up", "tl;dr", "what happened here?".

Enters: a `Line`. Leaves: a `Recap` with the words that ask for it and where its object begins, or None. The object
decides: we sum up the chat, but not an article.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from channelmem.routing.lexicon import word_set
from channelmem.routing.people.naming import Line
from channelmem.routing.verbs import TALK_NOUNS
from channelmem.routing.world import MEDIA, WORLD


class Recap(NamedTuple):
    words: str
    """The idiom that asks for it."""
    rest: int
    """Where in the line its object begins."""


# Idioms that ask for a recap by themselves.
_SURE = (
    r"(?:catch|fill|loop|clue) (?:me|us) (?:back )?(?:up|in)|(?:me|us) catch up",
    r"(?:bring|get|got) (?:me|us) (?:back )?up to (?:speed|date)|up to speed|update me",
    r"(?:did|have|has) (?:i|we) (?:\w+ )?miss(?:ed)?(?: anything| something| much| out)?",
    r"(?:i|we) (?:have )?(?:just )?missed|(?:what|anything) i (?:have )?miss(?:ed)?",
    r"where (?:were|are) we|where do we stand|(?:where|what) did we leave off|read (?:me )?the backlog",
    r"(?:who|anyone|anybody) (?:is |was |were |been )(?:here|online|around|active|talking)",
    r"(?:repeat|say) that(?: again)?|come again|what did i (?:just )?(?:read|walk into)",
)
# Summaries: it depends on what of.
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
_YEAR = re.compile(r"(?<!\S)(?:1\d|20)\d\d(?!\S)")
_OURS = word_set(
    """chat channel conversation discussion thread messages message everything above backlog drama argument debate
    talk talks convo server room here happenings last past recent today yesterday morning evening day night hour
    points it that posts scrollback logs log chatter stuff going"""
)
_POLITE = word_set(
    """me us for a an the quick short brief of up some give us please now today can could so far this then all in
    on bullet points one two three four five few couple 3 5"""
)


def recap(line: Line) -> Recap | None:
    """The recap that the line asks for, if any."""
    if not _hinted(line.words):
        return None
    text = " ".join(line.words)
    for match in _IDIOM.finditer(text):
        rest = text[: match.end()].count(" ") + 1
        kind = match.lastgroup or ""
        if _CHECK[kind](line, rest, match[0]):
            return Recap(match[0], rest)
    return None


# What an idiom must have: one of the words on the right, together with one on the left (if there are any).
_NEEDED = {
    "": "catch fill loop clue miss missed backlog recap summary summarize summarise tldr rundown gist highlights "
    "digest overview sum context news",
    "up": "speed date",
    "points": "key bullet",
    "short shorter quick brief line condensed": "version",
    "me is": "update",
    "i": "read walk",
    "we": "where",
    "off": "leave",
    "that": "say repeat",
    "again": "come",
    "who anyone anybody": "here online around active talking",
    "what anything something everything": "going happening happened happen went new latest cooking",
    "any": "updates developments",
    "anything": "there interesting important exciting noteworthy urgent",
    "any is was": "drama",
    "is was": "up funny word tea situation status vibe mood plan consensus conclusion outcome verdict decision "
    "agreement story deal fuss conversation chat channel thread discussion debate argument topic subject about",
}
_HINTS: dict[str, frozenset[str]] = {
    word: word_set(beside) for beside, words in _NEEDED.items() for word in words.split()
}


def _hinted(words: list[str]) -> bool:
    """Whether there can be an idiom at all, for the price of a few lookups."""
    for word in _HINTS.keys() & words:
        beside = _HINTS[word]
        if not beside or not beside.isdisjoint(words):
            return True
    return False


def _sure(line: Line, _rest: int, _words: str) -> bool:
    """About the chat, unless it is about a book or a broadcast."""
    return (MEDIA.isdisjoint(line.words) and WORLD.isdisjoint(line.words)) or "k" in line.letters


def _sum(line: Line, rest: int, _words: str) -> bool:
    """About the chat if the object is missing, the chat itself, a stretch of time, or what somebody said."""
    words, letters = line.words[rest:], line.letters[rest:]
    at = 0
    while at < len(words) and (words[at] in _POLITE or letters[at] in "jl,."):
        at += 1
    if at == len(words):
        return not _named_before(line, rest)
    head = letters[at]
    if words[at] in {"last", "past", "recent", "latest"}:
        return any(
            letter in "HLKzsW" or word.isdigit()
            for word, letter in zip(words[at + 1 : at + 4], letters[at + 1 : at + 4], strict=True)
        )
    return head in "zkHPNqW" or words[at] in _OURS | TALK_NOUNS or not _OURS.isdisjoint(words[at : at + 2])


def _named_before(line: Line, rest: int) -> bool:
    """ "Moby Dick summary": the object may come before the word."""
    first = next((i for i, letter in enumerate(line.letters[:rest]) if letter == "r"), rest)
    begin = max(line.letters.rfind(mark, 0, first) for mark in ",.lm") + 1
    before = zip(line.words[begin:first], line.letters[begin:first], strict=True)
    return any(letter in "xN" and word not in _POLITE for word, letter in before)


def _news(line: Line, rest: int, words: str) -> bool:
    """ "What happened?" is about the chat if nothing else is named; "what happened to the dinosaurs" is not."""
    tail = line.letters[rest:]
    left = tail.strip("jlzkHt,.pMg")
    bare = not left and ("k" in tail or not _YEAR.search(" ".join(line.words[rest:])))
    if words == "what is up":
        return bare and ("k" in tail or "z" in tail or "was" in line.words[:rest])
    if bare:
        return True
    return (
        tail[:1] == "p"
        and line.words[rest] in {"with", "from", "on"}
        and tail[1:2] in {"N", "t", "P"}
        and "latest" not in words
    )


def _talk(line: Line, rest: int, _words: str) -> bool:
    return not line.letters[rest:].strip("jlzkHt,.p")


_CHECK = {"sure": _sure, "sum": _sum, "news": _news, "talk": _talk}
