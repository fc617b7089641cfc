"""Which unlisted words look like verbs in the past or in the continuous form, and which nouns are about talk.

Enters: the words and letters of a line. Leaves: its shape: the letters, with V for an unlisted past form, A for an
unlisted form in -ing and T for a noun about talk, so that even a question in unforeseen words has its grammar.
"""

from __future__ import annotations

from functools import lru_cache

from channelmem.routing.lexicon import word_set

_IRREGULAR = word_set(
    """gave took went made got put won lost broke bought brought found left sent ate saw met came quit sang sank ran
    began became drew drove fell felt flew forgot froze grew heard held hid hit kept knew laid led lent let lit paid
    read rode rang rose sold shot showed shut slept slid spent split stole stood stuck struck swam taught threw
    understood woke wore wound bit blew built burnt caught cut dealt dug fed fled hung hurt leaked meant sat set
    spilt spoilt spoke spun spread threw tore done gone seen taken given broken eaten drunk chosen stolen thrown
    forgotten known shown written driven fallen beaten betrayed cost did had leaked pinned backed beat bailed"""
)
_NO_PAST = word_set(
    """need speed feed seed weed indeed hundred bed red shed wed breed greed bleed exceed proceed succeed embed sacred
    naked wicked called named based supposed used related advanced united limited married allowed tired bored red
    gifted talented recommended led-strip media-based crowded complicated good-natured biped tweed deed freed"""
)
_NO_ING = word_set(
    """thing king ring morning evening spring string wing sting sling ping during nothing something anything
    everything building wedding ceiling sibling darling interesting boring wing viking beijing duckling
    pudding clothing"""
)
TALK_NOUNS = word_set(
    """message messages link links joke jokes rant screenshot screenshots poll polls vote votes argument drama meme
    memes question verdict decision consensus conclusion suggestion suggestions announcement topic topics debate
    beef options option spreadsheet excuse spoiler spoilers discussion conversation post posts comment reply
    replies proposal complaint gossip tea bet deal pics pic update updates reminder invite vibe mood points
    arguments reasons ideas choices feedback opinions fight chatter headcount takeaways convo doc pdf slides recording
    notes clip gif answer answers"""
)
# States of a person, and hardly of anything else: "is Rose mad at me".
STATES = word_set(
    """mad upset angry ok okay fine sick ill busy free online offline late gone away awake asleep done ready serious sad
    happy annoyed jealous sorry tired bored drunk pregnant joking kidding coming available single afk alive hurt
    confused pissed stressed excited worried scared"""
)
# Where a person can be: these point to a person only at the end ("is Rose in"); "rose in Lisbon" is not a person.
PLACES = word_set("in out up down home around here back still against")
# What may come before a question word that still asks something: "no idea who", "didn't catch what".
WONDERING = word_set(
    """idea curious sure clue interested unsure missed miss catch caught understand understood hear heard follow get got
    read track confused"""
)
# What a group has going on: its dates, projects and errands.
AFFAIRS = word_set(
    """meeting meetings call standup session deploy deployment build release rollout migration outage incident party
    raid trip event order delivery package parcel booking reservation ticket tickets deadline schedule sprint bug pr
    merge groceries homework assignment rent payment invoice refund appointment interview dinner barbecue bbq
    potluck picnic carpool venue playlist roster signup tournament scrim practice rehearsal hike campaign budget
    raffle quiz contest giveaway bet meetup meet-up gig dates prod
    production staging website"""
)
OUTCOMES = word_set(
    """verdict decision consensus conclusion outcome agreement plan plans vote status update updates eta poll result
    results reply replies response responses objections word progress choices options headcount tally takeaways
    takeaway items todos feeling sentiment opinion"""
)


def shape(words: list[str], letters: str) -> str:
    """The letters of a line with the grammar of its unlisted words."""
    return "".join([_letter(word) if letter == "x" else letter for word, letter in zip(words, letters, strict=True)])


def past(word: str) -> bool:
    """Whether an unlisted word looks like a verb in the past tense."""
    return word in _IRREGULAR or (word.endswith("ed") and len(word) > 4)


@lru_cache(maxsize=16_384)
def _letter(word: str) -> str:
    if word in TALK_NOUNS:
        return "T"
    if past(word) and word not in _NO_PAST:
        return "V"
    return "A" if word.endswith("ing") and len(word) > 4 and word not in _NO_ING else "x"
