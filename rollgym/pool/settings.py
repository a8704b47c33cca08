"""The settings of a pool."""

from collections.abc import Callable
from enum import StrEnum

import msgspec

from rollgym.pool.groups import DeliveredGroup
from rollgym.records.version import require_version

GroupFilter = Callable[[DeliveredGroup], bool]
"""Whether a group is to be delivered. Called in a thread."""


class Order(StrEnum):
    """The order of the rows in an epoch."""

    SHUFFLE = "shuffle"
    """Another random order in every epoch."""
    SEQUENTIAL = "sequential"
    """The order of the dataset."""


class OnPolicyChange(StrEnum):
    """What becomes of the rollouts that run when the policy has a new version."""

    GO_ON = "go_on"
    """They go on, and have turns of several versions."""
    CUT = "cut"
    """They are cancelled and begin again, without using up a retry."""
    DROP = "drop"
    """They are cancelled and omitted."""


class PoolSettings(msgspec.Struct, frozen=True, kw_only=True):
    """How a pool draws, holds back and delivers groups.

    - `group_size`: rollouts of each drawn row. `order`: of the rows in an epoch.
    - `max_undelivered`: finished groups that may wait for a trainer before no more are started.
    - `max_staleness`: the most versions that may come after the oldest one of a group before it is
      delivered; None sets no bound.
    - `on_policy_change`: what becomes of running rollouts.
    - `keep_equal_rewards`, `deliver_short`, `group_filter`: which finished groups are delivered.
    - `lease_seconds`: after this long, a group that was not acknowledged is delivered again.
    - `max_leased`: groups that trainers may have without having acknowledged them.
    - `max_groups`: no more groups than these are collected; None for a pool that never ends.
    - `first_version`: the version of the policy before a trainer gives another one.
    """

    group_size: int = 8
    order: Order = Order.SHUFFLE
    max_undelivered: int = 16
    max_staleness: int | None = None
    on_policy_change: OnPolicyChange = OnPolicyChange.GO_ON
    keep_equal_rewards: bool = True
    deliver_short: bool = True
    group_filter: GroupFilter | None = None
    lease_seconds: float = 600.0
    max_leased: int = 1024
    max_groups: int | None = None
    first_version: str = "0"

    def __post_init__(self) -> None:
        for name in ("group_size", "max_undelivered", "max_leased"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1")
        if not 0 < self.lease_seconds < float("inf"):
            raise ValueError("lease_seconds must be above 0 and finite")
        require_version(self.first_version)
        if self.max_staleness is not None and self.max_staleness < 0:
            raise ValueError("max_staleness must be at least 0")
        if self.max_groups is not None and self.max_groups < 1:
            raise ValueError("max_groups must be at least 1")
