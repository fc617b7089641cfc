"""The client of the service: `Client`, with the methods of Memory, over HTTP."""

from channelmem.client.client import Client

__all__ = ["Client"]
