"""Loads exports with `datasets` and trains on them with TRL; prints what it found as JSON.

It runs with another Python, which has these packages (`make test-trainers`). The model and its
tokenizer are made here: a token for each byte, and a chat template that writes tools and calls.
"""

import json
import sys
from pathlib import Path
from typing import Any

import datasets
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast
from trl import DPOConfig, DPOTrainer, SFTConfig, SFTTrainer

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
    (folder / "found.json").write_text(json.dumps(found))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
