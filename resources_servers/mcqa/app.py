"""Multiple choice: one question, several options, one of which is right."""

from typing import Annotated, Any, Self

from pydantic import BeforeValidator, Field, model_validator

from resources_servers.mcqa.extraction import GradingMode, extract_choice
from rollgym.metrics.aggregate import (
    accuracy,
    default_key_metrics,
    highest_k,
    pass_majority_metrics,
)
from rollgym.servers import ResourcesServer, Response, TaskRow, Verdict


def _as_mapping(options: object) -> object:
    """Options may also come as a list of mappings, usually of one option each."""
    if not isinstance(options, list) or not all(isinstance(part, dict) for part in options):
        return options
    pairs = [pair for part in options for pair in part.items()]
    if len(dict(pairs)) < len(pairs):
        raise ValueError("a letter is used for two options")
    return dict(pairs)


Letter = Annotated[str, Field(pattern="^[A-Z]$")]
Options = Annotated[dict[Letter, str], BeforeValidator(_as_mapping), Field(min_length=2)]


class McqaTask(TaskRow):
    """`options` are the texts by letter, `expected_answer` is the letter of the right one."""

    options: Options
    expected_answer: Letter
    grading_mode: GradingMode = GradingMode.STRICT_SINGLE_LETTER_BOXED

    @model_validator(mode="after")
    def _expects_an_option(self) -> Self:
        if self.expected_answer not in self.options:
            raise ValueError(f"expected_answer {self.expected_answer!r} is none of the options")
        return self


class McqaServer(ResourcesServer[McqaTask, None]):
    """There are no tools: the answer is one message."""

    async def verify(self, task: McqaTask, response: Response, state: None) -> Verdict:
        chosen = extract_choice(response.text, task.options, task.grading_mode)
        success = chosen == task.expected_answer
        return Verdict(reward=float(success), success=success, extracted_answer=chosen)

    def compute_metrics(self, tasks: list[list[dict[str, Any]]]) -> dict[str, Any]:
        """pass@k, average and majority@k, also of rollouts whose answer cannot be read."""
        return dict(
            pass_majority_metrics(tasks, accuracy, lambda rollout: rollout.get("extracted_answer"))
        )

    def get_key_metrics(self, agent_metrics: dict[str, Any]) -> dict[str, Any]:
        unreadable = highest_k(agent_metrics, "pass@1[avg-of-{k}]", ("no_answer",))
        return {**default_key_metrics(agent_metrics), **unreadable}
