r"""Multiple choice: one question and several options, one of which is right.

*Choice.* A row may bring regular expressions that capture the choice
(`template_metadata.output_regex`). If there are none, or none finds an option, the grading mode
decides how the answer is read: that of the server's settings, else that of the row.

*Isolation.* An expression can take exponential time. It runs in a worker process with a limit on
its processor time; beyond it the task is defective, because the answer may be right.
"""

from typing import Annotated, Any, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from resources_servers.mcqa.extraction import GradingMode, choice_of, extract_choice
from rollgym.metrics.aggregate import (
    accuracy,
    default_key_metrics,
    highest_k,
    pass_majority_metrics,
)
from rollgym.records import TaskError
from rollgym.servers import ResourcesConfig, ResourcesServer, Response, TaskRow, Verdict
from rollgym.servers.final_answer import answer_text
from rollgym.servers.isolation import CpuTimeExceededError, IsolatedWorkers
from rollgym.servers.server import ServerConfig, ServerDirectory
from rollgym.store import Setting

FEWEST_OPTIONS = 2
OUTPUT_REGEX = "output_regex"


def _as_mapping(options: object) -> object:
    """Options may also come as a list of mappings. An option without a text is left out."""
    if isinstance(options, dict):
        options = [options]
    if not isinstance(options, list) or not all(isinstance(part, dict) for part in options):
        return options
    pairs = [
        (letter.upper() if isinstance(letter, str) else letter, text)
        for part in options
        for letter, text in part.items()
        if text is not None
    ]
    if len(dict(pairs)) < len(pairs):
        raise ValueError("two options have the same letter")
    return dict(pairs)


def _as_letter(text: object) -> object:
    return text.strip().upper() if isinstance(text, str) else text


def _as_list(patterns: object) -> object:
    return [patterns] if isinstance(patterns, str) else patterns


Letter = Annotated[str, Field(pattern="^[A-Z]$")]
Options = Annotated[dict[Letter, str], BeforeValidator(_as_mapping)]


class TemplateMetadata(BaseModel):
    """How the prompt asked for the choice: expressions that capture it, words that precede it."""

    model_config = ConfigDict(extra="allow", frozen=True)

    output_regex: Annotated[list[str], BeforeValidator(_as_list)] = Field(default_factory=list)
    answer_prefix: str | None = None


class McqaTask(TaskRow):
    """`options` are the texts by letter, `expected_answer` is the letter of the right one."""

    options: Options = Field(default_factory=dict)
    expected_answer: Annotated[Letter, BeforeValidator(_as_letter)]
    grading_mode: GradingMode = GradingMode.STRICT_SINGLE_LETTER_BOXED
    template_metadata: TemplateMetadata | None = None

    @property
    def template(self) -> TemplateMetadata:
        return self.template_metadata or TemplateMetadata()

    @model_validator(mode="after")
    def _expects_an_option(self) -> Self:
        if not self.options and self.template.output_regex:
            return self
        if len(self.options) < FEWEST_OPTIONS:
            raise ValueError(f"options: there are {len(self.options)}; a question needs two")
        if self.expected_answer not in self.options:
            raise ValueError(f"expected_answer {self.expected_answer!r} is not one of the options")
        return self


class McqaConfig(ResourcesConfig):
    """How answers are read.

    Args:
        grading_mode: Replaces the grading mode of every row; null: each row has its own.
        regex_cpu_seconds: Processor time of one regular expression of a row.
        regex_wall_seconds: Wall time of one expression.
        regex_workers: Expressions that run at the same time, each in a process.
    """

    grading_mode: GradingMode | None = None
    regex_cpu_seconds: float = Field(default=2.0, gt=0)
    regex_wall_seconds: Annotated[float, Setting.TIMING] = Field(default=120.0, gt=0)
    regex_workers: Annotated[int, Setting.TIMING] = Field(default=1, ge=1)


class McqaServer(ResourcesServer[McqaTask, None]):
    """Without tools: the answer is one message."""

    config: McqaConfig

    def __init__(
        self, name: str, config: ServerConfig, directory: ServerDirectory | None = None
    ) -> None:
        super().__init__(name, config, directory)
        self._workers = IsolatedWorkers(
            "resources_servers.mcqa.custom_regex:search",
            workers=self.config.regex_workers,
            memory_bytes=1 << 30,
        )

    async def close(self) -> None:
        await self._workers.close()
        await super().close()

    async def verify(self, task: McqaTask, response: Response, state: None) -> Verdict:
        answer = answer_text(response.text)
        source: str | None = OUTPUT_REGEX
        chosen, invalid = await self._captured_choice(task, answer)
        if chosen is None:
            source = self.config.grading_mode or task.grading_mode
            prefix = task.template.answer_prefix or ""
            chosen = extract_choice(answer, task.options, GradingMode(source), prefix)
        success = chosen == task.expected_answer
        return Verdict(
            reward=float(success),
            success=success,
            extracted_answer=chosen,
            answer_source=source if chosen else None,
            **({"invalid_regex": invalid} if invalid else {}),
        )

    async def _captured_choice(self, task: McqaTask, answer: str) -> tuple[str | None, str]:
        """The choice that an expression of the row captures, and what is wrong with one of them.

        Raises TaskError for an expression that takes too long.
        """
        invalid = ""
        for pattern in task.template.output_regex:
            try:
                result: dict[str, str | None] = await self._workers.call(
                    pattern,
                    answer,
                    timeout=self.config.regex_wall_seconds,
                    cpu_timeout=self.config.regex_cpu_seconds,
                )
            except CpuTimeExceededError as error:
                raise TaskError(
                    f"template_metadata.output_regex {pattern[:200]!r} needs more than "
                    f"{self.config.regex_cpu_seconds:g} s of processor time for an answer; write "
                    "it without a repetition inside another, or raise regex_cpu_seconds"
                ) from error
            if result["invalid"] is not None:
                invalid = f"{pattern[:200]!r}: {result['invalid']}"
            chosen = choice_of(result["captured"] or "", task.options)
            if chosen is not None:
                return chosen, invalid
        return None, invalid

    def compute_metrics(self, tasks: list[list[dict[str, Any]]]) -> dict[str, Any]:
        """pass@k, average and majority@k, including rollouts whose answer cannot be read."""
        return dict(
            pass_majority_metrics(tasks, accuracy, lambda rollout: rollout.get("extracted_answer"))
        )

    def get_key_metrics(self, agent_metrics: dict[str, Any]) -> dict[str, Any]:
        unreadable = highest_k(agent_metrics, "pass@1[avg-of-{k}]", ("no_answer",))
        return {**default_key_metrics(agent_metrics), **unreadable}
