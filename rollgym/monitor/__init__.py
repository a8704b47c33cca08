"""Monitoring a run: live metrics, the progress display, and recounts from disk."""

from importlib import import_module

from rollgym.engine import Observer
from rollgym.monitor.live_metrics import (
    FailureExample,
    LiveMetrics,
    coverage_of,
    held_line,
    printable_line,
    recount,
)
from rollgym.monitor.progress import ProgressObserver
from rollgym.store import RefusedError


def open_tracing(endpoint: str, run_id: str) -> Observer:
    """An observer that sends OpenTelemetry spans. Raises RefusedError without the extra `otel`."""
    try:
        tracing = import_module("rollgym.monitor.tracing")
    except ImportError as error:
        raise RefusedError(
            f"sending spans needs OpenTelemetry, which is not installed ({error}). "
            "Install it: pip install 'rollgym[otel]'"
        ) from error
    observer: Observer = tracing.TracingObserver(endpoint, run_id)
    return observer


__all__ = [
    "FailureExample",
    "LiveMetrics",
    "ProgressObserver",
    "coverage_of",
    "held_line",
    "open_tracing",
    "printable_line",
    "recount",
]
