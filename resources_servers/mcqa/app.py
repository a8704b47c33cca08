r"""Multiple choice: one question and several options, one of which is right.

*Choice.* The grading mode says where the choice must be: in the last `\boxed{…}` or after the last
`Answer:`. It must be the letter of one option. The lenient modes also accept the letter in brackets
or with the text of its option, and the text of exactly one option. Everything else counts as no
answer; the verifier never guesses.
"""

import re
from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Any, Self

from pydantic import BeforeValidator, Field, model_validator

from rollgym.metrics.aggregate import (
    accuracy,
    default_key_metrics,
    highest_k,
    pass_majority_metrics,
)
from rollgym.servers import ResourcesServer, Response, TaskRow, Verdict
from rollgym.servers.final_answer import last_boxed, without_thinking

# Repetitions side by side are limited: an answer may have a megabyte of blanks.
_ANSWER_COLON = re.compile(r"\banswer[*_ ]{0,4}(?:is)?[*_ ]{0,4}:[*_]{0,4}", re.IGNORECASE)
_COMMAND = re.compile(r"\\(?:text|textbf|textit|mathrm|mathbf|mathit|mbox)\s*\{([^{}]*)\}")
_LETTER = re.compile(r"\(?([A-Za-z])\)?")
_LABELLED = re.compile(r"\(?([A-Za-z])(?:\)|[.:]\)?)\s*(\S.*)", re.DOTALL)
_DECORATION = " \t\r\n*_`$\"'"


class GradingMode(StrEnum):
    """Where the choice must be, and how strictly it is read."""

    STRICT_SINGLE_LETTER_BOXED = "strict_single_letter_boxed"
    LENIENT_BOXED = "lenient_boxed"
    LENIENT_ANSWER_COLON = "lenient_answer_colon"


def extract_choice(text: str, options: Mapping[str, str], mode: GradingMode) -> str | None:
    """The letter of the chosen option; None if the answer cannot be read."""
    answer = without_thinking(text)
    match mode:
        case GradingMode.STRICT_SINGLE_LETTER_BOXED:
            letter = last_boxed(answer)
            return letter if letter in options else None
        case GradingMode.LENIENT_BOXED:
            return _choice(last_boxed(answer), options)
        case GradingMode.LENIENT_ANSWER_COLON:
            return _choice(_after_colon(answer), options)


def _after_colon(text: str) -> str | None:
    """The line after the last `Answer:`, or the box in that line."""
    begins = [match.end() for match in _ANSWER_COLON.finditer(text)]
    if not begins:
        return None
    line = text[begins[-1] :].lstrip().partition("\n")[0]
    return last_boxed(line) or line


def _choice(found: str | None, options: Mapping[str, str]) -> str | None:
    if found is None:
        return None
    content = _COMMAND.sub(r"\1", found).strip(_DECORATION).removesuffix(".").strip(_DECORATION)
    alone, labelled = _LETTER.fullmatch(content), _LABELLED.fullmatch(content)
    if alone and alone[1].upper() in options:
        return alone[1].upper()
    if labelled and labelled[1].upper() in options:
        chosen = labelled[1].upper()
        return chosen if _plain(labelled[2]) == _plain(options[chosen]) else None
    same = [letter for letter, text in options.items() if _plain(text) == _plain(content)]
    return same[0] if len(same) == 1 else None


def _plain(text: str) -> str:
    return " ".join(text.casefold().split()).strip(_DECORATION + ".")


def _as_mapping(options: object) -> object:
    """Options may also come as a list of mappings, usually of one option each."""
    if not isinstance(options, list) or not all(isinstance(part, dict) for part in options):
        return options
    pairs = [pair for part in options for pair in part.items()]
    if len(dict(pairs)) < len(pairs):
        raise ValueError("two options have the same letter")
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
            raise ValueError(f"expected_answer {self.expected_answer!r} is not one of the options")
        return self


class McqaServer(ResourcesServer[McqaTask, None]):
    """Without tools: the answer is one message."""

    async def verify(self, task: McqaTask, response: Response, state: None) -> Verdict:
        chosen = extract_choice(response.text, task.options, task.grading_mode)
        success = chosen == task.expected_answer
        return Verdict(reward=float(success), success=success, extracted_answer=chosen)

    def compute_metrics(self, tasks: list[list[dict[str, Any]]]) -> dict[str, Any]:
        """pass@k, average and majority@k, including rollouts whose answer cannot be read."""
        return dict(
            pass_majority_metrics(tasks, accuracy, lambda rollout: rollout.get("extracted_answer"))
        )

    def get_key_metrics(self, agent_metrics: dict[str, Any]) -> dict[str, Any]:
        unreadable = highest_k(agent_metrics, "pass@1[avg-of-{k}]", ("no_answer",))
        return {**default_key_metrics(agent_metrics), **unreadable}
