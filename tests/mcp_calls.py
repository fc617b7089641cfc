"""Calls of MCP tools in tests: the structured result, or why it was refused."""

from __future__ import annotations

from typing import Any

from mcp import Client
from mcp_types import TextContent


async def call(client: Client, tool: str, **arguments: Any) -> Any:
    result = await client.call_tool(tool, arguments)
    assert not result.is_error, result.content
    found = result.structured_content
    assert found is not None
    return found["result"] if set(found) == {"result"} else found


async def refused(client: Client, tool: str, **arguments: Any) -> str:
    result = await client.call_tool(tool, arguments)
    assert result.is_error
    (content,) = result.content
    assert isinstance(content, TextContent)
    return content.text
