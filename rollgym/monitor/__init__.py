"""What you see while it runs: the live numbers, the progress display, and recounts from disk."""

from rollgym.monitor.live_metrics import FailureExample, LiveMetrics
from rollgym.monitor.printable import printable_line
from rollgym.monitor.progress import ProgressObserver
from rollgym.monitor.recount import coverage_of, recount

__all__ = [
    "FailureExample",
    "LiveMetrics",
    "ProgressObserver",
    "coverage_of",
    "printable_line",
    "recount",
]
