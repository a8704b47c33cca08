"""Which rollouts of a file are shown, and what they amount to together."""

from array import array
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from itertools import islice
from math import fsum, isfinite, isnan

import msgspec

from rollgym.records.task import Natural
from rollgym.viewer.errors import PageError
from rollgym.viewer.index import UNKNOWN, Columns, LineKind


class Filter(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a reader asks for in the query of the URL; None asks for nothing."""

    success: bool | None = None
    min_reward: float | None = None
    task: Natural | None = None

    @classmethod
    def of(cls, query: Mapping[str, str]) -> "Filter":
        """An empty value asks for nothing, as a form sends it. Raises PageError."""
        given = {name: query.get(name, "").strip() for name in cls.__struct_fields__}
        given = {name: value for name, value in given.items() if value}
        try:
            wanted = msgspec.convert(given, cls, strict=False)
        except msgspec.ValidationError as error:
            raise _unusable(str(error)) from error
        if wanted.min_reward is not None and not isfinite(wanted.min_reward):
            raise _unusable(f"min_reward={wanted.min_reward} is not finite")
        return wanted

    def query(self) -> dict[str, str]:
        """The same as a query."""
        asked: dict[str, bool | float] = msgspec.to_builtins(self)
        return {name: str(value).lower() for name, value in asked.items()}

    def select(self, columns: Columns) -> "array[int]":
        """The numbers of the lines that fit, in order."""
        lines = zip(columns.kinds, columns.successes, columns.rewards, columns.tasks, strict=True)
        return array(
            "Q",
            (
                number
                for number, (kind, success, reward, task) in enumerate(lines, start=1)
                if kind != LineKind.BLANK
                and (self.success is None or success == self.success)
                and (self.min_reward is None or reward >= self.min_reward)
                and (self.task is None or task == self.task)
            ),
        )


class Overview(msgspec.Struct, frozen=True):
    """Numbers of a selection; None where there is nothing to take them from."""

    rollouts: int
    unreadable: int
    mean_reward: float | None
    success_rate: float | None

    @classmethod
    def of(cls, columns: Columns, lines: Sequence[int]) -> "Overview":
        rewards = [reward for line in lines if not isnan(reward := columns.rewards[line - 1])]
        judged = [success for line in lines if (success := columns.successes[line - 1]) != UNKNOWN]
        unreadable = sum(columns.kinds[line - 1] == LineKind.BAD for line in lines)
        return cls(
            rollouts=len(lines) - unreadable,
            unreadable=unreadable,
            mean_reward=fsum(rewards) / len(rewards) if rewards else None,
            success_rate=sum(judged) / len(judged) if judged else None,
        )


def lines_of_task(columns: Columns, task: int, limit: int) -> list[int]:
    """The first lines that hold rollouts of a task."""
    lines = (line for line, its_task in enumerate(columns.tasks, start=1) if its_task == task)
    return list(islice(lines, limit))


def _unusable(reason: str) -> PageError:
    return PageError(
        HTTPStatus.BAD_REQUEST,
        f"The filter cannot be used: {reason}. `success` is true or false, `min_reward` a number, "
        "`task` the index of a task.",
    )
