"""Every error that channelmem raises on purpose. Each message is one sentence that names the likely fix.

ChannelmemError
├── ConfigError            a setting is missing or invalid
├── ServerError            the embedded Redis cannot be found, started or reached
├── RedisUnavailableError  Redis does not answer; `remember` queues, `ask` falls back
│   └── DecisionDelayedError   an opt-out or "forget me" is kept here until Redis can write it
├── RedisUnsuitableError   Redis lacks the search module, is too old, or is a cluster
├── IndexMismatchError     the index was built for another model, dimension or bucket count
└── ModelError             the embedding model cannot be found, exported or loaded
"""


class ChannelmemError(Exception):
    """Base class; the command line prints its message and exits with status 1."""


class ConfigError(ChannelmemError):
    pass


class ServerError(ChannelmemError):
    pass


class RedisUnavailableError(ChannelmemError):
    pass


class DecisionDelayedError(RedisUnavailableError):
    """Its message is for the person who decided, too."""


class RedisUnsuitableError(ChannelmemError):
    pass


class IndexMismatchError(ChannelmemError):
    pass


class UnknownSettingError(ChannelmemError):
    pass


class ModelError(ChannelmemError):
    pass
