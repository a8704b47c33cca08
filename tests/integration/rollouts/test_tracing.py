"""Spans of a collection at a receiver that reads OTLP with the library of the protocol."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from tests.integration.rollouts.commands import AGENT, Workshop, task


@contextmanager
def receiver() -> Iterator[tuple[str, list[Span]]]:
    """The address of a receiver, and the spans that it got."""
    spans: list[Span] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            request = ExportTraceServiceRequest.FromString(body)
            spans.extend(
                span
                for resource in request.resource_spans
                for scope in resource.scope_spans
                for span in scope.spans
            )
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", spans
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_every_attempt_is_a_span_with_its_calls_and_a_lost_receiver_stops_nothing(
    workshop: Workshop,
) -> None:
    timed = {"response": {"output": []}, "reward": 0.5}
    rows = [task("a", script=[{"unavailable": "gone"}, {"answer": timed}]), task("b")]
    workshop.write("in.jsonl", rows)
    with receiver() as (address, spans):
        ended = workshop.collect(f"+agent_name={AGENT}", f"+otel_endpoint={address}")
        assert ended.status == 0, ended.stderr
    roots = [span for span in spans if span.name == "rollout"]
    told = [
        {each.key: each.value for each in span.attributes}
        for span in sorted(roots, key=lambda span: span.start_time_unix_nano)
    ]
    outcomes = sorted(
        (each["rollgym.task"].int_value, each["rollgym.status"].string_value) for each in told
    )
    assert outcomes == [(0, "completed"), (0, "failed"), (1, "completed")]
    (failed,) = [span for span in roots if span.status.code == 2]
    assert "gone" in failed.status.message
    assert all(span.end_time_unix_nano >= span.start_time_unix_nano for span in spans)

    lost = workshop.collect(
        f"+agent_name={AGENT}", f"+otel_endpoint={address}", output_jsonl_fpath="second.jsonl"
    )
    assert (lost.status, len(workshop.rows("second.jsonl"))) == (0, 2)
