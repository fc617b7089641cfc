"""Words of the world at large: what a question about this conversation rarely names.

Leaves: sets of folded words. They speak against a question only where nothing of the channel stands beside them;
famous names also keep "Bob Marley" from being the Bob of the channel.
"""

from __future__ import annotations

from channelmem.routing.lexicon import word_set

FAMOUS = word_set(
    """einstein shakespeare newton napoleon caesar plato socrates aristotle hitler gandhi lincoln churchill trump biden
    obama clinton putin musk bezos zuckerberg kardashian beyonce kanye drake eminem madonna elvis presley beatles
    metallica nirvana marley dylan ross twain ulrich jackson hemingway tolkien rowling orwell dickens austen wilde
    hawking darwin tesla edison curie feynman turing torvalds gates buffett mandela thatcher stalin lenin marx freud
    nietzsche kant confucius buddha mozart beethoven bach chopin picasso dali davinci michelangelo banksy warhol hanks
    pitt dicaprio cruise depp clooney streep swift sheeran styles mars mercury lennon mccartney bowie cobain hendrix
    federer nadal djokovic messi ronaldo mbappe lebron kobe tyson hamilton verstappen woods spielberg nolan tarantino
    hitchcock kubrick miyazaki potter gandalf frodo vader skywalker solo spock sherlock batman superman simpson wick
    affleck damon hathaway parks monroe hepburn snow stark wahlberg cuban wayne smith burnett kingsolver
    zuckerman rogan oprah winfrey colbert carrey murray hanna-barbera sparrow socrates descartes voltaire rousseau
    jfk hopper boleyn gogh monet rembrandt vermeer kafka tolstoy goethe orwell"""
) - word_set("woods snow stark solo parks mars mercury gates cruise potter wick styles drake")
# Surnames that are words of their own: they count only right after a first name.
SURNAMES = FAMOUS | word_set("frank woods snow stark parks gates cruise potter wick styles rock gaga perry ford bean")
MEDIA = word_set(
    """article book bible movie film episode podcast documentary docs documentation paper constitution quran lyrics
    speech interview news novel poem series manual wikipedia reddit twitter tv congress parliament press radio telly
    television youtube netflix tiktok instagram facebook trailer matrix anime textbook encyclopedia newspaper
    magazine broadcast essay bbc cnn season movies films episodes plot"""
)
WORLD = MEDIA - word_set(
    "article paper book movie film movies films news episode episodes plot poem essay press speech interview"
) | word_set(
    """moon mars space apes earth humans humanity universe dinosaurs aliens history president king queen pope war wars
    world country city planet league cup match election elections olympics oscars grammys capital population company
    government police congress parliament army empire century romans egyptians greeks vikings pyramids titanic god
    jesus battle revolution prize nobel championship finals planets ocean continent minister senate church simulation
    weather score temperature rain rained raining snow snowed renaissance holocaust scientists animals cats dogs
    birds stock stocks market bitcoin dollar euro law math physics brexit pluto nasa apollo superbowl eurovision
    covid pandemic worldwide america american americans europe european africa asia britain england france germany
    spain italy russia china japan india mexico canada brazil australia ukraine israel london berlin paris tokyo rome
    york hollywood google apple microsoft amazon netflix spacex openai nintendo sony disney marvel lakers nba nfl
    nhl fifa uefa f1 wwdc referendum treaty summit yalta nuremberg versailles vatican nato lottery ww1
    ww2 wwi wwii pompeii"""
)
# What mankind did, where "we" may be all of us.
MANKIND = word_set("discover discovered invent invented evolve evolved domesticate domesticated colonize colonise")
DEEDS = word_set(
    """won wrote written invented discovered painted directed founded composed sang played built designed created
    made ruled killed assassinated fought starred developed sculpted coined produced conquered colonized signed
    became shot drew winning leading running playing hosting directing elected nominated born died scored beat lost"""
)
LANGUAGES = word_set(
    """english german french spanish italian japanese chinese korean russian latin portuguese polish dutch turkish
    arabic hindi swedish norwegian danish finnish greek vietnamese czech hungarian ukrainian mandarin"""
)
