"""Every error that channelmem raises on purpose. Each message is one sentence that names the likely fix."""


class ChannelmemError(Exception):
    """Base class; the command line prints its message and exits with status 1."""


class ConfigError(ChannelmemError):
    """A setting is missing or invalid."""


class TokenRefusedError(ConfigError):
    """The service does not know the client's token (any more)."""


class ServerError(ChannelmemError):
    """The embedded Redis cannot be found, started or reached."""


class RedisUnavailableError(ChannelmemError):
    """Redis does not answer; `remember` queues, `ask` falls back."""


class CommandRefusedError(RedisUnavailableError):
    """Redis refuses a command, and would refuse it again. Who asks is told the same as by a Redis that is away; whoever
    sent something gives it up."""


class DamagedDataError(RedisUnavailableError):
    """Redis holds something here that is not ours: a key of a wrong type, or a value that can't be read. Waiting does
    not help. Who asks is told the same as by a Redis that is away."""


class DecisionDelayedError(RedisUnavailableError):
    """An opt-out or "forget me" is kept here until Redis can write it. The message is for the person who
    decided, too."""


class RedisLoadingError(RedisUnavailableError):
    """Redis was started and still reads its data, which takes minutes if it is large."""


class SearchCutShortError(RedisUnavailableError):
    """A search took too long, so what it found is not all there is."""


class ServiceUnavailableError(RedisUnavailableError):
    """The service that holds the memory does not answer; to whoever uses a `Client` that is the same as its Redis."""


class RejectedError(ChannelmemError):
    """What was sent to the service, or a removal, would be rejected again."""


class RedisUnsuitableError(ChannelmemError):
    """Redis lacks the search module, is too old, or is a cluster."""


class SummariesBusyError(ChannelmemError):
    """A channel's summaries are being updated by somebody else, or its messages change meanwhile."""


class IndexMismatchError(ChannelmemError):
    """The index was built for another model, dimension or bucket count."""


class UnknownSettingError(ChannelmemError):
    """No such setting, or not at this level."""


class ModelError(ChannelmemError):
    """The embedding model cannot be found, exported or loaded."""
