"""The branches of rollouts: what a trainer reads of exact tokens (`rollgym.records.branches`).

TRL and verl split the tokens of a branch in two. The *prompt* ends before the first sampled token;
the rest has a mask that is 1 for what the model sampled and 0 for what tools returned.
`trl_rollouts` and `agent_loop_output` write branches in this form and import neither package.
"""

from collections.abc import Iterable, Iterator, Sequence
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple

from msgspec.structs import asdict

from rollgym.export.filter import Staleness, StalenessFilter
from rollgym.export.rollouts import open_source
from rollgym.export.source import RolloutPosition, RolloutSource
from rollgym.metrics.exact import Moments
from rollgym.records.branches import Branch
from rollgym.records.packing import TokenError
from rollgym.rollouts.token_rows import rollout_tokens
from rollgym.servers.responses import JsonObject

__all__ = ["RolloutBranch", "agent_loop_output", "read_branches", "trl_rollouts"]


class Advantage(NamedTuple):
    """The reward of a rollout minus the mean of the rollouts of its task.

    The scaled one is divided by the sample standard deviation (ddof=1, as torch computes it), and 0
    where all rewards are equal.
    """

    advantage: float
    advantage_scaled: float


class RolloutBranch(Branch, frozen=True, kw_only=True):
    """A branch with the key, the verdict and the advantage of its rollout.

    `number` is its place in the rollout, from 0.
    """

    task: int
    repeat: int
    number: int
    reward: float
    success: bool
    advantage: float
    advantage_scaled: float


def read_branches(
    path: str | PathLike[str],
    *,
    max_staleness: int | None = None,
    policy_version: str | int = "",
) -> Iterator[RolloutBranch]:
    """Every branch of the completed rollouts at a path, in the order of tasks and repeats.

    The path is a file of rollouts, the folder of a collection or of web rollouts, or a `.pt` file.
    Rollouts without tokens have no branch, and count for the advantages of the others. Branches
    without a token in the loss are left out.

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
            kept = fresh.fresh(members) if fresh else members
            for member, advantage in zip(kept, advantages(kept), strict=True):
                yield from rollout_branches(source, member, advantage)


def advantages(members: Sequence[RolloutPosition]) -> list[Advantage]:
    """The advantages of the rollouts of a task."""
    moments = reward_moments(members)
    mean, deviation = moments.mean or 0.0, moments.sample_std
    differences = [member.reward - mean for member in members]
    return [Advantage(each, each / deviation if deviation else 0.0) for each in differences]


def reward_moments(members: Iterable[RolloutPosition]) -> Moments:
    return Moments(member.reward for member in members)


def rollout_branches(
    source: RolloutSource, member: RolloutPosition, advantage: Advantage
) -> list[RolloutBranch]:
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
            **advantage._asdict(),
        )
        for number, branch in enumerate(branches)
        if any(branch.loss_mask)
    ]


class SplitBranch(NamedTuple):
    """A branch before and after its first sampled token. `logprobs` are None where unknown."""

    prompt: list[int]
    completion: list[int]
    mask: list[int]
    logprobs: list[float] | None

    @classmethod
    def of(cls, branch: RolloutBranch) -> "SplitBranch":
        begins = branch.loss_mask.index(1)
        return cls(
            branch.input_ids[:begins],
            branch.input_ids[begins:],
            branch.loss_mask[begins:],
            None if branch.logprobs is None else branch.logprobs[begins:],
        )


def agent_loop_output(branch: RolloutBranch) -> JsonObject:
    """The fields of verl's `AgentLoopOutput`: `AgentLoopOutput(**agent_loop_output(branch))`.

    An agent loop of verl returns them for one rollout; `extra_fields` tell which one it was.
    """
    split = SplitBranch.of(branch)
    return {
        "prompt_ids": split.prompt,
        "response_ids": split.completion,
        "response_mask": split.mask,
        "response_logprobs": split.logprobs,
        "reward_score": branch.reward,
        "num_turns": len(branch.turns),
        "metrics": {},
        "extra_fields": {
            "uid": str(branch.task),
            "_ng_task_index": branch.task,
            "_ng_rollout_index": branch.repeat,
            "branch": branch.number,
            "success": branch.success,
            "versions": list(branch.versions),
        },
    }


def trl_rollouts(branches: Sequence[RolloutBranch]) -> dict[str, list[Any]]:
    """What a `rollout_func` of TRL's `GRPOTrainer` returns for these branches, in their order.

    TRL wants one branch for each prompt that it gave, and log probabilities for every token.
    `reward` reaches the reward functions as a keyword. Raises ValueError for a branch without log
    probabilities.
    """
    splits = [SplitBranch.of(branch) for branch in branches]
    logprobs = [split.logprobs for split in splits if split.logprobs is not None]
    if len(logprobs) < len(splits):
        raise ValueError(
            "TRL needs the log probability of every sampled token, and some branches have none: "
            "collect with return_token_id_information or continue_from_tokens"
        )
    return {
        "prompt_ids": [split.prompt for split in splits],
        "completion_ids": [split.completion for split in splits],
        "logprobs": logprobs,
        "env_mask": [split.mask for split in splits],
        "reward": [branch.reward for branch in branches],
        "task": [branch.task for branch in branches],
    }
