"""Branches in the words of trainers: what TRL and verl call prompt, completion and mask.

Both split the tokens of a rollout in two. The *prompt* ends before the first sampled token; the
rest has a mask that is 1 for what the model sampled and 0 for what tools returned. The functions
take branches of `rollgym.read_branches` and import neither package.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

from rollgym.export.branches import RolloutBranch
from rollgym.servers.responses import JsonObject

__all__ = ["SplitBranch", "agent_loop_output", "trl_rollouts"]


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
