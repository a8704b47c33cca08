"""Verdicts of verifiers, and aggregate metrics of an environment (`POST /aggregate_metrics`)."""

import math
from typing import Any

import msgspec
from pydantic import BaseModel

from rollgym.metrics.aggregate import AggregateMetrics, aggregate, tasks_of
from rollgym.metrics.aggregate.agent import ComputeMetrics, GetKeyMetrics
from rollgym.records import VerifierError
from rollgym.records.decoding import JsonDecoder
from rollgym.servers.exchange import RefusedRequestError

RESERVED = {
    "responses_create_params": "it is the request",
    "response": "it is the agent's trajectory",
    "agent_ref": "it names the agent",
    "_ng_task_index": "it numbers the task",
    "_ng_rollout_index": "it numbers the rollout",
    "rollgym_output": "rollgym writes it",
    "rollgym_metadata": "rollgym writes it",
}
"""Fields of a row that a verdict cannot have, and what they are instead."""


class Verdict:
    """The verdict of a verifier about a rollout.

    Without `success`, the reward decides (at least the collection's success threshold). Any further
    keyword becomes a field of the output row. Raises ValueError for reserved names.
    """

    __slots__ = ("fields", "reward", "success")

    def __init__(self, reward: float, *, success: bool | None = None, **fields: Any) -> None:
        if not RESERVED.keys().isdisjoint(fields):
            name = next(iter(fields.keys() & RESERVED.keys()))
            raise ValueError(
                f"a verdict cannot have the field {name!r}: {RESERVED[name]}. Give it another name."
            )
        self.reward = reward
        self.success = success
        self.fields: dict[str, Any] = fields

    def as_fields(self) -> dict[str, Any]:
        """The fields to add to the row, as plain JSON values.

        Raises VerifierError when the reward is not a finite number, TypeError for values that are
        not JSON.
        """
        reward = self.reward
        if isinstance(reward, bool) or not isinstance(reward, (int, float)):
            raise VerifierError(f"the verifier gave {reward!r} as reward, which is not a number")
        if not math.isfinite(reward):
            raise VerifierError(f"the verifier gave {reward} as reward, which is not finite")
        success = {} if self.success is None else {"success": self.success}
        fields = {**self.fields, "reward": float(reward), **success}
        plain: dict[str, Any] = msgspec.to_builtins(fields, enc_hook=_model_fields)
        return plain


def _model_fields(value: object) -> object:
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json")
    raise TypeError(f"the verdict holds a {type(value).__name__}, which is not JSON")


class AggregateRequest(msgspec.Struct):
    """The verified rows of a collection, without their responses."""

    verify_responses: list[dict[str, Any]]


_REQUEST = JsonDecoder(AggregateRequest)


def answer_aggregate(body: bytes, compute: ComputeMetrics, key: GetKeyMetrics) -> AggregateMetrics:
    """The metrics of the rows in a request. Raises RefusedRequestError for an invalid body."""
    try:
        rows = _REQUEST.decode(body).verify_responses
        tasks_of(rows)
    except ValueError as error:
        raise RefusedRequestError(400, f"/aggregate_metrics: {error}") from error
    return aggregate(rows, compute, key)
