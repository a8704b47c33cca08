"""CPU-heavy or unsafe Python work in worker processes with a kill deadline."""

from rollgym.servers.isolation.errors import (
    ArgumentsError,
    CallFailedError,
    CallTimeoutError,
    CpuTimeExceededError,
    IsolationError,
    NoFreeWorkerError,
    WorkerDiedError,
    WorkersClosedError,
    WorkerStartError,
)
from rollgym.servers.isolation.workers import IsolatedWorkers

__all__ = [
    "ArgumentsError",
    "CallFailedError",
    "CallTimeoutError",
    "CpuTimeExceededError",
    "IsolatedWorkers",
    "IsolationError",
    "NoFreeWorkerError",
    "WorkerDiedError",
    "WorkerStartError",
    "WorkersClosedError",
]
