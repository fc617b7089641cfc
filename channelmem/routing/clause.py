"""The clause of a question that says who did what, found by patterns over the letters of `lexicon`.

Enters: a `Line`. Leaves: a `Finding` with the places of its subject and verb, or None. Whether the question is about
this conversation at all is not decided here (see `about`); a clause says whose words it asks for and where its topic
begins. "_" in a pattern stands for what people put between the parts of a clause: adverbs, time words, fillers, asides.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from itertools import compress
from typing import Final, NamedTuple

from channelmem.routing.people import Line
from channelmem.routing.words import word_set
from channelmem.times.calendar import MONTHS, WEEKDAYS, is_date
from channelmem.types import Aside, Mode, Route, Wants

_GAP = "[jzlk]*"
_AND = "(?:,&?|&)j?"
_ONE = "(?:t?[gH]|[iyeWM]|N)"
_SUBJECT = f"(?P<subject>{_ONE}(?:{_AND}{_ONE})*)"
_NAMES = f"N(?:{_AND}N)*"
_NAMED = f"(?P<subject>{_NAMES})"
_SOMEBODY = frozenset("NPiyeWM")

# Forms that ask what somebody did, not what they said.
LIFE = frozenset({"past", "present", "named"})


# Forms that need a word of order: "my last question", but not "my exam question".
_ORDERED = frozenset({"own last", "last"})
ORDER = word_set("last latest previous recent newest first prior final")


class Finding(NamedTuple):
    """A clause about communication: letters[subject] (`who`) does it, and letters[verb] is what they do."""

    name: str
    subject: tuple[int, int]
    verb: tuple[int, int]
    start: int
    end: int
    who: str
    verb_word: str = ""
    """Empty if a form ends with its subject."""

    @classmethod
    def of(cls, name: str, match: re.Match[str], words: list[str]) -> Finding:
        verb, end = match.span("verb"), match.end()
        verb_word = words[verb[0]] if verb[0] < len(words) else ""
        return cls(name, match.span("subject"), verb, match.start(), end, match["subject"], verb_word)


class Form(NamedTuple):
    """A form of asking. The pattern is tried only if at least one of the letters in `needs` is there."""

    name: str
    needs: frozenset[str]
    pattern: re.Pattern[str]
    verbs: frozenset[str]
    """The verb must be one of these, unless there are none."""


def _form(name: str, needs: str, text: str, verbs: str = "") -> Form:
    return Form(name, frozenset(needs), re.compile(text.replace("_", _GAP)), word_set(verbs))


_SPEAK = (
    "say said tell told mention mentioned write wrote written answer answered reply replied ask asked suggest "
    "suggested post posted promise promised think recommend recommended explain explained"
)
_HEAR = "hear heard get got receive received learn learned"
_POSTS = (
    "message messages post posts comment comments link links mention mentions replies thread threads talk discussion "
    "conversation picture pictures photo photos image images file files screenshot screenshots video videos"
)
# The surest form comes first.
FORMS: tuple[Form, ...] = (
    # did Ann say, has anyone mentioned, what is Bob talking about
    _form("asked", "d", f"d_{_SUBJECT}_(?P<verb>[CcKGH])"),
    _form("perfect", "v", f"v_{_SUBJECT}_(?P<verb>[cGCK])"),
    _form("perfect", "n", f"v_{_SUBJECT}_n_(?P<verb>G)"),
    _form("continuous", "G", f"[bB]_{_SUBJECT}_(?:n_)?(?P<verb>G)"),
    _form("anyone", "g", r"(?:^|(?<=[.,z]))[lj,.]*(?P<subject>g)_(?P<verb>[CK])"),
    # who said, who was it that said, whose idea
    _form("who", "o", r"(?P<subject>o)(?:_[bB]_st?)?_(?:[vbB]_)?(?:n_)?(?P<verb>[cG])"),
    _form("who", "h", r"h(?P<subject>x)_(?P<verb>c)"),
    _form("whose", "o", r"(?P<subject>o)_(?P<verb>[KL])"),
    # was I mentioned, has Ann been quoted
    _form("passive", "c", r"(?P<subject>)(?:B_[iNyeW]_|v_[iNyeW]_n_)(?P<verb>c)"),
    # what Ann said; Ann said something, what was it
    _form("told", "cG", f"{_SUBJECT}_(?:[vBb]_)?(?:n_)?(?P<verb>[cG])"),
    # did Zofia say, where nobody is called Zofia
    _form("stranger", "x", r"(?<!z)[dv]_(?P<subject>x{1,2})_(?P<verb>[CcK])", _SPEAK),
    # what was said, was redis mentioned, anything said about; did redis come up
    _form("passive", "c", r"(?P<subject>)(?:[Bnvd]|b_n)_(?:[tsxLKuUwP&pR]_){0,5}n?_(?P<verb>c)"),
    _form("passive", "c", r"(?P<subject>)[sKL]_(?P<verb>c)"),
    _form("passive", "c", r"^[l,.]*(?P<subject>)tx{1,2}_(?P<verb>c)"),
    _form("raised", "Cc", r"[dv]_(?P<subject>)[txLKZspPu]{1,6}_(?P<verb>[Cc])", "come came"),
    # my last question, Ann's message, a link from Ann, the argument between Ann and Bob, quote Ann
    _form("own last", "uU", r"(?P<subject>[uU])_[xj]_(?P<verb>[KL])"),
    _form("own", "uU", r"(?:(?<=^R)|(?<=yR)|(?<=qB))(?P<subject>[uU])_(?P<verb>[KL])"),
    _form("owned", "P", r"(?P<subject>(?:[NP](?:,&?|&))*P)_(?:[xt]_){0,2}(?P<verb>[KLGHC])"),
    _form("sent", "f", f"(?P<verb>[KL])_f_{_SUBJECT}"),
    _form("sent", "N", f"(?P<verb>x)_[fp]_{_NAMED}", "news word sign trace"),
    # according to Ann; what did Bob hear from Ann
    _form("according", "N", f"(?P<verb>x)_p_{_NAMED}", "according"),
    _form("heard", "N", f"(?P<verb>[xBR])_f_{_NAMED}", _HEAR),
    _form("between", "fp", f"(?P<verb>[KLH])_[fp]_{_NAMED}"),
    _form("quoted", "N", f"(?P<verb>K)_{_NAMED}", "quote"),
    # what does Ann think, what do you mean
    _form("opinion", "D", f"D_(?P<subject>{_NAMES}|e|t?[gH])_(?P<verb>[CK])"),
    _form("opinion", "N", f"q_{_NAMED}_(?P<verb>C)"),
    _form("meaning", "D", r"qD_(?P<subject>y)_(?P<verb>C)", "mean"),
    # the last message, messages about, any mention of; do you remember my
    _form(
        "last",
        "KLs",
        r"(?P<subject>)[xj]_(?:x_)?(?P<verb>[KLs])",
        f"{_POSTS} thing message question answer reply post link",
    ),
    _form("messages", "KL", r"(?P<subject>)(?P<verb>[KL])_(?:[aGp]|q)", _POSTS),
    _form("messages", "C", r"(?P<subject>)t_(?P<verb>C)_[pa]"),
    _form("noun", "B", r"(?P<subject>)qB_t_(?:x_)?(?P<verb>[KL])"),
    _form("remembered", "R", r"(?P<verb>R)_(?P<subject>u)", "remember"),
    # when did Ann go, where was Ann, what does Ann own, is Ann here
    _form("past", "dv", f"[dv]_{_SUBJECT}_(?P<verb>[xvRDn]?)"),
    _form("past", "B", f"B_(?P<subject>{_NAMES}|e|W)(?P<verb>)"),
    _form("present", "D", f"D_(?P<subject>{_NAMES}|e)(?P<verb>)"),
    _form("present", "b", f"(?<=q)(?:[xLK]|_){{0,3}}b_(?P<subject>{_NAMES}|t?[gH]|e)(?P<verb>)(?![NP])"),
    _form("present", "b", f"^[l,.j]*b_{_NAMED}(?P<verb>)"),
)
_NEEDS = tuple(form.needs for form in FORMS)
_NAMED_FIRST = re.compile(rf"{_NAMES}|(?:N(?:{_AND}))*P")
_THEIR_ANSWER = re.compile(r"q[bB][jl]*(P)[jx]*[KL]")
_SAID_THERE = re.compile(r"q[jl]*(N)[jlv]*c")
_LIFE_QUESTION = re.compile(f"[dvD]_(?P<subject>{_NAMES}|t?g|W)_(?P<verb>[xvDnp]?)".replace("_", _GAP))
# Forms that are a question by themselves; others may be in a subordinate clause.
_MAIN = LIFE | {
    "asked",
    "perfect",
    "continuous",
    "who",
    "whose",
    "opinion",
    "meaning",
    "heard",
    "according",
    "stranger",
}
_PUT = re.compile(r"[KL](N)[jl]*[xcC]")  # "can somebody find the link Ann put here"
_EITHER_OF = re.compile(r"[bB]s[jl]*(?P<who>N(?:[&,]+N)*)[jl]*$")


def find(line: Line) -> Finding | None:
    """The clause a question is built on: the first form that fits, with the person it is about."""
    letters = line.letters
    for form in compress(FORMS, map(frozenset(letters).intersection, _NEEDS)):
        found = _matches(form, line)
        if found:
            # "Somebody told me Ann said": the one who is known is meant.
            return _about_whom(line, next((each for each in found if "N" in each.who), found[0]))
    names = _names(letters)
    return Finding("named", names, (len(letters), len(letters)), 0, len(letters), letters[slice(*names)])


def _matches(form: Form, line: Line) -> list[Finding]:
    if form.pattern.search(line.letters) is None:
        return []
    found = [Finding.of(form.name, match, line.words) for match in form.pattern.finditer(line.letters)]
    if form.name in _ORDERED:
        found = [each for each in found if not ORDER.isdisjoint(line.words[each.start : each.end])]
    return [each for each in found if not form.verbs or each.verb_word in form.verbs]


def _about_whom(line: Line, finding: Finding) -> Finding:
    """The finding with its real subject, where another clause or no clause at all names it."""
    letters = line.letters
    if finding.who == "o" and (either := _EITHER_OF.search(letters, 0, finding.start)):
        return finding._replace(subject=either.span("who"), who=either["who"])  # "was it Ann or Bob who said so"
    if finding.name == "told" and (theirs := _THEIR_ANSWER.search(letters, 0, finding.start)):
        return finding._replace(subject=theirs.span(1), who="P")  # "Ann's answer when Bob asked her"
    if finding.name == "messages" and (said := _SAID_THERE.search(letters, finding.end - 1)):
        return finding._replace(subject=said.span(1), who="N")  # "the message where Ann mentioned it"
    if finding.name not in _MAIN and (life := _LIFE_QUESTION.search(letters, 0, finding.start)):
        return Finding.of("past", life, line.words)  # "how did Ann feel when somebody wrote to her"
    if finding.who or finding.name in {"passive", "raised"}:
        return finding
    names = _names(letters)  # "Carlos had an idea for the stand, what was it"
    return finding._replace(subject=names, who=letters[slice(*names)])


def _names(letters: str) -> tuple[int, int]:
    """Where the first known people are, unless somebody else is the subject before them."""
    match = _NAMED_FIRST.search(letters)
    if match is None:
        return (0, 0)
    if {"o", "W", "g"}.isdisjoint(letters[: match.start()]):
        return match.span()
    put = _PUT.search(letters)
    return put.span(1) if put else (0, 0)


# --- recap ---


class Recap(NamedTuple):
    words: str
    """The idiom that asks for it."""
    places: tuple[tuple[int, int], ...]
    """Where in the line its object may be: behind the last idiom, else between it and the one before."""
    sums_up: bool = False
    """Whether it asks for a summary, of everything or of what is named."""
    missed: bool = False
    """Whether it asks for what the asker missed."""
    start: int = 0
    """Where the idiom begins: its object may stand before it, as in "van stuff tldr"."""
    plans: bool = False
    """Whether it asks for what is to come: a day that it names is then one to plan for."""


# Idioms that ask for what the asker missed.
_MISSED = (
    r"(?:did|have|has) (?:i|we) (?:\w+ )?miss(?:ed)?(?: anything| something| much| out)?(?: important| urgent| big)?",
    r"(?:i|we) (?:have )?(?:just )?missed|(?:what|anything) i (?:have )?miss(?:ed)?",
    r"what did i (?:just )?(?:read|walk into)",
)
# Idioms that ask for a recap by themselves.
_SURE = (
    r"(?:catch|fill|loop|clue) (?:me|us) (?:back )?(?:up|in)|(?:me|us) catch up",
    r"(?:bring|get|got) (?:me|us) (?:back )?up to (?:speed|date)|up to speed|update me",
    r"where do we stand|(?:where|what) did we leave off|read (?:me )?the backlog",
    r"(?:who|anyone|anybody) (?:is |was |were |been )(?:here|online|around|active|talking)",
    r"(?:repeat|say) that(?: again)?|come again",
)
# Summaries, of everything or of what is named behind them, or before them ("the van in short").
_SUM = (
    r"tldr|sum(?: (?:it|this|that|things|everything))?(?: all)? up|summed up|summarized?|summarised?",
    r"where (?:were|are) we (?:at|with|standing|at with|up to with|on (?=the |this |that |all |everything))",
)
# The same behind what they sum up: "the van in short".
_SHORT = (
    (
        r"in short|in brief|in a nutshell|in (?:just |only )?(?:a|one|two|three|four|five|six|a few|\d+) "
        r"(?:short )?(?:lines?|words?|sentences?|points|bullets)"
    ),
)
# The same as nouns, which people also send, write and look for.
_SUMMARY = (
    r"recap|summary|rundown|gist|highlights|headlines|digest|overview|(?:key|main|bullet|important) (?:points|facts)",
    r"(?:short|shorter|quick|brief|line|condensed) version|context",
)
# What is settled, planned or open, of everything or of what follows "for".
_DONE = "(?:agreed|decided|settled|fixed|arranged|sorted(?: out)?|confirmed|planned)"
_ALL = "(?:everything|anything|all|what|things)"
_NAMED_DAY = f"tomorrow|tonight|today|weekend|{'|'.join(WEEKDAYS)}|sat|sun"
_US = "(?:we|you|they|you all|you guys|you lot|everyone|everybody|people|the group)"
_STATE = (
    rf"{_ALL}(?: that)?(?: (?:is|was|are|were|has been|have been|is been|got))?(?: been)? {_DONE}(?: on)?",
    rf"(?:is|are|was) (?:it |that )?{_ALL} {_DONE}",
    r"(?:what|which) decisions(?: \w+){0,4} (?:made|taken|reached)",
    r"(?:any|which|all|list(?: of)?) (?:the )?decisions?(?: made| taken)?",
    (
        r"(?:anything|something|everything|what|what is|what are|is anything) (?:(?:still |left )+(?:open|missing)"
        r"|(?:still )?(?:undecided|unanswered|unresolved|outstanding|pending|unsettled|unclear))"
    ),
    r"what (?:still )?needs (?:doing|sorting|deciding|to be (?:done|sorted|decided))",
    rf"what (?:is on|are {_US} doing|is everyone doing)(?= (?:for |on |this |next |the )*(?:{_NAMED_DAY})\b)",
    r"(?:anything|everything|what|what is) (?:still |else |left )+to (?:do|decide|sort out|settle)",
    r"(?:any |the |which )?(?:open|unanswered) (?:questions|points|items|issues|tasks)(?: left)?|to ?do list",
    r"what (?:is|are) (?:the |our )?next steps?|are we (?:all )?(?:sorted|set|settled)",
    r"what (?:is|are) (?:the|our|your) (?:current |new |final |whole |full |overall )?plans?",
    r"what is (?:the|our) \w+ plan for (?:everyone|everybody|all of us|us all)",
    r"who (?:is |has to )?(?:doing|do|does) what",
    r"what (?:has |have |is )?changed",
)
# The same of this group, and news: about the chat if nothing else is named.
_NEWS = (
    (
        rf"what (?:have|did|do) {_US}(?: finally| actually| all)? "
        rf"(?:{_DONE}|agree|decide|settle|arrange|sort out|plan)(?: on| upon)?"
    ),
    r"(?:anything|what)(?: do)? (?:i|we) (?:should|must|(?:need|have) to) know",
    r"where (?:were|are) we(?: at| up to)?|where did we (?:land|end up|get to)",
    r"what is (?:still )?(?:missing|left)",
    r"what do we (?:still )?(?:need|have|got) to (?:do|decide|sort out|settle)",
    r"how did (?:it all|everything|the day|today|yesterday|tonight|last night|this (?:morning|week)) go",
    r"what (?:was|were|is|are|has been|have been|got) (?:all )?(?:discussed|reported|announced)",
    (
        r"(?:what|anything|something|everything)(?: \w+)? "
        r"(?:(?:is|was|has|has been|been|just|is been|is all|interesting|important|exciting|fun) )*"
        r"(?:going on|going down|happening|happened|happen|went on|went down|new|the latest|the news|cooking)"
    ),
    r"(?:was|is|were|are) there anything(?: \w+)?|any (?:news|updates|developments|drama)",
    r"anything (?:new|interesting|important|exciting|noteworthy|urgent)",
    r"what is up|what is (?:so )?funny|what is the (?:latest|word|tea|drama|situation|status|context|vibe|mood)",
    r"what is the update",
    r"what (?:is|was) the (?:final )?(?:consensus|conclusion|outcome|verdict|decision|agreement|story|deal|fuss)",
)
# Everything about what is named, so something must be.
_WHOLE_OF = (
    rf"(?:everything|all) (?:that )?{_US} (?:know|have|said|decided|discussed)(?=(?: \w+)? (?:about|on|for)\b)",
    r"(?:tell|show|give) (?:me|us) (?:everything|all)(?= (?:about|on)\b)",
)
_PLACES = "conversation|chat|channel|thread|discussion|drama|tea|debate|argument|fuss|topic|subject|vibe"
_TALK = (
    r"what (?:is|was) (?:all )?(?:this|the|that|everyone|everybody) (?:\w+ )?"
    rf"(?:{_PLACES}|about|on about|up to)(?: (?:all )?about)?"
)
_IDIOM = re.compile(
    rf"(?<!\S)(?:(?P<missed>{'|'.join(_MISSED)})|(?P<sure>{'|'.join(_SURE)})|(?P<sum>{'|'.join(_SUM)})"
    rf"|(?P<short>{'|'.join(_SHORT)})"
    rf"|(?P<summary>{'|'.join(_SUMMARY)})|(?P<whole>{'|'.join(_WHOLE_OF)})|(?P<state>{'|'.join(_STATE)})"
    rf"|(?P<news>{'|'.join(_NEWS)})|(?P<talk>{_TALK}))(?!\S)"
)
# Without one of these words there is no idiom, so most questions pay for a few lookups only.
_HINTS = word_set(
    """catch fill loop clue miss missed backlog recap summary summarize summarise tldr rundown gist highlights
    digest overview sum summed summarized summarised context news speed date points version update read walk
    where leave repeat say come here online around active talking going happening happened happen went new
    latest cooking updates developments there interesting important exciting noteworthy urgent drama up funny
    word tea situation status vibe mood plan consensus conclusion outcome verdict decision agreement story deal
    fuss conversation chat channel thread discussion debate argument topic subject about short brief nutshell
    line lines words sentence sentences bullets agreed decided settled fixed arranged sorted confirmed planned
    agree decide settle arrange sort plans decisions open undecided unanswered unresolved outstanding pending
    unsettled unclear needs land end get headlines facts on left missing do doing does changed go discussed
    reported announced everything all todo know next set"""
)
# Letters that add nothing to an idiom: adverbs, fillers, times, places, punctuation, prepositions, everybody.
_BARE = "jlzkHt,.pMg"
_SUMS_UP = frozenset({"sum", "short", "summary", "whole", "state"})
_FULL_STOP = re.compile(r"[.?!;]")
# Whoever says one of these before it speaks of a summary that is there, or of somebody who writes one.
_SPOKEN_OF = word_set(
    """who when where why how which did has had have was were does the this that my his her their our its no last
    next about from with without into to said says sent wrote writes writing wants if"""
)
_IS_THE = (["is", "the"], ["was", "the"], ["are", "the"], ["were", "the"])
_MERELY = word_set("just only so ok okay and")
_OWNED = word_set("my his her their did when who where how")
_ANYONE = word_set("you someone somebody anyone anybody possible able")
_GIVEN = word_set("me us have get")
_WRITERS = word_set("who when where why how did does has had")
_ASKS_FOR_ONE = re.compile(rf"what(?: \w+)* {_DONE}(?: on)?$")
_AWAY = re.compile(
    r"\bi (?:was|have been|am|got|came)(?: \w+){0,2} (?:away|gone|back|asleep|offline|afk|out|busy|at work|off|late)\b"
    r"|\b(?:missed|skipped) (?:it |this |that )?(?:all|everything|most|the)\b"
    r"|\bjust (?:woke up|got (?:here|in|back|home))\b"
)
_OF_WHAT = word_set("for on about with regarding concerning of around")
_I_SHOULD_KNOW = re.compile(r"(?: (?:that|which))? (?:i|we) (?:should|need|have|must|missed)\b")


def recap(line: Line) -> Recap | None:
    """The recap that the line asks for, if any."""
    if _HINTS.isdisjoint(line.words):
        return None
    # Adverbs may stand anywhere in an idiom: "what have we actually decided so far", "anything still open".
    words = line.words
    added = {
        i + by
        for phrase in _ADDED
        for i in range(len(words))
        if words[i : i + len(phrase)] == phrase
        for by in range(len(phrase))
    }
    places = [i for i, word in enumerate(words) if word not in _LOOSE and i not in added]
    text = " ".join([words[i] for i in places])
    found = [match for match in _IDIOM.finditer(text) if _asks(line, places, match)]
    if not found:
        return None
    starts = [*(_start(places, text, match) for match in found), len(line.words)]
    behind = [(_place(line, places, match), starts[at]) for at, match in enumerate(found, 1)]
    kinds = {match.lastgroup for match in found}
    return Recap(
        found[0][0],
        tuple(behind[::-1]),
        not kinds.isdisjoint(_SUMS_UP),
        "missed" in kinds and kinds.isdisjoint(_SUMS_UP),
        starts[0],
        any(_TO_COME.search(match[0]) for match in found) or _names_a_coming_day(line, found),
    )


_TO_COME = re.compile(
    r"\bplans?\b|\bnext steps|\bwho (?:is |has to )?(?:doing|do|does) what|\b(?:do|decide|sort out|settle)$"
    r"|^are we (?!at)|to ?do list"
)
_UNDER_WAY = re.compile(r"\b(?:happening|going on|going down|cooking|doing|what is on)$")
_WEEK = frozenset({*WEEKDAYS, "weekend", "sat", "sun", "mon", "tue", "tues", "wed", "thu", "thurs", "fri"})


def _names_a_coming_day(line: Line, found: Sequence[re.Match[str]]) -> bool:
    """ "What is happening on Saturday", "decided for the weekend"."""
    named = [i for i, word in enumerate(line.words) if word in _WEEK]
    under_way = any(_UNDER_WAY.search(match[0]) for match in found)
    return any(under_way or "for" in line.words[max(0, i - 3) : i] for i in named)


_ADDED = (["so", "far"], ["in", "the", "end"])
_LOOSE = word_set("actually already really finally yet exactly then basically currently")


def _place(line: Line, places: Sequence[int], match: re.Match[str]) -> int:
    """Where the line goes on behind an idiom."""
    at = match.string[: match.end()].count(" ") + 1
    return places[at] if at < len(places) else len(line.words)


def _start(places: Sequence[int], text: str, match: re.Match[str]) -> int:
    return places[text[: match.start()].count(" ")]


def _asks(line: Line, places: Sequence[int], match: re.Match[str]) -> bool:
    """Summaries may have an object; news and talk must not: "what happened to the dinosaurs" asks for one thing."""
    group, rest = match.lastgroup, _place(line, places, match)
    if group in {"missed", "sure", "whole"}:
        return True
    before = _FULL_STOP.split(match.string[: match.start()])[-1].split()
    if group in {"sum", "summary"}:
        return _is_wish(before, noun=group == "summary")
    if group == "state" and not _OWNED.isdisjoint(before[-1:]):
        return False
    return (group == "state" and _names_its_object(line, rest, match)) or _is_bare(line, rest, match)


def _is_bare(line: Line, rest: int, match: re.Match[str]) -> bool:
    """Whether nothing else is named behind the idiom."""
    if match.lastgroup == "short" and match.string[: match.start()].endswith(", "):
        return False  # "Ann's critique, in one line"
    left = line.letters[rest:].strip(_BARE)
    left = "" if left and _UNDER_WAY.search(match[0]) and is_day(" ".join(line.words[rest:]).strip(" .,?!")) else left
    return not left and (match[0] != "what is up" or not {"k", "z"}.isdisjoint(line.letters))


def _is_wish(before: Sequence[str], *, noun: bool) -> bool:
    """Whether what stands before it lets a summary be asked for: "can you give me a", but not "who writes the"."""
    if not noun:
        asked = before[-1:] != ["to"] or not _ANYONE.isdisjoint(before[-4:])
        return asked and _WRITERS.isdisjoint(before[-4:]) and _SPOKEN_OF.isdisjoint(set(before[-1:]) - {"to"})
    before = [word for word in before if word not in _MERELY]
    words = before[3:] if before[:1] == ["what"] and before[1:3] in _IS_THE else before
    given = {"the"} if before == ["the"] or not _GIVEN.isdisjoint(before) else set()
    return _SPOKEN_OF.isdisjoint({*words} - given) and words[-1:] != ["what"]


def _names_its_object(line: Line, rest: int, match: re.Match[str]) -> bool:
    """ "... for the bbq", "... tomorrow", "... I should know"."""
    words = line.words[rest:]
    if words[:1] and words[0] != "for" and _ASKS_FOR_ONE.match(match[0]):
        # "What was decided about the samples" asks for one thing, unless it is from somebody who was not there.
        return words[0] in _OF_WHAT and _AWAY.search(match.string[: match.start()]) is not None
    if words[:1] and (words[0] in _OF_WHAT or any(each.first == rest for each in line.times)):
        return True
    return _I_SHOULD_KNOW.match(match.string, match.end()) is not None


# --- topic ---


# What may be at the edges of a topic without being part of it, by class letter.
_LEFT_OF_ABOUT = frozenset("jlz.,@")
_RIGHT_OF_ABOUT = frozenset("jlzk.,@pd&")
_LEFT = frozenset("jlzkMpfayieWgs&.,@NdDbBvnmoqhRr")
_RIGHT = frozenset("jlzkMpfayieWg&.,@tdDbBvnmoqhs")
_EMPTY = _LEFT | frozenset("tuUwH")
_LIFE_DROPS = frozenset("qhodDbBvnml.,@yir")
_NO_TOPIC = word_set(
    """message messages post posts comment comments reply replies response responses answer answers question
    questions thing things words said say kind type sort exactly happened talk talking topic statement chat
    conversation discussion channel thread mean anything something quote last latest newest recent first spoke"""
)
_TAIL = re.compile(
    r"[.,z]*(?:q[bB][jtseMl]{0,2}|q|h[bB][sej]?|o[bB]?[se]?|mj*yj*R.*|Djy?R.*|[.,]R.*|[.,]&?j*[ieyWg].*)[jlz.,]*$"
)
_TAIL_HEADS = frozenset("qhomD.,")
# Forms whose topic is between auxiliary and verb ("was redis mentioned"), and forms that have none.
_INNER = frozenset({"passive", "raised"})
_WHOLE = frozenset({"last"})
_PRONOUNS = frozenset("sMeytqpo")
_KINDS = word_set("kind type sort kinds types")
_LINKING = word_set("that to if whether")


def topic(line: Line, finding: Finding | None, recap: Recap | None, asker: str = "") -> str:
    """The text to embed; `asker` is the name to look for if people spoke about the asker."""
    if recap is not None and finding is None:
        return _object(line, recap)
    begin = 0 if finding and finding.name == "named" else finding.verb[1] if finding else 0
    about = line.letters.find("a", begin)
    if finding is not None and finding.name in LIFE:
        # "Any news about Acme?" has no clause, but it says what it is about.
        named = about >= 0 and finding.who == "" and _after_about(line, about + 1, asker)
        return named or _life(line, finding)
    if about >= 0 and (text := _after_about(line, about + 1, asker)):
        return text
    if finding is None:
        return _phrase(line, begin, len(line.letters))
    if finding.name in _WHOLE:
        return ""
    inner = _phrase(line, finding.start + 1, finding.verb[0]) if finding.name in _INNER else _before(line, finding)
    rest = _phrase(line, finding.end, len(line.letters))
    return " ".join(filter(None, (inner, rest))) or _person(line, finding, asker)


# What people call the thing that a recap is about, and for whom it is: "the boiler saga for my mum".
_FOR = r"(?:for|to) (?:me|us|my \w+|(?:the|our) (?:boss|wife|husband|director|others|team|group|rest))"
_FOR_WHOM = re.compile(rf"(?:^| )(?:{_FOR})$")
_CALLED = re.compile(
    r"\W+(?:stuff|things?|business|story|saga|drama|discussions?|debate|chat|talk|situation|issue|matter|affair|planning"
    r"|plans?|arrangements?|panic|so far)$",
    re.IGNORECASE,
)
_STATE_OF = re.compile(
    r"^(?:the |all |our |any |whole |of |everything |all )*"
    r"(?:(?:day|decisions?|arrangements?|plans?|planning|discussions?|details?|story|state|status|latest|news|dates|deadlines)"
    r"(?: and )?)+ (?:for|of|on|about|around|with|from) ",
    re.IGNORECASE,
)
_NO_OBJECT = _NO_TOPIC | word_set(
    """short quick brief little full whole one two three line liner small nice good proper bit final agreed decided
    settled dates deadlines times fixed arranged reported discussed planned announced came everyone everybody again"""
)
_OBJECT_LEFT = _LEFT - frozenset("NRh")
_NO_NAME = _EMPTY - frozenset("NRh")
_CLAUSE = re.compile(r"[jl]*[iWye][jl]*[xcCBbvdmR]")


def _object(line: Line, recap: Recap) -> str:
    """What a recap is about: what is named behind the idiom, or else before it; empty for everything."""
    named = next(filter(None, (_behind(line, *place) for place in recap.places)), "")
    return named if named or not recap.sums_up else _named_in(line, *_sentence_before(line, recap.start))


def _behind(line: Line, rest: int, last: int) -> str:
    stop = _STOPS.search(line.letters, rest, last)
    last = stop.start() if stop else last
    about = line.letters.find("a", rest, last)
    return _named_in(line, about + 1 if about >= 0 else rest, last)


_DAY = re.compile(
    rf"(?:(?:the|this|next|coming|on|for|of|and|&|morning|afternoon|evening|night|late|early)\s+)*"
    rf"(?:(?<=this )(?:morning|afternoon|evening|week)s?|later|tomorrows?|tmr?w|2moro|tonights?|todays?|weekend|wknd"
    rf"|(?:{'|'.join(WEEKDAYS)})s?|mon|tues?|wed|thu(?:rs?)?|fri|sat|sun|\d{{1,2}}(?:st|nd|rd|th)"
    rf"|(?:{'|'.join(MONTHS)})\s+\d{{1,2}}(?:st|nd|rd|th)?|\d{{1,2}}(?:st|nd|rd|th)?(?:\s+of)?\s+(?:{'|'.join(MONTHS)}))"
    r"(?:\s+(?:morning|afternoon|evening|night|itself))?",
    re.IGNORECASE,
)


_ON = re.compile(r"^(?:(?:on|for|over|during)\s+)+", re.IGNORECASE)


def bare_day(text: str) -> str:
    """The day without "on" or "for"."""
    return _ON.sub("", text)


def is_day(text: str) -> bool:
    """Whether it names a day and nothing else."""
    return _DAY.fullmatch(text) is not None


_STOPS = re.compile(r"\.|,(?!.*&)")
"""Where the name of something ends: not within "a, b and c"."""


def _sentence_before(line: Line, last: int) -> tuple[int, int]:
    """Where the words before an idiom begin and end, if they are a mere name of something."""
    first = max((line.letters.rfind(sign, 0, last) for sign in ".,"), default=-1) + 1
    while first < last and (line.letters[first] in "ljmyMRqb" or line.words[first] in {"give", "tell", "get"}):
        first += 1
    return (first, last) if frozenset("iWyedDbBvqohc").isdisjoint(line.letters[first:last]) else (last, last)


def _named_in(line: Line, first: int, last: int) -> str:
    if audience := _FOR_WHOM.search(" ".join(line.words[first:last])):
        last -= audience[0].count(" ") + (audience.start() == 0)
    if _CLAUSE.match(line.letters, first, last):
        return ""
    first, last = _trimmed(line, first, last, _OBJECT_LEFT, _RIGHT, _NO_OBJECT)
    if _NO_NAME.issuperset(line.letters[first:last]):
        return ""
    text, before = _STATE_OF.sub("", _text(line, first, last)), ""
    while text != before:
        before, text = text, _CALLED.sub("", f" {text}").strip()
    return text


def _after_about(line: Line, first: int, asker: str) -> str:
    if "me" in line.words and line.letters[first:].strip("jlz.,") == "M" and line.words[first] == "me":
        return asker
    first, last = _trimmed(line, first, _without_tail(line, first, len(line.letters)), _LEFT_OF_ABOUT, _RIGHT_OF_ABOUT)
    return "" if _PRONOUNS.issuperset(line.letters[first:last]) else _text(line, first, last)


def _before(line: Line, finding: Finding) -> str:
    """What comes between the question word and the clause: "which restaurant did Ann suggest"."""
    start = finding.start
    while start and line.letters[start - 1] not in "qohR.,":
        start -= 1
    return _phrase(line, start, finding.start)


def _person(line: Line, finding: Finding, asker: str) -> str:
    """ "Who mentioned Ann": if anybody may have spoken, the person is the topic."""
    if line.letters[slice(*finding.subject)].strip("tgoq"):
        return ""
    for i in range(finding.start if finding.name == "passive" else finding.end, len(line.letters)):
        if line.letters[i] == "N":
            return line.tokens[i].text
        if line.tokens[i].word in {"me", "i"}:
            return asker
    return ""


def _life(line: Line, finding: Finding | None) -> str:
    """Every word that carries meaning, without the person asked about and the words that only ask."""
    dated = {i for each in line.times if is_date(each.phrase) for i in range(each.first, each.last)}
    subject = range(*finding.subject) if finding else range(0)
    kept = [
        i
        for i, letter in enumerate(line.letters)
        if i in dated or not (letter in _LIFE_DROPS or letter in "zNP" or i in subject or _is_kind_of(line, i))
    ]
    while kept and kept[0] not in dated and line.letters[kept[0]] in "jpfasM&tR" and len(kept) > 1:
        kept.pop(0)
    while kept and kept[-1] not in dated and line.letters[kept[-1]] in "jpf&tM":
        kept.pop()
    return _joined([line.tokens[i].text for i in kept])


def _is_kind_of(line: Line, i: int) -> bool:
    if line.words[i] == "of":
        return i > 0 and line.words[i - 1] in _KINDS
    return line.words[i] in _KINDS and line.words[i + 1 : i + 2] == ["of"]


def _phrase(line: Line, first: int, last: int) -> str:
    if first >= last:
        return ""
    first, last = _trimmed(line, first, _without_tail(line, first, last), _LEFT, _RIGHT, _NO_TOPIC)
    return "" if _EMPTY.issuperset(line.letters[first:last]) else _text(line, first, last)


def _without_tail(line: Line, first: int, last: int) -> int:
    """The latest point where the topic can end: before an added question, and at the end of its sentence."""
    if _TAIL_HEADS.isdisjoint(line.letters[first:last]):
        return last
    tail = _TAIL.search(line.letters, first, last)
    last = tail.start() if tail and tail.start() > first else last
    stop = line.letters.find(".", first, last)
    return stop if stop > first else last


def _trimmed(
    line: Line,
    first: int,
    last: int,
    left: frozenset[str],
    right: frozenset[str],
    words: frozenset[str] = frozenset(),
) -> tuple[int, int]:
    letters = line.letters
    while first < last and (letters[first] in left or line.words[first] in words):
        first += 1
    while last > first and (letters[last - 1] in right or line.words[last - 1] in words):
        last -= 1
    return first, last


def _text(line: Line, first: int, last: int) -> str:
    kept = [line.tokens[i].text for i in range(first, last) if line.letters[i] not in "zl@"]
    if len(kept) > 1 and kept[0].lower() in _LINKING:
        kept = kept[1:]
    return _joined(kept)


_BEFORE_MARK = re.compile(r" (?=[,.:;?!)])")


def _joined(words: list[str]) -> str:
    return _BEFORE_MARK.sub("", " ".join(filter(None, words))).strip(" ,.:;")


# --- wants ---


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
    binds = of_words or said or route.mode is Mode.RECAP
    wants = _wanted(route, text) or (Wants.WORDS if binds else Wants.FACT)
    if wants in _BARE_WANTS and _BARE_WANTS[wants].issuperset(route.topic.lower().split()):
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


_BARE_WANTS: Final = {
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


_HELP: Final = re.compile(
    r"\W*(?:help(?: me)?|what can (?:you|u|this bot) do|how do (?:you|u|i use you) (?:work|this)?|what do you do"
    r"|how does this (?:bot )?work|commands)\W*",
    re.IGNORECASE,
)
_THANKED: Final = re.compile(r"\W*(?:thanks|thank you|thx|ty|cheers)\b[^?]{0,60}$", re.IGNORECASE)
_VERY: Final = "(?:so |very |really |just |pretty )*"
# What the bot may be told instead of being asked something; the first kind that is there decides.
_SMALL: Final = {
    Aside.NAME: (
        "who are you|what are you|what is your name|who is this|introduce yourself|tell (?:me|us) about yourself"
        "|are you (?:an? )?(?:bot|robot|human|person|ai|real)"
    ),
    Aside.FEELING: (
        "how are you(?: (?:doing|feeling|today|now|ok|okay))*|how is it going|how have you been|how do you do"
        "|how is (?:life|your day)(?: going)?|(?:are )?you (?:ok|okay|alright|fine|well|there|alive|awake|online)"
    ),
    Aside.COMPLAINT: (
        f"(?:bad|stupid|dumb|useless|silly) bot|you suck|you are {_VERY}(?:bad|stupid|dumb|useless|annoying|wrong)"
        "|(?:that is )?wrong|shut up|go away|i hate you"
    ),
    Aside.SORRY: "(?:i am )?(?:so )?sorry|my bad|apologies|my apologies|oops|whoops",
    Aside.THANKS: "thanks|thank you|cheers|(?:i )?appreciate (?:it|that)|much appreciated|🙏",
    Aside.PRAISE: (
        "(?:good|great|nice|clever|smart|best|lovely|cool|amazing) (?:bot|job|one|work)"
        "|well (?:done|played)|gg|you (?:rock|rule)"
        f"|you are {_VERY}(?:great|awesome|amazing|the best|smart|cool|cute|good|helpful|funny|brilliant|a star)"
        "|(?:i )?love (?:you|it|this|that)|❤|🥰|😍"
    ),
    Aside.GOODBYE: (
        "bye(?: bye)?|goodbye|good night|g ?night|nighty|night|gn|cya|laters?|ttyl|take care"
        "|see (?:you|ya)(?: (?:later|soon|tomorrow|around))?|i am off|(?:i )?got to go|gtg|g2g|brb"
        "|have a (?:good|nice|great) (?:day|night|evening|weekend|one)"
    ),
    Aside.LAUGH: "lol|lmao|lmfao|rofl|(?:ha){2,}h?|(?:he){2,}|xd|😂|🤣|😆|😄",
    Aside.GREETING: (
        "hi+|hello+|hey+|hiya|heya|howdy|yo|sup|greetings|(?:good )?(?:morning|afternoon|evening)|good day|gm"
        "|what is up|👋"
    ),
    Aside.NOD: (
        "ok|okay|k|kk|alright|all right|fine|sure|cool|nice|great|perfect|awesome|sweet|neat|good|wow|(?:i )?got it"
        "|understood|noted|i see|fair(?: enough)?|makes sense|never ?mind|nvm|np|no (?:problem|worries)|all good"
        "|yes|yeah|yep|yup|no|nope|nah|right|exactly|true|same|done|interesting|good to know|👍|👌|✅"
    ),
}
_BESIDE: Final = (
    "there|even|actually|in (?:here|there)|all|everyone|everybody|guys|folks|friends?|bot|again|so|very|much|a lot|man"
    "|mate|buddy|dude|then|well|oh|ah|um|uh|please|too|to you|today|anyway"
    "|for (?:that|this|it|now|your help|the help|everything|the info)"
)
_SMALL_TALK: Final = re.compile(
    "(?:(?:" + "|".join(f"(?P<{kind.name}>{said})" for kind, said in _SMALL.items()) + f"|{_BESIDE})(?: |$))+"
)
_IDLE: Final = word_set("even actually really exactly just again now then anyway tho though")
"""Words that small talk is the same without: "who even are you"."""
_MAY_ASK: Final = frozenset({Aside.NAME, Aside.FEELING, Aside.GREETING, Aside.THANKS})
"""Kinds that stay what they are with a question mark; "right?" asks for something."""
_MOST_SMALL: Final = 10
"""Small talk has no more words."""


def small_talk(words: Sequence[str], text: str) -> Aside | None:
    """Why it needs a friendly word instead of an answer; None if it is a question. `words` leave out the bot's name."""
    said = " ".join([word for word in words if word not in _IDLE] or words)
    if _HELP.fullmatch(_MENTIONS.sub("", text)) or _HELP.fullmatch(said):
        return Aside.HELP
    if "?" not in text and _THANKED.match(text):
        return Aside.THANKS
    if not words:
        return Aside.GREETING  # nothing but the bot's name
    found = _SMALL_TALK.fullmatch(said) if len(words) <= _MOST_SMALL else None
    kind = next((kind for kind in _SMALL if found and found[kind.name]), None)
    return kind if "?" not in text or kind in _MAY_ASK else None
