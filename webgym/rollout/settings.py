"""What a rollout can be told: every key of the configuration, with its type, default and meaning.

The files in `scripts/config` give the same defaults to those who read them, and the guide
(`docs/web-agents.md`) the same words. `RolloutSettings.of` reads a whole configuration and names
everything that is wrong with it at once, each with its key, its place and what would be right.
`null` stands for the default of a key wherever it has no meaning of its own.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BeforeValidator, Field, field_validator

from webgym.rollout.environment_settings import EnvironmentSettings
from webgym.rollout.mistakes import Origin, read
from webgym.rollout.section import (
    Amount,
    Count,
    Natural,
    Positive,
    Probability,
    Section,
    Share,
    Text,
    number,
    usual,
)

EmbeddedName = Literal["browser", "sites", "scripted"]


class ModelSettings(Section):
    """How the model is spoken to."""

    model_type: Literal["qwen3-instruct", "qwen3-think", "text", "baseline"] = Field(
        "qwen3-instruct",
        description="what it is like: `qwen3-think` thinks first, `text` sees no pictures, "
        "`baseline` is our scripted policy",
    )
    prompt_version: Literal["complete", "vanilla"] = Field(
        "complete",
        description="`complete` asks for memory, progress and intention before the action, "
        "`vanilla` for the action alone",
    )


class PolicySettings(Section):
    """Which model, and how its replies are sampled."""

    base_model: Text | None = Field(
        None, description="its name, as its server knows it (null: the one that is served)"
    )
    checkpoint_path: Text | None = Field(
        None, description="which weights are served; it is written down with the trajectories"
    )
    api_key_env_var: Text | None = Field(
        None, description="the environment variable with the server's key (null: it needs none)"
    )
    max_new_tokens: Count = Field(3072, description="the longest reply, in tokens")
    temperature: Amount = Field(1.0, description="of sampling; 0: always the likeliest token")
    top_p: Share = Field(0.99, description="sample among the likeliest tokens of this total share")
    top_k: Annotated[int, BeforeValidator(number), Field(ge=-1)] = Field(
        2, description="sample among so many of the likeliest tokens; 0 or -1: among all"
    )
    min_p: Probability = Field(
        0.0, description="leave out tokens below this part of the likeliest one's probability"
    )
    return_token_ids: bool = Field(
        False, description="ask the server for token ids and log probabilities, and keep them"
    )
    extra_body: dict[str, Any] = Field(
        {}, description="further parameters of every request, as the server knows them"
    )


class ContextSettings(Section):
    """What the model is shown."""

    interaction_mode: Literal["coordinates", "set_of_marks"] = Field(
        "coordinates", description="the model points at places, or names numbered elements"
    )
    observation: Literal["image", "text", "both"] | None = Field(
        None,
        description="what of a page is shown (null: `image` with coordinates, `both` with "
        "set_of_marks)",
    )
    window: Annotated[int, BeforeValidator(number), Field(ge=0, le=100)] = Field(
        4, description="so many rounds are shown whole, older ones in a few words"
    )
    page_characters: Annotated[int, BeforeValidator(number), Field(ge=1_000, le=1_000_000)] = Field(
        20_000, description="so much of a page's text is shown at most"
    )
    screenshot_format: Literal["png", "jpeg", "webp"] = Field(
        "png", description="of the pictures that the model sees and the files keep"
    )
    screenshot_quality: Annotated[int, BeforeValidator(number), Field(ge=0, le=100)] = Field(
        80, description="of jpeg and webp"
    )


class JudgeOverrides(Section):
    """What is different for one purpose of the judge; what is not given is as above it."""

    is_one_key: ClassVar[bool] = True

    model: Text | None = Field(None, description="another model")
    base_url: Text | list[Any] | None = Field(None, description="another server")
    openai_api_key_env_var: Text | None = Field(None, description="another key's variable")
    temperature: Amount | None = Field(None, description="another temperature")
    top_p: Share | None = Field(None, description="another share")
    max_tokens: Count | None = Field(None, description="another length")
    max_completion_tokens: Count | None = Field(None, description="another length, so named")
    reasoning_effort: Text | None = Field(None, description="another effort")
    timeout: Positive | None = Field(None, description="another time")
    max_retries: Natural | None = Field(None, description="another number of tries")

    @property
    def plain(self) -> dict[str, Any]:
        return self.model_dump(mode="json", exclude_unset=True)


class JudgeSettings(Section):
    """The judge: a vision model behind an OpenAI-compatible server."""

    model: Text = Field(description="the judge's name")
    base_url: Text | list[Any] = Field(
        "https://api.openai.com/v1", description="where it is; also a list, as vllm_server_url"
    )
    openai_api_key_env_var: Text | None = Field(
        "OPENAI_API_KEY", description="the environment variable with its key (null: it needs none)"
    )
    temperature: Amount | None = Field(0.0, description="of its answers (null: not sent)")
    top_p: Share | None = Field(None, description="the same of top_p")
    max_tokens: Count | None = Field(2048, description="the longest answer")
    max_completion_tokens: Count | None = Field(
        None, description="the same, for servers that call it so; sent instead"
    )
    reasoning_effort: Text | None = Field(None, description="of a judge that thinks")
    timeout: Positive = Field(120.0, description="seconds for one question")
    max_retries: Natural = Field(2, description="how often a question is asked again")
    max_screenshots: Count = Field(8, description="how many screenshots an evaluation looks at")
    keypoint_detection: JudgeOverrides = Field(
        usual(JudgeOverrides), description="what is different when screenshots are chosen"
    )
    blocking_detection: JudgeOverrides = Field(
        usual(JudgeOverrides), description="what is different when walls are looked for"
    )
    evaluation: JudgeOverrides = Field(
        usual(JudgeOverrides), description="what is different when the criteria are judged"
    )

    @property
    def plain(self) -> dict[str, Any]:
        purposes = ("keypoint_detection", "blocking_detection", "evaluation")
        own = {name: getattr(self, name).plain for name in purposes}
        return self.model_dump(mode="json", exclude=set(purposes)) | own


class TrackerSettings(Section):
    """Where the metrics go besides the files."""

    kind: Literal["wandb", "jsonl"] | None = Field(
        None, description="`wandb`, `jsonl` (<save_path>/metrics.jsonl), or nothing"
    )
    project: Text = Field("rollgym", description="the tracker's project")
    name: Text | None = Field(None, description="the run's name there (null: that of save_path)")


class BlocklistSettings(Section):
    """Which domains training stays away from, and for how long."""

    observations: Count = Field(3, description="so many trajectories must have been at a domain")
    threshold: Share = Field(0.5, description="and this part of them was blocked, to block it")
    expiry_hours: Positive = Field(12.0, description="hours for which it stays blocked")


class RolloutSettings(Section):
    """Everything that one rollout command can be told."""

    save_path: Path = Field(description="the folder for everything that the rollouts leave")
    data_path: Path | None = Field(
        None, description="the folder with the task files; the bundled ones need none"
    )
    seed: Natural = Field(0, description="of everything that is decided at random")
    iteration: Natural | None = Field(
        None,
        description="which iteration (null: the first that is not finished; with a retry: the "
        "last)",
    )
    retry_failed: bool = Field(False, description="run failed rollouts of the iteration again")
    retry_omitted: bool = Field(False, description="run those again that were left out")
    embedded: tuple[EmbeddedName, ...] = Field(
        (),
        description="servers to start for the length of the run: any of `browser`, `sites`, "
        "`scripted`",
    )
    model: ModelSettings = Field(
        usual(ModelSettings), alias="model_config", description="how the model is spoken to"
    )
    policy_config: PolicySettings = Field(
        usual(PolicySettings), description="which model, and how its replies are sampled"
    )
    context_config: ContextSettings = Field(
        usual(ContextSettings), description="what the model is shown"
    )
    env_config: EnvironmentSettings = Field(
        usual(EnvironmentSettings), description="browsers, tasks, limits and ranks"
    )
    openai_config: JudgeSettings | None = Field(
        None, description="the judge (null: none; tasks of the test sites need none)"
    )
    tracker_config: TrackerSettings = Field(
        usual(TrackerSettings), description="where the metrics go besides the files"
    )
    blocklist_config: BlocklistSettings = Field(
        usual(BlocklistSettings), description="which domains training stays away from"
    )

    @field_validator("embedded", mode="after")
    @classmethod
    def _no_duplicates(cls, value: tuple[EmbeddedName, ...]) -> tuple[EmbeddedName, ...]:
        if len(set(value)) < len(value):
            raise ValueError("a server is named twice")
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

    @field_validator("save_path", "data_path", mode="before")
    @classmethod
    def _no_empty_path(cls, value: object) -> object:
        if value == "":
            raise ValueError("give the name of a folder")
        return value

    @property
    def runs_again(self) -> bool:
        """Whether rollouts that have an outcome are to run again."""
        return self.retry_failed or self.retry_omitted

    @property
    def completion_threshold(self) -> float:
        """1 where rollouts run again: most have ended then, and these would be left out at once."""
        return 1.0 if self.runs_again else self.env_config.completion_threshold

    @property
    def judge(self) -> dict[str, Any] | None:
        """`openai_config` as the evaluator takes it."""
        return self.openai_config.plain if self.openai_config else None

    @property
    def context(self) -> dict[str, Any]:
        """`context_config` as the agent takes it: it keeps the page's tree where told to."""
        rich = {"accessibility_tree": True} if self.env_config.use_rich_actree else {}
        return self.context_config.plain | rich

    @classmethod
    def of(cls, config: Mapping[str, Any], origin: Origin = lambda _: "") -> "RolloutSettings":
        """Read a configuration; `origin` says where a key was given. Raises SettingsError."""
        return read(cls, config, origin)
