"""What trainers read, made of the rollouts of one task.

A format sees a task's rollouts with their rewards and asks for the conversations it needs, so that
a transcript nobody wants is never decoded.
"""

from collections.abc import Iterator, Sequence
from decimal import Decimal
from typing import Protocol

import msgspec

from rollgym.export.index import RolloutPlace
from rollgym.export.messages import Conversation
from rollgym.export.transcripts import Transcripts
from rollgym.servers.responses import JsonObject

Group = Sequence[RolloutPlace]
"""The rollouts of one task, at least one."""


class Format(Protocol):
    """A way to write a task's rollouts: as any number of examples."""

    def examples(self, group: Group, transcripts: Transcripts) -> Iterator[JsonObject]: ...


class SupervisedExamples(msgspec.Struct, frozen=True):
    """`{"messages", "tools"}` of each rollout that succeeded, or that has at least a reward."""

    min_reward: float | None = None

    def examples(self, group: Group, transcripts: Transcripts) -> Iterator[JsonObject]:
        for place in group:
            if self._wants(place):
                conversation = transcripts.of(place)
                messages = conversation.prompt + conversation.completion
                yield _with_tools({"messages": messages}, conversation)

    def _wants(self, place: RolloutPlace) -> bool:
        return place.success if self.min_reward is None else place.reward >= self.min_reward


class PreferencePairs(msgspec.Struct, frozen=True):
    """`{"prompt", "chosen", "rejected", "tools"}` of two rollouts of one task.

    The chosen one has the larger reward, by at least the margin as the numbers are written: 0.3 is
    0.2 more than 0.1. One pair of a task is its best and its worst rollout, the first of them where
    there are several.
    """

    margin: float = 0.0
    every_pair: bool = False

    def examples(self, group: Group, transcripts: Transcripts) -> Iterator[JsonObject]:
        pairs = list(self._pairs(group))
        paired = {place.repeat for pair in pairs for place in pair}
        wanted = [place for place in group if place.repeat in paired]
        read = transcripts.together(wanted)
        conversations = {place.repeat: found for place, found in zip(wanted, read, strict=True)}
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

    def _pairs(self, group: Group) -> Iterator[tuple[RolloutPlace, RolloutPlace]]:
        if self.every_pair:
            pairs = [(chosen, rejected) for chosen in group for rejected in group]
        else:
            rewards = [place.reward for place in group]
            best, worst = rewards.index(max(rewards)), rewards.index(min(rewards))
            pairs = [(group[best], group[worst])]
        return (pair for pair in pairs if self._prefers(*pair))

    def _prefers(self, chosen: RolloutPlace, rejected: RolloutPlace) -> bool:
        gap = Decimal(str(chosen.reward)) - Decimal(str(rejected.reward))
        return chosen.reward > rejected.reward and gap >= Decimal(str(self.margin))


class TaskGroups(msgspec.Struct, frozen=True):
    """`{"prompt", "rollouts", "tools"}` of each task, with completion, reward and success of each
    of its rollouts."""

    def examples(self, group: Group, transcripts: Transcripts) -> Iterator[JsonObject]:
        conversations = transcripts.together(group)
        rollouts = [
            {
                "_ng_rollout_index": place.repeat,
                "completion": conversation.completion,
                "reward": place.reward,
                "success": place.success,
            }
            for place, conversation in zip(group, conversations, strict=True)
        ]
        example: JsonObject = {
            "_ng_task_index": group[0].task,
            "prompt": conversations[0].prompt,
            "rollouts": rollouts,
        }
        yield _with_tools(example, conversations[0])


def _with_tools(example: JsonObject, conversation: Conversation) -> JsonObject:
    return {**example, "tools": conversation.tools} if conversation.tools else example
