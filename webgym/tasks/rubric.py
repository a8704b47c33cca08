"""The rubric of a task: facts that must hold, in groups, however the row wrote them.

A row may give one text, a list of texts, a list of `{description, difficulty}`, or groups with
`facts`. Whoever judges sees groups with facts.
"""

from typing import Any

import msgspec


class Fact(msgspec.Struct, frozen=True):
    """Something the screenshots must show."""

    text: str


class FactGroup(msgspec.Struct, frozen=True):
    """Facts that belong together; `difficulty` where the row says one."""

    description: str
    facts: tuple[Fact, ...]
    difficulty: int | None = None


class _Described(msgspec.Struct, frozen=True):
    description: str = ""
    difficulty: int | None = None
    facts: tuple[Any, ...] = ()


class Rubric(msgspec.Struct, frozen=True):
    """All groups, in the order of the row."""

    groups: tuple[FactGroup, ...]

    @property
    def facts(self) -> tuple[Fact, ...]:
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
        return FactGroup(part, (Fact(part),))
    try:
        described = msgspec.convert(part, _Described)
    except msgspec.ValidationError as error:
        raise ValueError(f"no part of a rubric: {error}") from error
    facts = tuple(_fact(fact) for fact in described.facts)
    if not facts and not described.description:
        raise ValueError("a part of the rubric has neither `description` nor `facts`")
    return FactGroup(
        described.description, facts or (Fact(described.description),), described.difficulty
    )


def _fact(fact: object) -> Fact:
    if isinstance(fact, str):
        return Fact(fact)
    if isinstance(fact, dict) and isinstance(fact.get("description"), str):
        return Fact(fact["description"])
    raise ValueError(f"no fact of a rubric: {fact!r:.100}")
