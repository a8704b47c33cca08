"""Files of rollouts as ng_collect_rollouts writes them."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any


def row(task: int, repeat: int, reward: float, **fields: Any) -> dict[str, Any]:
    """A rollout whose last words tell which it is."""
    return {
        "responses_create_params": {
            "input": [{"role": "user", "content": f"task {task}"}],
            "tools": [{"type": "function", "name": "search", "parameters": {}}],
        },
        "expected": "something",
        "output": [{"role": "assistant", "content": f"answer {task}.{repeat}"}],
        "reward": reward,
        "success": reward >= 1.0,
        "_ng_task_index": task,
        "_ng_rollout_index": repeat,
        **fields,
    }


def group(task: int, *rewards: float) -> list[dict[str, Any]]:
    return [row(task, repeat, reward) for repeat, reward in enumerate(rewards)]


def write(path: Path, rows: Iterable[dict[str, Any] | str]) -> Path:
    lines = (line if isinstance(line, str) else json.dumps(line) for line in rows)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path


def read(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
