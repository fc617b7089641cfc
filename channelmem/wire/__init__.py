"""The JSON of the service, as pydantic models: what the HTTP API reads and writes, and what the client sends and reads.

Ids are strings, because JavaScript rounds 64-bit integers; whole numbers are accepted too. Times are epoch seconds.
"""
