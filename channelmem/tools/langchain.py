"""`get_channel_context` as a LangChain tool (extra: langchain)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from channelmem.errors import ConfigError
from channelmem.extras import how_to_install
from channelmem.tools.context_tool import DESCRIPTION, NAME, Arguments, complaint, look
from channelmem.types import Question

try:
    from langchain_core.tools import StructuredTool
except ImportError as error:
    raise ConfigError(f"The LangChain tool needs an extra package: {how_to_install('langchain')}") from error

if TYPE_CHECKING:
    from channelmem.interface import ChannelMemory


def langchain_tool(memory: ChannelMemory, question: Question) -> StructuredTool:
    """A tool bound to one question: it sees what the asker may see. It is asynchronous (`ainvoke`)."""

    async def get_channel_context(query: str = "", limit: int = 15, speaker: str = "", since: str = "") -> str:
        wanted = Arguments(query=query, limit=limit, speaker=speaker, since=since)
        return (await look(memory, question, wanted)).text

    return StructuredTool.from_function(
        coroutine=get_channel_context,
        name=NAME,
        description=DESCRIPTION,
        args_schema=Arguments,
        # LangChain validates the arguments itself; an invalid one becomes a sentence for the model here, too.
        handle_validation_error=complaint,
    )
