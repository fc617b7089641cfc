"""The router's word classes: every word that carries grammar or a clue gets one letter.

Leaves: `CODES` (word -> letter), `EXPAND` (contractions, chat slang and common slips -> plain words) and `AMBIGUOUS`
(words that are also names). A question becomes a string of these letters, and the patterns in `clues`
are ordinary regular expressions over that string: grammar instead of lists of sentences.

    q what, which, when ...  h how  o who    d did  D do, does  b is, are  B was, were  n been  v has, have  m can, will ...
    i I  y you, the bot  e he, she, they  W we  g people, anyone ...  N a known person  P a known person's
    M me, us, them  u my  U your  w his, their    H channel, chat ...  k here, in this channel    s something, it
    C say  c said  G saying    K answer, plan (verb or noun)  L message, opinion (noun)    R find, show ...  r recap, summary
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
    reply replied replying replies,plan planned planning plans,choose chose choosing chooses,choose chosen choosing chooses,
    settle settled settling settles,pick picked picking picks,type typed typing types,refer referred referring refers,
    admit admitted admitting admits,quote quoted quoting quotes,bet bet betting bets,freak freaked freaking freaks
"""
# Verb and noun in one form; both readings are tried.
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
        team members users user member mod admin boys girls gang lads dudes crew folk""",
    "M": "me us him her them myself yourself himself herself themselves ourselves",
    "u": "my mine",
    "U": "your yours",
    "w": "his their our ours theirs hers its",
    "k": "here",
    "H": "channel chat thread conversation discussion server room group chatroom conversations discussions threads",
    "L": """messages posts comments replies response responses links url urls answers questions point points suggestion
        suggestions opinion opinions thoughts take takes arguments argument jokes meme memes pic pics picture pictures
        photo photos image images file files screenshot screenshots gif gifs video videos rants rant idea ideas
        proposal proposals plans recommendation recommendations quotes announcement announcements updates statement
        statements story complaint complaints decision decisions stance view views verdict advice excuse feedback
        explanation objection objections concern concerns remark remarks words reaction reactions snippet mentions
        doc song songs recipe requests offers promises notes note theory side request votes article invite rule""",
    "a": "about regarding re concerning",
    "f": "from by between",
    "p": "to of for with in at on into onto over as like than against toward towards during",
    "t": "the a an this that these those any some no every another",
    "s": "something anything nothing everything it stuff thing things one ones",
    "j": """just also actually even really ever already still exactly again literally all both probably apparently currently
        only specifically else yet always so fucking fuckin basically then too truly first initially originally never
        not either now once finally almost simply kinda sorta maybe possibly supposedly quickly personally ultimately
        eventually previously recently together each hell heck fuck there keep kept constantly suddenly somehow
        there freaking damn goddamn exact earlier overall though""",
    "&": "and or nor plus & +",
    "R": """find show repeat search list look looking get pull dig give locate fetch recall remember check see know remind
        wonder wondering retrieve rephrase restate reiterate outline forgot forget scroll lemme let need want""",
    "r": "recap summary summarize summarise summaries tldr rundown gist highlights digest overview sum summarizing recapping",
    "l": """hey hi hello yo ok okay well um uh umm uhh hmm hm lol lmao lmfao rofl haha hahaha please wait sorry btw bro bruh
        dude man oh ah hiya sup alright yeah yep yup anyway anyways thanks omg ugh xd fam mate ayo aight buddy pal oi
        ooh huh right kindly yes excuse hold quick kk welp hehe heh pardon greetings""",
}
_EXPAND = """
    whats what is,wats what is,wuts what is,wat what,wut what,wot what,wht what,waht what,hwat what,wtf what,tf what,
    whos who is,hows how is,wheres where is,whens when is,whys why is,thats that is,whatd what did,whod who did,wdym what do you mean,
    ive i have,im i am,youre you are,theyre they are,weve we have,youve you have,theyve they have,itd it would,hes he is,shes she is,
    didnt did,doesnt does,dont do,wasnt was,werent were,hasnt has,havent have,isnt is,arent are,couldnt could,
    u you,ya you,yu you,yuo you,ur your,r are,n and,ya'll yall,y'all yall,ppl people,ppls people,peeps people,abt about,bout about,
    abotu about,b4 before,yday yesterday,yest yesterday,ystrday yesterday,yesterdays yesterday,rn right now,atm right now,
    smth something,sth something,sumthin something,somethin something,anythin anything,any1 anyone,every1 everyone,some1 someone,
    sb somebody,sum1 someone,tmrw tomorrow,tmr tomorrow,tmw tomorrow,tomoz tomorrow,2moro tomorrow,2morrow tomorrow,
    pls please,plz please,plss please,plox please,pleas please,convo conversation,convos conversations,msg message,msgs messages,
    da the,teh the,hte the,dat that,taht that,tht that,dis this,gimme give me,lemme let me,gonna going to,wanna want to,
    jus just,jst just,jsut just,juts just,sed said,sez says,sayd said,sya say,tlak talk,hav have,ty thanks,thx thanks,thnx thanks,tysm thanks,
    tl;dr tldr,tl:dr tldr,tl/dr tldr,talkin talking,sayin saying,yappin talking,yapping talking,yap talk,yapped talked,arguin arguing,
    laughin laughing,postin posting,chattin talking,chatting talking,chatted talked,goin going,happenin happening,doin doing,wuz was,waz was,dem them,
    complainin complaining,2day today,tdy today,2nite tonight,tonite tonight,nite night,morn morning,mornin morning,arvo afternoon,
    wknd weekend,mins minutes,min minute,hrs hours,hr hour,secs seconds,sec second,wks weeks,wk week,yrs years,tue tuesday,tues tuesday,
    wed wednesday,weds wednesday,thu thursday,thur thursday,thurs thursday,fri friday,noone nobody,everyones everyone is,
    thru through,tho though,w/ with,disc discuss,recs recommendation,rec recommendation,qn question,ans answer,pix pictures,vid video,vids videos,
    yesturday yesterday,yestarday yesterday,tommorow tomorrow,tommorrow tomorrow,tomorow tomorrow,wensday wednesday,wendsday wednesday,
    realy really,shoulda should,coulda could,woulda would,imo opinion,discusion discussion,wrk work,mtg meeting,didja did you,didya did you,
    whaddya what do you,whatcha what are you,watcha what are you,wassup what is up,whatsup what is up,wazzup what is up,
    iirc remember,dafuq what,sry sorry,srry sorry,every-one everyone,any-one anyone,latst latest,mssg message
"""
_KEY_WORDS = """
    said just last talk told post says talked talking saying mentioned mention mentioning discussed discuss discussing decided
    decide agreed agree promised promise suggested suggest recommended asked asking answered answer replied respond responded
    posted shared linked brought people anyone anybody someone somebody everyone everybody yesterday earlier morning
    afternoon evening tonight weekend monday tuesday wednesday thursday friday saturday sunday minutes minute hours
    recently remember summarize summary conversation channel message messages question explained complaining complained
    arguing argued laughing catch missed about what happened happening anything something january february september
    october november december august
"""
# A slip away from a key word, but words of their own.
_REAL_WORDS = frozenset(
    [
        "taking",
        "waking",
        "greed",
        "rely",
        "relied",
        "though",
        "meat",
        "meant",
        "agree",
        "discus",
        "peple-less",
        "poste",
        "sad",
        "old",
        "abut",
        "aked",
        "sates",
        "salting",
        "lats",
        "pots",
        "tole",
        "tolls",
        "talky",
        "tasking",
        "masking",
        "basking",
        "sharing",
        "hosted",
        "pasted",
        "lost",
        "cost",
        "most",
        "pot",
        "alas",
        "sake",
        "asker",
        "poster",
        "answers",
        "mentions",
        "suggests",
        "decides",
        "agrees",
        "promises",
        "asks",
        "talks",
        "posts",
        "messages",
        "questions",
        "yes",
        "pasty",
        "anyones",
        "missed",
        "mised",
        "massages",
        "massage",
        "misses",
        "lasted",
        "lash",
        "host",
        "hour",
        "day",
        "aske",
        "cath",
        "hors",
    ]
)


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
    return {word: code for word, code in codes.items() if not word.endswith("?")} | {"meaning": "x"}


def _slips(word: str) -> set[str]:
    """What fingers make of a word: neighbours swapped, a letter doubled; in longer words a letter left out."""
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
    for entry in _EXPAND.replace("\n", "").split(","):
        slang, *words = entry.split()
        plain[slang] = tuple(words)
    return plain


CODES: dict[str, str] = _codes()
EXPAND: dict[str, tuple[str, ...]] = _expand()

# English words that are also somebody's name: only their place in the sentence can tell.
AMBIGUOUS: frozenset[str] = frozenset(CODES) | frozenset(
    [
        "mark",
        "may",
        "april",
        "june",
        "august",
        "summer",
        "autumn",
        "winter",
        "spring",
        "dawn",
        "sunday",
        "will",
        "art",
        "bill",
        "rose",
        "grace",
        "hope",
        "faith",
        "joy",
        "pat",
        "rob",
        "drew",
        "jack",
        "frank",
        "rich",
        "guy",
        "chase",
        "hunter",
        "grant",
        "sky",
        "max",
        "ray",
        "jay",
        "penny",
        "rusty",
        "sandy",
        "olive",
        "ivy",
        "lily",
        "ruby",
        "pearl",
        "amber",
        "jade",
        "crystal",
        "robin",
        "victor",
        "dean",
        "duke",
        "prince",
        "king",
        "major",
        "miles",
        "carter",
        "cooper",
        "mason",
        "taylor",
        "tyler",
        "baker",
        "cook",
        "page",
        "cliff",
        "brook",
        "river",
        "ocean",
        "star",
        "storm",
        "angel",
        "christian",
        "eve",
        "gene",
        "happy",
        "harmony",
        "honey",
        "lane",
        "lee",
        "long",
        "mercy",
        "nick",
        "noble",
        "norm",
        "old",
        "pierce",
        "rain",
        "roman",
        "sage",
        "scout",
        "shade",
        "skip",
        "sue",
        "temple",
        "trace",
        "trip",
        "van",
        "ward",
        "world",
        "young",
        "big",
        "captain",
        "sir",
        "boss",
        "bot",
        "test",
        "guest",
        "null",
        "time",
        "day",
        "night",
        "week",
        "month",
        "year",
        "code",
        "game",
        "fire",
        "ice",
        "wolf",
        "fox",
        "bear",
        "cat",
        "dog",
        "bird",
        "moon",
        "sun",
        "shadow",
        "dark",
        "light",
        "red",
        "blue",
        "green",
        "black",
        "white",
        "out",
        "up",
        "down",
        "off",
        "if",
        "today",
        "yesterday",
        "tomorrow",
        "later",
        "soon",
        "python",
        "rust",
        "java",
        "go",
        "jordan",
        "paris",
        "london",
        "victoria",
        "austin",
        "dallas",
        "chelsea",
        "florence",
        "sydney",
        "china",
        "india",
        "georgia",
    ]
)
