"""Formats for trainers: one function each, from the rollouts of one task to any number of examples.

A format reads only the conversations that it needs. What it leaves out, it counts with its reason.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from decimal import Decimal

import msgspec

from rollgym.export.source import (
    ExportedConversation,
    ExportError,
    RolloutPosition,
    RolloutSource,
)
from rollgym.servers.responses import JsonObject


class FormatOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The options of all formats; each reads its own.

    - `min_reward` (sft): the smallest reward; None for successful rollouts only.
    - `margin` (preference): the smallest difference in reward.
    - `every_pair` (preference): every pair, not only the best and the worst rollout.
    """

    min_reward: float | None = None
    margin: float = 0.0
    every_pair: bool = False


class ExportGroup:
    """The completed rollouts of one task, at least one, and what a format left out of them."""

    def __init__(
        self, source: RolloutSource, members: Sequence[RolloutPosition], dropped: Counter[str]
    ) -> None:
        self.members = members
        self.dropped = dropped
        """The number of rollouts that were left out for each reason, of all groups."""
        self._source = source

    def row(self, member: RolloutPosition) -> bytes:
        """The rollout as JSON. Raises StorageError."""
        return self._source.row(member)

    def conversations(self, member: RolloutPosition) -> list[ExportedConversation]:
        """The conversations of a rollout: one, or one for each step. Raises ExportError."""
        return self._source.conversations(member)

    def together(self, members: Sequence[RolloutPosition]) -> list[ExportedConversation]:
        """The conversation of each member; they begin with the same prompt and tools.

        Raises ExportError for others.
        """
        found = [self._only(member) for member in members]
        for member, each in zip(members, found, strict=True):
            if (each.prompt, each.tools) != (found[0].prompt, found[0].tools):
                raise self._source.problem(
                    member,
                    f"prompt or tools differ from those in line {members[0].line}, but both are "
                    f"rollouts of task {member.task}: different tasks need different indexes",
                )
        return found

    def _only(self, member: RolloutPosition) -> ExportedConversation:
        match self.conversations(member):
            case [conversation]:
                return conversation
            case several:
                raise ExportError(
                    f"rollout {member.repeat} of task {member.task} has {len(several)} prompts, "
                    "one for each step, and this format needs one; use --format sft"
                )


Format = Callable[[ExportGroup, FormatOptions], Iterator[JsonObject]]


def supervised(group: ExportGroup, options: FormatOptions) -> Iterator[JsonObject]:
    """`{"messages", "tools"}` for each success, or for each rollout with `min_reward` or more."""
    for member in group.members:
        if options.min_reward is None and not member.success:
            group.dropped["not successful"] += 1
        elif options.min_reward is not None and member.reward < options.min_reward:
            group.dropped["below the smallest reward"] += 1
        else:
            for found in group.conversations(member):
                yield _with_tools({"messages": found.prompt + found.completion}, found)


def preference_pairs(group: ExportGroup, options: FormatOptions) -> Iterator[JsonObject]:
    """`{"prompt", "chosen", "rejected", "tools"}` for two rollouts of one task.

    The chosen one has the larger reward, by at least the margin in decimal arithmetic: 0.3 is 0.2
    more than 0.1. The pair of a task is its first best and its first worst rollout; with
    `every_pair` there is one example for each pair.
    """
    pairs = list(_pairs(group.members, options))
    paired = {member.repeat for pair in pairs for member in pair}
    wanted = [member for member in group.members if member.repeat in paired]
    if unpaired := len(group.members) - len(wanted):
        group.dropped["in no pair"] += unpaired
    read = group.together(wanted)
    conversations = {member.repeat: found for member, found in zip(wanted, read, strict=True)}
    for chosen, rejected in pairs:
        conversation = conversations[chosen.repeat]
        example: JsonObject = {
            "prompt": conversation.prompt,
            "chosen": conversation.completion,
            "rejected": conversations[rejected.repeat].completion,
            "chosen_reward": chosen.reward,
            "rejected_reward": rejected.reward,
            "_ng_task_index": chosen.task,
        }
        yield _with_tools(example, conversation)


def task_groups(group: ExportGroup, _: FormatOptions) -> Iterator[JsonObject]:
    """`{"prompt", "rollouts", "tools"}` for each task, with completion, reward and success of each
    of its rollouts."""
    conversations = group.together(group.members)
    rollouts = [
        {
            "_ng_rollout_index": member.repeat,
            "completion": conversation.completion,
            "reward": member.reward,
            "success": member.success,
        }
        for member, conversation in zip(group.members, conversations, strict=True)
    ]
    example: JsonObject = {
        "_ng_task_index": group.members[0].task,
        "prompt": conversations[0].prompt,
        "rollouts": rollouts,
    }
    yield _with_tools(example, conversations[0])


FORMATS: Mapping[str, Format] = {
    "sft": supervised,
    "preference": preference_pairs,
    "groups": task_groups,
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


def _with_tools(example: JsonObject, conversation: ExportedConversation) -> JsonObject:
    """The example with what a chat template gets besides the messages."""
    kept = {
        "tools": conversation.tools,
        "chat_template_kwargs": conversation.chat_template_kwargs,
    }
    return {**example, **{name: value for name, value in kept.items() if value}}
