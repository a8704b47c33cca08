"""What stops a collection as a whole. A bad rollout never does."""


class EngineError(Exception):
    """Base of the engine's own errors."""


class SourceError(EngineError):
    """The source of tasks failed, or gave another number of them than it said."""


class StuckWorkersError(EngineError):
    """Too many workers ignored their cancellation and are still running."""
