"""`POST /aggregate_metrics`: the numbers of a whole collection, with the environment's own."""

from collections.abc import Callable
from typing import Any

import msgspec

from rollgym.metrics.aggregate import AggregateMetrics, aggregate, tasks_of
from rollgym.servers.exchange import RefusedRequestError

ComputeMetrics = Callable[[list[list[dict[str, Any]]]], dict[str, Any]]
GetKeyMetrics = Callable[[dict[str, Any]], dict[str, Any] | None]


class AggregateRequest(msgspec.Struct):
    """The verified rows of a collection, less what was said in them."""

    verify_responses: list[dict[str, Any]]


_REQUEST = msgspec.json.Decoder(AggregateRequest)


def answer_aggregate(body: bytes, compute: ComputeMetrics, key: GetKeyMetrics) -> AggregateMetrics:
    """Raises RefusedRequestError for a body of another shape."""
    try:
        rows = _REQUEST.decode(body).verify_responses
        tasks_of(rows)
    except ValueError as error:
        raise RefusedRequestError(400, f"/aggregate_metrics: {error}") from error
    return aggregate(rows, compute, key)
