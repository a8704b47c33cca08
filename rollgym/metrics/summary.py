"""The metrics of a run as plain data that encodes to readable JSON.

Equal runs have equal summaries, byte for byte when encoded: mappings are in the order of their
keys, and counts of zero are left out of them.
"""

import msgspec

from rollgym.records import FailureKind, ModelUse, OmitReason, Usage


class DistributionSummary(msgspec.Struct, frozen=True, kw_only=True):
    """A number's distribution; everything except the count is None without values.

    `std` is that of the population (ddof=0). The percentiles are within one percent of the exact
    ones; everything else is exact.
    """

    count: int
    mean: float | None
    std: float | None
    min: float | None
    max: float | None
    p10: float | None
    p50: float | None
    p90: float | None
    p99: float | None


class Counts(msgspec.Struct, frozen=True, kw_only=True):
    """Rollouts by outcome, the successes among the completed ones, and all attempts."""

    attempts: int
    completed: int
    failed: int
    omitted: int
    successes: int


class GroupCounts(msgspec.Struct, frozen=True, kw_only=True):
    """Groups with at least one outcome, and those with every repeat completed."""

    seen: int
    complete: int


class Throughput(msgspec.Struct, frozen=True, kw_only=True):
    """Outcomes per active second; see `ActiveTime` in `rollgym.metrics.metrics`."""

    active_seconds: int
    outcomes_per_second: float | None


class VersionCounts(msgspec.Struct, frozen=True):
    """A policy version: its turns, and the completed rollouts whose oldest version it is."""

    version: str
    turns: int
    rollouts: int


class VersionSummary(msgspec.Struct, frozen=True, kw_only=True):
    """The policy versions of a run.

    `versions` are in their order, `newest` is the last. `staleness` counts the completed rollouts
    by how many versions their oldest turn is behind the newest one; `rollouts_of_several` have more
    than one version, `unknown_rollouts` a turn without one.
    """

    newest: str
    versions: tuple[VersionCounts, ...]
    staleness: dict[int, int]
    rollouts_of_several: int
    unknown_rollouts: int
    unknown_turns: int


class Summary(msgspec.Struct, frozen=True, kw_only=True):
    """The numbers of a run.

    `success_rate`, `avg_reward` and all distributions are over completed rollouts only, because a
    failed rollout has no reward. `failures_by_kind` counts rollouts whose outcome is failed,
    `failed_attempts_by_kind` every failed attempt, including retried ones. `models` are the calls
    of all attempts by model. `usage` is that of all attempts, `unscored_usage` that of attempts
    without a reward among them. `policy_versions` is None where no version is known.
    `measures_truncated` says that there were more names of measures
    than are kept.
    """

    counts: Counts
    success_rate: float | None
    avg_reward: float | None
    rewards: DistributionSummary
    groups: GroupCounts
    pass_at_k: dict[int, float]
    mean_at_k: dict[int, float]
    failures_by_kind: dict[FailureKind, int]
    failed_attempts_by_kind: dict[FailureKind, int]
    omitted_by_reason: dict[OmitReason, int]
    seconds: DistributionSummary
    output_tokens: DistributionSummary
    measures: dict[str, DistributionSummary]
    measures_truncated: bool
    models: tuple[ModelUse, ...]
    policy_versions: VersionSummary | None
    usage: Usage
    unscored_usage: Usage
    throughput: Throughput
