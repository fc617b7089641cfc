"""Characters: the bot's persona, from a Markdown file with front matter. Short values (`{user_name}` ...) are inserted
into its prompt; blocks (`{channel_context}` ...) hold what people wrote, so they go into the user's message between
marks, and the prompt only points to them. One pass replaces all: braces inside a value stay braces."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from channelmem.errors import ConfigError
from channelmem.settings import Settings
from channelmem.types import Question

BUILT_IN: Final = Path(__file__).with_name("characters")

VALUES: Final = {
    "bot_name": "the bot's name as people see it",
    "user_name": "the name of whoever asks",
    "location": "for example '#general of My Server', or 'a direct message'",
    "now": "date, time and time zone of the question",
}
BLOCKS: Final = {
    "channel_context": "the context block: ambient threads, hits, references, reply chain (docs/context.md)",
    "recent_memories": "hits older than the rolling buffer: first those that answer, then the newest",
    "answer": (
        "the quoting answer, as the bot gives it without a language model; "
        "nothing if the question is not about the channel"
    ),
}
PLACEHOLDERS: Final = {**VALUES, **BLOCKS}

_FRONT: Final = re.compile(r"\A---[ \t]*\n(?P<head>.*?)^---[ \t]*(?:\n|\Z)(?P<body>.*)\Z", re.DOTALL | re.MULTILINE)
# {{name}} becomes {name}; other braces, as in a JSON example, stay as they are.
_PLACEHOLDER: Final = re.compile(r"\{\{(?P<literal>\w+)\}\}|\{(?P<name>\w+)\}")


class _FrontMatter(BaseModel):
    model_config = ConfigDict(extra="forbid")

    name: str = Field(min_length=1, max_length=80)
    model: str | None = Field(None, min_length=1)
    temperature: float | None = Field(None, ge=0, le=2)


@dataclass(frozen=True, slots=True)
class Character:
    name: str
    prompt: str
    model: str | None = None  # overrides CHANNELMEM_LLM_MODEL
    temperature: float | None = None

    @property
    def placeholders(self) -> frozenset[str]:
        """Those the prompt uses."""
        return frozenset(found["name"] for found in _PLACEHOLDER.finditer(self.prompt) if found["name"])

    def instructions(self, values: Mapping[str, str]) -> str:
        """The prompt with its values, and with pointers to the blocks."""
        return _PLACEHOLDER.sub(lambda found: _replacement(found, values), self.prompt)


def _replacement(found: re.Match[str], values: Mapping[str, str]) -> str:
    if found["literal"]:
        return f"{{{found['literal']}}}"
    return f"(see <{found['name']}> in the message)" if found["name"] in BLOCKS else values[found["name"]]


def load_characters(names: str) -> tuple[Character, ...]:
    """Loads a comma-separated list of built-in names and paths; the first character answers by default."""
    wanted = [name.strip() for name in names.split(",") if name.strip()]
    if not wanted:
        raise ConfigError(f"CHANNELMEM_CHARACTER is empty. {_choices()}")
    return tuple(load_character(_path(name)) for name in wanted)


def known_characters(settings: Settings) -> tuple[Character, ...]:
    """The configured characters; without a language model a faulty file is no reason to stop."""
    try:
        return load_characters(settings.character)
    except ConfigError:
        if settings.llm_model is not None:
            raise
        return ()


def load_character(path: Path) -> Character:
    """Reads one file; raises ConfigError with one sentence that names the file and the problem."""
    try:
        text = path.read_text(encoding="utf-8").replace("\r\n", "\n")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"Can't read the character file {path}: {error}. {_choices()}") from error
    found = _FRONT.match(text)
    if found is None:
        raise ConfigError(f"The character file {path} must start with front matter: ---, name: ..., ---.")
    head = _front_matter(path, found["head"])
    prompt = found["body"].strip()
    if not prompt:
        raise ConfigError(f"The character file {path} has no prompt below its front matter.")
    _check_placeholders(path, prompt)
    return Character(head.name, prompt, head.model, head.temperature)


def character_of(question: Question, characters: Sequence[Character]) -> Character:
    """The one that the adapter chose, or else the one that the text calls."""
    named = (one for one in characters if one.name == question.character)
    return next(named, None) or choose_character(question.text, characters)


def choose_character(text: str, characters: Sequence[Character]) -> Character:
    """The character whose name starts the text ("Pirate, what did I miss?"), or else the first."""
    for character in characters[1:]:
        if re.match(rf"\s*{re.escape(character.name)}\s*[,:]", text, re.IGNORECASE):
            return character
    return characters[0]


def _front_matter(path: Path, text: str) -> _FrontMatter:
    try:
        return _FrontMatter.model_validate(yaml.safe_load(text) or {})
    except yaml.YAMLError as error:
        raise ConfigError(f"The front matter of {path} is not valid YAML: {' '.join(str(error).split())}.") from error
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"])) or "it"
        known = ", ".join(_FrontMatter.model_fields)
        raise ConfigError(
            f"The front matter of {path} is invalid: {where}: {first['msg']} (known fields: {known})."
        ) from error


def _check_placeholders(path: Path, prompt: str) -> None:
    used = dict.fromkeys(found["name"] for found in _PLACEHOLDER.finditer(prompt) if found["name"])
    unknown = [f"{{{name}}}" for name in used if name not in PLACEHOLDERS]
    if unknown:
        known = ", ".join(f"{{{name}}}" for name in PLACEHOLDERS)
        raise ConfigError(
            f"The character file {path} has unknown placeholders: {', '.join(unknown)}. Known: {known}. "
            "To write literal braces, double them: {{this}}."
        )


def _path(name: str) -> Path:
    is_path = name.endswith(".md") or "/" in name or "\\" in name
    return Path(name).expanduser() if is_path else BUILT_IN / f"{name}.md"


def _choices() -> str:
    names = ", ".join(sorted(path.stem for path in BUILT_IN.glob("*.md")))
    return f"Use a built-in character ({names}) or the path of a file."
