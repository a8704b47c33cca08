"""The keys of `env_config`: browsers, the model's server, tasks, limits and ranks."""

from typing import Annotated, Any, ClassVar, Literal

from pydantic import BeforeValidator, Field, ValidationInfo, field_validator

from webgym.rollout.section import (
    Amount,
    Count,
    Natural,
    Port,
    Positive,
    RankWeights,
    Ratio,
    Section,
    Share,
    Size,
    Text,
    number,
    usual,
)
from webgym.tasks import Split


class HttpPools(Section):
    """How many requests of a kind the browser server is asked at a time.

    A step is one round trip that acts, waits, and brings the picture and the page's data along. So
    the largest of the first six bounds the steps; `allocate` and `release` have their own bounds.
    """

    navigate: Count = Field(64, description="steps at a time, as execute: the largest counts")
    screenshot: Count = Field(64, description="the same; a step brings its screenshot along")
    ac_tree: Count = Field(64, description="the same; a step brings the tree along")
    metadata: Count = Field(64, description="the same; a step brings the viewport along")
    page_metadata: Count = Field(64, description="the same; a step brings the page's data along")
    execute: Count = Field(64, description="steps at a time")
    allocate: Count = Field(32, description="browsers asked for at a time")
    release: Count = Field(32, description="browsers given back at a time")


class MaxSteps(Section):
    """The longest episode, by the difficulty of its task."""

    easy: Count = Field(10, description="steps of a task of difficulty 1 to 3")
    medium: Count = Field(20, description="steps of a task of difficulty 4 to 6")
    hard: Count = Field(30, description="steps of a task of difficulty 7 and more")


class TestMaxSteps(MaxSteps):
    """The same for the tasks of a test."""

    __test__: ClassVar[bool] = False  # pytest takes the name for its own

    easy: Count = Field(30, description="steps of a task of difficulty 1 to 3")
    medium: Count = Field(50, description="steps of a task of difficulty 4 to 6")
    hard: Count = Field(70, description="steps of a task of difficulty 7 and more")


class EnvironmentSettings(Section):
    """Browsers, tasks, limits and ranks."""

    split: Split = Field("train", description="`train` or `test`: which tasks, steps and files")

    host_ip: Text = Field("localhost", description="where the browser server is")
    master_port: Port = Field(7000, description="its port")
    cpu_cluster_token_env_var: Text = Field(
        "CPU_CLUSTER_TOKEN", description="the environment variable with the browser server's token"
    )
    server_size: Count = Field(64, description="browsers at a time, of all ranks together")
    instance_lifetime_max: Positive = Field(
        50.0, description="minutes after which the server takes a browser back"
    )
    skip_instance_cleanup: bool = Field(
        False, description="at the end, leave browsers to expire instead of giving them back"
    )
    use_rich_actree: bool = Field(
        False, description="keep the accessibility tree of every page in the trajectory"
    )
    isolation: Literal["none", "process"] = Field(
        "none", description="`process`: browser requests are made in processes of their own"
    )
    isolation_workers: Count = Field(2, description="how many processes")
    http_pools: HttpPools = Field(usual(HttpPools), description="requests at a time, by operation")
    sites_url: Text | None = Field(
        None, description="what `{sites}` in a task's website means (null: the embedded sites)"
    )

    vllm_server_url: Text | list[Text | dict[str, Any]] = Field(
        "http://localhost:8000",
        description="where the model is: a URL, or a list of URLs or endpoints "
        "(`{name, base_url, key_variable, weight, max_concurrency}`)",
    )
    max_vllm_sessions: Count = Field(128, description="requests to the model at a time")
    vllm_timeout: Positive = Field(240.0, description="seconds for one reply of the model")

    startup_timeout: Positive = Field(
        60.0,
        description="seconds to wait at the start for the browser server, the model and the judge",
    )
    wait_timeout: Positive = Field(
        2400.0, description="seconds that an episode waits for a browser"
    )
    operation_timeout: Positive = Field(120.0, description="seconds for one step in the browser")
    max_retries: Natural = Field(
        2, description="how often a task is tried again when something around it failed"
    )
    task_timeout_minutes: Positive = Field(
        20.0, validate_default=True, description="minutes for one task"
    )
    completion_threshold: Share = Field(
        0.98, description="once this part of the tasks has ended, the rest may be left out"
    )
    completion_grace_period: Amount = Field(
        120.0, description="seconds that the rest may still take then"
    )
    evaluation_workers: Count = Field(16, description="trajectories judged at a time")
    watch_for_blocking: bool = Field(
        False, description="have the judge look at every new screenshot, and end blocked episodes"
    )

    train_tasks: Text = Field(
        "train.jsonl", description="the tasks: a file in data_path, or `sites/train.jsonl`"
    )
    test_tasks: Text = Field(
        "test.jsonl", description="the same for tests; also `sites/test.jsonl`"
    )
    train_tasks_rollout_size: Size = Field(1024, description="tasks of an iteration; -1: all")
    test_tasks_rollout_size: Size = Field(-1, description="tasks of a test; -1: all")
    test_tasks_repeat_times: Count = Field(1, description="rollouts of each task of a test")
    train_tasks_sampler: Literal["uniform", "ratio"] = Field(
        "uniform", description="how tasks are drawn: all alike, or by the ratios"
    )
    difficulty_ratio: Ratio | None = Field(
        None, description='for `ratio`: weights of ranges of difficulty, as {"1-3": 2, hard: 1}'
    )
    domain_ratio: Ratio | None = Field(
        None, description="for `ratio`: weights of domains, as {Shopping: 2, News: 1}"
    )
    train_difficulty_max_steps: MaxSteps = Field(
        usual(MaxSteps), description="steps of a training episode; [] for the defaults"
    )
    test_difficulty_max_steps: TestMaxSteps = Field(
        usual(TestMaxSteps), description="steps of a test episode; [] for the defaults"
    )

    save_traj_progress: bool = Field(
        True, description="write the .pt while the iteration runs; false: at its end only"
    )
    save_every_percent: Annotated[float, BeforeValidator(number), Field(gt=0, le=100)] = Field(
        25.0, description="how often, in percent of the iteration's tasks"
    )
    verbose: bool = Field(True, description="show the progress; false: only the end")

    multinode_rank: Natural | None = Field(
        None, description="this process's rank (null: of RANK or SLURM_PROCID, else 0)"
    )
    multinode_total_workers: Count | None = Field(
        None, description="how many ranks (null: of WORLD_SIZE or SLURM_NTASKS, else 1)"
    )
    multinode_rank_suffix: str | None = Field(
        None,
        description="what ends this rank's file names (null: `_rank_N` where there are several); "
        "another one is refused",
    )
    rank_weights: RankWeights = Field(
        None, description='shares of the ranks, as "2,1,1" (null: equal)'
    )
    rank_load_weight: Positive | None = Field(
        None,
        description="this rank's weight; rank_weights decides, and this must agree with it",
    )
    total_load_weight: Positive | None = Field(
        None,
        description="the sum of all weights; it, too, must agree with rank_weights",
    )
    aggregation_timeout_minutes: Amount = Field(
        30.0, description="minutes that rank 0 waits for the others at the end"
    )

    @field_validator("task_timeout_minutes", mode="after")
    @classmethod
    def _within_a_browser(cls, value: float, info: ValidationInfo) -> float:
        lifetime = info.data.get("instance_lifetime_max", value)
        if value > lifetime:
            raise ValueError(
                f"a browser is taken back after instance_lifetime_max={lifetime:g} minutes, in the "
                "middle of a task: give at most that many"
            )
        return value

    @field_validator("train_difficulty_max_steps", "test_difficulty_max_steps", mode="before")
    @classmethod
    def _empty_is_the_default(cls, value: object) -> object:
        return {} if value == [] else value

    @field_validator("difficulty_ratio", "domain_ratio", mode="before")
    @classmethod
    def _empty_is_none(cls, value: object) -> object:
        return None if value in ([], {}) else value

    @property
    def tasks_file(self) -> str:
        return self.train_tasks if self.split == "train" else self.test_tasks

    @property
    def rollout_size(self) -> int:
        train, test = self.train_tasks_rollout_size, self.test_tasks_rollout_size
        return train if self.split == "train" else test

    @property
    def max_steps(self) -> MaxSteps:
        """Those of its split."""
        train, test = self.train_difficulty_max_steps, self.test_difficulty_max_steps
        return train if self.split == "train" else test

    @property
    def repeats(self) -> int:
        return 1 if self.split == "train" else self.test_tasks_repeat_times

    @property
    def retry_policy(self) -> dict[str, Any]:
        """What AsyncWebGym takes by this name."""
        names = ("wait_timeout", "operation_timeout", "max_retries")
        return {name: getattr(self, name) for name in names} | {"http_pools": self.http_pools.plain}

    @property
    def of_environment(self) -> dict[str, Any]:
        """The keys that AsyncWebGym reads from its `env_config`."""
        names = (
            "evaluation_workers",
            "instance_lifetime_max",
            "watch_for_blocking",
            "isolation",
            "isolation_workers",
            "train_difficulty_max_steps",
            "test_difficulty_max_steps",
        )
        plain = self.plain
        chosen = {name: plain[name] for name in names}
        percent = self.save_every_percent if self.save_traj_progress else 100.0
        return chosen | {"save_every_percent": percent, "sites_url": self.sites_url or ""}

    @property
    def browser_url(self) -> str:
        host = f"[{self.host_ip}]" if ":" in self.host_ip else self.host_ip
        return f"http://{host}:{self.master_port}"
