"""What can go wrong with a call in an isolated worker, told apart by whose doing it is.

The function's own doing: `CallFailedError` (it raised) and `CpuTimeExceededError` (it computed for
longer than it was allowed). Anybody's doing: `CallTimeoutError` (no answer in time; a machine
that is too busy looks the same) and `WorkerDiedError`. Ours or the machine's: `WorkerStartError`,
`NoFreeWorkerError`. The caller's: `ArgumentsError`, `WorkersClosedError`.

These are plain exceptions: a server attributes them to the boundary that it serves.
"""


class IsolationError(Exception):
    """Base of everything that a call in an isolated worker raises."""


class ArgumentsError(IsolationError):
    """The arguments cannot be sent to another process."""


class CallFailedError(IsolationError):
    """The function raised; its worker lives on."""

    def __init__(self, function: str, error_type: str, error_message: str, traceback: str) -> None:
        super().__init__(f"{function} raised {error_type}: {error_message}\n{traceback}".rstrip())
        self.error_type = error_type
        self.error_message = error_message
        self.traceback = traceback


class CallTimeoutError(IsolationError):
    """The call gave no answer in time, and its worker was killed."""


class CpuTimeExceededError(CallTimeoutError):
    """The call used up the processor time that it was given, and its worker was killed.

    Unlike the time on the clock this does not depend on how busy the machine is.
    """


class WorkerDiedError(IsolationError):
    """The worker's process ended in the middle of the call."""


class WorkerStartError(IsolationError):
    """A worker's process could not be started, or could not import the function."""


class NoFreeWorkerError(IsolationError):
    """Too many calls were waiting already, or no worker became free in time."""


class WorkersClosedError(IsolationError):
    """The workers were closed before the call was answered."""
