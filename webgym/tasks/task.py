"""A web task as its JSONL row has it.

`difficulty` is a positive integer: 1 to 3 are easy, 4 to 6 medium, 7 and more hard, and that
decides how many steps an episode may take. Fields that only a verifier of the task's own
understands stay in the row.
"""

from enum import StrEnum
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

import msgspec

from rollgym.records import Row, RowError
from webgym.tasks.rubric import Rubric

Split = Literal["train", "test"]
MaxSteps = dict["Difficulty", int]


class Difficulty(StrEnum):
    EASY = "easy"
    MEDIUM = "medium"
    HARD = "hard"

    @classmethod
    def of(cls, number: int) -> "Difficulty":
        if number <= 3:
            return cls.EASY
        return cls.MEDIUM if number <= 6 else cls.HARD


DEFAULT_MAX_STEPS: dict[Split, MaxSteps] = {
    "train": {Difficulty.EASY: 10, Difficulty.MEDIUM: 20, Difficulty.HARD: 30},
    "test": {Difficulty.EASY: 30, Difficulty.MEDIUM: 50, Difficulty.HARD: 70},
}


class _Fields(msgspec.Struct, frozen=True):
    task_name: Annotated[str, msgspec.Meta(min_length=1)]
    website: Annotated[str, msgspec.Meta(min_length=1)]
    difficulty: Annotated[int, msgspec.Meta(ge=1)] = 1
    domain: str = ""
    subdomain: str = ""
    evaluator_reference: Any = None
    definite_answer: str | None = None
    task_id: str | int | None = None
    verifier: Literal["sites", "miniwob"] | None = None


class WebTask(msgspec.Struct, frozen=True, kw_only=True):
    """One task. `verifier` names who knows the truth about it; without one a judge decides.

    `row` is the whole row, as the file has it.
    """

    task_id: str
    task_name: str
    website: str
    difficulty: int
    domain: str
    subdomain: str
    rubric: Rubric
    definite_answer: str | None
    verifier: Literal["sites", "miniwob"] | None
    row: Row

    @classmethod
    def of(cls, row: Row, default_id: str) -> "WebTask":
        """Read a row. Raises RowError, naming the field."""
        try:
            fields = msgspec.json.decode(row.raw, type=_Fields)
            rubric = Rubric.of(fields.evaluator_reference)
        except msgspec.ValidationError as error:
            raise RowError(str(error)) from error
        except ValueError as error:
            raise RowError(f"field 'evaluator_reference': {error}") from error
        if urlsplit(fields.website).scheme.lower() not in ("http", "https", ""):
            raise RowError(f"field 'website': {fields.website!r:.100} is no web address")
        return cls(
            task_id=default_id if fields.task_id is None else str(fields.task_id),
            task_name=fields.task_name,
            website=fields.website,
            difficulty=fields.difficulty,
            domain=fields.domain,
            subdomain=fields.subdomain,
            rubric=rubric,
            definite_answer=fields.definite_answer,
            verifier=fields.verifier,
            row=row,
        )

    @property
    def category(self) -> Difficulty:
        return Difficulty.of(self.difficulty)

    @property
    def host(self) -> str:
        """The domain of the website, in lower case, without `www.`."""
        address = self.website if "//" in self.website else f"//{self.website}"
        return (urlsplit(address).hostname or "").removeprefix("www.")
