"""How rollouts are run: admission, concurrency, retries, deadlines, stragglers, stopping."""

from rollgym.engine.collect import collect
from rollgym.engine.control import Control, PolicyVersion
from rollgym.engine.coverage import (
    CollectionStatus,
    Coverage,
    ExitStatus,
    OpenAttempt,
    State,
    describe_time,
)
from rollgym.engine.observers import (
    AttemptRecorded,
    AttemptStarted,
    CollectionEnded,
    CollectionStarted,
    Event,
    Held,
    Observer,
    RolloutsReopened,
    StopRequested,
    WholeRecord,
)
from rollgym.engine.policy import (
    NO_RETRIES,
    Adaptive,
    Backoff,
    Fixed,
    Policy,
    RetryPolicy,
    RetryRule,
)
from rollgym.engine.recorder import Listener
from rollgym.engine.runner import run
from rollgym.engine.stop import AttemptTimeouts, Stop, StopLevel, done_before, stopping_on_signals
from rollgym.engine.work import (
    EncodedAttempt,
    EngineError,
    LiveSource,
    SourceError,
    StuckWorkersError,
    Worker,
    WorkItem,
)

__all__ = [
    "NO_RETRIES",
    "Adaptive",
    "AttemptRecorded",
    "AttemptStarted",
    "AttemptTimeouts",
    "Backoff",
    "CollectionEnded",
    "CollectionStarted",
    "CollectionStatus",
    "Control",
    "Coverage",
    "EncodedAttempt",
    "EngineError",
    "Event",
    "ExitStatus",
    "Fixed",
    "Held",
    "Listener",
    "LiveSource",
    "Observer",
    "OpenAttempt",
    "Policy",
    "PolicyVersion",
    "RetryPolicy",
    "RetryRule",
    "RolloutsReopened",
    "SourceError",
    "State",
    "Stop",
    "StopLevel",
    "StopRequested",
    "StuckWorkersError",
    "WholeRecord",
    "WorkItem",
    "Worker",
    "collect",
    "describe_time",
    "done_before",
    "run",
    "stopping_on_signals",
]
