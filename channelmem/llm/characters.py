"""Characters: who the bot is when a language model speaks. In: a Markdown file with front matter. Out: a prompt.

The file's text is a prompt with placeholders. Those of the first kind (`{user_name}` ...) are short and are written
where they stand. Those of the second (`{channel_context}` ...) hold what people wrote: they go into the user's message
as marked blocks, and a pointer to the block stands in the prompt, so that no stranger's words are among the
instructions. All are put in at one pass: braces inside a value stay braces.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from channelmem.errors import ConfigError

SHIPPED: Final = Path(__file__).with_name("characters")

SHORT: Final = {
    "bot_name": "the bot's name as people see it",
    "user_name": "who asks",
    "location": "where: '#general of My Server', or 'a direct message'",
    "now": "date, time and time zone of the question",
}
BLOCKS: Final = {
    "channel_context": "the context block: ambient threads, hits, references, reply chain (docs/context.md)",
    "recent_memories": "hits that are older than the rolling buffer",
    "answer": "the answer that quotes, as the bot gives it without a language model",
}
KNOWN: Final = {**SHORT, **BLOCKS}

_FRONT: Final = re.compile(r"\A---[ \t]*\n(?P<head>.*?)^---[ \t]*(?:\n|\Z)(?P<body>.*)\Z", re.DOTALL | re.MULTILINE)
# {{name}} writes {name}; other braces, as in a JSON example, mean themselves.
_PLACEHOLDER: Final = re.compile(r"\{\{(?P<literal>\w+)\}\}|\{(?P<name>\w+)\}")


class _Head(BaseModel):
    """The front matter."""

    model_config = ConfigDict(extra="forbid")

    name: str = Field(min_length=1, max_length=80)
    model: str | None = Field(None, min_length=1)
    temperature: float | None = Field(None, ge=0, le=2)


@dataclass(frozen=True, slots=True)
class Character:
    name: str
    prompt: str
    model: str | None = None
    """Instead of CHANNELMEM_LLM_MODEL."""
    temperature: float | None = None

    @property
    def wants(self) -> frozenset[str]:
        """The placeholders that the prompt uses."""
        return frozenset(found["name"] for found in _PLACEHOLDER.finditer(self.prompt) if found["name"])

    def instructions(self, values: Mapping[str, str]) -> str:
        """The prompt with its short values; a block is pointed at."""
        return _PLACEHOLDER.sub(lambda found: _written(found, values), self.prompt)


def _written(found: re.Match[str], values: Mapping[str, str]) -> str:
    if found["literal"]:
        return f"{{{found['literal']}}}"
    return f"(see <{found['name']}> in the message)" if found["name"] in BLOCKS else values[found["name"]]


def load_characters(names: str) -> tuple[Character, ...]:
    """The characters of a comma-separated list of shipped names and paths; the first is the one that answers."""
    wanted = [name.strip() for name in names.split(",") if name.strip()]
    if not wanted:
        raise ConfigError(f"CHANNELMEM_CHARACTER names no character; {_shipped()}.")
    return tuple(load_character(_path(name)) for name in wanted)


def load_character(path: Path) -> Character:
    """Reads one file; everything that is wrong with it is one sentence that names the file."""
    try:
        text = path.read_text(encoding="utf-8").replace("\r\n", "\n")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"The character file {path} cannot be read: {error}; {_shipped()}.") from error
    found = _FRONT.match(text)
    if found is None:
        raise ConfigError(f"The character file {path} must begin with front matter: ---, name: ..., ---.")
    head = _head(path, found["head"])
    prompt = found["body"].strip()
    if not prompt:
        raise ConfigError(f"The character file {path} has no prompt below its front matter.")
    _check_placeholders(path, prompt)
    return Character(head.name, prompt, head.model, head.temperature)


def spoken_to(text: str, characters: Sequence[Character]) -> Character:
    """The character whose name begins the text ("Pirate, what did I miss?"), or the first."""
    for character in characters[1:]:
        if re.match(rf"\s*{re.escape(character.name)}\s*[,:]", text, re.IGNORECASE):
            return character
    return characters[0]


def _head(path: Path, text: str) -> _Head:
    try:
        return _Head.model_validate(yaml.safe_load(text) or {})
    except yaml.YAMLError as error:
        raise ConfigError(f"The front matter of {path} is no YAML: {' '.join(str(error).split())}.") from error
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"])) or "it"
        raise ConfigError(
            f"The front matter of {path} is wrong: {where}: {first['msg']} (known: {', '.join(_Head.model_fields)})."
        ) from error


def _check_placeholders(path: Path, prompt: str) -> None:
    used = dict.fromkeys(found["name"] for found in _PLACEHOLDER.finditer(prompt) if found["name"])
    unknown = [f"{{{name}}}" for name in used if name not in KNOWN]
    if unknown:
        known = ", ".join(f"{{{name}}}" for name in KNOWN)
        raise ConfigError(
            f"The character file {path} has unknown placeholders: {', '.join(unknown)}. Known are {known}; "
            "double braces, as in {{this}}, are written as they are."
        )


def _path(name: str) -> Path:
    is_path = name.endswith(".md") or "/" in name or "\\" in name
    return Path(name).expanduser() if is_path else SHIPPED / f"{name}.md"


def _shipped() -> str:
    return f"shipped are {', '.join(sorted(path.stem for path in SHIPPED.glob('*.md')))}, or give the path of a file"
