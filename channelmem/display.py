"""People's words, names and times as an answer or a context shows them, made safe.

Enters: any text, span of time or hit. Leaves: one safe line of text, how relevant a hit is, or, in a `Phrasing`, how
one answer refers to people, times and words.

What a person wrote must never have an effect: not as a line of its own (a section, a system note, somebody else's
message), not as a ping, not as formatting that swallows the rest of an answer, and not through invisible characters
(bidirectional overrides, zero-width marks, Unicode tags).

A pause between messages becomes "--- 2 hours later ---" or nothing: a marker where people paused says as much about
time as a timestamp on every line, for a fraction of the tokens.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, tzinfo
from typing import Final

import regex  # type: ignore[import-untyped]  # (it has no types; re supports neither \X nor \p)

from channelmem.durations import DAY_S, HOUR_S, MINUTE_S, WEEK_S
from channelmem.types import Hit, Message, Person, Question, Route

ELLIPSIS: Final = "…"
SOMEONE: Final = "someone"

_INVISIBLE: Final = regex.compile(
    r"[\p{Cc}\p{Cf}\p{Cs}\p{Co}\p{Cn}\U000E0100-\U000E01EF--[\u200c\u200d]]"
    # Joiners shape emoji and several scripts; next to an ASCII character they only hide something.
    r"|(?<![^\x00-\x7f])[\u200c\u200d]|[\u200c\u200d](?![^\x00-\x7f])",
    regex.VERSION1,
)
# Line and paragraph separators, and letters that look like nothing: Hangul fillers, the blank Braille cell.
_BLANK: Final = regex.compile(r"[\s\x1c-\x1f\x85\u2028\u2029\u115f\u1160\u3164\uffa0\u2800]+")
_GRAPHEME: Final = regex.compile(r"\X")
_LONGEST_GRAPHEME: Final = 32

_MARKUP: Final = re.compile(
    r"<@(?P<role>&)?!?(?P<person>\d{1,20})>|<#(?P<channel>\d{1,20})>"
    r"|<a?:(?P<emoji>\w{1,64}):\d{1,20}>|</(?P<command>[^<>:]{1,100}):\d{1,20}>"
)
_PING: Final = re.compile(r"@(?=everyone|here)|(?<=<)@(?=[!&]?\d)", re.IGNORECASE)
# What Discord treats as one piece: an escaped mark, code, a spoiler, strikethrough; else an unpaired mark.
_PIECE: Final = re.compile(
    r"\\[^0-9A-Za-z\s]|(?P<open>`+)(?!`)(?:.*?[^`](?P=open)(?!`))?"
    r"|\|\|.+?\|\||~~.+?~~|(?P<left>\|{2,}|~{2,})"
)
_BLOCK_MARK: Final = re.compile(r"\A(?:(?:>>>|[>*+-]|-?#{1,3})\s+)+")
_CURLY: Final = str.maketrans(dict.fromkeys("“”„‟❝❞〝〞", '"'))
_NAME_SYNTAX: Final = str.maketrans(dict.fromkeys(':,()[]<>{}"`|\\：，（）［］＜＞', " "))  # noqa: RUF001  (full-width twins)
_NAME_EDGES: Final = " -–—*#>=~_.!…"  # noqa: RUF001  (dashes that people type)

MINOR_S: Final = 15 * MINUTE_S

_JUST_NOW_S: Final = 10
# Each unit with its length, and the span from which it is used.
_PAUSES: Final = (("day", DAY_S, DAY_S), ("hour", HOUR_S, 2 * HOUR_S), ("minute", MINUTE_S, MINOR_S))
_SPANS: Final = (
    ("week", WEEK_S, 2 * WEEK_S), ("day", DAY_S, DAY_S), ("hour", HOUR_S, HOUR_S), ("minute", MINUTE_S, MINUTE_S),
    ("second", 1.0, 0.0),
)  # fmt: skip

HIGHLY_SIMILAR: Final = 0.55
SIMILAR: Final = 0.30
"""Cosines from which a hit is called highly relevant, or relevant."""
STRONG_EVIDENCE: Final = 0.75
EVIDENCE: Final = 0.50
MONTH: Final = "(?i:january|february|march|april|may|june|july|august|september|october|november|december)"
_DAY: Final = re.compile(r"(?:Mon|Tues|Wednes|Thurs|Fri|Satur|Sun)day|(?:the )?\d{1,2}(?:st|nd|rd|th)")
_PROPER: Final = re.compile(
    rf"\b(?:(?:mon|tues|wednes|thurs|fri|satur|sun)days?|{MONTH}|christmas|easter|halloween|thanksgiving)\b"
)
_PRONOUNS: Final = frozenset({"you", "i", "me", "we", "nobody"})

JumpUrl = Callable[[Message], str]


def flatten(text: str) -> str:
    """The text as one line without invisible characters."""
    if text.isascii() and text.isprintable():
        return " ".join(text.split())
    blank = str(_BLANK.sub(" ", text))
    return " ".join(str(_INVISIBLE.sub("", blank)).split())


def presentable(text: str) -> str:
    """What a language model wrote, as people may see it: lines stay, invisible characters go, links show their
    address."""
    lines = (str(_INVISIBLE.sub("", one.replace("\t", "    "))) for one in text.splitlines())
    return unmasked("\n".join(lines))


def unmasked(text: str) -> str:
    """The text with the address of every link in sight: "[the rules](https://example.org)" is no link any more."""
    return text.replace("](", "] (")


def named(text: str, people: Mapping[int, str] | None = None, channels: Mapping[int, str] | None = None) -> str:
    """Mentions, channels and custom emoji as people see them: @Ann, #general, :wave:."""
    if "<" not in text:
        return text
    return _MARKUP.sub(lambda found: _visible(found, people or {}, channels or {}), text)


def _visible(found: re.Match[str], people: Mapping[int, str], channels: Mapping[int, str]) -> str:
    if found["person"]:
        return "@role" if found["role"] else f"@{people.get(int(found['person']), SOMEONE)}"
    if found["channel"]:
        return f"#{channels.get(int(found['channel']), 'channel')}"
    return f":{found['emoji']}:" if found["emoji"] else f"/{found['command']}"


def cut(text: str, limit: int) -> str:
    """At most `limit` characters, ending between two visible characters, never inside an emoji."""
    if len(text) <= limit:
        return text
    edge = max(limit - 1, 0)
    # There is always a boundary between two ASCII characters of a flat text; this avoids nearly every scan.
    if text[max(edge - 1, 0) : edge + 1].isascii():
        return text[:edge].rstrip() + ELLIPSIS
    end = 0
    for found in _GRAPHEME.finditer(text, endpos=edge + _LONGEST_GRAPHEME):
        if found.end() > edge:
            break
        end = found.end()
    # A single grapheme longer than the whole limit is a stack of marks: cut it like any text.
    return text[: end or edge].rstrip() + ELLIPSIS


def line(text: str, limit: int, people: Mapping[int, str] | None = None) -> str:
    """People's words for a line of context: with names filled in, flattened and cut."""
    return cut(flatten(named(text, people)), limit)


def quoted(text: str, limit: int, people: Mapping[int, str] | None = None) -> str:
    """People's words in curly quotes for an answer: no ping, no open code or spoiler, no inner curly quote."""
    return f"“{safe(cut(flatten(named(text, people)), limit))}”"


def safe(text: str) -> str:
    """A flat text without pings, without links that hide their address, and without formatting that would reach beyond
    it."""
    calm = unmasked(text if text.isascii() else text.translate(_CURLY))
    if "@" in calm:
        calm = _PING.sub("@\u200b", calm)
    if "`" in calm and ("```" in calm or any(found["open"] == found[0] for found in _PIECE.finditer(calm))):
        calm = calm.replace("`", "'")
    return _closed(calm) if "||" in calm or "~~" in calm else calm


def _closed(text: str) -> str:
    """The text without marks that would pair with one in the next quote ("hiii~~")."""
    left = [found for found in _PIECE.finditer(text) if found["left"]]
    spoiler = next((found for found in reversed(left) if found[0] == "||"), None)
    if spoiler is not None and text[spoiler.end() :].strip("| "):
        # A cut spoiler stays a spoiler: close it rather than reveal it, and not with an escaped mark.
        text += " ||" if text.endswith("\\") else "||"
        left.remove(spoiler)
    for found in reversed(left):
        text = text[: found.start()] + "\u200b".join(found[0]) + text[found.end() :]
    return text


def name(text: str) -> str:
    """A person's name for a sentence; without a colon, since words after one look like somebody's, and without a mark
    that would turn a line beginning with it into a heading, a list or a block quote."""
    bare = _BLOCK_MARK.sub("", f"{' '.join(flatten(text).replace(':', ' ').split())} ")
    return safe(cut(bare.strip(), 40)).replace('"', "'") or SOMEONE


def plain_name(text: str) -> str:
    """A person's name for a line of context, without the marks such a line is built from."""
    bare = cut(" ".join(flatten(text).translate(_NAME_SYNTAX).split()), 40).strip(_NAME_EDGES)
    return bare or SOMEONE


def escape_xml(text: str) -> str:
    """A flat text for an element or an attribute."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace('"', "&quot;")


def marker(seconds: float) -> str | None:
    """The line between two messages; None for a pause too short to need one (or a clock that ran backwards)."""
    words = _in_units(seconds, _PAUSES)
    return f"--- {words} later ---" if words else None


def ago(seconds: float) -> str:
    """How long ago, for a sentence: "just now", "2 minutes ago", "1 hour ago", "3 days ago"."""
    recent = not math.isfinite(seconds) or seconds < _JUST_NOW_S
    return "just now" if recent else f"{span_words(seconds)} ago"


def span_words(seconds: float) -> str:
    """A span in its largest whole unit, rounded down; weeks start at two."""
    return _in_units(seconds, _SPANS) or "0 seconds"


def _in_units(seconds: float, units: Iterable[tuple[str, float, float]]) -> str:
    """Empty below the smallest unit."""
    known = math.isfinite(seconds)
    return next((counted(int(seconds // size), unit) for unit, size, least in units if known and seconds >= least), "")


def counted(count: int, noun: str, plural: str = "") -> str:
    """ "1 message", "12 messages", "1,204 messages"."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {plural or f'{noun}s'}"


def evidence(hit: Hit) -> float:
    """The share of the topic's words that the message covers, plus half the cosine."""
    return min(hit.text_score or 0.0, 1.0) + 0.5 * max(hit.similarity or 0.0, 0.0)


def relevance(hit: Hit) -> str:
    """ "[highly relevant]", "[relevant]" or nothing."""
    similarity = hit.similarity or 0.0
    if similarity >= HIGHLY_SIMILAR or evidence(hit) >= STRONG_EVIDENCE:
        return "[highly relevant]"
    return "[relevant]" if similarity >= SIMILAR or evidence(hit) >= EVIDENCE else ""


def proper(text: str) -> str:
    """With capitals for days, months and feasts, which people seldom type."""
    return _PROPER.sub(lambda found: found[0][0].upper() + found[0][1:], text)


def hit_label(hit: Hit) -> str:
    """How a hit is marked for a language model: what the answer quotes stands out from what only comes close."""
    return "[answers]" if hit.answers else relevance(hit)


def during(words: str) -> str:
    """The asker's own words for a time, inside a sentence: "on Saturday", "this morning"."""
    said = proper(safe(cut(flatten(words), 40)).lower())
    return f"on {said}" if _DAY.fullmatch(said) else said


@dataclass(frozen=True, slots=True)
class Phrasing:
    """How one answer refers to people, times and words."""

    question: Question
    route: Route
    now: float
    tz: tzinfo
    jump_url: JumpUrl | None
    people: dict[int, str]
    namesakes: frozenset[str]
    """Case-folded names shared by several of the people mentioned."""
    member: str = ""
    """The name of somebody here, for examples of what to ask."""

    def who(self, message: Message) -> str:
        if message.own:
            return "I"
        if message.author_id == self.question.asker_id:
            return "You"
        return self.called(message.author_id, message.author)

    def called(self, person_id: int, shown: str) -> str:
        known = name(shown)
        apart = f"#{person_id % 10_000:04}" if known.casefold() in self.namesakes else ""
        # Somebody named "You" must not appear to be the asker.
        return f"a member called {known}{apart}" if known.casefold() in _PRONOUNS else f"{known}{apart}"

    def speaker(self, person: Person) -> str:
        """Somebody whose words the question asks for."""
        if person.id == self.question.asker_id:
            return "you"
        return "I" if person.id and person.id == self.question.bot.id else self.called(person.id, person.name)

    def quote(self, message: Message, chars: int) -> str:
        url = self.jump_url(message) if self.jump_url else ""
        words = quoted(message.content, chars, self.people)
        return f"{words} {url}" if url else words

    def when(self, message: Message) -> str:
        return ago(self.now - message.ts)

    def bullet(self, message: Message, chars: int, lead: str = "") -> str:
        """A line of a list: who, when and their words."""
        return f"- {lead}{self.who(message)}, {self.when(message)}: {self.quote(message, chars)}"

    def topic(self) -> str:
        return safe(cut(flatten(named(self.route.topic, self.people)), 60))

    def by(self) -> str:
        """ "by Ann and you"."""
        owners = [self.speaker(person) for person in self.route.speakers]
        return f"by {listed([{'I': 'me'}.get(owner, owner) for owner in owners])}"


def clock_time(ts: float, phrasing: Phrasing) -> str:
    """The time of day, with the day unless it is today."""
    then, today = datetime.fromtimestamp(ts, phrasing.tz), datetime.fromtimestamp(phrasing.now, phrasing.tz).date()
    if then.date() == today:
        return f"{then:%H:%M}"
    if then.date() == today - timedelta(days=1):
        return f"yesterday {then:%H:%M}"
    return f"{then.day} {then:%B %H:%M}" if then.year == today.year else f"{then.day} {then:%B %Y}"


def namesakes(question: Question, route: Route, messages: Iterable[Message]) -> frozenset[str]:
    """Names that more than one of these people have; the asker is "you" and the bot is "I"."""
    told = {(message.author_id, message.author) for message in messages if not message.own}
    told |= {(person.id, person.name) for person in route.speakers}
    owners: dict[str, set[int]] = {}
    for person_id, shown in told:
        if person_id not in {question.asker_id, question.bot.id}:
            owners.setdefault(name(shown).casefold(), set()).add(person_id)
    return frozenset(shown for shown, ids in owners.items() if len(ids) > 1)


def listed(parts: Sequence[str]) -> str:
    """ "Ann, Bob and Carol"."""
    return " and ".join(filter(None, [", ".join(parts[:-1]), parts[-1]])) if parts else ""


def chosen(forms: Sequence[str], question: Question) -> str:
    """One of several ways to say the same: not always the first, but the same one for the same question."""
    return forms[(question.id ^ question.id >> 22) % len(forms)]  # a Discord id has its time above bit 22


def lower_you(who: str) -> str:
    return "you" if who == "You" else who


# --- terminal ---


# All controls but tab and line feed (they start escape sequences), and the marks that change the direction of text.
_CONTROLS = {*range(32), *range(127, 160)} - {ord("\t"), ord("\n")}
_DIRECTIONS = {0x061C, 0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A)}
_OBEYED = dict.fromkeys(_CONTROLS | _DIRECTIONS)
_SPELT_OUT = {code: f"\\u{code:04x}" for code in _OBEYED}


def visible(text: str) -> str:
    """Without the characters that a terminal would obey."""
    return text.translate(_OBEYED)


def one_line(text: str) -> str:
    """The same on one line, so that nobody forges a line of a log."""
    return visible(text.replace("\r\n", "\n")).replace("\n", "\\n")


def json_text(dumped: str) -> str:
    """JSON with those characters escaped: a reader gets all of them back."""
    return dumped.translate(_SPELT_OUT)
