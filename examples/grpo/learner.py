"""GRPO: the advantage of a rollout is its reward against those of its group.

The loss is PPO's for each sampled token, against the log probability under the version that sampled
it, so rollouts of earlier versions count as far as they are still likely.
"""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch.nn.utils import clip_grad_norm_
from torch.nn.utils.rnn import pad_sequence

from examples.grpo.policy import Policy
from rollgym import RolloutBranch

CLIP_LOW, CLIP_HIGH, LARGEST_GRADIENT = 0.2, 0.28, 1.0


class Learner:
    """Trains the weights of a policy. `step` is the number of steps that were made."""

    def __init__(self, policy: Policy, rate: float, batch: int, temperature: float) -> None:
        self._policy, self._batch, self._temperature = policy, batch, temperature
        self._optimizer: Any = torch.optim.AdamW(
            policy.model.parameters(), rate, betas=(0.9, 0.95), weight_decay=0.0
        )
        self.step = 0

    def train(self, branches: Sequence[RolloutBranch]) -> dict[str, float]:
        """Make one step on the rollouts of all groups; returns its numbers."""
        used = [each for each in branches if each.advantage]
        tokens = max(1, sum(sum(each.loss_mask) for each in used))
        total = torch.zeros(2)
        for start in range(0, len(used), self._batch):
            loss, ratio = self._loss(used[start : start + self._batch])
            (loss / tokens).backward()
            total += torch.stack([loss.detach(), ratio]).cpu()
        self.step += 1
        gradient = float(clip_grad_norm_(self._policy.model.parameters(), LARGEST_GRADIENT))
        self._optimizer.step()
        self._optimizer.zero_grad()
        loss, ratio = (total / tokens).tolist()
        return {"tokens": tokens, "loss": loss, "ratio": ratio, "gradient": gradient}

    def save(self, path: Path, groups: Sequence[str]) -> None:
        """Write weights, optimizer and ids of groups completely or not at all."""
        weights, optimizer = self._policy.model.state_dict(), self._optimizer.state_dict()
        new = path.with_suffix(".new")
        with new.open("wb") as file:
            torch.save((weights, optimizer, self.step, list(groups)), file)
            file.flush()
            os.fsync(file.fileno())
        new.replace(path)

    def load(self, path: Path) -> list[str]:
        """Continue from a checkpoint; returns its groups."""
        weights, optimizer, self.step, groups = torch.load(path, "cpu")
        self._policy.model.load_state_dict(weights)
        self._optimizer.load_state_dict(optimizer)
        return list(groups)

    def _loss(self, branches: Sequence[RolloutBranch]) -> tuple[Any, Any]:
        """Sums over the sampled tokens: the loss, and the ratio of probabilities now and then."""
        ids = self._padded([each.input_ids for each in branches])
        sampled = self._padded([each.loss_mask for each in branches]).bool()
        old = self._padded([each.logprobs or [] for each in branches])[sampled]
        advantages = self._padded([[each.advantage_scaled] for each in branches])
        gains = advantages.expand(ids.shape)[sampled]
        ratio = torch.exp(self._logprobs(ids, sampled) - old)
        bounded = ratio.clamp(1 - CLIP_LOW, 1 + CLIP_HIGH)
        return -torch.minimum(ratio * gains, bounded * gains).sum(), ratio.detach().sum()

    def _padded(self, rows: Sequence[Sequence[float]]) -> Any:
        return pad_sequence([torch.tensor(row) for row in rows], True).to(self._policy.device)

    def _logprobs(self, ids: Any, sampled: Any) -> Any:
        """The log probabilities of the sampled tokens.

        What all sequences begin with, such as the prompt of a group, is computed once.
        """
        model, device = self._policy.model.model, self._policy.device
        differs = (ids != ids[0]).any(0) | sampled.any(0)
        shared = max(0, int(differs.int().argmax()) - 1)
        with torch.autocast(device, torch.bfloat16, enabled=device == "cuda"):
            cache = None
            if shared:
                cache = model(ids[:1, :shared], use_cache=True).past_key_values
                cache.batch_repeat_interleave(len(ids))
            rest = model(ids[:, shared:], past_key_values=cache, use_cache=bool(shared))
            before = rest.last_hidden_state[:, :-1][sampled[:, shared + 1 :]]
            logits = self._policy.model.lm_head(before).float()
        logprobs = torch.log_softmax(logits / self._temperature, -1)
        return logprobs.gather(-1, ids[sampled][:, None])[:, 0]
