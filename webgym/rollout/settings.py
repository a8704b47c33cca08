"""The configuration of a rollout: all sections of settings put together.

The files in `scripts/config` and the table in `docs/web-agents.md` show the same keys, defaults and
descriptions. `WebRolloutSettings.of` reads a whole configuration and reports every problem at once.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, ValidationInfo, field_validator

from rollgym.cluster.settings import ClusterSettings, LauncherName, require_ray
from rollgym.numbers import Count, Natural, Positive
from webgym.context.settings import ContextConfig
from webgym.models.judge_settings import JudgeSettings
from webgym.models.settings import LocalModelSettings, ModelSettings, PolicySettings
from webgym.rollout.environment_settings import EnvironmentSettings
from webgym.settings import KeyOrigin, SettingsSection, Text, read_settings
from webgym.utils.blocklist import BlocklistSettings

EmbeddedName = Literal["browser", "sites", "miniwob", "scripted", "model"]
_ALTERNATIVES = ({"sites", "miniwob"}, {"scripted", "model"})


class TrackerSettings(SettingsSection):
    """Where the metrics are sent besides the files."""

    kind: Literal["wandb", "jsonl"] | None = Field(
        default=None,
        description="`wandb`, `jsonl` (<save_path>/metrics.jsonl), or null for no tracker",
    )
    project: Text = Field(default="rollgym", description="project at the tracker")
    name: Text | None = Field(
        default=None,
        description="name of the run at the tracker (null: the last part of save_path)",
    )


class WebRolloutSettings(SettingsSection):
    """The whole configuration of a rollout command."""

    save_path: Path = Field(description="folder for all output files")
    data_path: Path | None = Field(
        default=None, description="folder with the task files (null: only the bundled ones)"
    )
    seed: Natural = Field(default=0, description="random seed for sampling, retries and the model")
    iteration: Natural | None = Field(
        default=None,
        description="number of the iteration (null: the first unfinished one; with a retry: the "
        "last one)",
    )
    retry_failed: bool = Field(
        default=False, description="run failed rollouts of the iteration again"
    )
    retry_omitted: bool = Field(
        default=False, description="run omitted rollouts of the iteration again"
    )
    processes: Count | None = Field(
        default=None,
        description="processes that run the episodes (null: this one; with ray: as many as fit)",
    )
    launcher: LauncherName | None = Field(
        default=None, description="where these processes run: `processes` here, or `ray`"
    )
    ray_address: Text | None = Field(
        default=None, description="address of a Ray cluster (null: start a local one and end it)"
    )
    ray_cpus_per_worker: Positive = Field(
        default=1.0, description="CPUs of the Ray cluster for each process"
    )
    ray_browsers_per_node: Natural = Field(
        default=0,
        description="with `launcher=ray`: browser sessions on each node of the cluster, which "
        "register with the browser server (0: none)",
    )
    embedded: tuple[EmbeddedName, ...] = Field(
        default=(),
        description="servers that run as long as the rollout: any of `browser`, `sites` or "
        "`miniwob`, `scripted` or `model` (a language model on this machine)",
    )
    embedded_model: LocalModelSettings = Field(
        default=LocalModelSettings(), description="the model of `embedded=[model]`"
    )
    model: ModelSettings = Field(
        default=ModelSettings(),
        alias="model_config",
        description="kind of model and form of its replies",
    )
    policy_config: PolicySettings = Field(
        default=PolicySettings(), description="which model acts, and how its replies are sampled"
    )
    context_config: ContextConfig = Field(
        default=ContextConfig(), description="what the model is shown of a page"
    )
    env_config: EnvironmentSettings = Field(
        default=EnvironmentSettings(), description="browsers, tasks, limits and ranks"
    )
    openai_config: JudgeSettings | None = Field(
        default=None, description="the judge (null: no judge; tasks of the test sites need none)"
    )
    tracker_config: TrackerSettings = Field(
        default=TrackerSettings(), description="where the metrics are sent besides the files"
    )
    blocklist_config: BlocklistSettings = Field(
        default=BlocklistSettings(), description="which domains training avoids"
    )

    @field_validator("ray_address")
    @classmethod
    def _is_used(cls, value: str | None, info: ValidationInfo) -> str | None:
        require_ray(value, info.data)
        return value

    @field_validator("embedded", mode="after")
    @classmethod
    def _no_duplicates(cls, value: tuple[EmbeddedName, ...]) -> tuple[EmbeddedName, ...]:
        if len(set(value)) < len(value):
            raise ValueError("each server may be named once")
        for alternatives in _ALTERNATIVES:
            if alternatives <= set(value):
                raise ValueError(f"name one of {' and '.join(sorted(alternatives))}, not both")
        return value

    @field_validator("embedded", mode="before")
    @classmethod
    def _no_heuristic(cls, value: object) -> object:
        if isinstance(value, list | tuple) and "heuristic" in value:
            raise ValueError(
                "the policy `heuristic` was removed: give `scripted`, which replays recorded "
                "solutions"
            )
        return value

    @field_validator("env_config", mode="after")
    @classmethod
    def _tasks_end_before_their_session(cls, value: EnvironmentSettings) -> EnvironmentSettings:
        if value.task_timeout_minutes > value.instance_lifetime_max:
            raise ValueError(
                f"task_timeout_minutes={value.task_timeout_minutes:g} is longer than a browser "
                f"session lasts (instance_lifetime_max={value.instance_lifetime_max:g}): lower the "
                "first or raise the second"
            )
        return value

    @field_validator("save_path", "data_path", mode="before")
    @classmethod
    def _no_empty_path(cls, value: object) -> object:
        if value == "":
            raise ValueError("give the path of a folder")
        return value

    @property
    def cluster(self) -> ClusterSettings | None:
        """Where the episodes run; None for this process."""
        return ClusterSettings.of(
            self.launcher, self.processes, self.ray_address, self.ray_cpus_per_worker
        )

    @property
    def has_browsers_on_ray(self) -> bool:
        return self.launcher == "ray" and self.ray_browsers_per_node > 0

    @property
    def runs_again(self) -> bool:
        """Whether rollouts that have an outcome run again."""
        return self.retry_failed or self.retry_omitted

    @property
    def completion_threshold(self) -> float:
        """1 where rollouts run again: else those would be omitted, because most have ended."""
        return 1.0 if self.runs_again else self.env_config.completion_threshold

    @property
    def context(self) -> dict[str, Any]:
        """`context_config` as the agent reads it."""
        rich = {"accessibility_tree": True} if self.env_config.use_rich_actree else {}
        return self.context_config.plain | rich

    @classmethod
    def of(
        cls, config: Mapping[str, Any], origin: KeyOrigin = lambda _: ""
    ) -> "WebRolloutSettings":
        """Read a configuration; `origin` says where a key was set. Raises WebSettingsError."""
        return read_settings(cls, config, origin=origin)
