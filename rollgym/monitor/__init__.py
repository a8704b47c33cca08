"""Monitoring a run: live metrics, the progress display, and recounts from disk."""

from rollgym.monitor.live_metrics import (
    FailureExample,
    LiveMetrics,
    coverage_of,
    printable_line,
    recount,
)
from rollgym.monitor.progress import ProgressObserver

__all__ = [
    "FailureExample",
    "LiveMetrics",
    "ProgressObserver",
    "coverage_of",
    "printable_line",
    "recount",
]
