"""The settings of a simulated cluster, and what they mean."""

from typing import Annotated, Literal

import msgspec

Count = Annotated[int, msgspec.Meta(ge=1, le=10_000_000)]
CountOrZero = Annotated[int, msgspec.Meta(ge=0)]
Positive = Annotated[float, msgspec.Meta(gt=0)]
NotNegative = Annotated[float, msgspec.Meta(ge=0)]
Share = Annotated[float, msgspec.Meta(ge=0, le=1)]


class Cluster(msgspec.Struct, frozen=True, kw_only=True):
    """What is simulated. Times are in seconds; a mean comes with the sigma of its logarithm."""

    seed: int = 0
    nodes: Count = 100
    sessions: Count = 64
    slots: Count | None = None
    """The attempts at a time; None for one per session."""
    rollouts: Count = 100_000
    steps: Positive = 12.0
    steps_sigma: NotNegative = 0.5
    page_seconds: NotNegative = 4.0
    page_sigma: NotNegative = 0.5
    tokens: Positive = 250.0
    tokens_sigma: NotNegative = 0.5
    endpoint_slots: Count = 3_000
    slot_tokens: Positive = 25.0
    endpoint_queue: CountOrZero = 4_000
    endpoint_errors: Share = 0.0005
    losses_per_hour: NotNegative = 12.0
    losses: tuple[tuple[float, int], ...] = ()
    """Further losses: when, and of which node."""
    lost_as: Literal["browser", "worker"] = "browser"
    notice_seconds: NotNegative = 5.0
    repair_seconds: NotNegative = 300.0
    hanging: Share = 0.002
    wait_seconds: Positive = 600.0
    session_queue: CountOrZero = 100_000
    attempt_timeout: Positive = 1_800.0
    completion_threshold: Share = 0.99
    grace_period: NotNegative = 120.0


MEANINGS = {
    "seed": "random seed",
    "nodes": "number of nodes",
    "sessions": "browser sessions of a node",
    "slots": "attempts at a time (default: one for each session)",
    "rollouts": "number of rollouts",
    "steps": "mean number of steps of an attempt",
    "steps_sigma": "sigma of the logarithm of the number of steps",
    "page_seconds": "mean seconds of the browser for a step",
    "page_sigma": "sigma of the logarithm of these seconds",
    "tokens": "mean number of tokens that the model samples for a step",
    "tokens_sigma": "sigma of the logarithm of this number",
    "endpoint_slots": "requests that the model endpoint answers at once",
    "slot_tokens": "tokens per second of each of them",
    "endpoint_queue": "requests that wait at the endpoint; it rejects further ones",
    "endpoint_errors": "share of the requests that fail with status 503",
    "losses_per_hour": "nodes that are lost in an hour",
    "lost_as": "what attempts of a lost node fail as: browser or worker",
    "notice_seconds": "seconds until the loss of a node is noticed",
    "repair_seconds": "seconds until a lost node is back",
    "hanging": "share of the attempts that hang at a step",
    "wait_seconds": "seconds that an attempt waits for a session",
    "session_queue": "requests that wait for a session",
    "attempt_timeout": "seconds for one attempt",
    "completion_threshold": "share of rollouts with an outcome after which the rest may be omitted",
    "grace_period": "seconds that the rest may still take then",
}
