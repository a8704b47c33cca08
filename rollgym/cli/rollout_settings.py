"""The options of the commands that collect rollouts: each is declared once, here.

They are written as Hydra overrides, `+limit=4`, or as flags, `--limit 4` (`rollgym.cli.flags`), and
read by `rollgym.cli.options`.
"""

from pathlib import Path
from typing import Annotated, Any, NamedTuple, Self

import msgspec
from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    ValidationInfo,
    field_validator,
    model_validator,
)

from rollgym.cli.slurm import slurm_shard
from rollgym.cluster.settings import ClusterSettings, LauncherName, require_ray
from rollgym.engine import Adaptive, Fixed, Policy, RetryPolicy, RetryRule
from rollgym.numbers import Count, Natural, NonNegative, Positive
from rollgym.records import Prices
from rollgym.rollouts.paths import JSONL
from rollgym.store import RefusedError, Shard, Status


class SettingsError(RefusedError):
    """An option of the command line is missing, unknown or wrong."""

    is_misuse = True


class FlagName(NamedTuple):
    """The flag of a setting, and its short form, where it is not called like the setting."""

    name: str
    short: str | None = None


class RolloutSettings(BaseModel):
    """The options of every command that makes rollouts; `null` means the default."""

    model_config = ConfigDict(extra="forbid", frozen=True, arbitrary_types_allowed=True)

    input_jsonl_fpath: Annotated[Path, FlagName("--input", "-i")] = Field(
        description="input file, a JSON object on each line"
    )
    output_jsonl_fpath: Annotated[Path, FlagName("--output", "-o")] = Field(
        description="file for the rollouts"
    )
    limit: Count | None = Field(None, description="number of rows to use (null: all)")
    num_samples_in_parallel: Annotated[Count | None, FlagName("--concurrency")] = Field(
        None, description="number of rollouts at a time (null: adapts to the throughput)"
    )
    success_threshold: Annotated[float, Field(allow_inf_nan=False)] = Field(
        1.0, description="smallest reward that counts as a success"
    )
    resume: bool = Field(
        True, description="continue an existing run; false renames it and starts a new one"
    )
    resume_from_cache: bool | None = Field(
        None, description="the same as resume, under NeMo Gym's name for it"
    )
    dry_run: bool = Field(
        False, description="check everything, print what would run, and start nothing"
    )
    max_attempts: Count | None = Field(
        None, description="attempts at each rollout (null: 2 to 8, by failure kind)"
    )
    refills: Natural = Field(
        Policy().refills,
        description="times that failed or omitted rollouts of one task are run again",
    )
    attempt_timeout: Positive | None = Field(
        None, description="seconds for one attempt (null: 1800, or +rollout_timeout if given)"
    )
    rollout_timeout: Positive | None = Field(
        None, description="seconds for a rollout with all its attempts (null: 7200)"
    )
    max_same_failures: Natural = Field(
        Policy().max_same_failures,
        description="rollouts in a row that fail alike after which the run stops; 0: never",
    )
    max_tokens: Count | None = Field(
        None, description="tokens that the run may use, input and output, before it stops"
    )
    max_cost: Positive | None = Field(
        None, description="dollars that the run may cost, by `prices`, before it stops"
    )
    prices: Prices | None = Field(
        None,
        description="dollars per million tokens, by model: {gpt-x: {input: 0.15, output: 0.6}}, or "
        "a YAML file with that; `*` at the end of a name matches every end",
    )
    otel_endpoint: str | None = Field(
        None, description="OTLP endpoint for spans, as in http://127.0.0.1:4318 (null: none)"
    )
    seed: int = Field(0, description="random seed for sampling and retries")
    config_paths: Annotated[list[str] | None, FlagName("--config")] = Field(
        None,
        description="config files of servers to run here (null: the servers of ng_run)",
    )
    head_server: dict[str, Any] | None = Field(
        None, description="address of ng_run: {host: 127.0.0.1, port: 11000}"
    )
    server_token: str | None = Field(
        None, description="token of an ng_run beyond loopback; better set in env.yaml"
    )

    @model_validator(mode="before")
    @classmethod
    def _resume_by_either_name(cls, values: Any) -> Any:
        other = values.get("resume_from_cache") if isinstance(values, dict) else None
        if other is None:
            return values
        if values.get("resume") not in (None, other):
            raise ValueError("resume and resume_from_cache are the same option: give one of them")
        return {**values, "resume": other}

    @field_validator("prices", mode="before")
    @classmethod
    def _read_prices(cls, value: object) -> object:
        return value if value is None or isinstance(value, Prices) else Prices.read(value)

    @model_validator(mode="after")
    def _has_prices_for_its_budget(self) -> Self:
        if self.max_cost is not None and self.prices is None:
            raise ValueError("max_cost needs prices, as in +prices=prices.yaml")
        return self

    @field_validator("output_jsonl_fpath")
    @classmethod
    def _has_the_suffix(cls, value: Path) -> Path:
        if value.suffix != JSONL:
            raise ValueError(
                f"the name must end in {JSONL}, because other files are named after it"
            )
        return value

    @field_validator("*", mode="before")
    @classmethod
    def _null_is_the_default(cls, value: object, info: Any) -> object:
        field = cls.model_fields[info.field_name]
        return field.default if value is None and not field.is_required() else value

    @property
    def policy(self) -> Policy:
        parallel = self.num_samples_in_parallel
        retry, usual = RetryPolicy(), Policy()
        if self.max_attempts is not None:
            retry = RetryPolicy(default=RetryRule(self.max_attempts), by_kind={})
        return Policy(
            concurrency=Adaptive() if parallel is None else Fixed(parallel),
            retry=retry,
            attempt_timeout=self.attempt_timeout or self.rollout_timeout or usual.attempt_timeout,
            rollout_timeout=self.rollout_timeout
            or max(usual.rollout_timeout, self.attempt_timeout or 0.0),
            max_same_failures=self.max_same_failures,
            refills=self.refills,
            max_tokens=self.max_tokens,
            max_cost=self.max_cost,
            prices=self.prices or Prices(),
        )


class CompleteSettings(RolloutSettings):
    """The further options of a command whose tasks are known when it starts."""

    disable_aggregation: bool = Field(False, description="write no file of aggregate metrics")
    retry_failed: bool = Field(False, description="when resuming, run failed rollouts again")
    retry_omitted: bool = Field(False, description="when resuming, run omitted rollouts again")
    completion_threshold: Annotated[float, Field(gt=0, le=1)] = Field(
        Policy().completion_threshold,
        description="share of rollouts with an outcome after which the rest may be omitted",
    )
    completion_grace_period: NonNegative = Field(
        Policy().completion_grace_period,
        description="seconds that the remaining rollouts get when that share has an outcome",
    )
    shard: Shard | None = Field(
        None,
        description="i/n: collect only part i of n, counted from 0; or slurm: the part of this job",
    )
    materialize_repeats: bool = Field(
        False, description="write the inputs as sent once per rollout instead of once per task"
    )

    @field_validator("shard", mode="before")
    @classmethod
    def _read_shard(cls, value: object) -> object:
        if value == "slurm":
            return slurm_shard()
        return value if value is None or isinstance(value, Shard) else Shard.parse(str(value))

    @property
    def policy(self) -> Policy:
        return msgspec.structs.replace(
            super().policy,
            completion_threshold=self.completion_threshold,
            completion_grace_period=self.completion_grace_period,
        )

    @property
    def reopen(self) -> frozenset[Status]:
        asked = {Status.FAILED: self.retry_failed, Status.OMITTED: self.retry_omitted}
        return frozenset(status for status, wanted in asked.items() if wanted)


_SAMPLING = {"temperature": (int, float), "top_p": (int, float), "max_output_tokens": (int,)}
"""The parameters of requests that are numbers, with their types."""


class AgentSettings(RolloutSettings):
    """The further options of commands that run agents."""

    agent_name: Annotated[str | None, FlagName("--agent", "-a")] = Field(
        None, description="agent for rows without an agent_ref (null: the only agent)"
    )
    responses_create_params: dict[str, Any] = Field(
        {},
        description="parameters for every row, such as +responses_create_params.temperature=0.7",
    )
    num_repeats_add_seed: bool = Field(
        False, description="add a different sampling seed to the parameters of each repeat"
    )
    prompt_config: Path | None = Field(
        None, description="YAML file with the templates `user` and `system` for rows without input"
    )
    server_patience: NonNegative = Field(
        60.0, description="seconds to wait for an agent server that does not answer"
    )
    processes: Count | None = Field(
        None,
        description="processes that run the rollouts (null: this one; with ray: as many as fit)",
    )
    launcher: LauncherName | None = Field(
        None, description="where these processes run: `processes` of this machine, or `ray`"
    )
    ray_address: str | None = Field(
        None, description="address of a Ray cluster (null: start a local one and end it)"
    )
    ray_cpus_per_worker: Positive = Field(
        1.0, description="CPUs of the Ray cluster for each process"
    )
    preflight: bool = Field(
        True, description="check the model and the environment before the first rollout"
    )

    @field_validator("ray_address")
    @classmethod
    def _is_used(cls, value: str | None, info: ValidationInfo) -> str | None:
        require_ray(value, info.data)
        return value

    @property
    def cluster(self) -> ClusterSettings | None:
        """Where the rollouts run; None for this process."""
        return ClusterSettings.of(
            self.launcher, self.processes, self.ray_address, self.ray_cpus_per_worker
        )

    @field_validator("responses_create_params")
    @classmethod
    def _has_numbers(cls, value: dict[str, Any]) -> dict[str, Any]:
        for name, types in _SAMPLING.items():
            given = value.get(name)
            if given is not None and (isinstance(given, bool) or not isinstance(given, types)):
                raise ValueError(f"{name} must be {'a number' if float in types else 'an integer'}")
        return value


class CollectSettings(AgentSettings, CompleteSettings):
    """The further options of `ng_collect_rollouts`."""

    num_repeats: Count | dict[str, Count] | None = Field(
        None, description="rollouts of each row (null: 1), or by agent: {_default: 1, name: 4}"
    )


class ReverifySettings(CompleteSettings):
    """The further options of `rollgym reverify`."""

    replay_tools: bool | None = Field(
        None,
        description="repeat the stored tool calls before verifying (null: where the environment "
        "has state)",
    )
