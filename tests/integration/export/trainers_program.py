"""Loads exports with `datasets` and trains on them with TRL; prints what it found as JSON.

It runs with another Python, which has these packages (`make test-trainers`). The model and its
tokenizer are made here: a token for each byte, and a chat template that writes tools and calls.
"""

import ast
import importlib.util
import json
import sys
from pathlib import Path
from typing import Any, Optional

import atif
import datasets
import pydantic
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast
from trl import DPOConfig, DPOTrainer, GRPOConfig, GRPOTrainer, SFTConfig, SFTTrainer

TEMPLATE = (
    "{%- if tools %}<|im_start|>tools\n{{ tools | tojson }}<|im_end|>\n{% endif %}"
    "{%- for message in messages %}<|im_start|>{{ message.role }}\n{{ message.content or '' }}"
    "{%- for call in message.tool_calls or [] %}"
    "<tool_call>{{ call.function.name }} {{ call.function.arguments | tojson }}</tool_call>"
    "{%- endfor %}<|im_end|>\n{% endfor %}"
    "{%- if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
MARKS = ("<|im_start|>", "<|im_end|>", "<pad>")


def make_tokenizer() -> Any:
    names = [*sorted(pre_tokenizers.ByteLevel.alphabet()), *MARKS]
    tokens = Tokenizer(models.BPE({name: number for number, name in enumerate(names)}, []))
    tokens.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokens.decoder = decoders.ByteLevel()
    return PreTrainedTokenizerFast(
        tokenizer_object=tokens,
        eos_token=MARKS[1],
        pad_token=MARKS[2],
        additional_special_tokens=[MARKS[0]],
        chat_template=TEMPLATE,
    )


def make_model(folder: Path, size: int) -> str:
    config = LlamaConfig(
        vocab_size=size, hidden_size=16, intermediate_size=32, num_hidden_layers=1,
        num_attention_heads=2, num_key_value_heads=2,
    )  # fmt: skip
    LlamaForCausalLM(config).save_pretrained(folder / "model")
    return str(folder / "model")


def load(path: Path, cache: Path) -> Any:
    kind = "parquet" if path.suffix == ".parquet" else "json"
    return datasets.load_dataset(kind, data_files=str(path), split="train", cache_dir=str(cache))


def train_on_rollouts(folder: Path, model: str, tokenizer: Any, settings: dict[str, Any]) -> Any:
    """A step of GRPO on the rollouts that `trl_rollouts` gave, and the rewards that it saw."""
    given: dict[str, Any] = json.loads((folder / "trl_rollouts.json").read_text())
    seen: list[float] = []

    def rollouts(prompts: list[Any], _: Any) -> dict[str, Any]:
        assert len(prompts) == len(given["prompt_ids"])
        return given

    def reward_of(reward: list[float], **_: Any) -> list[float]:
        seen.extend(reward)
        return reward

    size = len(given["prompt_ids"])
    settings = {**settings, "per_device_train_batch_size": size, "num_generations": size}
    del settings["max_length"]
    trainer = GRPOTrainer(
        model=model,
        reward_funcs=reward_of,
        args=GRPOConfig(**settings, max_completion_length=8, learning_rate=0.1),
        train_dataset=datasets.Dataset.from_list([{"prompt": "task 0"}] * size),
        processing_class=tokenizer,
        rollout_func=rollouts,
    )
    before = [each.detach().clone() for each in trainer.model.parameters()]
    trainer.train()
    pairs = zip(before, trainer.model.parameters(), strict=True)
    return {"rewards": seen, "moved": any(not torch.equal(*pair) for pair in pairs)}


def verl_outputs(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The rows as `AgentLoopOutput`, which is taken out of verl's file without its imports."""
    package = importlib.util.find_spec("verl")
    assert package is not None
    assert package.submodule_search_locations is not None
    place = Path(package.submodule_search_locations[0], "experimental/agent_loop/agent_loop.py")
    wanted = ("AgentLoopMetrics", "AgentLoopOutput")
    classes: list[ast.stmt] = [
        node
        for node in ast.parse(place.read_text()).body
        if isinstance(node, ast.ClassDef) and node.name in wanted
    ]
    names: dict[str, Any] = {"BaseModel": pydantic.BaseModel, "torch": torch, "Any": Any}
    names["Optional"] = Optional
    exec(compile(ast.Module(classes, []), str(place), "exec"), names)
    outputs = [names["AgentLoopOutput"](**row).as_dict() for row in rows]
    return [
        {
            name: value.tolist() if isinstance(value, torch.Tensor) else value
            for name, value in output.items()
            if name in ("prompts", "responses", "response_mask", "rollout_log_probs", "rm_scores")
        }
        for output in outputs
    ]


def main(folder: Path) -> None:
    tokenizer = make_tokenizer()
    model = make_model(folder, len(tokenizer))
    found: dict[str, Any] = {"rows": {}, "sft": {}, "preference": {}, "images": []}
    loaded = {
        path.name: load(path, folder / "cache")
        for path in sorted(folder.iterdir())
        if path.suffix in {".jsonl", ".parquet"}
    }
    settings: dict[str, Any] = {
        "output_dir": str(folder / "out"), "use_cpu": True, "report_to": [], "max_steps": 1,
        "max_length": None, "per_device_train_batch_size": 1,
    }  # fmt: skip
    for name, dataset in loaded.items():
        if name.startswith("pictures"):
            seen = dataset.cast_column("images", datasets.List(datasets.Image()))
            found["images"] += [[name, image.size] for row in seen for image in row["images"]]
            continue
        found["rows"][name] = list(dataset)
        given = {"train_dataset": dataset, "processing_class": tokenizer}
        if name.startswith("sft"):
            sft = SFTTrainer(model=model, args=SFTConfig(**settings), **given)
            texts = [tokenizer.decode(row["input_ids"]) for row in sft.train_dataset]
            found["sft"][name] = [texts, sft.train().training_loss]
        elif name.startswith("preference"):
            dpo = DPOTrainer(model=model, args=DPOConfig(**settings), **given)
            parts = [
                [tokenizer.decode(row[f"{part}_ids"]) for part in ("prompt", "chosen", "rejected")]
                for row in dpo.train_dataset
            ]
            found["preference"][name] = [parts, dpo.train().training_loss]
    found["grpo"] = train_on_rollouts(folder, model, tokenizer, settings)
    lines = {into: (folder / f"{into}.jsonl").read_text().splitlines() for into in ("verl", "atif")}
    found["verl"] = verl_outputs([json.loads(line) for line in lines["verl"]])
    found["atif"] = [
        atif.Trajectory.model_validate_json(line).to_json_dict() for line in lines["atif"]
    ]
    (folder / "found.json").write_text(json.dumps(found))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
