"""Rollouts to be looked at: a conversation with tools, a long one, failures, a browser's steps.

Each has what the views are about, in the form in which it is written by collections of rollouts.
"""

import base64
import struct
import zlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec

Json = dict[str, Any]

MARKDOWN = (
    "## Plan\n\nSearch **twice**, then *answer* with `code`.\n\n1. first\n   - nested\n2. second\n"
    "\n| name | value |\n|---|--:|\n| a | 1 |\n\n```py\ndef f():  # so\n    return None\n```\n\n"
    "Euler: $e^{i\\pi} + 1 = 0$. It costs $5 and $10. See [the page](https://elsewhere.test/x)."
)
REASONING = "The question names a captain. I look for the ship first."
LONG_TEXT = "\n".join(f"line {number} of a long answer" for number in range(2_000))
LONG_TURNS = 5_000
LONG_STEPS = 5_000
RECORDED = b'{"log":{"version":"1.2","entries":[]}}'
TIMED: Json = {
    "seconds": 3.0,
    "spans": [
        {"phase": "model", "start": 0.0, "seconds": 1.0},
        {"phase": "tools", "start": 1.0, "seconds": 0.5, "label": "search"},
        {"phase": "model", "start": 1.5, "seconds": 1.5},
    ],
}
PAGE_WIDTH, PAGE_HEIGHT = 1280, 768


def picture(red: int, green: int, blue: int, width: int = 128, height: int = 77) -> bytes:
    """A PNG of one colour."""

    def chunk(kind: bytes, body: bytes) -> bytes:
        return (
            struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))
        )

    line = b"\0" + bytes((red, green, blue)) * width
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    body = zlib.compress(line * height)
    return (
        b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", body) + chunk(b"IEND", b"")
    )


def said(text: str, **more: Any) -> Json:
    return {"role": "assistant", "content": text, **more}


def conversation(answer: str, query: str = "captain of the Kestrel") -> list[Json]:
    """Reasoning, Markdown, a call with its result, a picture, a long text and an answer."""
    data = base64.b64encode(picture(200, 60, 60)).decode()
    call = {"name": "search", "arguments": f'{{"query":"{query}","most":3}}'}
    return [
        said(MARKDOWN, reasoning=REASONING),
        {
            "role": "assistant",
            "tool_calls": [{"id": "call_1", "type": "function", "function": call}],
        },
        {"role": "tool", "tool_call_id": "call_1", "content": '{"found": ["Moreau"], "at": 3527}'},
        {
            "role": "user",
            "content": [
                {"type": "input_text", "text": "This is her portrait."},
                {"type": "input_image", "image_url": f"data:image/png;base64,{data}"},
            ],
        },
        said(LONG_TEXT),
        said(answer),
    ]


def row(task: int, repeat: int, output: list[Json], reward: float = 1.0, **more: Any) -> Json:
    """A rollout as ng_collect_rollouts writes it."""
    question = f"Who is the captain of ship {task}?"
    return {
        "responses_create_params": {
            "input": [{"role": "user", "content": question}],
            "temperature": 0.7,
        },
        "_ng_task_index": task,
        "_ng_rollout_index": repeat,
        "output": output,
        "reward": reward,
        "success": reward >= 1.0,
        "metadata": {
            "seconds": 2.5,
            "timings": {"model": 1.5, "tools": 0.5, "verify": 0.25},
            "usage": {"input_tokens": 312, "output_tokens": 45},
        },
        "verdict": "The **name** is right.",
        **more,
    }


def write_rollouts(folder: Path) -> Path:
    """Two repeats of task 0 that part at the second turn; task 1 with thousands of turns."""
    rows = [
        row(0, 0, conversation("Answer: Moreau")),
        row(0, 1, conversation("Answer: Nobody", "ship called Kestrel"), 0.0, metadata=TIMED),
        row(1, 0, [said(f"This is turn {number + 1}.") for number in range(LONG_TURNS)]),
    ]
    return _write(folder / "ships.jsonl", rows)


def write_second_run(folder: Path) -> Path:
    """The same tasks at another time: task 0 became worse, task 1 is the same, task 2 is new."""
    rows = [
        row(0, 0, [said("Answer: Nobody")], 0.0),
        row(1, 0, [said("This is turn 1.")]),
        row(2, 0, [said("Answer: Ahab")]),
    ]
    return _write(folder / "ships_later.jsonl", rows)


def write_failed_run(folder: Path) -> Path:
    """A run directory with one rollout that failed twice."""
    run = folder / "failing"
    run.mkdir()
    task = {"responses_create_params": {"input": [{"role": "user", "content": "Reach the tool."}]}}
    _write(run / "inputs.jsonl", [{"task": 0, "repeats": 1, "row": task}])
    (run / "manifest.json").write_text("{}")
    attempts = [
        _attempt(1, final=False, kind="tool", detail="the tool closed the connection"),
        _attempt(2, final=True, kind="model_rate_limit", detail="HTTP 429 Too Many Requests"),
    ]
    _write(run / "journal.jsonl", attempts)
    return run


def write_web_rollouts(folder: Path) -> Path:
    """Two repeats of one task in a browser, and one task with thousands of steps."""
    experiment = folder / "shopping"
    run = experiment / "train_trajectories" / "iteration0.run"
    run.mkdir(parents=True)
    (run / "manifest.json").write_text("{}")
    names = [_screenshot(experiment, index) for index in range(4)]
    first = [
        _step(names[0], "click", {"element_id": 3}, "click on [3]", pixel=[640, 192], box=True),
        _step(names[1], "type", {"text": "blanket"}, 'type "blanket"', pixel=[320, 384]),
        _step(names[2], "scroll", {"direction": "down"}, "scroll down"),
        _step(names[3], "answer", {"text": "54 dollars"}, 'answer "54 dollars"', reward=1.0),
    ]
    second = [first[0], _step(names[2], "click", {"element_id": 9}, "click on [9]"), first[3]]
    many = [
        _step(names[index % 4], "click", {"element_id": 1}, f"click {index + 1}")
        for index in range(LONG_STEPS)
    ]
    har = "ab" * 32 + ".har"
    recorded = experiment / "screenshots" / har[:2] / har
    recorded.parent.mkdir(exist_ok=True)
    recorded.write_bytes(RECORDED)
    records = [
        _trajectory(0, 0, first, 1.0, recordings={"har": har}),
        _trajectory(0, 1, second, 0.0),
        _trajectory(1, 0, many, 0.0),
    ]
    _write(run / "journal.jsonl", records)
    return experiment


def _attempt(number: int, *, final: bool, kind: str, detail: str) -> Json:
    failure = {
        "kind": kind,
        "detail": detail,
        "retryable": True,
        "causes": [{"type": "ConnectionResetError", "message": "reset by peer"}],
        "traceback": 'Traceback (most recent call last):\n  File "tool.py"',
    }
    return _record(0, 0, {"status": "failed", "failure": failure}, attempt=number, final=final)


def _record(task: int, repeat: int, outcome: Json, *, attempt: int = 1, final: bool = True) -> Json:
    return {
        "v": 1, "task": task, "repeat": repeat, "repeats": 2, "attempt": attempt, "final": final,
        "seed": 7, "started": 1_794_777_046.5 + attempt, "seconds": 1.25, "outcome": outcome,
    }  # fmt: skip


def _trajectory(task: int, repeat: int, steps: list[Json], reward: float, **more: Json) -> Json:
    result = {
        "task_id": f"shop-{task}",
        "task": {
            "task_id": f"shop-{task}",
            "task_name": f"What does blanket {task} cost?",
            "website": "http://shop.test/",
            "domain": "Shopping",
            "difficulty": 2,
        },
        "trajectory_index": task,
        "interaction_mode": "set_of_marks",
        "max_steps": 10,
        "model": "scripted",
        "start_url": "http://shop.test/",
        "ending": "answer",
        "steps": steps,
        **more,
    }
    outcome = {
        "status": "completed",
        "reward": reward,
        "success": reward >= 1.0,
        "usage": {"input_tokens": 900, "output_tokens": 80},
        "result": result,
    }
    return _record(task, repeat, outcome)


def _step(
    name: str,
    key: str,
    arguments: Json,
    text: str,
    *,
    pixel: list[int] | None = None,
    box: bool = False,
    reward: float = 0.0,
) -> Json:
    action: Json = {"key": key, "arguments": arguments, "text": text}
    if pixel is not None:
        action["pixel"] = pixel
    if box:
        action["box"] = {"x": 576.0, "y": 172.8, "width": 128.0, "height": 38.4}
    page = {
        "url": f"http://shop.test/{key}", "title": f"Shop: {key}", "status": 200,
        "width": PAGE_WIDTH, "height": PAGE_HEIGHT, "page_width": 1280.0, "page_height": 1700.0,
        "scroll_x": 0.0, "scroll_y": 0.0, "tabs": 1, "loading": False,
    }  # fmt: skip
    screenshot = {
        "name": name, "media_type": "image/png", "width": PAGE_WIDTH, "height": PAGE_HEIGHT
    }  # fmt: skip
    return {
        "observation": {"screenshot": screenshot, "page": page, "tree": "button 'Buy'"},
        "response": {
            "raw_prompt": [{"role": "user", "content": "What does the blanket cost?"}],
            "raw_response": f"Action: {text}",
            "fields": {"intention": f"I want to {key}."},
            "usage": {"input_tokens": 300, "output_tokens": 20},
        },
        "action": action,
        "reward": {"reward": reward},
        "timings": {"screenshot": 0.05, "model": 0.4, "execute": 0.3},
    }


def _screenshot(experiment: Path, index: int) -> str:
    """Saves a picture under a name as long as a digest, and returns the name."""
    name = f"{index}b" * 32 + ".png"
    folder = experiment / "screenshots" / name[:2]
    folder.mkdir(parents=True)
    (folder / name).write_bytes(picture(40 + 50 * index, 120, 200 - 40 * index))
    return name


def _write(path: Path, rows: Iterable[Json]) -> Path:
    path.write_bytes(b"".join(msgspec.json.encode(each) + b"\n" for each in rows))
    return path
