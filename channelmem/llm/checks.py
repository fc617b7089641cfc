"""Checks what a language model writes before people see it. Small models repeat the marks of our prompt, and invent. A
mark never passes, not even in pieces of a stream; an invention has hardly any of the words that the model was given,
apart from those of the question, which any answer repeats."""

from __future__ import annotations

import re
from typing import Final

import snowballstemmer

from channelmem.llm.characters import BLOCKS
from channelmem.llm.prompts import MINUTES, QUESTION, TOOL_RESULT

TAGS: Final = (*BLOCKS, TOOL_RESULT, QUESTION, *MINUTES, "contextual_references")
SECTIONS: Final = (
    "recent channel context", "recent channel activity", "reply chain", "question", "highly relevant", "relevant",
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
    told = " ".join(one for one in _SENTENCE.split(_URL.sub(" ", text)) if not _REFUSAL.search(one))
    own = _content(told) - _content(question)
    if not own or own <= _YES_OR_NO:
        return True
    return len(own & _content(given)) >= max(1.0, SHARE * len(own))


def rests_on(text: str, given: str) -> bool:
    """Whether a summary is made of what was given. Unlike an answer it may not say that it does not know."""
    own = _content(_URL.sub(" ", text))
    return len(own & _content(given)) >= max(1.0, SHARE * len(own))


def _content(text: str) -> frozenset[str]:
    """Stems, names and numbers; pairs of characters where words are not set apart."""
    words = _WORD.findall(text.lower().replace("’", "'"))  # noqa: RUF001
    found = {_stem(word.removesuffix("'s")) for word in words if word not in _FILLER and not _UNSPACED.search(word)}
    for word in filter(_UNSPACED.search, words):
        found.update(word[at : at + 2] for at in range(max(1, len(word) - 1)))
    return frozenset(found)


def _stem(word: str) -> str:
    return _NUMBERS.get(word) or str(_STEMMER.stemWord(word))
