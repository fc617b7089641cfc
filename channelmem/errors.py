"""Every error that channelmem raises on purpose. Each message is one plain sentence with the fix.

ChannelmemError
├── ConfigError            a setting is missing or wrong
├── ServerError            the embedded Redis cannot be found, started or reached
├── RedisUnavailableError  Redis does not answer (yet); `remember` queues, `ask` falls back
├── RedisUnsuitableError   Redis answers, but lacks the search module or is too old
├── IndexMismatchError     the index was made for another model, dimension or bucket count
└── ModelError             the embedding model cannot be found, exported or loaded
"""


class ChannelmemError(Exception):
    """Base of all of them: the command line prints its text and exits with 1."""


class ConfigError(ChannelmemError):
    pass


class ServerError(ChannelmemError):
    pass


class RedisUnavailableError(ChannelmemError):
    pass


class RedisUnsuitableError(ChannelmemError):
    pass


class IndexMismatchError(ChannelmemError):
    pass


class ModelError(ChannelmemError):
    pass
