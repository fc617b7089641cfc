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

import re
import unicodedata
from functools import lru_cache
from itertools import chain, repeat
from typing import NamedTuple

from channelmem.types import Person

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

# English words one or two letters away from a name: no typo of Brad (bread), Lester (letter) or Walter (water).
NEAR_NAMES: frozenset[str] = word_set(
    """acton address alarmed alert alerted alike alive altered amnesia angel angels angle angular annex antenna
    apron archive archived archives asteroid bags barbarian barley barrel barrels bells belly benefit berries
    berry berth bills brace braid brain brains brake brand branded bread break bridge bridges broad broadly
    broken brown brute bully butter cable calcium calling calming camera cameras candle candles candy carbon
    card cards carrot carrots carton carts carving cases catering cedar chances changes channel chapels chapter
    chapters charged charger chargers charges charity charter charters chassis cherry clause clauses clean clear
    clearer climb color comrade consort corner cotton crane cream curtain curtains daily dairy dance declare
    decline demise dense dentist descend diamond dinner dollar donated doubles dough drawn earnest easter either
    elector elevator email examine fiancee finances fired flood flora floral flour flower franchise frankly
    frantic freed freezer fried garage garden garlic gills gives gorge grain grape great green hairy hammer
    handle hands hangs hardy harvest heal heart helmet hilly hourly hurried hurry jelly jerky juice justice
    justify kettle kitchen ladder lantern laser later laurel leash leather lemon leopard lesser letter letters
    lobster locker locks lorry lucky lunch macro magma manly manner manual march margin margins marina marine
    market marking marries marry marsh marshal martial martini match matched matches mates matter meeting melon
    metal metre million mirror mister modes moist money monitor month mother motor moves muffin naming nanny
    nature needle niece nightly normal norms notice orange oven paddle paddles panel paper parcel party
    pasta patch patio patrol pattern peach pearl pears pedal pencil pepper perch petal petrol petty phone
    pizza plain plant plate plates police polls pond prima quest question race rally ramen reached reaches ready
    recall record rental repair rider risky river robbers robbery robot rocky roman romance roses rover rubbish
    ruler sadly sailor salad salmon salty sample sauce scarf scoop scout sedan serene settle seven shade
    shake shame shape sharing shave shelf shelter shelves shine shirt shone shower shown silly silver simple
    sonic spare spawn spelled stack stage stain stairs stall stalled stamp stand staples start station steam
    steel stellar stereo steward stick stove straw street studio sugar summit sunny supper swell table tables
    tablet tanks tasty tennis tents thermal ticket timer timing tiny toast token tools towel trace track tracked
    tracker tract tragedy train trash travel treat tremor truck tunnel vector version victory villa vinyl
    violent violin virgin visit visitor vocal waiter walker wallet warden warm warrant washer water weekly
    whistle wicker willing window windy winner winning winter wonder wooden yearly"""
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


# --- tokens ---


# A question is short; in a pasted text, only the beginning or the end can be one.
HEAD_CHARS, TAIL_CHARS = 600, 200
HEAD_TOKENS, TAIL_TOKENS = 70, 30
QUOTED = "\x00"

_FENCE = re.compile(r"```.*?(?:```|\Z)|`[^`\n]+`", re.DOTALL)
# A call with a string argument, or with none: print('what did bob say'), recap()
_CALL = re.compile(r"[\w.]+\(\s*(?:[\"'][^()\n]{0,300})?\)")
_QUOTED_LINE = re.compile(r"^[ \t]*>.*$", re.MULTILINE)
_PLAIN_MARKS = str.maketrans("\u2019\u2018\u02bc\u00b4\u2026", "''''.")
_QUOTE_MARKS = frozenset('"\u201c\u201e\u00ab')
_MARKUP = frozenset("`(>'\x00") | _QUOTE_MARKS
_QUOTE = re.compile(
    '"([^"\n]{1,300})"|[\u201c\u201e]([^\u201d\u201c\n]{1,300})[\u201d\u201c]|\u00ab([^\u00bb\n]{1,300})\u00bb'
    r"|(?<!\w)'([^'\n]{1,300}(?:'\w[^'\n]{0,300}){0,2})'(?!\w)"
)
_TOKEN = re.compile(
    r"<[@#:a][^<>\s]{1,60}>|https?://\S+|\x00|\d+(?:[:/.\-]\d+)+(?:[ap]m)?|tl[;:/]dr|\w+(?:['.\-]\w+)*|[^\w\s]",
    re.IGNORECASE,
)
_NOISE = frozenset("`*_~|^\\#=<>[]{}\"'%")
_TITLES = word_set("mr mrs ms dr st jr sr prof")
_ENDINGS = {"'s": "is", "'re": "are", "'ve": "have", "'d": "did", "'ll": "will", "'m": "am"}
_NEGATED = {"won't": "will", "can't": "can", "shan't": "shall", "ain't": "is"}
_TAKES_IS = frozenset("qhoiyeWgtsk")


class Token(NamedTuple):
    """`text` as written (empty for the second half of a contraction), `word` folded and without a possessive ending."""

    text: str
    word: str
    possessive: bool = False


_FULL_STOP = Token(".", ".")


def fold(text: str) -> str:
    """Lower case without accents, so that 'Zoë' and 'zoe' are the same name."""
    if text.isascii():
        return text.lower()
    spread = unicodedata.normalize("NFKD", text.casefold())
    return "".join(char for char in spread if not unicodedata.combining(char)).casefold()


def fold_word(piece: str) -> str:
    """One word, folded and still a single word: some marks decompose into a space with an accent."""
    word = fold(piece)
    return word if " " not in word else word.replace(" ", "") or piece


def read(text: str, names: frozenset[str] = frozenset()) -> list[Token]:
    """The tokens of the part of the text that is worth reading; `names` are never taken for slang."""
    if len(text) > HEAD_CHARS + TAIL_CHARS:
        text = f"{text[:HEAD_CHARS]} {text[-TAIL_CHARS:]}"
    if not text.isascii():
        text = text.translate(_PLAIN_MARKS)
    quotes: list[str] = []
    if not _MARKUP.isdisjoint(text):
        text, quotes = _without_quotes(_without_code(text))
    chunks = text.split() if len(text) <= HEAD_TOKENS + TAIL_TOKENS else _ends(text, quotes)
    # The cache looks up one argument twice as fast as two, and hardly any name is slang.
    cut = map(_tokens, chunks, repeat(names)) if names else map(_tokens, chunks)
    tokens = list(chain.from_iterable(cut))
    if quotes:
        texts = iter(quotes)
        tokens = [Token(next(texts), QUOTED) if token.word == QUOTED else token for token in tokens]
    return _without_title_marks(tokens) if "." in text else tokens


def _ends(text: str, quotes: list[str]) -> list[str]:
    """The pieces of a long text without its middle and the quotes in it."""
    pieces = _TOKEN.findall(text)
    if len(pieces) <= HEAD_TOKENS + TAIL_TOKENS:
        return pieces
    head, tail = pieces[:HEAD_TOKENS], pieces[-TAIL_TOKENS:]
    del quotes[head.count(QUOTED) : len(quotes) - tail.count(QUOTED)]
    return head + tail


def _without_title_marks(tokens: list[Token]) -> list[Token]:
    """ "Mr. Bob" does not end a sentence."""
    kept: list[Token] = []
    for token in tokens:
        if token != _FULL_STOP or not kept or kept[-1].word not in _TITLES:
            kept.append(token)
    return kept


def _without_code(text: str) -> str:
    if "`" in text:
        text = _FENCE.sub(" ", text)
    if "(" in text:
        text = _CALL.sub(" ", text)
    if ">" in text:
        text = _QUOTED_LINE.sub(" ", text)
    return text.replace(QUOTED, " ")


def _without_quotes(text: str) -> tuple[str, list[str]]:
    """The text with a placeholder for every quoted phrase, and the phrases."""
    if text.count("'") < 2 and _QUOTE_MARKS.isdisjoint(text):
        return text, []
    quotes = [next(filter(None, match.groups())) for match in _QUOTE.finditer(text)]
    return _QUOTE.sub(f" {QUOTED} ", text), quotes


@lru_cache(maxsize=16_384)
def _tokens(chunk: str, names: frozenset[str] = frozenset()) -> tuple[Token, ...]:
    """The tokens of the text between two spaces. Cached, because the same chunks come again and again."""
    return tuple(
        token
        for piece in _TOKEN.findall(chunk)
        if piece not in _NOISE and not piece.startswith("http")
        for token in _plain(piece, names)
    )


def _plain(piece: str, names: frozenset[str]) -> list[Token]:
    word = fold_word(piece)
    plain = None if word in names else EXPAND.get(word)
    if plain is None and "'" in word and word not in names:
        plain = _contraction(word)
    if plain is None:
        owner = word.removesuffix("'s")
        return [Token(piece, owner, owner is not word)]
    return [Token(piece, plain[0]), *(Token("", more) for more in plain[1:])]


def _contraction(word: str) -> tuple[str, ...] | None:
    """The words of a contraction such as "what's". Not "bob's" yet: what follows decides whether it means "is"."""
    cut = word.rfind("'")
    stem, ending = word[:cut], _ENDINGS.get(word[cut:])
    if word.endswith("n't"):
        return (_NEGATED.get(word, word[:-3]),)
    if ending == "did" and CODES.get(stem, "x") in "iyeWgts":
        ending = "would"
    if ending is None or (ending == "is" and CODES.get(stem, "x") not in _TAKES_IS):
        return None
    return (*EXPAND.get(stem, (stem,)), ending)


_EDGE_MARKS = frozenset(",.@!:;-~?\u2026")


def unaddressed(tokens: list[Token], bot: Person) -> list[Token]:
    """The tokens without the address and greeting at the beginning and punctuation at the end."""
    idle = _idle(bot)
    start, end = 0, len(tokens)
    while start < end and tokens[start].word in idle:
        start += 1
    while end > start and tokens[end - 1].word in _EDGE_MARKS:
        end -= 1
    return tokens[start:end]


def spoken(tokens: list[Token], bot: Person) -> list[str]:
    """The words of a text as far as they say something: without the bot's name, punctuation and shades of emoji."""
    left_out = _names(bot) | _EDGE_MARKS
    return [token.word for token in tokens if token.word not in left_out and not _SHADES.issuperset(token.word)]


_SHADES = frozenset("\ufe0f\u200d\U0001f3fb\U0001f3fc\U0001f3fd\U0001f3fe\U0001f3ff")


@lru_cache(maxsize=256)
def _idle(bot: Person) -> frozenset[str]:
    """What may come before a question without being part of it: the bot's names, fillers, punctuation."""
    return _EDGE_MARKS | _names(bot) | {"bot"} | {word for word, code in CODES.items() if code == "l"}


@lru_cache(maxsize=256)
def _names(bot: Person) -> frozenset[str]:
    return frozenset({fold(name) for name in (bot.name, *bot.aliases)} | {f"<@{bot.id}>", f"<@!{bot.id}>"})


_TASKS = word_set(
    """translate summarize summarise rewrite rephrase paraphrase explain correct fix proofread format convert
    define write answer solve debug sum draft improve review classify parse check spell complete continue
    make turn say repeat"""
)


def has_payload(tokens: list[Token]) -> bool:
    """Whether it is a task that brings its own material, so not for us: "summarize this article: people said ..."."""
    colon = next((i for i, token in enumerate(tokens[:-1]) if i and token.word == ":"), 0)
    if not colon:
        return False
    return tokens[0].word in _TASKS or (colon > 1 and tokens[colon - 2].word in {"this", "following", "my"})


# --- slang ---


_SLANG = """
    whats what is, wats what is, wuts what is, wat what, wut what, wot what, wht what, waht what, hwat what,
    wtf what, tf what, whos who is, hows how is, wheres where is, whens when is, whys why is, thats that is,
    whatd what did, whad what did, whod who did, wdym what do you mean, ive i have, im i am, youre you are,
    theyre they are, weve we have, youve you have, theyve they have, itd it would, hes he is, shes she is,
    didnt did, doesnt does,
    dont do, wasnt was, werent were, hasnt has, havent have, isnt is, arent are, couldnt could, u you, ya you,
    yu you, yuo you, ur your, r are, n and, ya'll yall, y'all yall, ppl people, ppls people, peeps people,
    abt about, bout about, abotu about, b4 before, yday yesterday, yest yesterday, ystrday yesterday,
    yesterdays yesterday, rn right now, atm right now, smth something, sth something, sumthin something,
    somethin something, anythin anything, any1 anyone, every1 everyone, some1 someone, sb somebody, sum1 someone,
    todays today, tonights tonight, tomorrows tomorrow,
    tmrw tomorrow, tmr tomorrow, tmw tomorrow, tomoz tomorrow, 2moro tomorrow, 2morrow tomorrow, pls please,
    plz please, plss please, plox please, pleas please, convo conversation, convos conversations, msg message,
    msgs messages, da the, teh the, hte the, dat that, taht that, tht that, dis this, gimme give me, lemme let me,
    gonna going to, wanna want to, jus just, jst just, jsut just, juts just, sed said, sez says, sayd said,
    sya say, tlak talk, hav have, ty thanks, thx thanks, thnx thanks, tysm thanks, tl;dr tldr, tl:dr tldr,
    tl/dr tldr, talkin talking, sayin saying, yappin talking, yapping talking, yap talk, yapped talked,
    arguin arguing, laughin laughing, postin posting, chattin talking, chatting talking, chatted talked,
    goin going, happenin happening, doin doing, wuz was, waz was, dem them, complainin complaining, 2day today,
    tdy today, 2nite tonight, tonite tonight, nite night, morn morning, mornin morning, arvo afternoon,
    wknd weekend, mins minutes, min minute, hrs hours, hr hour, secs seconds, sec second, wks weeks, wk week,
    yrs years, tue tuesday, tues tuesday, wed wednesday, weds wednesday, thu thursday, thur thursday,
    thurs thursday, fri friday, noone nobody, everyones everyone is, thru through, tho though, w/ with,
    disc discuss, recs recommendation, rec recommendation, qn question, ans answer, pix pictures, vid video,
    vids videos, yesturday yesterday, yestarday yesterday, tommorow tomorrow, tommorrow tomorrow, tomorow tomorrow,
    wensday wednesday, wendsday wednesday, realy really, shoulda should, coulda could, woulda would, imo opinion,
    discusion discussion, wrk work, mtg meeting, didja did you, didya did you, whaddya what do you,
    whatcha what are you, watcha what are you, wassup what is up, whatsup what is up, wazzup what is up,
    iirc remember, dafuq what, sry sorry, srry sorry, every-one everyone, any-one anyone, latst latest, lil little,
    ystd yesterday, yst yesterday, ystday yesterday,
    mssg message, befor before, bfore before, befour before
"""
_KEY_WORDS = """
    said just last talk told post says talked talking saying mentioned mention mentioning discussed discuss
    discussing decided decide agreed agree promised promise suggested suggest recommended asked asking answered
    answer replied respond responded posted shared linked brought people anyone anybody someone somebody
    everyone everybody yesterday earlier morning afternoon evening tonight weekend monday tuesday wednesday
    thursday friday saturday sunday minutes minute hours recently remember summarize summary conversation
    which agreement announced announcement suggestion decision meeting
    summarise everything
    channel message messages question explained complaining complained arguing argued laughing catch missed
    about what happened happening anything something january february september october november december august
"""
# One typo away from a key word, but real words.
_REAL_WORDS = word_set(
    """taking waking greed rely relied though meat meant agree discus peple-less poste sad old abut aked sates
    salting lats pots tole tolls talky tasking masking basking sharing hosted pasted lost cost most pot alas
    sake asker poster answers mentions suggests decides agrees promises asks talks posts messages questions yes
    pasty anyones missed mised massages massage misses lasted lash host hour day aske cath hors liked
    lined bought posed shred shard"""
)


def _slips(word: str) -> set[str]:
    """The typos of a word: neighbours swapped, a letter doubled; in longer words also a letter left out."""
    swapped = {word[:i] + word[i + 1] + word[i] + word[i + 2 :] for i in range(len(word) - 1)}
    doubled = {word[:i] + word[i] + word[i:] for i in range(len(word))}
    dropped = {word[:i] + word[i + 1 :] for i in range(1, len(word))} if len(word) > 4 else set()
    return swapped | doubled | dropped


def _expand() -> dict[str, tuple[str, ...]]:
    plain: dict[str, tuple[str, ...]] = {}
    for word in _KEY_WORDS.split():
        for slip in _slips(word) - _REAL_WORDS - CODES.keys():
            plain[slip] = (word,)
    for word in _KEY_WORDS.split():
        plain.pop(word, None)
    for entry in _SLANG.replace("\n", " ").split(","):
        slang, *words = entry.split()
        plain[slang] = tuple(words)
    return plain


EXPAND: dict[str, tuple[str, ...]] = _expand()

_CHAT_WORD = re.compile(r"[\w'\u2019/]+")


def written_out(text: str) -> str:
    """The text without slang and without typos in the words that questions are made of."""
    return _CHAT_WORD.sub(_written_out, text)


def _written_out(match: re.Match[str]) -> str:
    return " ".join(EXPAND.get(match[0].lower(), (match[0],)))
