"""A web task: a row of a task file, and the rubric in it.

`files` are those that an agent can upload: by name, each a path or a `data:` URL.

`difficulty` is a positive integer: 1 to 3 are easy, 4 to 6 medium, 7 and more hard. It decides how
many steps an episode may take. Fields that only the task's own check uses stay in the row.

A rubric is facts that must hold, in groups. A row may give one text, a list of texts, a list of
`{description, difficulty}`, or groups with `facts`; all forms become groups with facts.
"""

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit
from urllib.request import urlopen

import msgspec

from rollgym.records import Row, RowError
from rollgym.records.decoding import decode_json
from webgym.browser.contract.commands import FileName


class FactGroup(msgspec.Struct, frozen=True):
    """Facts that belong together and that the screenshots must show."""

    description: str
    facts: tuple[str, ...]


class _RubricPart(msgspec.Struct, frozen=True):
    description: str = ""
    difficulty: int | None = None
    facts: tuple[Any, ...] = ()


class Rubric(msgspec.Struct, frozen=True):
    """All groups, in the order of the row."""

    groups: tuple[FactGroup, ...]

    @property
    def facts(self) -> tuple[str, ...]:
        return tuple(fact for group in self.groups for fact in group.facts)

    @classmethod
    def of(cls, written: object) -> "Rubric":
        """Read `evaluator_reference` in any of its forms. Raises ValueError."""
        if written is None or written == "":
            return cls(())
        parts = written if isinstance(written, list | tuple) else [written]
        return cls(tuple(_group(part) for part in parts))


def _group(part: object) -> FactGroup:
    if isinstance(part, str):
        return FactGroup(part, (part,))
    try:
        described = msgspec.convert(part, _RubricPart)
    except msgspec.ValidationError as error:
        raise ValueError(f"invalid part of a rubric: {error}") from error
    facts = tuple(_fact(fact) for fact in described.facts)
    if not facts and not described.description:
        raise ValueError("a part of the rubric has neither `description` nor `facts`")
    return FactGroup(described.description, facts or (described.description,))


def _fact(fact: object) -> str:
    if isinstance(fact, str):
        return fact
    if isinstance(fact, dict) and isinstance(fact.get("description"), str):
        return str(fact["description"])
    raise ValueError(f"invalid fact of a rubric: {fact!r:.100}")


Split = Literal["train", "test"]
SITES = "{sites}"
"""Stands for the address of the test sites in the rows of the bundled tasks."""
SESSION = "{session}"
"""Stands for the name of the episode's session in the website of a task with a verifier."""
SERVER_CHECKS = ("sites", "miniwob")
"""The verifiers that ask the task's server for the state of the session."""
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


class _WebTaskFields(msgspec.Struct, frozen=True):
    task_name: Annotated[str, msgspec.Meta(min_length=1)]
    website: Annotated[str, msgspec.Meta(min_length=1)]
    difficulty: Annotated[int, msgspec.Meta(ge=1)] = 1
    domain: str = ""
    subdomain: str = ""
    evaluator_reference: Any = None
    definite_answer: str | None = None
    task_id: str | int | None = None
    files: dict[FileName, str] = {}
    verifier: Annotated[str, msgspec.Meta(min_length=1)] | None = None


class WebTask(msgspec.Struct, frozen=True, kw_only=True):
    """One task. `verifier` names the task's own check, which is `sites`, `miniwob` or a function of
    the user (`webgym.models.verifiers`); without one a judge scores the episode.

    `row` is the whole row, unchanged.
    """

    task_id: str
    task_name: str
    website: str
    difficulty: int
    domain: str
    subdomain: str
    rubric: Rubric
    definite_answer: str | None
    files: dict[str, str] = {}
    verifier: str | None
    row: Row

    @classmethod
    def of(cls, row: Row, default_id: str) -> "WebTask":
        """Read a row. Raises RowError, naming the field."""
        try:
            fields = decode_json(row.raw, _WebTaskFields)
            rubric = Rubric.of(fields.evaluator_reference)
        except msgspec.ValidationError as error:
            raise RowError(str(error)) from error
        except ValueError as error:
            raise RowError(f"field 'evaluator_reference': {error}") from error
        if urlsplit(fields.website).scheme.lower() not in ("http", "https", ""):
            raise RowError(f"field 'website': {fields.website!r:.100} is not a web address")
        return cls(
            task_id=default_id if fields.task_id is None else str(fields.task_id),
            task_name=fields.task_name,
            website=fields.website,
            difficulty=fields.difficulty,
            domain=fields.domain,
            subdomain=fields.subdomain,
            rubric=rubric,
            definite_answer=fields.definite_answer,
            files=fields.files,
            verifier=fields.verifier,
            row=row,
        )

    @property
    def is_checked_by_its_server(self) -> bool:
        """Whether the verdict needs the state of the session, which the task's server keeps."""
        return self.verifier in SERVER_CHECKS

    def read_file(self, name: str) -> bytes:
        """The content of one of its files. Raises KeyError, and OSError if it cannot be read."""
        source = self.files[name]
        if source.startswith("data:"):
            with urlopen(source) as data:  # noqa: S310 - it is a data URL
                return bytes(data.read())
        return Path(source).read_bytes()

    @property
    def category(self) -> Difficulty:
        return Difficulty.of(self.difficulty)

    @property
    def host(self) -> str:
        """The domain of the website, in lower case, without `www.`."""
        address = self.website if "//" in self.website else f"//{self.website}"
        return (urlsplit(address).hostname or "").removeprefix("www.")
