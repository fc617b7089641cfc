"""The router, a pure function: which memory a question is about, whose words, from when and about what.

Enters: the question's text and its `Scene`. Leaves: a `Route` that explains itself. No I/O, no model: tokens, class
letters, the clause they form (tokens -> letters -> clause -> topic), and a probability that the question is about this
conversation. Only what is a definition (a command, 🚫, a direct message) ends here; all else is for the evidence.
"""

from __future__ import annotations

import math
import re
from dataclasses import replace
from typing import NamedTuple

from channelmem.commands import is_command
from channelmem.routing.about import about
from channelmem.routing.clause import LIFE, Finding, Recap, bare_day, find, is_day, recap, small_talk, topic, with_wants
from channelmem.routing.people import Line, Previous, Roster, Scene, spell
from channelmem.routing.words import QUOTED, Token, has_payload, read, spoken, unaddressed, word_set, written_out
from channelmem.times.calendar import is_date
from channelmem.times.spans import Clue
from channelmem.times.when import TimeMatch
from channelmem.types import Aside, Borrowed, Kind, Mode, Person, Route, Source, That, Wants, Window

__all__ = ["SKIP_FLAG", "Previous", "Roster", "Scene", "route", "should_skip", "sources_of"]

SKIP_FLAG = "🚫"
ABOUT = 0.6
"""From this probability on, the wording alone says that a question is about this conversation."""
HOPELESS = 0.005
"""Below this, no evidence could change the decision, so nothing is looked up."""
_CALLED = re.compile("Nj*,?[qhd]")
_ANY_TIME = Window()
_BUFFER_FIRST = (Source.BUFFER, Source.ARCHIVE, Source.HISTORY)
_ARCHIVE_FIRST = (Source.ARCHIVE, Source.BUFFER, Source.HISTORY)
# Subjects that name nobody: people, who, the channel.
_ANYBODY = frozenset("gotH")
_OWNERS = frozenset("NPiu")
_POINTS = re.compile("what (?:is|was) (?:all )?(?:this|that)")
_POINTED = word_set("this that it them")
_POINTING = _POINTED | word_set("of on for me us please")
# With only the asker, the bot and one other person, "she" is that person.
_FEW = 3
_TOLD_BEFORE_S, _TOLD_AFTER_S = 7 * 86_400.0, 30 * 86_400.0
_TALKS = word_set("talk talking talked discuss discussing discussed argue arguing argued debating on laughing laugh")
_SAID_VERBS = word_set("say said saying write wrote type typed")
_NOT_WORDS = word_set(
    "that this it so just again else here there then first last all exactly too even the a an any some"
)
_REMEMBERED = word_set("when how that the my")
_I_TOLD_YOU = re.compile(r"i[jv]*c[jl]*y")
_JUST = re.compile(r"(?<=[NWyeogtsiH])j(?=[VcCBGA])|(?<=[NPWyeogtsiHx])[bv]j(?=[cGx])")

_ASIDE = {
    Aside.DIRECT: "a direct message has no channel around it",
    Aside.FLAG: "the 🚫 flag asks for an answer in isolation",
    Aside.COMMAND: "a command",
    Aside.MATERIAL: "a task that brings its own material",
    Aside.GREETING: "a greeting",
    Aside.HELP: "asks for help",
}


class _Read(NamedTuple):
    """What the words of a question say."""

    finding: Finding | None
    recap: Recap | None
    just: bool
    told_before: bool

    @property
    def about_life(self) -> bool:
        return self.finding is not None and self.finding.name in LIFE and self.finding.subject != (0, 0)

    @property
    def asks_for_topic(self) -> bool:
        """What they are talking about: the answer is what the talk is about."""
        return self.finding is not None and self.finding.verb_word in _TALKS


def should_skip(text: str) -> bool:
    """Whether the question has the flag that asks for an answer in isolation."""
    return SKIP_FLAG in text


def route(text: str, scene: Scene, force: Kind | None = None) -> Route:
    """The route of a question. `force` sets the kind; the router still decides everything else."""
    if aside := _set_aside(text, scene, force):
        return _none(aside)
    plain, said_all = written_out(text), read(text, scene.roster.slang)
    tokens = unaddressed(said_all, scene.bot)
    if force is None and ":" in text and has_payload(tokens):
        return _none(Aside.MATERIAL)
    that = _that(text, said_all, scene)
    if that is not None and that.linked:
        return _decided(_about_link(that), scene, force)
    if friendly := small_talk(spoken(said_all, scene.bot), text):
        return replace(_none(friendly), wants=Wants.HELLO)
    line = spell(tokens, scene)
    said = read_line(line)
    routed = _routed(line, said, scene)
    if not (said.just or _stands_alone(line, said.recap)) and (
        scene.previous is not None or scene.reply_to is not None
    ):
        routed = followed(line, routed, scene)
    of_words = said.finding is not None and said.finding.name not in LIFE and not line.persons
    routed = with_wants(routed, plain, of_words=of_words)
    if that is not None:
        routed = replace(routed, that=that, p=1.0, borrowed=(Borrowed.REPLY,))
    return _decided(routed, scene, force)


def _set_aside(text: str, scene: Scene, force: Kind | None) -> Aside | None:
    """Why a question is by definition not about the channel, None if it may be."""
    if scene.is_dm and force is None:
        return Aside.DIRECT
    if force is Kind.NONE or should_skip(text):
        return Aside.FLAG
    # A command begins with a sign.
    return Aside.COMMAND if not text[:1].isalnum() and is_command(text) else None


def _none(aside: Aside) -> Route:
    return Route(Kind.NONE, why=(_ASIDE.get(aside, "small talk"),), p=0.0, aside=aside)


def _decided(routed: Route, scene: Scene, force: Kind | None) -> Route:
    """The route with its kind, by wording alone, and with what to search."""
    if force is not None:
        routed = replace(routed, p=1.0, if_about=force, forced=True)
    kind = routed.if_about if routed.p >= ABOUT else Kind.NONE
    if routed.p < HOPELESS and not routed.literal:
        return replace(routed, kind=kind, sources=())
    # The recap of a topic gathers all that was said about it, and others may reach beyond the buffer, too.
    older = routed.mode is Mode.RECAP and (routed.topic or routed.window == _ANY_TIME)
    return replace(
        routed, kind=kind, sources=_ARCHIVE_FIRST if older else sources_of(routed.if_about, routed.window, scene)
    )


def sources_of(kind: Kind, window: Window, scene: Scene) -> tuple[Source, ...]:
    """The sources to try, in order. If the window reaches beyond the buffer, the archive comes first for any kind."""
    wide = window.start is not None and window.start < scene.now - scene.horizon_s
    return _ARCHIVE_FIRST if kind is Kind.MEMORY or wide else _BUFFER_FIRST


def read_line(line: Line) -> _Read:
    summary, finding = recap(line), find(line)
    if summary and finding and finding.name in LIFE:
        finding = None  # "what did I miss" asks for everything, not for what I did
    if summary and finding and _OWNERS.isdisjoint(finding.who):
        finding = None  # "what did we agree on" is the idiom itself, and "sum up what was said" asks for everything
    words = line.words[finding.start : finding.end] if finding else []
    just = "just" in words and finding is not None and _next_to_the_verb(line)
    return _Read(finding, summary, just, finding is not None and _told_before(line, finding))


def _stands_alone(line: Line, summary: Recap | None) -> bool:
    """Whether a recap needs no question before it: "summarise this" and "what is this about" do."""
    if summary is None or _POINTS.match(summary.words):
        return False
    behind = line.words[summary.places[-1][0] :]
    return _POINTED.isdisjoint(behind) or not _POINTING.issuperset(behind)


def _next_to_the_verb(line: Line) -> bool:
    """ "What did Ann just say" is recent; "who said it is just a draft" is not."""
    places = (match.end() - 1 for match in _JUST.finditer(line.letters))
    return any(line.words[i] == "just" for i in places) or "just" in line.words[:4]


def _told_before(line: Line, finding: Finding) -> bool:
    """The asker refers to what they told earlier: the seeds call that memory when no time is given."""
    words, verb = line.words, finding.verb_word
    if "remember" in words and _recalled(line):
        return True
    if finding.who != "i":
        return _I_TOLD_YOU.search(line.letters) is not None
    if verb in {"told", "tell"} or _I_TOLD_YOU.search(line.letters):
        return "you" in words[finding.end : finding.end + 2] or finding.name == "told"
    before = words[finding.start - 1] if finding.start else ""
    if finding.name == "perfect":
        return verb in {"said", "mentioned", "talked"} and before != "what"
    stated = finding.name == "told" and verb in {"said", "mentioned"} and "last" not in words
    return stated and (before != "what" or "remember" in words)


def _recalled(line: Line) -> bool:
    """ "Remember when", "remember the", "remember Ann's"."""
    at = line.words.index("remember") + 1
    return line.words[at : at + 1] != [] and (line.words[at] in _REMEMBERED or line.letters[at] == "P")


def _routed(line: Line, said: _Read, scene: Scene) -> Route:
    likely = about(line, said.finding, said.recap)
    window, kind, why, words = _time(line, said, scene)
    speakers = _speakers(line, said.finding, scene)
    what = topic(line, said.finding, said.recap, scene.asker.name)
    literal = _literal(line, said.finding, what)
    what = what or " ".join(literal)
    if said.recap and not words and is_day(what):
        what, words = "", what  # "what is the plan for saturday": lines on it rarely name the day
    elif said.recap and said.recap.plans and is_day(words):
        window, kind, words = _ANY_TIME, Kind.CHANNEL, bare_day(words)
        why = f"plans for: {words}"
    return Route(
        kind=kind,
        if_about=kind,
        mode=_mode(line, said, what),
        window=window,
        time_words=words,
        speakers=speakers,
        topic=what,
        why=(likely.why, *_form(said), why, *[f"words of {person.name}" for person in speakers]),
        to_bot=scene.bot in speakers or ("you" in line.words and scene.asker in speakers),
        p=likely.p,
        literal=literal,
        named=tuple(dict.fromkeys(_named(line, scene))),
        stranger=_stranger(line, said.finding),
        missed=said.recap is not None and said.recap.missed and window == _ANY_TIME and not what and not speakers,
    )


def _literal(line: Line, finding: Finding | None, what: str) -> tuple[str, ...]:
    """The exact words that are asked for: quoted ones, or what is left behind "said" if none of it makes a topic."""
    quotes = tuple(token.text for token in line.tokens if token.word == QUOTED)
    if quotes or what or finding is None or finding.verb_word not in _SAID_VERBS:
        return quotes
    places = range(finding.verb[1], len(line.letters))
    words = [line.tokens[i].text for i in places if line.letters[i] in "ltj" and line.words[i] not in _NOT_WORDS]
    return (" ".join(words),) if words else ()


def _form(said: _Read) -> tuple[str, ...]:
    if said.recap:
        return (f"recap: {said.recap.words}",)
    return (f"form: {said.finding.name}",) if said.finding and said.finding.name != "named" else ()


def _mode(line: Line, said: _Read, what: str) -> Mode:
    if said.recap and (not said.finding or said.recap.sums_up):
        return Mode.RECAP
    if what:
        return Mode.TOPIC
    if said.recap or said.asks_for_topic:
        return Mode.RECAP
    return Mode.FIRST if "first" in line.words else Mode.LATEST


def _stranger(line: Line, finding: Finding | None) -> str:
    if finding is None or finding.name != "stranger":
        return ""
    return " ".join(line.tokens[i].text for i in range(*finding.subject))


def _time(line: Line, said: _Read, scene: Scene) -> tuple[Window, Kind, str, str]:
    """Window, kind, reason and time words: recent words decide first, then written times, then words for the past."""
    if said.just:
        return Window(scene.now - scene.horizon_s, scene.now), Kind.CHANNEL, "recent word: just", ""
    by_clue = {each.span.clue: each for each in reversed(line.times)}
    for clue in (Clue.EXPLICIT, Clue.RECENT, Clue.PAST):
        if clue in by_clue:
            each = by_clue[clue]
            return *_said(each, said, scene), _written_words(line, each)
    return *_unsaid(said), ""


def _written_words(line: Line, each: TimeMatch) -> str:
    return " ".join(token.text for token in line.tokens[each.first : each.last] if token.text)


def _said(each: TimeMatch, said: _Read, scene: Scene) -> tuple[Window, Kind, str]:
    """The time that the words name."""
    window = Window(each.span.start, each.span.end)
    if each.span.clue is Clue.EXPLICIT:
        return _written(each, said, scene)
    if each.span.clue is Clue.PAST:
        return window, Kind.MEMORY, f"past word: {each.phrase}"
    if said.about_life and each.phrase == "recently":
        return _ANY_TIME, Kind.CHANNEL, "a recent event: may be told at any time"
    return window, Kind.CHANNEL, f"recent word: {each.phrase}"


def _unsaid(said: _Read) -> tuple[Window, Kind, str]:
    """The time meant by a question that names none."""
    if said.told_before:
        return _ANY_TIME, Kind.MEMORY, "told before, no time given"
    return _ANY_TIME, Kind.CHANNEL, "no time given: the channel first, then memory"


def _written(each: TimeMatch, said: _Read, scene: Scene) -> tuple[Window, Kind, str]:
    """A written time: one that starts within the horizon means the channel, one that starts earlier means memory."""
    span, edge = each.span, scene.now - scene.horizon_s
    start, end = span.start, span.end
    if span.nominal is not None and span.nominal >= edge and start is not None:
        start = max(start, edge)
    kind = Kind.CHANNEL if start is not None and start >= edge else Kind.MEMORY
    if said.about_life:
        start, end = _told(each, start, end, scene.now)
    return Window(start, end), kind, f"time: {each.phrase}"


def _told(each: TimeMatch, start: float | None, end: float | None, now: float) -> tuple[float | None, float | None]:
    """When people may talk about what happened then: around a date, or at any time after a distant one."""
    if is_date(each.phrase):
        early = None if start is None else start - _TOLD_BEFORE_S
        return early, None if end is None else min(end + _TOLD_AFTER_S, now)
    return start, end


def _speakers(line: Line, finding: Finding | None, scene: Scene) -> tuple[Person, ...]:
    if finding is None or _ANYBODY.issuperset(finding.who):
        return ()
    found: list[Person] = []
    for i in range(*finding.subject):
        letter = line.letters[i]
        if letter in "NP":
            found += line.persons.get(i, ())
        elif letter in "iu" or line.tokens[i].word == "me":
            found.append(scene.asker)
        elif letter in "yU":
            found += _addressed(line) or (scene.bot,)
        elif letter == "e":
            found += _meant(line, scene, i)
    return tuple(dict.fromkeys(found)) if len(found) > 1 else tuple(found)


def _addressed(line: Line) -> tuple[Person, ...]:
    """Whom "you" means if the question addresses somebody: "bob, what did you say?"."""
    return line.persons.get(0, ()) if _CALLED.match(line.letters) else ()


def _named(line: Line, scene: Scene) -> tuple[Person, ...]:
    return tuple(person for people in line.persons.values() for person in people if person != scene.bot)


def _meant(line: Line, scene: Scene, at: int) -> tuple[Person, ...]:
    """Whom "he", "she" or "they" can mean: the people named in the question, or the only candidate."""
    if "o" in line.letters[:at]:
        return ()  # "who fetches Ted, did they decide": can be anybody
    if named := _named(line, scene):
        return named
    if scene.previous is not None and scene.previous.route.speakers:
        return scene.previous.route.speakers
    if len(scene.roster.people) > _FEW:
        return ()
    return only(tuple(p for p in scene.roster.people if p.id not in {scene.asker.id, scene.bot.id}))


# --- one message ---


_THIS = r"(?:this|that|it|these|those|(?:the|this|that) (?:message|one|post|link|question))"
_END = r"(?: (?:yet|then|again|please|here|anyway|now))*"
_ABOUT_THAT = re.compile(
    rf"(?:what (?:is|was) (?:this|that)|what (?:is|was) {_THIS} (?:all )?(?:about|for|in aid of|referring to)"
    rf"|what (?:do|does|did) {_THIS} (?:even |really |actually )?(?:mean|refer to)"
    rf"|explain {_THIS}|(?:what is )?(?:the )?context(?: (?:of|for|to) {_THIS})?){_END}"
)
_SHOW_THAT = re.compile(
    rf"(?:{_THIS}|what (?:do|does|did) {_THIS} say|(?:show|quote|read|find|open)(?: me| us)? {_THIS}"
    rf"|who (?:said|wrote|posted|sent) {_THIS}|when was {_THIS} (?:said|written|posted|sent)){_END}"
)
_ANYONE = r"(?:anyone|anybody|someone|somebody|people|everyone|everybody|they)"
_ANSWER = r"(?:answer|answered|reply|replied|respond|responded)(?: to)?"
_ANSWERS_TO_THAT = re.compile(
    rf"(?:(?:(?:did|has|have) )?{_ANYONE} (?:ever |even |already )?{_ANSWER}(?: {_THIS})?|who {_ANSWER}(?: {_THIS})?"
    rf"|(?:was|is|did) {_THIS} (?:ever |even |already |get )*answered"
    rf"|(?:(?:is|was) there )?(?:an|any) (?:answers?|reply|replies)(?: (?:to|on|for) {_THIS})?"
    rf"|what (?:is|was) the (?:answer|reply)(?: to {_THIS})?"
    rf"|what did {_ANYONE} (?:say|answer|reply)(?: to)? {_THIS}){_END}"
)
_MESSAGE_LINK = re.compile(r"<?https?://\S*/channels/\S+")


def _that(text: str, tokens: list[Token], scene: Scene) -> That | None:
    """The message that the question asks about and nothing else, by a link to it or as a reply."""
    if scene.linked is None and scene.reply_to is None:
        return None
    if scene.linked is not None:
        tokens = read(_MESSAGE_LINK.sub(" this ", text))
    said = " ".join(spoken(tokens, scene.bot))
    answers = _ANSWERS_TO_THAT.fullmatch(said) is not None
    if scene.linked is not None:
        shown = answers or _ABOUT_THAT.fullmatch(said) or _SHOW_THAT.fullmatch(said)
        return That(*scene.linked, linked=True, answers=answers) if shown else None
    asks = scene.reply_to is not None and (answers or _ABOUT_THAT.fullmatch(said) is not None)
    return That(scene.channel_id, scene.reply_to, answers=answers) if asks and scene.reply_to is not None else None


def _about_link(that: That) -> Route:
    why = ("asks about the message that it links to",)
    return Route(Kind.CHANNEL, Mode.LATEST, why=why, wants=Wants.FACT, binds=False, anchors=(that.id,), that=that)


# --- follow up ---


FOLLOWS_ODDS = 1.5
"""How much the odds rise, in logits, that words which only make sense after the last question are about the same
conversation: what was asked for a second ago is a reason, but "tell me a joke about it" is still a task."""
_LEAD = re.compile(r"[jl.,]*(?P<lead>&[jl]*(?:[qh]a)?|[qh]a|)[jt]*")
_SHORT = 6
_NEW = frozenset("NPz&,.lj")
_ASKING = frozenset("qohdDbBvmRr")
_ELSE = re.compile(r"[&l.,]*(?:[qos]j|[qoh]|j|&j?)[l.,]*")
# What stands for something said before.
_REFERS = word_set("it its that this they them their those these he him his she her there ones one")
_CONTENT = frozenset("xKLCcGHNPZ")
_SAYS = frozenset("xKLRHZ")
_SIDE = r"(?:(?:and |so |what (?:did|was|came) (?:\w+ ){0,2}?(?:said |say |write )?)*)"
_THAT_ONE = r"(?: (?:that|it|this|one|message|thing|him|her|them))?"
_BEFORE = re.compile(
    rf"{_SIDE}(?:the )?(?:(?:one|message|thing) )?(?:right |just )?(?:before|previous|earlier){_THAT_ONE}"
)
_AFTER = re.compile(
    rf"{_SIDE}(?:the )?(?:(?:one|message|thing) )?(?:right |just )?(?:after|next|then|afterwards){_THAT_ONE}"
)
_ORDER = 8
"""A question with more words than this has a topic of its own: "who asked about the hut before?"."""


def followed(line: Line, route: Route, scene: Scene) -> Route:
    """The route with what it takes from the message it replies to, and from the question before."""
    previous = scene.previous
    if scene.reply_to is not None:
        route = replace(route, anchors=(scene.reply_to,))
    if previous is None or previous.route.kind is Kind.NONE:
        return _to_what_it_replies(line, route) if leans(line) else route
    if beside := _beside(line, route, previous):
        return beside
    if changed := _changed(line, route, previous.route):
        return _noting(line, route, _with_anchor(changed, previous), previous.route)
    if leans(line) or (not route.topic and refers(line)):
        filled = _with_anchor(_to_what_it_replies(line, _filled(route, previous.route)), previous)
        return _noting(line, route, filled, previous.route)
    return route


def _noting(line: Line, own: Route, found: Route, previous: Route) -> Route:
    """The route with a note of what its own words do not say."""
    pronoun = "e" in line.letters  # "he": the router has already looked whom that means
    theirs = found.speakers == previous.speakers and not line.persons
    borrowed = {
        Borrowed.REPLY: own.anchors,
        Borrowed.PEOPLE: found.speakers and theirs and (pronoun or own.speakers != found.speakers),
        Borrowed.TOPIC: previous.topic and previous.topic in found.topic and own.topic != found.topic,
        Borrowed.TIME: own.window != found.window,
    }
    return replace(found, borrowed=tuple(part for part, is_taken in borrowed.items() if is_taken))


def _to_what_it_replies(line: Line, route: Route) -> Route:
    """A reply such as "did anyone send him that list?": its own words, near the message it replies to."""
    if not route.anchors or route.mode is Mode.RECAP:
        return route
    words = " ".join(token.text for token, letter in zip(line.tokens, line.letters, strict=True) if letter in _SAYS)
    return replace(
        route, topic=route.topic or words, mode=Mode.TOPIC, follows=True, p=_likelier(route.p),
        borrowed=(Borrowed.REPLY,),
    )  # fmt: skip


def leans(line: Line) -> bool:
    """Whether it cannot be understood alone: "and what did Bob say?", "is it far?", "until when?"."""
    letters = line.letters
    if letters.startswith("&"):
        return True
    return (refers(line) and not line.persons) or _CONTENT.isdisjoint(letters)


def refers(line: Line) -> bool:
    """Whether it has a word for something said before."""
    return not _REFERS.isdisjoint(line.words)


def _with_anchor(route: Route, previous: Previous) -> Route:
    anchors = (*route.anchors, *(() if previous.hit_id is None else (previous.hit_id,)))
    return replace(route, anchors=anchors, follows=True, p=_likelier(route.p))


def _likelier(p: float) -> float:
    odds = math.exp(FOLLOWS_ODDS) * p / max(1.0 - p, 1e-6)
    return odds / (1.0 + odds)


def _beside(line: Line, route: Route, previous: Previous) -> Route | None:
    """ "And before that?": the messages on one side of the last answer, by the same people."""
    text, asked = " ".join(line.words), previous.route
    if previous.hit_ts is None or len(line.words) > _ORDER:
        return None
    if _BEFORE.fullmatch(text):
        window, mode = Window(None, previous.hit_ts - 0.001), Mode.LATEST
    elif _AFTER.fullmatch(text):
        window, mode = Window(previous.hit_ts + 0.001, None), Mode.FIRST
    else:
        return None
    speakers = route.speakers or asked.speakers
    why = ("next to the last answer: " + text, *(f"words of {person.name}" for person in speakers))
    return replace(
        asked, mode=mode, window=window, speakers=speakers, topic="", time_words="", literal=(), why=why, p=1.0,
        binds=True, if_about=Kind.CHANNEL,
        borrowed=(Borrowed.ANSWER, *(() if route.speakers or not speakers else (Borrowed.PEOPLE,))),
    )  # fmt: skip


def _changed(line: Line, route: Route, previous: Route) -> Route | None:
    """The question before with new people, another time or another topic: "and Bob?", "what about yesterday?"."""
    letters = line.letters
    if _ELSE.fullmatch(letters):
        return replace(previous, why=("continues the previous question", *previous.why))
    match = _LEAD.match(letters)
    rest = letters[match.end() :] if match else ""
    led = bool(match and match["lead"])
    if not rest or len(rest.strip("l.,")) > _SHORT or not (led or set(rest) <= _NEW) or set(rest) & _ASKING:
        return None
    return _with_new(line, len(letters) - len(rest), route, previous)


def _with_new(line: Line, first: int, route: Route, previous: Route) -> Route:
    people = tuple(dict.fromkeys(p for i, found in line.persons.items() if i >= first for p in found))
    topic = " ".join(
        token.text
        for token, letter in zip(line.tokens[first:], line.letters[first:], strict=True)
        if letter not in "NPzlj&.,@ap"
    )
    timed = route if line.times else previous
    return replace(
        previous,
        speakers=people or previous.speakers,
        topic=topic or previous.topic,
        window=timed.window,
        time_words=timed.time_words,
        if_about=timed.if_about,
        mode=Mode.TOPIC if topic else previous.mode,
        why=("follows the previous question: " + " ".join(line.words), *(f"words of {p.name}" for p in people)),
        p=route.p,
        anchors=route.anchors,
    )


def _filled(route: Route, previous: Route) -> Route:
    """A full question's route, with the topic, the people and the window it leaves out."""
    inherits = route.window == Window()
    return replace(
        route,
        topic=" ".join(filter(None, (route.topic, previous.topic))) if not _same(route, previous) else previous.topic,
        window=previous.window if inherits and not previous.missed else route.window,
        time_words=previous.time_words if inherits else route.time_words,
        if_about=previous.if_about if inherits else route.if_about,
        mode=Mode.TOPIC if route.topic or previous.topic else route.mode,
    )


def _same(route: Route, previous: Route) -> bool:
    return not route.topic or route.topic.casefold() in previous.topic.casefold()


def only(people: tuple[Person, ...]) -> tuple[Person, ...]:
    """Whom "he" or "she" means: somebody only if there is just one candidate."""
    return people if len(people) == 1 else ()
