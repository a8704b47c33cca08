"""The options of `rollgym serve-rollouts` beside those of all commands that run agents."""

from typing import Annotated, Literal

from pydantic import AfterValidator, Field, field_validator

from rollgym.cli.rollout_settings import AgentSettings
from rollgym.numbers import Count, Natural, Positive
from rollgym.pool import OnPolicyChange, Order, PoolSettings
from rollgym.pool.filters import load_filter
from rollgym.records.version import require_version

DEFAULT_PORT = 8800
_POOL = PoolSettings()


class ServeSettings(AgentSettings):
    """The further options of `rollgym serve-rollouts`."""

    group_size: Count = Field(_POOL.group_size, description="rollouts of each drawn row")
    order: Order = Field(
        _POOL.order, description="order of the rows in an epoch: `shuffle` or `sequential`"
    )
    host: str = Field("127.0.0.1", description="address to listen on")
    port: Natural = Field(DEFAULT_PORT, description="port to listen on; 0: any free port")
    token_env: str | None = Field(
        None, description="environment variable with the token of trainers, needed beyond loopback"
    )
    max_undelivered: Count = Field(
        _POOL.max_undelivered,
        description="number of finished, undelivered groups at which no further groups are started",
    )
    max_staleness: Natural | None = Field(
        _POOL.max_staleness,
        description="largest staleness of a delivered group, in versions (null: any)",
    )
    on_policy_change: OnPolicyChange = Field(
        _POOL.on_policy_change,
        description="what happens to running rollouts when the policy gets a new version: `go_on`, "
        "`cut` (run again) or `drop`",
    )
    first_version: Annotated[str, AfterValidator(require_version)] = Field(
        _POOL.first_version, description="version of the policy until a trainer gives another one"
    )
    equal_rewards: Literal["keep", "drop"] = Field(
        "keep", description="what to do with groups whose rewards are all equal: `keep` or `drop`"
    )
    short_groups: Literal["deliver", "drop"] = Field(
        "deliver",
        description="what to do with groups that lack rewards: `deliver` or `drop`",
    )
    group_filter: str | None = Field(
        None,
        description="module:function that says of a group whether to deliver it",
    )
    lease_seconds: Positive = Field(
        _POOL.lease_seconds,
        description="seconds after which a group that was not acknowledged is delivered again",
    )
    max_leased: Count = Field(
        _POOL.max_leased,
        description="largest number of delivered groups that are not acknowledged",
    )
    max_groups: Count | None = Field(
        _POOL.max_groups,
        description="end after this many groups, acknowledged or dropped (null: never)",
    )

    @field_validator("group_filter")
    @classmethod
    def _names_a_function(cls, value: str | None) -> str | None:
        if value is not None:
            load_filter(value)
        return value

    @property
    def pool(self) -> PoolSettings:
        own = None if self.group_filter is None else load_filter(self.group_filter)
        return PoolSettings(
            group_size=self.group_size,
            order=self.order,
            max_undelivered=self.max_undelivered,
            max_staleness=self.max_staleness,
            on_policy_change=self.on_policy_change,
            keep_equal_rewards=self.equal_rewards == "keep",
            deliver_short=self.short_groups == "deliver",
            group_filter=own,
            lease_seconds=self.lease_seconds,
            max_leased=self.max_leased,
            max_groups=self.max_groups,
            first_version=self.first_version,
        )
