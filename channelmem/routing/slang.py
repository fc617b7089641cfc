"""Chat slang, contractions without an apostrophe and typos, as the plain words they stand for.

Leaves: `EXPAND` (what is written -> plain words). Typos are derived from the words that decide a route: neighbours
swapped, a letter doubled or left out; real words are left alone.
"""

from __future__ import annotations

from channelmem.routing.lexicon import CODES, word_set

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
