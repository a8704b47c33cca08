"""The branches of rollouts: what a trainer reads of exact tokens (`rollgym.records.tokens`)."""

from collections.abc import Iterator
from os import PathLike
from pathlib import Path

from msgspec.structs import asdict

from rollgym.export.open_source import open_source
from rollgym.export.source import RolloutPosition, RolloutSource
from rollgym.export.staleness import Staleness, StalenessFilter
from rollgym.records.packing import TokenError
from rollgym.records.tokens import Branch
from rollgym.rollouts.token_rows import rollout_tokens

__all__ = ["RolloutBranch", "read_branches"]


class RolloutBranch(Branch, frozen=True, kw_only=True):
    """A branch with the key and the verdict of its rollout; `number` is its place there, from 0."""

    task: int
    repeat: int
    number: int
    reward: float
    success: bool


def read_branches(
    path: str | PathLike[str],
    *,
    max_staleness: int | None = None,
    policy_version: str | int = "",
) -> Iterator[RolloutBranch]:
    """Every branch of the completed rollouts at a path, in the order of tasks and repeats.

    The path is a file of rollouts, the folder of a collection or of web rollouts, or a `.pt` file.
    Rollouts without tokens have no branch. Branches without a token in the loss are left out.

    With `max_staleness`, rollouts whose oldest turn is more versions behind `policy_version` are
    left out, and those with a turn of an unknown version; without `policy_version`, it is the
    newest one of all rollouts at the path.

    Raises RefusedError for rollouts that cannot be read, StorageError.
    """
    with open_source(Path(path)) as source:
        fresh = None
        if max_staleness is not None:
            limit = Staleness(max_staleness, str(policy_version))
            fresh = StalenessFilter(source.version_order(), limit)
        for members in source.groups():
            for member in fresh.fresh(members) if fresh else members:
                yield from rollout_branches(source, member)


def rollout_branches(source: RolloutSource, member: RolloutPosition) -> list[RolloutBranch]:
    """The branches of one rollout that have tokens in the loss. Raises ExportError, StoreError."""
    try:
        branches = rollout_tokens(source.row(member)).branches()
    except TokenError as error:
        raise source.problem(member, str(error)) from error
    return [
        RolloutBranch(
            **asdict(branch),
            task=member.task,
            repeat=member.repeat,
            number=number,
            reward=member.reward,
            success=member.success,
        )
        for number, branch in enumerate(branches)
        if any(branch.loss_mask)
    ]
