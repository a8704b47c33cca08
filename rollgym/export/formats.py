"""Formats for trainers: one function each, from the rollouts of one task to any number of examples.

A format reads only the conversations that it needs. What it leaves out, it counts with its reason.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from decimal import Decimal

import msgspec

from rollgym.export.atif import trajectory
from rollgym.export.branches import (
    RolloutBranch,
    advantages,
    agent_loop_output,
    reward_moments,
    rollout_branches,
)
from rollgym.export.source import (
    BLOB,
    ExportedConversation,
    ExportError,
    RolloutPosition,
    RolloutSource,
)
from rollgym.records.packing import TokenError
from rollgym.records.version import VersionOrder
from rollgym.servers.responses import JsonObject

POLICY_VERSIONS = "policy_versions"
DIFFERENT_PROMPTS = "different prompts or tools"


class FormatOptions(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The options of all formats; each reads its own.

    - `min_reward` (sft): the smallest reward; None for successful rollouts only.
    - `margin` (preference): the smallest difference in reward.
    - `every_pair` (preference): every pair, not only the best and the worst rollout.
    - `drop_equal` (groups, tokens, verl): leave out tasks whose rollouts all have the same reward.
    """

    min_reward: float | None = None
    margin: float = 0.0
    every_pair: bool = False
    drop_equal: bool = False


class ExportGroup:
    """The completed rollouts of one task, at least one, and which of them a format left out."""

    def __init__(
        self,
        source: RolloutSource,
        members: Sequence[RolloutPosition],
        order: VersionOrder | None = None,
    ) -> None:
        self.members = members
        self.dropped: dict[RolloutPosition, str] = {}
        """Why a rollout was left out."""
        self.replies_dropped: list[str] = []
        """Why single replies of the other rollouts were left out."""
        self._source = source
        self._order = order or VersionOrder(())

    def policy_versions(self, member: RolloutPosition, name: str = POLICY_VERSIONS) -> JsonObject:
        """The policy versions of a rollout in their order, as a field; no field if unknown."""
        if member.versions is None:
            return {}
        return {name: [each for each in self._order.sorted() if each in member.versions]}

    @property
    def has_equal_rewards(self) -> bool:
        return len({member.reward for member in self.members}) == 1

    def drops_equal(self, options: FormatOptions) -> bool:
        """Whether the options leave out this task, because all rewards are equal."""
        dropped = options.drop_equal and self.has_equal_rewards
        if dropped:
            self.dropped |= dict.fromkeys(self.members, "equal rewards")
        return dropped

    def conversations(self, member: RolloutPosition) -> list[ExportedConversation]:
        """The conversations of a rollout: one, or one for each step. Raises ExportError."""
        return self._source.conversations(member)

    def branches(self) -> Iterator[tuple[RolloutPosition, list[RolloutBranch]]]:
        """The exact tokens of each rollout. Raises ExportError, StorageError."""
        for member, advantage in zip(self.members, advantages(self.members), strict=True):
            branches = rollout_branches(self._source, member, advantage)
            if not branches:
                self.dropped[member] = "no tokens"
            yield member, branches

    def trajectory(self, member: RolloutPosition) -> JsonObject:
        """A rollout as a document of ATIF. Raises ExportError, StorageError."""
        try:
            return trajectory(self._source.row(member), member, self.conversation(member))
        except TokenError as error:
            raise self._source.problem(member, str(error)) from error

    def together(self, members: Sequence[RolloutPosition]) -> list[ExportedConversation]:
        """The conversation of each member.

        Raises ExportError where prompt or tools differ, and the agent did not write them.
        """
        found = [self.conversation(member) for member in members]
        for member, each in zip(members, found, strict=True):
            if not each.is_prompt_of_agent and not each.begins_as(found[0]):
                raise self._source.problem(
                    member,
                    f"prompt or tools differ from those in line {members[0].line}, but both are "
                    f"rollouts of task {member.task}: different tasks need different indexes",
                )
        return found

    def conversation(self, member: RolloutPosition) -> ExportedConversation:
        """The one conversation of a rollout. Raises ExportError."""
        if self._source.is_stepwise:
            raise ExportError(
                "these rollouts have a prompt for each step, and this format needs one for the "
                "whole rollout. Use --format sft."
            )
        return self.conversations(member)[0]


Format = Callable[[ExportGroup, FormatOptions], Iterator[JsonObject]]


def supervised(group: ExportGroup, options: FormatOptions) -> Iterator[JsonObject]:
    """`{"messages", "tools"}` for each success, or for each rollout with `min_reward` or more.

    Images that were sent are in the list `images`, in the order of their places in the messages.
    """
    for member in group.members:
        if options.min_reward is None and not member.success:
            group.dropped[member] = "no success"
        elif options.min_reward is not None and member.reward < options.min_reward:
            group.dropped[member] = "reward below the smallest"
        else:
            conversations = group.conversations(member)
            flaws = [found.flaw for found in conversations if found.flaw]
            if len(flaws) == len(conversations):
                group.dropped[member] = flaws[0] if flaws else "no reply"
                continue
            group.replies_dropped += flaws
            for found in conversations:
                if not found.flaw:
                    yield _with_template(_with_images(found), found)


def preference_pairs(group: ExportGroup, options: FormatOptions) -> Iterator[JsonObject]:
    """`{"prompt", "chosen", "rejected", "tools"}` for two rollouts of one task.

    The chosen one has the larger reward, by at least the margin in decimal arithmetic: 0.3 is 0.2
    more than 0.1. The pair of a task is its first best and its first worst rollout; with
    `every_pair` there is one example for each pair. A pair has one prompt, so there is
    none where the agent wrote two.
    """
    pairs = list(_pairs(group.members, options))
    paired = {member.repeat for pair in pairs for member in pair}
    wanted = [member for member in group.members if member.repeat in paired]
    group.dropped |= {
        member: "equal rewards" if group.has_equal_rewards else "in no pair"
        for member in group.members
        if member.repeat not in paired
    }
    read = group.together(wanted)
    conversations = {member.repeat: found for member, found in zip(wanted, read, strict=True)}
    pairs = [
        (chosen, rejected)
        for chosen, rejected in pairs
        if conversations[rejected.repeat].begins_as(conversations[chosen.repeat])
    ]
    paired = {member.repeat for pair in pairs for member in pair}
    group.dropped |= {member: DIFFERENT_PROMPTS for member in wanted if member.repeat not in paired}
    for chosen, rejected in pairs:
        conversation = conversations[chosen.repeat]
        example: JsonObject = {
            "prompt": conversation.prompt,
            "chosen": conversation.completion,
            "rejected": conversations[rejected.repeat].completion,
            "chosen_reward": chosen.reward,
            "rejected_reward": rejected.reward,
            "_ng_task_index": chosen.task,
            **group.policy_versions(chosen, f"chosen_{POLICY_VERSIONS}"),
            **group.policy_versions(rejected, f"rejected_{POLICY_VERSIONS}"),
        }
        yield _with_template(example, conversation)


def task_groups(group: ExportGroup, options: FormatOptions) -> Iterator[JsonObject]:
    """`{"prompt", "rollouts", "tools"}` for each task, with the rewards and advantages of all.

    The advantages are lists in the order of the rollouts, because as columns of numbers they keep
    their precision in every reader.
    """
    if group.drops_equal(options):
        return
    conversations = group.together(group.members)
    if not all(each.begins_as(conversations[0]) for each in conversations):
        group.dropped |= dict.fromkeys(group.members, DIFFERENT_PROMPTS)
        return
    rollouts = [
        {
            "_ng_rollout_index": member.repeat,
            "completion": conversation.completion,
            "reward": member.reward,
            "success": member.success,
            **group.policy_versions(member),
        }
        for member, conversation in zip(group.members, conversations, strict=True)
    ]
    moments, gains = reward_moments(group.members), advantages(group.members)
    example: JsonObject = {
        "_ng_task_index": group.members[0].task,
        "prompt": conversations[0].prompt,
        "rollouts": rollouts,
        "group_size": len(rollouts),
        "rewards": [member.reward for member in group.members],
        "advantages": [each.advantage for each in gains],
        "advantages_scaled": [each.advantage_scaled for each in gains],
        "reward_mean": moments.mean or 0.0,
        "reward_std": moments.sample_std,
    }
    yield _with_template(example, conversations[0])


def token_branches(group: ExportGroup, options: FormatOptions) -> Iterator[JsonObject]:
    """`{"input_ids", "loss_mask", "logprobs", "reward", …}` for each branch of each rollout.

    `version` is the policy version of its last turn, `versions` are those of all, and
    `version_ranges` say which ids each of them sampled, "" where that is unknown.
    """
    if group.drops_equal(options):
        return
    for member, branches in group.branches():
        for branch in branches:
            yield {
                "_ng_task_index": member.task,
                "_ng_rollout_index": member.repeat,
                "branch": branch.number,
                "input_ids": branch.input_ids,
                "loss_mask": branch.loss_mask,
                "logprobs": branch.logprobs,
                "reward": member.reward,
                "success": member.success,
                "advantage": branch.advantage,
                "advantage_scaled": branch.advantage_scaled,
                "group": member.task,
                "version": branch.version or None,
                "versions": branch.versions,
                "version_ranges": branch.version_ranges,
                "reason": branch.reason or None,
                "left_at": branch.left_at,
                "problems": branch.problems,
            }


def agent_loop_outputs(group: ExportGroup, options: FormatOptions) -> Iterator[JsonObject]:
    """The fields of verl's `AgentLoopOutput` for each branch, with all of them in its order.

    The prompt ends before the first sampled token. `uid` in the extra fields is the group.
    """
    if group.drops_equal(options):
        return
    for _, branches in group.branches():
        yield from map(agent_loop_output, branches)


def trajectories(group: ExportGroup, _: FormatOptions) -> Iterator[JsonObject]:
    """A document of ATIF for each rollout (`atif.py`)."""
    for member in group.members:
        yield group.trajectory(member)


FORMATS: Mapping[str, Format] = {
    "sft": supervised,
    "preference": preference_pairs,
    "groups": task_groups,
    "tokens": token_branches,
    "verl": agent_loop_outputs,
    "atif": trajectories,
}
"""The formats by their names on the command line."""


def _pairs(
    members: Sequence[RolloutPosition], options: FormatOptions
) -> Iterator[tuple[RolloutPosition, RolloutPosition]]:
    if options.every_pair:
        pairs = [(chosen, rejected) for chosen in members for rejected in members]
    else:
        rewards = [member.reward for member in members]
        best, worst = rewards.index(max(rewards)), rewards.index(min(rewards))
        pairs = [(members[best], members[worst])]
    return (pair for pair in pairs if _prefers(*pair, options.margin))


def _prefers(chosen: RolloutPosition, rejected: RolloutPosition, margin: float) -> bool:
    gap = Decimal(str(chosen.reward)) - Decimal(str(rejected.reward))
    return chosen.reward > rejected.reward and gap >= Decimal(str(margin))


def _with_template(example: JsonObject, conversation: ExportedConversation) -> JsonObject:
    """The example with what a chat template gets besides the messages."""
    kept = {
        "tools": conversation.tools,
        "chat_template_kwargs": conversation.chat_template_kwargs,
    }
    return {**example, **{name: value for name, value in kept.items() if value}}


def _with_images(conversation: ExportedConversation) -> JsonObject:
    """The messages with a place for each image that was sent with its content, and the images."""
    images: list[str] = []

    def placed(part: object) -> object:
        match part:
            case {"type": "image_url", "image_url": {"url": str(url)}} if is_content(url):
                images.append(url)
                return {"type": "image"}
            case _:
                return part

    messages = [
        {**message, "content": [*map(placed, message["content"])]}
        if isinstance(message.get("content"), list)
        else message
        for message in conversation.prompt + conversation.completion
    ]
    return {"messages": messages, "images": images} if images else {"messages": messages}


def is_content(url: str) -> bool:
    """Whether the image of a URL is part of the rollout, and not somewhere on the network."""
    return url.startswith(("data:", BLOB))
