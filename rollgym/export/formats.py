"""Formats for trainers, made of the rollouts of one task.

A format gets a task's rollouts with their rewards and reads only the conversations that it needs.
"""

from collections.abc import Iterator, Sequence
from decimal import Decimal

import msgspec

from rollgym.export.messages import ExportedConversation
from rollgym.export.rollouts import RolloutPosition, Transcripts
from rollgym.servers.responses import JsonObject

ExportGroup = Sequence[RolloutPosition]
"""The rollouts of one task, at least one."""


class SupervisedExamples(msgspec.Struct, frozen=True):
    """`{"messages", "tools"}` for each success, or for each rollout with `min_reward` or more."""

    min_reward: float | None = None

    def examples(self, group: ExportGroup, transcripts: Transcripts) -> Iterator[JsonObject]:
        for position in group:
            if self._wants(position):
                conversation = transcripts.of(position)
                messages = conversation.prompt + conversation.completion
                yield _with_tools({"messages": messages}, conversation)

    def _wants(self, position: RolloutPosition) -> bool:
        return position.success if self.min_reward is None else position.reward >= self.min_reward


class PreferencePairs(msgspec.Struct, frozen=True):
    """`{"prompt", "chosen", "rejected", "tools"}` for two rollouts of one task.

    The chosen one has the larger reward, by at least the margin in decimal arithmetic: 0.3 is 0.2
    more than 0.1. The pair of a task is its first best and its first worst rollout; with
    `every_pair` there is one example for each pair.
    """

    margin: float = 0.0
    every_pair: bool = False

    def examples(self, group: ExportGroup, transcripts: Transcripts) -> Iterator[JsonObject]:
        pairs = list(self._pairs(group))
        paired = {position.repeat for pair in pairs for position in pair}
        wanted = [position for position in group if position.repeat in paired]
        read = transcripts.together(wanted)
        conversations = {
            position.repeat: found for position, found in zip(wanted, read, strict=True)
        }
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

    def _pairs(self, group: ExportGroup) -> Iterator[tuple[RolloutPosition, RolloutPosition]]:
        if self.every_pair:
            pairs = [(chosen, rejected) for chosen in group for rejected in group]
        else:
            rewards = [position.reward for position in group]
            best, worst = rewards.index(max(rewards)), rewards.index(min(rewards))
            pairs = [(group[best], group[worst])]
        return (pair for pair in pairs if self._prefers(*pair))

    def _prefers(self, chosen: RolloutPosition, rejected: RolloutPosition) -> bool:
        gap = Decimal(str(chosen.reward)) - Decimal(str(rejected.reward))
        return chosen.reward > rejected.reward and gap >= Decimal(str(self.margin))


class TaskGroups(msgspec.Struct, frozen=True):
    """`{"prompt", "rollouts", "tools"}` for each task, with completion, reward and success of each
    of its rollouts."""

    def examples(self, group: ExportGroup, transcripts: Transcripts) -> Iterator[JsonObject]:
        conversations = transcripts.together(group)
        rollouts = [
            {
                "_ng_rollout_index": position.repeat,
                "completion": conversation.completion,
                "reward": position.reward,
                "success": position.success,
            }
            for position, conversation in zip(group, conversations, strict=True)
        ]
        example: JsonObject = {
            "_ng_task_index": group[0].task,
            "prompt": conversations[0].prompt,
            "rollouts": rollouts,
        }
        yield _with_tools(example, conversations[0])


ExportFormat = SupervisedExamples | PreferencePairs | TaskGroups
"""Turns a task's rollouts into any number of examples."""


def _with_tools(example: JsonObject, conversation: ExportedConversation) -> JsonObject:
    return {**example, "tools": conversation.tools} if conversation.tools else example
