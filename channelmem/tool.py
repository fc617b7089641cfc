"""A shorter import path for `channelmem.tools.context_tool`: `from channelmem import tool`."""

from channelmem.tools.context_tool import UNREACHABLE, anthropic_tool, call, openai_tool

__all__ = ["UNREACHABLE", "anthropic_tool", "call", "openai_tool"]
