"""Commands for some bot among what people write. In: a text, prefixes, names of commands. Out: yes or no.

A message taken for a command is lost, a command taken for a message is only noise. So a prefix alone proves nothing
(".net 9 is out", "$AAPL is up", "!important"): the word after it has to be the name of a command.
"""

from __future__ import annotations

import re
from functools import lru_cache

PREFIXES = "! / . ? $"
NAMES = (
    "play p skip stop queue q np volume loop shuffle join leave disconnect lyrics help commands ping prefix invite "
    "serverinfo userinfo whois avatar av rank level leaderboard lb daily weekly beg bal balance deposit dep "
    "withdraw pay shop inventory inv gamble slots coinflip cf roll 8ball poll remind remindme afk say embed ban "
    "unban kick mute unmute timeout warn warns warnings purge clear prune slowmode role nick setprefix giveaway "
    "reroll ticket verify translate weather urban meme imagine"
)
"""What popular bots answer to."""
ANY_NAME = "*"

_ADDRESS = r"\s*(?:<@!?\d+>[\s,:]*)?"
_NAME_LIKE = r"[a-z][a-z0-9_-]{1,31}"
_NEVER = re.compile(r"(?!)")


def is_command(text: str, prefixes: str = PREFIXES, names: str = NAMES) -> bool:
    """Whether the text starts with a prefix and the name of a command. A slash needs no known name, since nobody starts
    a sentence with one; `*` among the names extends that to all prefixes."""
    return _pattern(prefixes, names).match(text) is not None


@lru_cache(maxsize=64)
def _pattern(prefixes: str, names: str) -> re.Pattern[str]:
    marks, known = list(map(re.escape, prefixes.split())), names.replace(",", " ").split()
    named = [re.escape(name) for name in known if name != ANY_NAME]
    free = marks if ANY_NAME in known else [mark for mark in marks if mark == "/"]
    forms = [f"(?:{'|'.join(free)}){_NAME_LIKE}"] if free else []
    if marks and named:
        forms.append(f"(?:{'|'.join(marks)})(?i:{'|'.join(named)})")
    return re.compile(rf"{_ADDRESS}(?:{'|'.join(forms)})(?=\s|$)") if forms else _NEVER
