"""Every error that channelmem raises on purpose. Each message is one sentence that names the likely fix.

ChannelmemError
├── ConfigError            a setting is missing or invalid
│   └── TokenRefusedError        the service does not know the client's token (any more)
├── ServerError            the embedded Redis cannot be found, started or reached
├── RedisUnavailableError  Redis does not answer; `remember` queues, `ask` falls back
│   ├── CommandRefusedError      Redis refuses a command, and would refuse it again
│   ├── DamagedDataError         Redis holds something here that is not ours; waiting does not help
│   ├── DecisionDelayedError     an opt-out or "forget me" is kept here until Redis can write it
│   ├── RedisLoadingError        Redis was started and still reads its data, which takes minutes if it is large
│   ├── SearchCutShortError      a search took too long, so what it found is not all there is
│   └── ServiceUnavailableError  the service that holds the memory does not answer; the client does the same
├── RejectedError          what was sent to the service, or a removal, would be rejected again
├── RedisUnsuitableError   Redis lacks the search module, is too old, or is a cluster
├── SummariesBusyError     a channel's summaries are being updated by somebody else, or its messages change meanwhile
├── IndexMismatchError     the index was built for another model, dimension or bucket count
└── ModelError             the embedding model cannot be found, exported or loaded
"""


class ChannelmemError(Exception):
    """Base class; the command line prints its message and exits with status 1."""


class ConfigError(ChannelmemError):
    pass


class TokenRefusedError(ConfigError):
    pass


class ServerError(ChannelmemError):
    pass


class RedisUnavailableError(ChannelmemError):
    pass


class CommandRefusedError(RedisUnavailableError):
    """Who asks is told the same as by a Redis that is away; whoever sent something gives it up."""


class DamagedDataError(RedisUnavailableError):
    """A key of a wrong type, or a value that can't be read. Who asks is told the same as by a Redis that is away."""


class DecisionDelayedError(RedisUnavailableError):
    """Its message is for the person who decided, too."""


class RedisLoadingError(RedisUnavailableError):
    pass


class SearchCutShortError(RedisUnavailableError):
    pass


class ServiceUnavailableError(RedisUnavailableError):
    """To whoever uses a `Client` it is the same as a Redis that does not answer."""


class RejectedError(ChannelmemError):
    pass


class RedisUnsuitableError(ChannelmemError):
    pass


class SummariesBusyError(ChannelmemError):
    pass


class IndexMismatchError(ChannelmemError):
    pass


class UnknownSettingError(ChannelmemError):
    pass


class ModelError(ChannelmemError):
    pass
