"""OpenTelemetry spans of a collection, as an observer.

Each attempt becomes a span `rollout`, with a child span for each of its first calls: of the model,
of tools, of the browser, of the verifier or judge. The spans are made from the record when the
attempt is on disk, so tracing costs the collection nothing while it runs, and what is traced is
what was recorded. They are sent in the observer's thread over OTLP. A receiver that does not answer
loses spans, never rollouts.

Importing this module needs the extra `otel`; `open_tracing` says so.
"""

import logging
from collections.abc import Sequence
from typing import Any

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import SpanExportResult
from opentelemetry.trace import Status, StatusCode, set_span_in_context

from rollgym.engine import AttemptRecorded, Event
from rollgym.records import Attempt, Completed, Failed, Omitted, Span

EXPORT_TIMEOUT = 4.0
"""Seconds for one batch; an observer has five to finish after the end of a collection."""
_NANOSECONDS = 1e9
_NAMES = {
    "model": "model call",
    "tools": "tool call",
    "seed": "seed session",
    "verify": "verify",
    "browser": "wait for a browser",
    "navigate": "browser step",
    "execute": "browser step",
    "reward": "judge call",
}
_LOGGER = logging.getLogger("rollgym.tracing")


class _Collector(SpanProcessor):
    """Keeps the spans that have ended."""

    def __init__(self) -> None:
        self.ended: list[ReadableSpan] = []

    def on_end(self, span: ReadableSpan) -> None:
        self.ended.append(span)


class TracingObserver:
    """Sends a span for each attempt to an OTLP endpoint, such as `http://127.0.0.1:4318`."""

    name = "tracing"

    def __init__(self, endpoint: str, run_id: str) -> None:
        self._lost = False
        self._collector = _Collector()
        self._endpoint = f"{endpoint.rstrip('/')}/v1/traces"
        self._exporter = OTLPSpanExporter(endpoint=self._endpoint, timeout=EXPORT_TIMEOUT)
        named = Resource.create({"service.name": "rollgym", "rollgym.run": run_id})
        provider = TracerProvider(resource=named, shutdown_on_exit=False)
        provider.add_span_processor(self._collector)
        self._tracer = provider.get_tracer("rollgym")
        # The exporter logs every failed try; the one line of this class is enough.
        logging.getLogger("opentelemetry").setLevel(logging.CRITICAL)

    def observe(self, events: Sequence[Event]) -> None:
        """Send the spans of a batch of events."""
        for event in events:
            if isinstance(event, AttemptRecorded):
                self._trace(event.attempt)
        if self._collector.ended:
            self._send()

    def _trace(self, attempt: Attempt) -> None:
        root = self._tracer.start_span(
            "rollout", start_time=_time(attempt.started), attributes=_attributes(attempt)
        )
        context = set_span_in_context(root)
        for span in attempt.outcome.spans:
            began = attempt.started + span.start
            child = self._tracer.start_span(
                _NAMES.get(span.phase, span.phase),
                context=context,
                start_time=_time(began),
                attributes=_call_attributes(span),
            )
            child.end(_time(began + span.seconds))
        if isinstance(attempt.outcome, Failed):
            failure = attempt.outcome.failure
            root.set_status(Status(StatusCode.ERROR, f"{failure.kind}: {failure.detail}"))
        root.end(_time(attempt.started + attempt.seconds))

    def _send(self) -> None:
        spans, self._collector.ended = self._collector.ended, []
        if self._exporter.export(spans) is not SpanExportResult.SUCCESS and not self._lost:
            self._lost = True
            _LOGGER.warning("%s did not accept spans; the collection goes on", self._endpoint)


def _time(seconds: float) -> int:
    return int(seconds * _NANOSECONDS)


def _attributes(attempt: Attempt) -> dict[str, Any]:
    outcome = attempt.outcome
    attributes: dict[str, Any] = {
        "rollgym.task": attempt.task,
        "rollgym.repeat": attempt.repeat,
        "rollgym.attempt": attempt.attempt,
        "rollgym.final": attempt.final,
        "gen_ai.usage.input_tokens": outcome.usage.input_tokens,
        "gen_ai.usage.output_tokens": outcome.usage.output_tokens,
    }
    if outcome.models:
        attributes["gen_ai.request.model"] = outcome.models[0].model
    match outcome:
        case Completed():
            attributes |= {"rollgym.status": "completed", "rollgym.reward": outcome.reward}
            attributes["rollgym.success"] = outcome.succeeded
        case Failed():
            attributes |= {"rollgym.status": "failed", "error.type": str(outcome.failure.kind)}
        case Omitted():
            attributes |= {"rollgym.status": "omitted", "rollgym.reason": str(outcome.reason)}
    return attributes


def _call_attributes(span: Span) -> dict[str, str]:
    label = {"rollgym.label": span.label} if span.label else {}
    tool = {"gen_ai.tool.name": span.label} if span.phase == "tools" else {}
    return {"rollgym.phase": span.phase, **label, **tool}
