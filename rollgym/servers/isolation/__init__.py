"""CPU-heavy or unsafe Python work in worker processes that are killed at a deadline."""

from rollgym.servers.isolation.process import (
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
from rollgym.servers.isolation.workers import CallSlots, IsolatedWorkers

__all__ = [
    "ArgumentsError",
    "CallFailedError",
    "CallSlots",
    "CallTimeoutError",
    "CpuTimeExceededError",
    "IsolatedWorkers",
    "IsolationError",
    "NoFreeWorkerError",
    "WorkerDiedError",
    "WorkerStartError",
    "WorkersClosedError",
]
