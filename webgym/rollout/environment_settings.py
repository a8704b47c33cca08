"""The keys of `env_config`: browsers, the model's server, tasks, limits and ranks."""

import inspect
import re
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import AfterValidator, BeforeValidator, Field, field_validator, model_validator
from pydantic.fields import FieldInfo

from rollgym.engine import Policy
from rollgym.numbers import Count, Natural, NonNegative, Port, Positive, Share, number
from rollgym.records import Prices
from rollgym.store import Setting
from webgym.episode.interfaces import EpisodeSettings
from webgym.models.settings import ModelCallSettings
from webgym.rollout.session_settings import SessionSettings
from webgym.settings import SettingsSection, Text
from webgym.tasks.task import DEFAULT_MAX_STEPS, Difficulty, Split

RETRY_KEYS = ("wait_timeout", "operation_timeout", "max_retries", "http_pools")
"""The keys that AsyncWebGym reads from its `retry_policy`."""


def _task_count(value: int) -> int:
    if value == 0 or value < -1:
        raise ValueError("give a number of tasks, or -1 for all")
    return value


def _suffix(value: str | None) -> str | None:
    if value and not re.fullmatch(r"[^\d/\0][^/\0]*", value):
        raise ValueError("give a suffix of file names that does not begin with a digit")
    return value or None


def _with_text_keys(value: object) -> object:
    """Keys as they were written: YAML reads `7: 1` as a number."""
    return {str(key): each for key, each in value.items()} if isinstance(value, dict) else value


def _joined_weights(value: object) -> object:
    if value is None or value == "" or isinstance(value, str):
        return value or None
    if isinstance(value, int | float):
        return str(value)  # a single rank: `rank_weights=1`
    return ",".join(str(each) for each in value) if isinstance(value, list | tuple) else value


def _valid_weights(value: str) -> str:
    if not re.fullmatch(r"\s*\d+(\.\d+)?\s*(,\s*\d+(\.\d+)?\s*)*", value):
        raise ValueError('give one weight for each rank, as in "2,1,1"')
    return value


def _readable_prices(value: str | dict[str, Any]) -> str | dict[str, Any]:
    Prices.read(value)
    return value


PriceTable = Annotated[str | dict[str, Any], AfterValidator(_readable_prices)]
RankSuffix = Annotated[str | None, AfterValidator(_suffix)]
TaskCount = Annotated[int, BeforeValidator(number), AfterValidator(_task_count)]
Ratio = Annotated[dict[str, NonNegative], BeforeValidator(_with_text_keys)]
RankWeights = Annotated[
    Annotated[str, AfterValidator(_valid_weights)] | None, BeforeValidator(_joined_weights)
]


class HttpPools(SettingsSection):
    """The most concurrent requests to the browser server, by operation.

    A step is one request that acts, waits, and returns the screenshot and the page's data. So the
    largest of the first six bounds the steps; `allocate` and `release` have their own bounds.
    """

    navigate: Count = Field(
        default=64, description="concurrent steps; the largest of these six applies"
    )
    screenshot: Count = Field(default=64, description="as navigate; a step returns its screenshot")
    ac_tree: Count = Field(
        default=64, description="as navigate; a step returns the accessibility tree"
    )
    metadata: Count = Field(default=64, description="as navigate; a step returns the viewport")
    page_metadata: Count = Field(
        default=64, description="as navigate; a step returns the page's data"
    )
    execute: Count = Field(default=64, description="as navigate")
    allocate: Count = Field(default=32, description="browser sessions acquired at a time")
    release: Count = Field(default=32, description="browser sessions released at a time")

    @property
    def connections(self) -> int:
        """The most concurrent requests of all kinds."""
        steps = (self.navigate, self.screenshot, self.ac_tree, self.metadata, self.page_metadata)
        return max(*steps, self.execute) + self.allocate + self.release


def _max_steps(split: Split, difficulty: Difficulty, numbers: str) -> Any:
    """The field for the most steps of an episode."""
    description = f"most steps for a task of difficulty {numbers}"
    return Field(default=DEFAULT_MAX_STEPS[split][difficulty], description=description)


class MaxSteps(SettingsSection):
    """The longest episode, by the difficulty of its task."""

    easy: Count = _max_steps("train", Difficulty.EASY, "1 to 3")
    medium: Count = _max_steps("train", Difficulty.MEDIUM, "4 to 6")
    hard: Count = _max_steps("train", Difficulty.HARD, "7 or more")


class TestMaxSteps(MaxSteps):
    """The same for the tasks of a test."""

    __test__: ClassVar[bool] = False  # pytest would collect a class of this name

    easy: Count = _max_steps("test", Difficulty.EASY, "1 to 3")
    medium: Count = _max_steps("test", Difficulty.MEDIUM, "4 to 6")
    hard: Count = _max_steps("test", Difficulty.HARD, "7 or more")


class EnvironmentSettings(ModelCallSettings):
    """Browsers, tasks, limits and ranks."""

    split: Split = Field(
        default="train", description="`train` or `test`: decides tasks, steps and files"
    )

    host_ip: Annotated[Text, Setting.ADDRESS] = Field(
        default="localhost", description="host of the browser server"
    )
    master_port: Annotated[Port, Setting.ADDRESS] = Field(
        default=7000, description="port of the browser server"
    )
    cpu_cluster_token_env_var: Annotated[Text, Setting.ADDRESS] = Field(
        default="CPU_CLUSTER_TOKEN",
        description="environment variable with the browser server's token",
    )
    server_size: Annotated[Count, Setting.TIMING] = Field(
        default=64, description="concurrent browser sessions of all ranks together"
    )
    instance_lifetime_max: Annotated[Positive, Setting.TIMING] = Field(
        default=50.0, description="minutes after which the server ends a browser session"
    )
    skip_instance_cleanup: Annotated[bool, Setting.TIMING] = Field(
        default=False, description="at the end, let open sessions expire instead of releasing them"
    )
    use_rich_actree: bool = Field(
        default=False, description="keep the accessibility tree of every page in the trajectory"
    )
    isolation: Annotated[Literal["none", "process"], Setting.TIMING] = Field(
        default="none",
        description="`process` makes browser requests in separate processes, of about 16 MB each",
    )
    isolation_workers: Annotated[Count | None, Setting.TIMING] = Field(
        default=None, description="number of these processes (null: one for each browser session)"
    )
    session: SessionSettings = Field(
        default=SessionSettings(), description="how sessions present themselves to sites"
    )
    http_pools: Annotated[HttpPools, Setting.TIMING] = Field(
        default=HttpPools(),
        description="concurrent requests of all ranks to the browser server, by operation",
    )
    sites_url: Annotated[Text | None, Setting.ADDRESS] = Field(
        default=None, description="URL that replaces `{sites}` in tasks (null: the embedded sites)"
    )

    vllm_server_url: Annotated[Text | list[Text | dict[str, Any]], Setting.ADDRESS] = Field(
        default="http://localhost:8000",
        description="URL of the model, or a list of URLs or endpoints "
        "(`{name, base_url, key_variable, weight, max_concurrency}`)",
    )

    startup_timeout: Annotated[Positive, Setting.TIMING] = Field(
        default=60.0,
        description="seconds to wait at the start for the browser server, the model and the judge",
    )
    wait_timeout: Annotated[Positive, Setting.TIMING] = Field(
        default=2400.0,
        description="seconds that a rollout waits for a browser session, over all attempts",
    )
    task_timeout_minutes: Annotated[Positive, Setting.TIMING] = Field(
        default=20.0, description="minutes for one task"
    )
    completion_threshold: Annotated[Share, Setting.TIMING] = Field(
        default=0.98,
        description="share of tasks that must end before the remaining ones may be omitted",
    )
    completion_grace_period: Annotated[NonNegative, Setting.TIMING] = Field(
        default=120.0, description="seconds that the remaining tasks get when that share has ended"
    )
    max_same_failures: Annotated[Natural, Setting.TIMING] = Field(
        default=Policy().max_same_failures,
        description="rollouts in a row that fail alike after which the run stops; 0: never",
    )
    refills: Annotated[Natural, Setting.TIMING] = Field(
        default=Policy().refills,
        description="times that failed or omitted rollouts of one task are run again",
    )
    max_tokens: Annotated[Count | None, Setting.TIMING] = Field(
        default=None,
        description="tokens that the iteration may use, judge included, before it stops",
    )
    max_cost: Annotated[Positive | None, Setting.TIMING] = Field(
        default=None,
        description="dollars that the iteration may cost, by `prices`, before it stops",
    )
    prices: Annotated[PriceTable | None, Setting.TIMING] = Field(
        default=None,
        description="dollars per million tokens: `{model: {input: 0.15, output: 0.6}}`, or a YAML "
        "file with that",
    )
    otel_endpoint: Annotated[Text | None, Setting.ADDRESS] = Field(
        default=None,
        description="OTLP endpoint for spans, as in http://127.0.0.1:4318 (null: none)",
    )
    watch_for_blocking: bool = Field(
        default=False,
        description="let the judge check every new screenshot, and end blocked episodes",
    )

    train_tasks: Text = Field(
        default="train.jsonl",
        description="task file in data_path, or the bundled `sites/train.jsonl`",
    )
    test_tasks: Text = Field(
        default="test.jsonl", description="task file for tests, or the bundled `sites/test.jsonl`"
    )
    train_tasks_rollout_size: TaskCount = Field(
        default=1024, description="number of tasks in a training iteration; -1: all"
    )
    test_tasks_rollout_size: TaskCount = Field(
        default=-1, description="number of tasks in a test iteration; -1: all"
    )
    rollouts_per_task: Count = Field(
        default=1, description="rollouts of each training task, which form a group (GRPO)"
    )
    test_tasks_repeat_times: Count = Field(default=1, description="repeats of each test task")
    train_tasks_sampler: Literal["uniform", "ratio"] = Field(
        default="uniform", description="how tasks are sampled: uniformly, or by the ratios below"
    )
    difficulty_ratio: Ratio | None = Field(
        default=None,
        description='for `ratio`: weights of difficulty ranges, such as {"1-3": 2, hard: 1}',
    )
    domain_ratio: Ratio | None = Field(
        default=None, description="for `ratio`: weights of domains, such as {Shopping: 2, News: 1}"
    )
    train_difficulty_max_steps: MaxSteps = Field(
        default=MaxSteps(), description="most steps of a training episode; [] for the defaults"
    )
    test_difficulty_max_steps: TestMaxSteps = Field(
        default=TestMaxSteps(), description="most steps of a test episode; [] for the defaults"
    )

    save_traj_progress: Annotated[bool, Setting.TIMING] = Field(
        default=True, description="write the .pt file during the iteration; false: only at its end"
    )
    save_every_percent: Annotated[
        float, BeforeValidator(number), Field(gt=0, le=100), Setting.TIMING
    ] = Field(
        default=25.0,
        description="percentage of the iteration's tasks between two writes of the .pt file",
    )
    verbose: Annotated[bool, Setting.TIMING] = Field(
        default=True, description="show progress; false: show only the result"
    )

    multinode_rank: Annotated[Natural | None, Setting.TIMING] = Field(
        default=None, description="rank of this process (null: RANK or SLURM_PROCID, else 0)"
    )
    multinode_total_workers: Count | None = Field(
        default=None, description="number of ranks (null: WORLD_SIZE or SLURM_NTASKS, else 1)"
    )
    multinode_rank_suffix: Annotated[RankSuffix, Setting.TIMING] = Field(
        default=None,
        description="suffix of this rank's files (null: `_rank_N`, or none for one rank)",
    )
    rank_weights: RankWeights = Field(
        default=None, description='weights of all ranks, such as "2,1,1" (null: equal)'
    )
    rank_load_weight: Annotated[Positive | None, Setting.TIMING] = Field(
        default=None,
        description="weight of this rank; without rank_weights, the ranks exchange their weights",
    )
    total_load_weight: Annotated[Positive | None, Setting.TIMING] = Field(
        default=None,
        description="sum of all weights; ranks that announce none share the rest",
    )
    aggregation_timeout_minutes: Annotated[NonNegative, Setting.TIMING] = Field(
        default=30.0, description="minutes that rank 0 waits for the other ranks at the end"
    )

    @classmethod
    def keys(cls) -> dict[str, FieldInfo]:
        """The keys in the order of this file; the inherited limits of calls come last."""
        own, known = inspect.get_annotations(cls), super().keys()
        return {name: known[name] for name in sorted(known, key=lambda name: name not in own)}

    @model_validator(mode="after")
    def _has_prices_for_its_budget(self) -> Self:
        if self.max_cost is not None and not self.prices:
            raise ValueError("max_cost needs prices")
        return self

    @field_validator("train_difficulty_max_steps", "test_difficulty_max_steps", mode="before")
    @classmethod
    def _empty_is_the_default(cls, value: object) -> object:
        return {} if value in ([], ()) else value

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
    def max_steps(self) -> dict[Difficulty, int]:
        """The most steps of an episode of this split, by difficulty."""
        train, test = self.train_difficulty_max_steps, self.test_difficulty_max_steps
        chosen = train if self.split == "train" else test
        return {Difficulty(name): steps for name, steps in chosen.plain.items()}

    @property
    def episode(self) -> EpisodeSettings:
        """The rules of an episode."""
        return EpisodeSettings(
            split=self.split,
            max_steps=self.max_steps,
            wait_timeout=self.wait_timeout,
            task_timeout=60 * self.task_timeout_minutes,
            operation_timeout=self.operation_timeout,
            evaluation_timeout=self.evaluation_timeout,
            instance_lifetime_max=self.instance_lifetime_max,
            watch_for_blocking=self.watch_for_blocking,
            sites_url=self.sites_url or "",
            recorded=self.session.recorded,
        )

    @property
    def repeats(self) -> int:
        train, test = self.rollouts_per_task, self.test_tasks_repeat_times
        return train if self.split == "train" else test

    @property
    def save_percent(self) -> float:
        """The percentage of tasks between two writes of the `.pt` file."""
        return self.save_every_percent if self.save_traj_progress else 100.0

    @property
    def browser_url(self) -> str:
        host = f"[{self.host_ip}]" if ":" in self.host_ip else self.host_ip
        return f"http://{host}:{self.master_port}"
