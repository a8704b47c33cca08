"""The policy: a causal language model that samples for rollouts and is trained on them.

The weights that are trained are in 32 bits. A copy of them samples, in 16 bits on a GPU, and
`publish` refreshes it after each training step. Who samples or trains holds the lock of the policy,
so a batch is sampled by one version, and the version on a completion is true.
"""

import asyncio
import copy
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import torch
from torch.nn.utils.rnn import pad_sequence
from transformers import AutoModelForCausalLM, AutoTokenizer

from rollgym.servers.gguf import provide_weights
from rollgym.servers.gguf.weights import BUNDLED_TEMPLATE

ENDS = ("<|im_end|>", "<|endoftext|>")


class CompletionRequest(msgspec.Struct, frozen=True):
    """Token ids, and how they are continued. Temperature 0 takes the best token."""

    prompt: tuple[int, ...]
    max_tokens: int = 256
    temperature: float = 1.0


class Completion(NamedTuple):
    """Sampled ids, with the log probability of each at the temperature of the request."""

    ids: list[int]
    logprobs: list[float]
    version: int


class Policy:
    """A model with its tokenizer, on the GPU if there is one."""

    def __init__(self, model: Path | None) -> None:
        """Load a folder of transformers or a GGUF file; without one, rollgym's bundled model."""
        path = model or provide_weights()
        source = {"gguf_file": path.name} if path.is_file() else {}
        folder: Any = str(path.parent if path.is_file() else path)
        self.tokenizer: Any = AutoTokenizer.from_pretrained(folder, **source)
        if model is None:
            self.tokenizer.chat_template = BUNDLED_TEMPLATE.read_text()
        self.device = "cuda" if torch.cuda.is_available() else "cpu"
        loaded = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, **source)
        self.model: Any = loaded.to(self.device).train()
        precision = torch.bfloat16 if self.device == "cuda" else torch.float32
        self.sampler: Any = copy.deepcopy(self.model).to(precision).eval()
        known = self.tokenizer.get_vocab()
        self.ends = {loaded.config.eos_token_id, *(known[end] for end in ENDS if end in known)}
        self.version = 0
        self.lock = asyncio.Lock()

    def publish(self, version: int) -> None:
        """Sample with the trained weights from now on, under this version."""
        self.sampler.load_state_dict(self.model.state_dict())
        self.version = version

    def sample(self, requests: Sequence[CompletionRequest]) -> list[Completion]:
        """Complete all prompts as one batch."""
        found = [Completion([], [], self.version) for _ in requests]
        running = list(range(len(requests)))
        with torch.inference_mode():
            logits, cache, mask = self._read([each.prompt for each in requests])
            while running:
                temperatures = [[max(1e-4, requests[each].temperature)] for each in running]
                heat = torch.tensor(temperatures, device=self.device)
                logprobs = torch.log_softmax(logits.float() / heat, -1)
                chosen = torch.multinomial(logprobs.exp(), 1)
                values = logprobs.gather(-1, chosen)[:, 0].tolist()
                tokens, going = chosen[:, 0].tolist(), []
                for row, (each, token) in enumerate(zip(running, tokens, strict=True)):
                    found[each].ids.append(token)
                    found[each].logprobs.append(values[row])
                    if token not in self.ends and len(found[each].ids) < requests[each].max_tokens:
                        going.append(row)
                if len(going) < len(running):
                    running = [running[row] for row in going]
                    rows = torch.tensor(going, device=self.device, dtype=torch.long)
                    cache.batch_select_indices(rows)
                    chosen, mask = chosen[rows], mask[rows]
                if running:
                    mask = torch.cat([mask, torch.ones_like(chosen)], -1)
                    logits = self._logits(chosen, mask, cache).logits[:, -1]
        return found

    def _read(self, prompts: Sequence[tuple[int, ...]]) -> tuple[Any, Any, Any]:
        """The next logits, the cache and the mask of prompts. Equal prompts are read once."""
        unique = {ids: row for row, ids in enumerate(dict.fromkeys(prompts))}
        tensors = [torch.tensor(ids, device=self.device) for ids in unique]
        ids = pad_sequence(tensors, True, 0, "left")
        mask = pad_sequence([torch.ones_like(each) for each in tensors], True, 0, "left")
        read = self._logits(ids, mask)
        rows = torch.tensor([unique[each] for each in prompts], device=self.device)
        read.past_key_values.batch_select_indices(rows)
        return read.logits[rows, -1], read.past_key_values, mask[rows]

    def _logits(self, ids: Any, mask: Any, cache: Any = None) -> Any:
        places = (mask.cumsum(-1) - 1).clamp(min=0)[:, -ids.shape[1] :]
        known = {"attention_mask": mask, "position_ids": places, "past_key_values": cache}
        return self.sampler(ids, **known, use_cache=True, logits_to_keep=1)
