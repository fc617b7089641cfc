"""The router's word classes: every word with a grammatical role or a clue gets one letter.

Leaves: `CODES` (word -> letter) and `AMBIGUOUS` (words that are also names). A question becomes a string of these
letters, and the patterns in `clauses` are ordinary regular expressions over that string: grammar instead of lists of
sentences.

    q what, which, when ...  h how  o who
    d did  D do, does  b is, are  B was, were  n been  v has, have  m can, will ...
    i I  y you, the bot  e he, she, they  W we  g people, anyone ...  N a known person  P a known person's
    M me, us, them  u my  U your  w his, their  H channel, chat ...  k here, in this channel  s something
    C say  c said  G saying  K answer, plan (verb or noun)  L message, opinion  R find, show ...  r recap, summary
    a about  f from, by  p other prepositions  t the, this  j adverbs  & and, or  l fillers
    z a time expression  Z quoted text  . sentence end  , comma  @ a mention sign  x any other word
"""

from __future__ import annotations

_REGULAR = """
    mention talk discuss ask suggest recommend propose announce argue complain explain claim react debate rant warn
    confirm remind insist vent gossip whisper shout yell respond clarify state agree disagree decide conclude laugh
    describe paste upload express declare advise congratulate curse flirt bicker elaborate chime tease volunteer
    apologize apologise whine hint blame praise thank beg bitch moan nag ramble babble blab clap giggle scream
"""
_OTHER_VERBS = """
    say said saying says,tell told telling tells,speak spoke speaking speaks,speak spoken speaking speaks,
    mean meant meaning means,write wrote writing writes,write written writing writes,send sent sending sends,
    swear swore swearing swears,think thought thinking thinks,deny denied denying denies,brag bragged bragging brags,
    reply replied replying replies,plan planned planning plans,choose chose choosing chooses,
    choose chosen choosing chooses,
    settle settled settling settles,pick picked picking picks,type typed typing types,refer referred referring refers,
    give gave giving gives,give given giving gives,
    admit admitted admitting admits,quote quoted quoting quotes,bet bet betting bets,freak freaked freaking freaks
"""
# Verb and noun have the same form; both readings are tried.
_EITHER = """
    post share link answer reply comment plan joke promise request report update message question quote vote offer ping
    text tweet dm drop tag fight
"""
_GROUPS: dict[str, str] = {
    "q": "what which when where why whatever",
    "h": "how",
    "o": "who whose whom",
    "d": "did",
    "D": "do does",
    "b": "is are am",
    "B": "was were got",
    "n": "been being",
    "v": "has have had having",
    "m": "can could should would will shall might must may cannot",
    "i": "i",
    "y": "you",
    "e": "he she they",
    "W": "we",
    "g": """people everyone everybody anyone anybody someone somebody nobody folks guys yall mods admins devs others
        guy person team members users user member mod admin boys girls gang lads dudes crew folk squad guild classmates
        teammates""",
    "M": "me us him her them myself yourself himself herself themselves ourselves",
    "u": "my mine",
    "U": "your yours",
    "w": "his their our ours theirs hers its",
    "k": "here above",
    "H": "channel chat thread conversation discussion server room group chatroom conversations discussions threads",
    "L": """messages posts comments replies response responses links url urls answers questions point points suggestion
        suggestions opinion opinions thoughts take takes arguments argument jokes meme memes pic pics picture pictures
        photo photos image images file files screenshot screenshots gif gifs video videos rants rant idea ideas
        proposal proposals plans recommendation recommendations quotes announcement announcements updates statement
        statements story complaint complaints decision decisions stance view views verdict advice excuse feedback
        explanation objection objections concern concerns remark remarks words reaction reactions snippet mentions
        quarrel quarrels dispute feud spat squabble disagreement
        doc song songs recipe requests offers promises notes note theory side request votes article invite rule
        sentence sentences""",
    "a": "about regarding re concerning",
    "f": "from by between",
    "p": "to of for with in at on into onto over as like than against toward towards during",
    "t": "the a an this that these those any some no every another",
    "s": "something anything nothing everything it stuff thing things one ones",
    "j": """just also actually even really ever already still exactly again literally all both probably
        apparently currently
        only specifically else yet always so fucking fuckin basically then too truly first initially originally never
        not either now once finally almost simply kinda sorta maybe possibly supposedly quickly personally ultimately
        eventually previously recently together each hell heck fuck there keep kept constantly suddenly somehow
        there freaking damn goddamn exact earlier overall though""",
    "&": "and or nor plus & + vs versus but",
    "R": """find show repeat search list look looking get pull dig give locate fetch recall remember check
        see know remind
        wonder wondering retrieve rephrase restate reiterate outline forgot forget scroll lemme let need want""",
    "r": """recap summary summarize summarise summaries tldr rundown gist highlights digest overview sum
        summarizing recapping context""",
    "l": """hey hi hello yo ok okay well um uh umm uhh hmm hm lol lmao lmfao rofl haha hahaha please wait
        sorry btw bro bruh
        dude man oh ah hiya sup alright yeah yep yup anyway anyways thanks omg ugh xd fam mate ayo aight buddy pal oi
        ooh huh right kindly yes excuse hold quick kk welp hehe heh pardon greetings""",
}


def word_set(text: str) -> frozenset[str]:
    """The words of a text as a set, so that word tables stay readable."""
    return frozenset(text.split())


def _conjugated() -> dict[str, str]:
    codes: dict[str, str] = {}
    for verb in _REGULAR.split():
        stem = verb.removesuffix("e")
        codes |= {verb: "C", f"{verb}s": "C", f"{stem}ed": "c", f"{stem}ing": "G"}
    for verb in _EITHER.split():
        stem = verb.removesuffix("e")
        if verb in {"plan", "drop", "tag"}:
            stem += verb[-1]
        past = {"reply": "replied", "fight": "fought"}.get(verb, f"{stem}ed")
        codes |= {past: "c", f"{stem}ing": "G", verb: "K"}
    for forms in _OTHER_VERBS.replace("\n", "").split(","):
        base, past, ing, third = forms.split()
        codes |= {ing: "G", third: "C", base: codes.get(base, "C"), past: "c"}
    return codes


def _codes() -> dict[str, str]:
    codes = _conjugated()
    for code, words in _GROUPS.items():
        for word in words.split():
            codes.setdefault(word, code)
    return {word: code for word, code in codes.items() if not word.endswith("?")} | {"meaning": "x", "thanks": "l"}


CODES: dict[str, str] = _codes()

# English words that are also names: only their position in the sentence can tell which.
AMBIGUOUS: frozenset[str] = frozenset(CODES) | word_set(
    """mark may april june august summer autumn winter spring dawn sunday will art bill rose grace hope faith joy
    pat rob drew jack frank rich guy chase hunter grant sky max ray jay penny rusty sandy olive ivy lily ruby
    pearl amber jade crystal robin victor dean duke prince king major miles carter cooper mason taylor tyler
    baker cook page cliff brook river ocean star storm angel christian eve gene happy harmony honey lane lee
    long mercy nick noble norm old pierce rain roman sage scout shade skip sue temple trace trip van ward world
    young big captain sir boss bot test guest null time day night week month year code game fire ice wolf fox
    bear cat dog bird moon sun shadow dark light red blue green black white out up down off if today yesterday
    tomorrow later soon python rust java go jordan paris london victoria austin dallas chelsea florence sydney
    china india georgia chip basil ginger violet daisy iris hazel heather fern willow ash birch reed clay flint stone
    forest glen wade royal knight bishop archer fisher miller potter porter sawyer turner piper harper scarlet coral
    raven wren dove finch phoenix nova cosmo pixel byte echo delta alpha omega trinity dusty misty stormy sonny buddy
    ace blaze ember rocky buck chuck lance gale holly laurel poppy rosemary saffron cherry candy brandy sherry pepper"""
)

_IRREGULAR = word_set(
    """gave took went made got put won lost broke bought brought found left sent ate saw met came quit sang sank ran
    began became drew drove fell felt flew forgot froze grew heard held hid hit kept knew laid led lent let lit paid
    read rode rang rose sold shot showed shut slept slid spent split stole stood stuck struck swam taught threw
    understood woke wore wound bit blew built burnt caught cut dealt dug fed fled hung hurt leaked meant sat set
    spilt spoilt spoke spun spread threw tore done gone seen taken given broken eaten drunk chosen stolen thrown
    forgotten known shown written driven fallen beaten betrayed cost did had leaked pinned backed beat bailed"""
)
NO_PAST = word_set(
    """need speed feed seed weed indeed hundred bed red shed wed breed greed bleed exceed proceed succeed embed sacred
    naked wicked called named based supposed used related advanced united limited married allowed tired bored red
    gifted talented recommended led-strip media-based crowded complicated good-natured biped tweed deed freed"""
)
NO_ING = word_set(
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
# What a group has going on: its dates, projects and errands.
AFFAIRS = word_set(
    """meeting meetings call standup session deploy deployment build release rollout migration outage incident party
    raid trip event order delivery package parcel booking reservation ticket tickets deadline schedule sprint bug pr
    merge groceries homework assignment rent payment invoice refund appointment interview dinner barbecue bbq
    potluck picnic carpool venue playlist roster signup tournament scrim practice rehearsal hike campaign budget
    raffle quiz contest giveaway bet meetup meet-up gig dates prod
    production staging website"""
)


def past(word: str) -> bool:
    """Whether an unlisted word looks like a verb in the past tense."""
    return word in _IRREGULAR or (word.endswith("ed") and len(word) > 4)
