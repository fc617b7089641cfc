"""What a language model was given for one answer. In: the blocks of its prompt and the results of its tool. Out:
whether an answer rests on them, and whether they still stand.

Writing takes seconds. Meanwhile a message may be deleted, edited or cleared, or its author may opt out; an answer that
was made of it must not be shown then.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from channelmem.errors import RedisUnavailableError
from channelmem.llm.checks import shares_something
from channelmem.llm.prompts import in_isolation
from channelmem.memory import Memory
from channelmem.types import Answer, Kind, Origin, Question, Source


@dataclass(frozen=True, slots=True)
class Given:
    question: Question
    answer: Answer
    texts: list[str] = field(default_factory=list)
    sources: set[Origin] = field(default_factory=set)
    """The messages it is made of, as far as they can be looked up again."""

    @classmethod
    async def of(cls, question: Question, answer: Answer, text: str, memory: Memory) -> Given:
        # What is quoted counts even if it went before the model began: the quoting answer is part of the prompt.
        given = cls(question, answer, sources=set(answer.origins) if _is_stored(answer) else set())
        await given.add(text, memory)
        return given

    async def add(self, text: str, memory: Memory) -> None:
        if text.strip():
            self.texts.append(text)
        try:
            self.sources.update(await memory.standing(self.question, self.answer))
        except RedisUnavailableError:
            return  # then it comes from the platform's history, which nothing can be compared with

    def grounds(self, text: str) -> bool:
        """Whether an answer rests on this. It need not where the question is not about the channel, or where the
        character is given nothing of it."""
        free = in_isolation(self.question) or self.answer.route.kind is Kind.NONE or not self.texts
        return free or shares_something(text, "\n".join(self.texts), self.question.text)

    async def stands(self, memory: Memory) -> bool:
        """Whether all of it is still visible and unchanged; RedisUnavailableError if that can't be found out."""
        return not self.sources or self.sources <= await memory.standing(self.question, self.answer)


def _is_stored(answer: Answer) -> bool:
    return bool(answer.tried) and answer.tried[-1].source is not Source.HISTORY
