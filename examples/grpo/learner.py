"""GRPO: the advantage of a rollout is its reward against those of its group.

The loss is PPO's for each sampled token, against the log probability under the version that sampled
it, so rollouts of earlier versions count as far as they are still likely. What all sequences of a
batch begin with, such as the prompt of a group, is computed once, with its gradients.
"""

import os
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean, pstdev
from typing import Any, NamedTuple

import torch

from examples.grpo.policy import Policy

CLIP_LOW, CLIP_HIGH, LARGEST_GRADIENT, WARMUP = 0.2, 0.28, 1.0, 5


class Example(NamedTuple):
    """A branch of a rollout, with the advantage of the rollout."""

    ids: list[int]
    mask: list[int]
    logprobs: list[float] | None
    advantage: float


def advantages(rewards: Sequence[float]) -> list[float]:
    """The rewards minus their mean, divided by their standard deviation; 0 for equal rewards."""
    deviation = pstdev(rewards) if rewards else 0.0
    return [(each - fmean(rewards)) / deviation if deviation else 0.0 for each in rewards]


class Learner:
    """Trains the weights of a policy. `step` is the number of steps that were made."""

    def __init__(self, policy: Policy, learning_rate: float, batch: int) -> None:
        self._policy, self._rate, self._batch = policy, learning_rate, batch
        self._parameters = list(policy.model.parameters())
        self._optimizer: Any = torch.optim.AdamW(
            self._parameters, lr=learning_rate, betas=(0.9, 0.95), weight_decay=0.0
        )
        self.step = 0

    def train(self, examples: Sequence[Example]) -> dict[str, float]:
        """Make one step on the rollouts of all groups; returns its numbers."""
        used = [each for each in examples if each.advantage]
        tokens = max(1, sum(sum(each.mask) for each in used))
        sums = torch.zeros(3)
        for start in range(0, len(used), self._batch):
            loss, *others = self._loss(used[start : start + self._batch])
            (loss / tokens).backward()
            sums += torch.tensor([float(each.detach()) for each in (loss, *others)])
        self.step += 1
        gradient = 0.0
        if used:
            for each in self._optimizer.param_groups:
                each["lr"] = self._rate * min(1.0, self.step / WARMUP)
            clip = torch.nn.utils.clip_grad_norm_
            gradient = float(clip(self._parameters, LARGEST_GRADIENT))
            self._optimizer.step()
            self._optimizer.zero_grad(set_to_none=True)
        loss, ratio, clipped = (sums / tokens).tolist()
        found = {"tokens": tokens, "loss": loss, "ratio": ratio, "clipped": clipped}
        return {**found, "gradient": gradient}

    def save(self, path: Path, notes: dict[str, Any]) -> None:
        """Write weights, optimizer and notes completely or not at all."""
        new = path.with_suffix(".new")
        with new.open("wb") as file:
            state = {"model": self._policy.model.state_dict(), "step": self.step, "notes": notes}
            torch.save({**state, "optimizer": self._optimizer.state_dict()}, file)
            file.flush()
            os.fsync(file.fileno())
        new.replace(path)

    def load(self, path: Path) -> dict[str, Any]:
        """Continue from a checkpoint; returns its notes."""
        state = torch.load(path, map_location=self._policy.device, weights_only=True)
        self._policy.model.load_state_dict(state["model"])
        self._optimizer.load_state_dict(state["optimizer"])
        self.step, notes = state["step"], state["notes"]
        return dict(notes)

    def _loss(self, examples: Sequence[Example]) -> tuple[Any, Any, Any]:
        """The sums over the sampled tokens: loss, ratio, and how many are clipped."""
        new, old, advantage = self._logprobs(examples)
        ratio = torch.exp(new - torch.where(old.isnan(), new.detach(), old))
        bounded = ratio.clamp(1 - CLIP_LOW, 1 + CLIP_HIGH)
        gain = torch.minimum(ratio * advantage, bounded * advantage)
        return -gain.sum(), ratio.detach().sum(), (gain < ratio * advantage).sum()

    def _logprobs(self, examples: Sequence[Example]) -> tuple[Any, Any, Any]:
        """For every sampled token: its log probability now and then, and its advantage."""
        device, model = self._policy.device, self._policy.model
        shared = _shared(examples)
        rest = [example.ids[shared:] for example in examples]
        longest = max(map(len, rest))
        ids = torch.tensor([each + [0] * (longest - len(each)) for each in rest], device=device)
        seen = [[1] * (shared + len(each)) + [0] * (longest - len(each)) for each in rest]
        places = torch.arange(shared, shared + longest, device=device).expand(len(rest), -1)
        with torch.autocast(torch.device(device).type, torch.bfloat16):
            first = torch.tensor([examples[0].ids[:shared]], device=device)
            cache = model.model(first, use_cache=True).past_key_values if shared else None
            if cache is not None:
                cache.batch_repeat_interleave(len(rest))
            hidden = model.model(
                ids,
                attention_mask=torch.tensor(seen, device=device),
                position_ids=places,
                past_key_values=cache,
                use_cache=bool(shared),
            ).last_hidden_state
            sampled = [
                (row, column)
                for row, example in enumerate(examples)
                for column in range(1, len(rest[row]))
                if example.mask[shared + column]
            ]
            rows, columns = (
                torch.tensor(each, device=device) for each in zip(*sampled, strict=True)
            )
            logits = model.lm_head(hidden[rows, columns - 1]).float()
        logprobs = torch.log_softmax(logits / self._policy.heat, -1)
        new = logprobs.gather(-1, ids[rows, columns][:, None])[:, 0]
        old = [
            float("nan") if (known := examples[row].logprobs) is None else known[shared + column]
            for row, column in sampled
        ]
        gains = [examples[row].advantage for row, _ in sampled]
        return new, torch.tensor(old, device=device), torch.tensor(gains, device=device)


def _shared(examples: Sequence[Example]) -> int:
    """How many ids all examples begin with, less the one before the first sampled id."""
    most = min(example.mask.index(1) for example in examples)
    first = examples[0].ids
    while any(example.ids[:most] != first[:most] for example in examples):
        most -= 1
    return max(0, most - 1)
