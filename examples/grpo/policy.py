"""The policy: a causal language model that samples for rollouts and is trained on them.

The weights that are trained are in 32 bits. Sampling uses a copy in 16 bits, which `publish`
refreshes after each training step. Everything that touches weights runs in one thread, so a batch
is sampled by one version, and the version on a completion is true.
"""

import asyncio
import copy
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

Result = TypeVar("Result")
ENDS = ("<|im_end|>", "<|endoftext|>")


class Prompt(NamedTuple):
    """What a completion continues, and how it is sampled. Temperature 0 takes the best token."""

    ids: tuple[int, ...]
    max_tokens: int
    temperature: float


class Completion(NamedTuple):
    """Sampled ids with the log probability of each; whether the model ended it itself."""

    ids: list[int]
    logprobs: list[float]
    version: int
    is_whole: bool


class Policy:
    """A model with its tokenizer, on one device.

    The logits are divided by `heat` wherever they are used, so the policy that samples is the one
    that is trained. A small model needs less than 1 to write a right call now and then.
    """

    def __init__(
        self, model: Path, template: Path | None, device: str, context: int, heat: float
    ) -> None:
        """Load a folder of transformers, or a GGUF file."""
        source = {"gguf_file": model.name} if model.is_file() else {}
        place: Any = str(model.parent if model.is_file() else model)
        self.tokenizer: Any = AutoTokenizer.from_pretrained(place, **source)
        if template is not None:
            self.tokenizer.chat_template = template.read_text()
        loaded = AutoModelForCausalLM.from_pretrained(place, dtype=torch.float32, **source)
        self.model: Any = loaded.to(device).train()
        self.sampler: Any = copy.deepcopy(self.model).to(torch.bfloat16).eval()
        self.device, self.context, self.heat, self.version = device, context, heat, 0
        known = self.tokenizer.get_vocab()
        self._ends = {loaded.config.eos_token_id, *(known[end] for end in ENDS if end in known)}
        self._thread = ThreadPoolExecutor(1, "policy")

    async def run(self, work: Callable[[], Result]) -> Result:
        """Run something with the weights, after everything that was asked for before."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, work)

    def publish(self, version: int) -> None:
        """Sample with the trained weights from now on, under this version."""
        with torch.no_grad():
            for old, new in zip(self.sampler.parameters(), self.model.parameters(), strict=True):
                old.copy_(new)
        self.version = version

    def sample(self, prompts: Sequence[Prompt]) -> list[Completion]:
        """Complete all prompts as one batch. A prompt that occurs several times is read once."""
        found = [Completion([], [], self.version, False) for _ in prompts]
        alive = list(range(len(prompts)))
        with torch.inference_mode():
            cache, mask, logits = self._read(prompts)
            while alive:
                logprobs = torch.log_softmax(logits.float() / self.heat, -1)
                chosen = self._choose(logprobs, [prompts[each].temperature for each in alive])
                values = logprobs.gather(-1, chosen)[:, 0].tolist()
                going = []
                for row, (each, token) in enumerate(zip(alive, chosen[:, 0].tolist(), strict=True)):
                    found[each].ids.append(token)
                    found[each].logprobs.append(values[row])
                    if token in self._ends:
                        found[each] = found[each]._replace(is_whole=True)
                    elif len(found[each].ids) < prompts[each].max_tokens:
                        going.append(row)
                if len(going) < len(alive):
                    rows = torch.tensor(going, device=self.device, dtype=torch.long)
                    cache.batch_select_indices(rows)
                    mask, chosen, alive = mask[rows], chosen[rows], [alive[row] for row in going]
                if alive:
                    mask = torch.cat([mask, torch.ones_like(chosen)], -1)
                    places = mask.sum(-1, keepdim=True) - 1
                    logits = self._logits(chosen, mask, places, cache).logits[:, -1]
        return found

    def _read(self, prompts: Sequence[Prompt]) -> tuple[Any, Any, Any]:
        """The cache, the mask and the next logits of every prompt."""
        unique = {ids: row for row, ids in enumerate(dict.fromkeys(each.ids for each in prompts))}
        longest = max(map(len, unique))
        padded = torch.tensor([[0] * (longest - len(ids)) + list(ids) for ids in unique])
        mask = torch.tensor([[0] * (longest - len(ids)) + [1] * len(ids) for ids in unique])
        mask = mask.to(self.device)
        places = (mask.cumsum(-1) - 1).clamp(min=0)
        read = self._logits(padded.to(self.device), mask, places)
        rows = torch.tensor([unique[each.ids] for each in prompts], device=self.device)
        read.past_key_values.batch_select_indices(rows)
        return read.past_key_values, mask[rows], read.logits[rows, -1]

    def _logits(self, ids: Any, mask: Any, places: Any, cache: Any = None) -> Any:
        return self.sampler(
            ids,
            attention_mask=mask,
            position_ids=places,
            past_key_values=cache,
            use_cache=True,
            logits_to_keep=1,
        )

    def _choose(self, logprobs: Any, temperatures: Sequence[float]) -> Any:
        heat = torch.tensor(temperatures, device=self.device)[:, None]
        drawn = torch.multinomial(torch.softmax(logprobs / heat.clamp(min=1e-4), -1), 1)
        return torch.where(heat > 0, drawn, logprobs.argmax(-1, keepdim=True))
