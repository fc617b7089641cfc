"""Checks what a language model writes before people see it. Small models repeat the marks of our prompt, invent, and
mix people up. A mark never passes, not even in pieces of a stream; an invention has hardly any of the words that the
model was given, apart from those of the question, which any answer repeats; and who said it, when and how much are held
against the lines that answer."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo
from functools import cached_property
from typing import Final

import snowballstemmer

from channelmem.llm.prompts import BLOCKS, MINUTES, QUESTION, TOOL_RESULT
from channelmem.types import Answer, Message, Person, Question, Wants, answering

TAGS: Final = (*BLOCKS, TOOL_RESULT, QUESTION, *MINUTES, "contextual_references")
SECTIONS: Final = (
    "recent channel context", "recent channel activity", "reply chain", "question", "highly relevant", "relevant",
    "answers",
)  # fmt: skip
"""Headings and labels inside a context block."""
SHARE: Final = 0.2
"""Of an answer's own words, the share that must be among those given. Chosen with tests/data/llm_outputs.jsonl."""

_BLANK: Final = r"[\s\u200b-\u200d\u2060\ufeff]*"
_NAMES: Final = "|".join(TAGS)
_LONGEST_TAG: Final = 80
_MARK: Final = re.compile(
    rf"\(see {_BLANK}<(?:{_NAMES})> in the message\)"
    rf"|`?(?:<|&lt;){_BLANK}/?{_BLANK}(?:{_NAMES})\b[^<>\n]{{0,{_LONGEST_TAG}}}?(?:/?>|&gt;|\Z|(?=[<\n]))`?"
    rf"|\[(?:{'|'.join(map(re.escape, SECTIONS))})\](?!\()",
    re.IGNORECASE,
)
_BEGINNINGS: Final = tuple(
    [f"{opening}{name}" for name in TAGS for opening in ("<", "</", "&lt;", "&lt;/", "(see<")]
    + [f"[{name.replace(' ', '')}]" for name in SECTIONS]
)
_OPENERS: Final = re.compile(r"[`<&\[(]")
_UNSEEN: Final = re.compile(r"[\s\u200b-\u200d\u2060\ufeff`]+")


def without_marks(text: str) -> str:
    """The text without any mark of our prompt; what stood between two marks stays."""
    left = text
    while (fewer := _MARK.sub("", left)) != left:  # what is left around a mark may form another one
        left = fewer
    return text if left == text else left.strip()


def visible_part(text: str) -> str:
    """What of a text that still grows may be shown: without marks, and without the possible beginning of one."""
    for opener in _OPENERS.finditer(text, max(0, len(text) - 2 * _LONGEST_TAG)):
        if _may_become_a_mark(text[opener.start() :]):
            return without_marks(text[: opener.start()])
    return without_marks(text)


def _may_become_a_mark(tail: str) -> bool:
    begun = _UNSEEN.sub("", tail).lower()
    if not begun:  # a backtick at the very end may stand before a mark
        return True
    open_still = not any(end in tail for end in (">", "&gt;", "]", ")"))
    return any(one.startswith(begun) or (open_still and begun.startswith(one)) for one in _BEGINNINGS)


# --- inventions ---

_WORD: Final = re.compile(r"[^\W_]+(?:['’][^\W_]+)*")  # noqa: RUF001  (people type this apostrophe)
_UNSPACED: Final = re.compile(r"[\u0e00-\u0e7f\u3040-\u30ff\u3400-\u9fff]")
"""Scripts without spaces between words: Thai, Japanese, Chinese."""
_STEMMER: Final = snowballstemmer.stemmer("english")
_URL: Final = re.compile(r"<?https?://\S+")
_SENTENCE: Final = re.compile(r"(?<=[.!?\n;])\s+|\bbut\b|\bhowever\b", re.IGNORECASE)
_REFUSAL: Final = re.compile(
    r"\b(?:(?:do|did|does|have|has|had|can|could|was|is|are|were)(?:n['’]?t| not)|cannot|never|no longer|unable to)\b"  # noqa: RUF001
    r".{0,40}\b(?:know|seen?|find|found|recall|remember|tell|sa(?:y|id)|mention\w*|aware|sure|have|answer|any\w*)\b"
    r"|\b(?:nothing|nobody|no one|no (?:idea|clue|mention|message|messages|record|trace|sign|information|info))\b"
    r"|\bnot sure\b",
    re.IGNORECASE,
)
_YES_OR_NO: Final = frozenset(
    {"yes", "yeah", "yep", "yup", "no", "nope", "correct", "right", "inde", "exact", "true", "fals", "mayb"}
)
"""By their stems."""
_NUMBER_WORDS: Final = "zero one two three four five six seven eight nine ten eleven twelve"
_NUMBERS: Final = {word: str(number) for number, word in enumerate(_NUMBER_WORDS.split())}
_FILLER_WORDS: Final = """
    a about above after again ago all also am an and any anyone anything are as asked at be because been before being
    between both but by can channel chat conversation could day days did discussed do does doing done down during each
    earlier else ever every everyone few for from further get got had has have having he her here hers him his hour
    hours how however i if in into is it its itself just last later let like long made make many may me mention
    mentioned message messages might minute minutes more most much must my myself no nor not noted now of off oh ok
    okay on once one only or other our out over own people person please point question quite quoted really recent
    recently right said same say saying says second seconds seem seems seen she should since so some somebody someone
    something sorry still stated such talked talking tell than thanks that the their them themselves then there these
    they thing things this those though through time to today told too under until up us user users very was way
    we week weeks well were what when where whether which while who whom whose why will with without would wrote
    written yes yesterday yet you your yours yourself course sure think thought answer according based context
    discussion
    i'm i've i'd i'll it's that's there's you're you've he's she's they're we're don't didn't doesn't isn't wasn't
    can't couldn't won't wouldn't haven't hasn't let's
    """
_FILLER: Final = frozenset(_FILLER_WORDS.split())


def shares_something(text: str, given: str, question: str) -> bool:
    """Whether an answer rests on what was given. A yes, a no, and saying that one does not know always do."""
    own = content(_told(text)) - content(question)
    return own <= _YES_OR_NO or _has_share(own, given)


def _told(text: str) -> str:
    """What an answer claims to know."""
    return " ".join(one for one in _SENTENCE.split(_URL.sub(" ", text)) if not _REFUSAL.search(one))


def rests_on(text: str, given: str) -> bool:
    """Whether a summary is made of what was given. Unlike an answer it may not say that it does not know."""
    return _has_share(content(_URL.sub(" ", text)), given)


def _has_share(own: frozenset[str], given: str) -> bool:
    return len(own & content(given)) >= max(1.0, SHARE * len(own))


def content(text: str) -> frozenset[str]:
    """The stems, names and numbers of a text, without filler; pairs of characters where words are not set apart."""
    words = _WORD.findall(text.lower().replace("’", "'"))  # noqa: RUF001
    found = {_stem(word.removesuffix("'s")) for word in words if word not in _FILLER and not _UNSPACED.search(word)}
    for word in filter(_UNSPACED.search, words):
        found.update(word[at : at + 2] for at in range(max(1, len(word) - 1)))
    return frozenset(found)


def _stem(word: str) -> str:
    return _NUMBERS.get(word) or str(_STEMMER.stemWord(word))


# --- times, amounts and addresses ---

_FIGURES: Final = _NUMBERS | {
    "thirteen": "13", "fourteen": "14", "fifteen": "15", "sixteen": "16", "seventeen": "17", "eighteen": "18",
    "nineteen": "19", "twenty": "20", "thirty": "30", "forty": "40", "fifty": "50", "sixty": "60", "hundred": "100",
    "dozen": "12",
}  # fmt: skip
_SPELLED: Final = re.compile(rf"\b(?:{'|'.join(one for one in _FIGURES if one != 'one')})\b")
_ONE: Final = re.compile(
    r"\b(at|by|around|until|till|past|to|half|before|after|from) one\b|\bone(?= ?(?:[ap]m|o'clock)\b)"
)
_CLOCK: Final = re.compile(
    r"\bhalf (?:past )?(?P<half>\d{1,2})\b(?!:)"
    r"|\b(?P<share>quarter|5|10|20|25) (?:minutes )?(?P<side>past|to) (?P<of>\d{1,2})\b"
    r"|\b(?P<hour>\d{1,2})(?:[:h.](?P<minute>[0-5]\d))? ?(?P<noon>[ap])\.?m\b"
    r"|\b(?P<hours>\d{1,2})[:h](?P<minutes>[0-5]\d)\b"
    r"|\b(?P<oclock>\d{1,2}) ?(?:o'clock|ish|uhr|h)\b"
    r"|\b(?:at|by|until|till|around|from|before|after|since) (?P<bare>\d{1,2})(?:\.(?P<rest>[0-5]\d))?\b"
    r"(?![.,:]?\d| ?[%€£$]| (?:of|people)\b| \w+s\b)"
    r"|\b(?P<name>noon|midday|midnight)\b"
)
_AGE: Final = re.compile(
    r"\(?\b\d+ ?(?:s|m|h|d|w|secs?|seconds?|mins?|minutes?|hrs?|hours?|days?|weeks?|months?) (?:ago|earlier)\b\)?"
)
"""When something was said, which is no part of what was said."""
_NUMBER: Final = re.compile(r"\d[\d,]*(?:\.\d+)?")
_WEEKDAYS: Final = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_LONG_MONTHS: Final = "january|february|april|june|july|august|september|october|november|december"
_MONTHS: Final = "jan|feb|mar|march|apr|may|jun|jul|aug|sept?|oct|nov|dec"
_DAY: Final = re.compile(
    r"\b(?:(?P<weekday>mon|tue|wed|thu|fri)(?:s|nes|rs|r)?(?:days?)?|(?P<late>sat|sun)(?:ur)?days?"
    r"|(?:on|this|next|till|until|by) (?P<short>sat|sun))\b"
    r"|\b(?P<today>today|tonight|tonite)\b|\b(?P<next>tomorrow|tmrw|tmr)\b|\b(?P<before>yesterday)\b"
    r"|\b(?P<wide>weekend|next week)\b"
    rf"|\b(?P<month>{_LONG_MONTHS})\b|(?:\d(?:st|nd|rd|th)? (?:of )?\b(?P<after>{_MONTHS})\b|\b(?P<ahead>{_MONTHS}) \d)"
)
_PLACE: Final = re.compile(r"\b(?:at|in|on|behind|under|near|by|inside|opposite|next to|to|from)((?: [\w'-]+){1,4})")


@dataclass(frozen=True, slots=True)
class Facts:
    """The values in a text, written one way each."""

    clocks: frozenset[frozenset[int]] = frozenset()
    """Each as the minutes of a day it may mean: "half six" is 6:30 or 18:30."""
    days: frozenset[str] = frozenset()
    numbers: frozenset[str] = frozenset()
    links: frozenset[str] = frozenset()

    def __or__(self, other: Facts) -> Facts:
        return Facts(
            self.clocks | other.clocks, self.days | other.days, self.numbers | other.numbers, self.links | other.links
        )

    @property
    def hours(self) -> frozenset[str]:
        """Its times of day as they may be written without a mark of one: "nine", "19.30"."""
        every = {at for clock in self.clocks for at in clock}
        return frozenset(str(at // 60) if at % 60 == 0 else f"{at // 60}.{at % 60:02}" for at in every)

    def tells(self, clock: frozenset[int]) -> bool:
        """Whether it has this time of day."""
        return any(clock & one for one in self.clocks) or not self.numbers.isdisjoint(Facts(frozenset({clock})).hours)

    def has_numbers(self, numbers: Iterable[str]) -> bool:
        return set(numbers) <= self.numbers | self.hours


def facts_of(text: str, ts: float | None = None, tz: tzinfo = UTC) -> Facts:
    """`ts` is when it was said, for "tomorrow"."""
    links = frozenset(found.strip("<>()[].,;:!?'\"”") for found in _URL.findall(text))
    plain = _ONE.sub(r"\1 1", _URL.sub(" ", text.lower().replace("’", "'")))  # noqa: RUF001
    plain = _AGE.sub(" ", _SPELLED.sub(lambda found: _FIGURES[found[0]], plain))
    clocks = frozenset(filter(None, map(_clock, _CLOCK.finditer(plain))))
    days = frozenset(_day(found, ts, tz) for found in _DAY.finditer(plain))
    numbers = (found.rstrip(",.").replace(",", "") for found in _NUMBER.findall(_CLOCK.sub(" ", plain)))
    return Facts(clocks, days, frozenset(one.removesuffix(".00") for one in numbers), links)


def _clock(found: re.Match[str]) -> frozenset[int]:
    said = found.groupdict()
    if said["name"]:
        return frozenset({0 if said["name"] == "midnight" else 720})
    hour = int(said["half"] or said["of"] or said["hour"] or said["hours"] or said["oclock"] or said["bare"])
    minute = int(said["minute"] or said["minutes"] or said["rest"] or (30 if said["half"] else 0))
    if said["share"]:
        minute = (15 if said["share"] == "quarter" else int(said["share"])) * (1 if said["side"] == "past" else -1)
    if hour > 24:
        return frozenset()
    if said["noon"]:
        return frozenset({(hour % 12 + (12 if said["noon"] == "p" else 0)) * 60 + minute})
    halves = (0,) if hour > 12 or hour == 0 else (0, 720)
    return frozenset((hour * 60 + minute + half) % 1440 for half in halves)


def _day(found: re.Match[str], ts: float | None, tz: tzinfo) -> str:
    said = found.groupdict()
    if named := said["weekday"] or said["late"] or said["short"]:
        return named
    if month := said["month"] or said["after"] or said["ahead"]:
        return f"month {month[:3]}"
    if said["wide"]:
        return said["wide"]
    days = 1 if said["next"] else -1 if said["before"] else 0
    return found[0] if ts is None else weekday_of(ts + 86_400 * days, tz)


def weekday_of(ts: float, tz: tzinfo) -> str:
    return _WEEKDAYS[datetime.fromtimestamp(ts, tz).weekday()]


# --- what an answer has to agree with ---

_LINE: Final = re.compile(
    r"\s*(?:- )?(?P<who>[^:,()\[\]<>“”\n]{1,48}?)(?: \([^()\n]*\))?(?P<marks>(?: \[[^\]\n]*\])*): (?P<words>\S.*)"
)
_ALONE: Final = re.compile(r"standalone \((?P<who>[^()]+)\):$")
_REFERENCE: Final = re.compile(r'<reference [^>]*author="(?P<who>[^"]+)"[^>]*>(?P<words>.*)</reference>')
_QUOTE: Final = re.compile(r"[“\"]([^”\"\n]+)[”\"]")
_FIRST_PERSON: Final = re.compile(r"\b(?:i|i'm|im|i'll|ill|i've|ive|i'd|me|my|mine|we|our|us)\b", re.IGNORECASE)
_SAYS: Final = (
    "say|says|said|saying|wrote|writes|write|mention(?:s|ed)?|suggest(?:s|ed)?|told|tells|ask(?:s|ed)?|think(?:s)?|thought"
    "|propose[sd]?|recommend(?:s|ed)?|report(?:s|ed)?|announce[sd]?|confirm(?:s|ed)?|post(?:s|ed)?|note[sd]?|replie[sd]"
    "|answer(?:s|ed)|explain(?:s|ed)|agree[sd]|want(?:s|ed)|state[sd]|add(?:s|ed)|offer(?:s|ed)"
)
_CLAUSE: Final = re.compile(r"\n|(?<=[.!?”\"])\s+(?=[A-Z“\"])")
_CODE: Final = re.compile(r"```.*?(?:```|\Z)|`[^`\n]+`", re.DOTALL)
_ASKS: Final = re.compile(
    r"^\W*(?:(?:so|and|but|ok|hey|wait|btw|oh|pls|please) )*(?:who|what|when|where|why|how|which|is|are|was|were|did|do"
    r"|does|has|have|had|can|could|should|would|will|any(?:one|body)|whos|whats|wheres|hows|whens)\b",
    re.IGNORECASE,
)
_LIST_MARK: Final = re.compile(r"^\s*\d{1,2}[.)]\s", re.MULTILINE)
AGREED: Final = 0.5
"""Of an answer's own words, the share that must be in the lines that answer: the rest is phrasing, or invented."""
CLEAR: Final = 0.9
"""How likely a question must be about this conversation, by its wording, to be clearly about it."""


@dataclass(frozen=True)
class GivenLine:
    """What somebody said. People are known by their id, or by their name where only that is known."""

    author: str
    text: str
    mentions: frozenset[str] = frozenset()
    ts: float | None = None

    @cached_property
    def words(self) -> frozenset[str]:
        return content(self.text)


@dataclass(frozen=True)
class Basis:
    """What a model had for an answer."""

    question: Question
    answer: Answer
    given: str
    looked: str = ""
    """What its tool found."""
    tz: tzinfo = UTC

    @cached_property
    def people(self) -> Mapping[str, str]:
        """Everybody by every name that they have, in small letters."""
        route, asked = self.answer.route, self.question
        known = [Person(asked.asker_id, asked.asker), asked.bot, *asked.mentions, *route.named, *route.speakers]
        known += [Person(one.author_id, one.author, one.aliases) for one in self.answer.messages if not one.own]
        found: dict[str, str] = {}
        for person in known:
            for name in filter(None, (person.name, *person.aliases)):
                found.setdefault(name.casefold(), str(person.id))
        for line in _lines(self.blocks):
            found.setdefault(line.author, line.author)
        return {_short(name): person for name, person in found.items()} | found

    @cached_property
    def blocks(self) -> str:
        """What people said, without our own answer to it."""
        return f"{self.given.replace(self.answer.text, '') if self.answer.text else self.given}\n{self.looked}"

    @cached_property
    def pattern(self) -> re.Pattern[str]:
        names = sorted(filter(None, self.people), key=len, reverse=True)
        return re.compile(rf"(?<!\w)(?:{'|'.join(map(re.escape, names)) or '(?!)'})(?!\w)", re.IGNORECASE)

    def named(self, text: str) -> frozenset[str]:
        """Everybody who is named; a name that is a common word counts with a capital only."""
        found = (one[0] for one in self.pattern.finditer(text))
        sure = (one for one in found if one.lower() not in _FILLER or one[0].isupper())
        return frozenset(self.people.get(one.casefold(), one) for one in sure)

    def without_names(self, text: str) -> str:
        return self.pattern.sub(" ", text)

    @cached_property
    def asker(self) -> str:
        return str(self.question.asker_id)

    @cached_property
    def bot(self) -> str:
        return str(self.question.bot.id)

    @cached_property
    def asked_about(self) -> frozenset[str]:
        return self.named(self.question.text)

    def _said(self, message: Message) -> GivenLine:
        author = self.bot if message.own else str(message.author_id)
        mentions = self.named(message.content) | frozenset(map(str, message.mentions))
        return GivenLine(author, message.searchable, mentions - {author}, message.ts)

    @cached_property
    def sure(self) -> tuple[GivenLine, ...]:
        """The lines that answer; none where a picture or a recording does."""
        if self.answer.pointed:
            return ()
        if self.answer.route.wants is Wants.COUNT and self.answer.hits:
            return (GivenLine("", self.answer.text, ts=self.question.ts),)
        return tuple(self._said(hit.message) for hit in answering(self.answer.hits))

    @cached_property
    def beside(self) -> tuple[GivenLine, ...]:
        """What lies around them."""
        return tuple(self._said(one) for hit in answering(self.answer.hits) for one in hit.around)

    @cached_property
    def found(self) -> tuple[GivenLine, ...]:
        """Lines that the tool found to be answers."""
        return tuple(map(self._known, _lines(self.looked, "[answers]")))

    @cached_property
    def lines(self) -> tuple[GivenLine, ...]:
        """All that the model was given, and in whole what the answer rests on."""
        return (*map(self._said, self.answer.messages), *map(self._known, _lines(self.blocks)))

    def _known(self, line: GivenLine) -> GivenLine:
        author = self.people.get(line.author, line.author)
        return GivenLine(author, line.text, self.named(line.text) - {author})

    def facts(self, lines: Iterable[GivenLine]) -> Facts:
        """Of these lines and the question. "Yesterday" may also be when something was said."""
        own = facts_of(self.question.text, self.question.ts, self.tz)
        for line in lines:
            own |= facts_of(line.text, line.ts, self.tz)
            own |= Facts(days=frozenset({weekday_of(line.ts, self.tz)} if line.ts is not None else ()))
        return own


def _short(name: str) -> str:
    """The first part of a name, by which people are called: "priya" of "priya_n"."""
    first = re.split(r"[\W_\d]", name, maxsplit=1)[0]
    return first if len(first) >= 4 and first not in _FILLER else name


def _lines(block: str, mark: str = "") -> Iterator[GivenLine]:
    """The lines of a block, with the names that stand before them; the question is none of them."""
    above = ""
    for text in block.splitlines():
        alone, found = _ALONE.match(above), _REFERENCE.match(text) or _LINE.match(text)
        if found and above != f"[{QUESTION}]" and mark in (found.groupdict().get("marks") or ""):
            yield GivenLine(found["who"].strip().casefold(), found["words"])
        elif alone and text.strip() and not found and not mark:
            yield GivenLine(alone["who"].casefold(), text.strip())
        above = text.strip()


# --- who, when, how much ---


def agrees(text: str, basis: Basis) -> bool:
    """Whether an answer agrees with what the model had: with the lines that answer, if there are any, or else it claims
    nothing about the channel beyond what was found for it."""
    if not basis.answer.found and not basis.answer.threads:
        return _claims_nothing(text, basis) or any(_rests_on((line,), text, basis) for line in basis.found)
    if basis.sure:
        return any(_rests_on(lines, text, basis) for lines in (basis.sure, *((one,) for one in basis.found)))
    shares = shares_something(text, f"{basis.given}\n{basis.looked}", basis.question.text)
    return shares and _gives_as_given(text, basis)


def _rests_on(lines: Sequence[GivenLine], text: str, basis: Basis) -> bool:
    """Whether it tells what these lines say, and nothing against them."""
    checks = (_is_about, _names_them, _has_the_value)
    return all(check(lines, text, basis) for check in checks) and _gives_as_given(text, basis)


def _is_about(lines: Sequence[GivenLine], text: str, basis: Basis) -> bool:
    """It shares more with these lines than with any other that was given."""
    told, said = _told(text), " ".join(one.text for one in (*lines, *basis.beside))
    own = _own(told, basis)
    shared = len(own & content(said))
    values, known = facts_of(told), facts_of(said)
    same = shared + sum(map(known.tells, values.clocks))
    same += len(values.links & known.links) + len(values.days & known.days)
    if basis.answer.route.wants is Wants.WHO:
        same += not {one.author for one in lines}.union(*(one.mentions for one in lines)).isdisjoint(_who(told, basis))
    enough = 0 < same >= AGREED * len(own)
    return enough and same >= _most(own, basis.lines) and not _affirms_a_no(lines, text, basis)


def _own(text: str, basis: Basis) -> frozenset[str]:
    """What an answer brings beyond the question; all of it if that is nothing."""
    every = content(basis.without_names(_AGE.sub(" ", text)))
    return (every - content(basis.question.text)) or every


def _affirms_a_no(lines: Sequence[GivenLine], text: str, basis: Basis) -> bool:
    if basis.answer.route.wants is not Wants.WHETHER or not re.match(r"\W*(?:yes|yeah|yep|yup)\b", text, re.IGNORECASE):
        return False
    negated = re.compile(r"\b(?:not|no|never|nobody|cannot|cant|dont|didnt|isnt|wont)\b|n['’]t\b", re.IGNORECASE)  # noqa: RUF001
    return bool(negated.search(lines[0].text)) and not negated.search(text)


def _who(text: str, basis: Basis) -> frozenset[str]:
    """Everybody who is named; "you" is the asker, "I" the bot."""
    found = set(basis.named(text))
    if re.search(r"\byou(?:r|rself|'ve|'d|'re)?\b", text, re.IGNORECASE):
        found.add(basis.asker)
    if re.search(r"\b(?:I|my|me)\b", text):
        found.add(basis.bot)
    return frozenset(found)


def _names_them(lines: Sequence[GivenLine], text: str, basis: Basis) -> bool:
    """Whoever is asked for is named, and nobody else; so is whoever said it, if others were asked about."""
    route, authors = basis.answer.route, {line.author for line in lines}
    if route.wants is not Wants.WHO:
        speakers = {str(one.id) for one in route.speakers} if route.binds and route.wants is not Wants.COUNT else set()
        return not speakers or not authors.isdisjoint(speakers) or authors <= _who(text, basis)
    wanted = authors if route.saying else set[str]().union(*(_meant(line) for line in lines))
    allowed = authors | wanted | basis.asked_about | {basis.asker, basis.bot}
    allowed = allowed.union(*(line.mentions for line in lines))
    left = (wanted - basis.asked_about) or wanted
    return left <= _who(text, basis) and basis.named(text) <= allowed and not _is_the_asker(text, basis, wanted)


def _meant(line: GivenLine) -> frozenset[str]:
    """Whom a line is about: those it names, and its author if it speaks of "me", or names nobody."""
    speaks_of_itself = not line.mentions or _FIRST_PERSON.search(line.text)
    return line.mentions | ({line.author} if speaks_of_itself else frozenset())


def _is_the_asker(text: str, basis: Basis, wanted: Iterable[str]) -> bool:
    """Whether the asker is named as the one without being so. "Mark, it was Carol" only speaks to Mark."""
    if basis.asker in wanted:
        return False
    name = re.escape(basis.question.asker)
    spoken_to = re.compile(
        rf"^\W*(?:(?:hi|hey|hello|sorry|well)\W+)?{name}\s*[,!:]|,\s*{name}\s*[.!?]*$", re.IGNORECASE
    )
    return basis.asker in basis.named(spoken_to.sub(" ", text))


def _has_the_value(lines: Sequence[GivenLine], text: str, basis: Basis) -> bool:
    """A time, an amount, a place or an address that is asked for is the one of these lines."""
    told = _told_facts(text, lines, basis)
    known = [facts_of(line.text, line.ts, basis.tz) for line in lines]
    allowed = basis.facts((*lines, *basis.beside))
    match basis.answer.route.wants:
        case Wants.WHEN:
            has = any(_has_time(told, one) for one in known)
            return has and all(map(allowed.tells, told.clocks)) and told.days <= allowed.days
        case Wants.AMOUNT | Wants.COUNT:
            has = any(not one.numbers or one.numbers & (told.numbers | told.hours) for one in known)
            return has and allowed.has_numbers(told.numbers)
        case Wants.WHERE:
            return any(_has_place(text, line.text, basis) for line in lines)
        case Wants.LINK:
            return any(not one.links or one.links & facts_of(text).links for one in known)
    return True


def _told_facts(text: str, lines: Sequence[GivenLine], basis: Basis) -> Facts:
    """What an answer says. In words that it quotes from a line, "tomorrow" is the line's."""
    told, rest = Facts(), text
    for quote in _QUOTE.findall(text):
        source = next((line for line in lines if _squashed(quote) in _squashed(line.text)), None)
        if source is not None:
            told |= facts_of(quote, source.ts, basis.tz)
            rest = rest.replace(quote, " ")
    return told | facts_of(rest, basis.question.ts, basis.tz)


def _has_time(told: Facts, known: Facts) -> bool:
    """Of each kind that the line has, a day or a time of day, one."""
    clock = not known.clocks or any(map(told.tells, known.clocks))
    return clock and (not known.days or bool(told.days & known.days))


def _has_place(text: str, line: str, basis: Basis) -> bool:
    asked = content(basis.question.text)
    said = frozenset[str]().union(*map(content, _PLACE.findall(line))) - asked
    places = {one for one in said if not one.isdigit()}
    return not places or bool(places & content(text))


def _gives_as_given(text: str, basis: Basis) -> bool:
    """No time, number or address that the model was not given, and nobody's words given to another: of what it tells of
    those it names, no line of others has more than the lines by them or about them."""
    told = facts_of(_LIST_MARK.sub("", text))
    known = basis.facts(()) | facts_of(f"{basis.given}\n{basis.looked}")
    known |= basis.facts(basis.lines)
    facts = all(map(known.tells, told.clocks)) and known.has_numbers(told.numbers) and told.links <= known.links
    return facts and not any(_of_somebody_else(who, said, basis) for who, said in _attributed(text, basis))


def _attributed(text: str, basis: Basis) -> Iterator[tuple[frozenset[str], str]]:
    """Who is named in a clause, and who is told to have said what in it."""
    names = basis.pattern.pattern
    says = re.compile(
        rf"\b(?P<who>you|{names})(?:,[^,\n]*,)?(?: (?:also|just|then|had|has|have|once|later)){{0,2}} (?:{_SAYS})\b",
        re.IGNORECASE,
    )
    for clause in _CLAUSE.split(text):
        found = list(says.finditer(clause))
        for at, one in enumerate(found):
            end = found[at + 1].start() if at + 1 < len(found) else len(clause)
            name = one["who"]
            person = basis.asker if name.lower() == "you" else basis.people.get(name.casefold(), name)
            yield frozenset({person}), clause[one.end() : end]
        if not found and (named := basis.named(clause)):
            yield named | (_who(clause, basis) & {basis.asker}), clause


def _of_somebody_else(who: frozenset[str], said: str, basis: Basis) -> bool:
    own = _own(said, basis)
    lines = (*basis.lines, GivenLine(basis.asker, basis.question.text))
    theirs = _most(own, (line for line in lines if who & {line.author, *line.mentions}))
    return theirs < _most(own, (line for line in basis.lines if line.author not in who))


def _most(own: frozenset[str], lines: Iterable[GivenLine]) -> int:
    return max((len(own & line.words) for line in lines), default=0)


def _squashed(text: str) -> str:
    return " ".join(text.split()).casefold().strip(" .…")


def _claims_nothing(text: str, basis: Basis) -> bool:
    """Whether it admits that it does not know, or asks back. Where the wording leaves open whether the channel is meant
    at all ("code please"), it may be anything that names nobody, no time and no address."""
    prose = _CODE.sub(" ", text)
    if not _is_clearly_ours(basis):
        told = facts_of(prose)
        return not (basis.named(prose) - {basis.asker, basis.bot} or told.clocks or told.days or told.links)
    return admits(prose, basis.question.text)


def admits(text: str, question: str) -> bool:
    """Whether a text claims to know nothing: it says so, or asks back."""
    told = " ".join(one for one in _CLAUSE.split(text) if not one.rstrip().endswith("?"))
    return content(_told(told)) <= content(question) | _YES_OR_NO


def _is_clearly_ours(basis: Basis) -> bool:
    route, text = basis.answer.route, basis.question.text
    asks = "?" in text or _ASKS.match(text) is not None
    return asks or route.p >= CLEAR or route.forced or bool(route.named or route.stranger or route.time_words)
