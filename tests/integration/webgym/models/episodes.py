"""Small episodes to be judged, with their screenshots on disk."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from rollgym.records import Row
from rollgym.store import BlobStore
from webgym.browser.contract.answers import PageInfo
from webgym.tasks.task import WebTask
from webgym.trajectory.plain import SCREENSHOTS
from webgym.trajectory.records import ActionRecord, Image, Observation, Step, Trajectory

PNG = b"\x89PNG\r\n\x1a\n"
ROW: dict[str, Any] = {
    "task_id": "kettle",
    "task_name": "How much does the kettle hold?",
    "website": "https://shop.test/",
    "difficulty": 2,
    "evaluator_reference": [
        {"description": "Find the kettle.", "facts": ["The kettle was opened.", "It is steel."]},
        {"description": "It holds 2 litres."},
    ],
    "definite_answer": "2.0 litres",
}


def task_of(row: dict[str, Any]) -> WebTask:
    return WebTask.of(Row.of(row), "0")


def episode(
    folder: Path,
    *,
    row: dict[str, Any] | None = None,
    pictures: Sequence[str] = ("start", "kettle"),
    answer: str | None = "It holds two litres.",
    **fields: Any,
) -> Trajectory:
    """An episode that saw these pictures, one at each step, and then ended."""
    blobs = BlobStore(folder / SCREENSHOTS)
    images = [Image(blobs.put_now(PNG + text.encode(), ".png").name, "image/png", 1280, 768)
              for text in pictures]  # fmt: skip
    steps = [
        Step(
            observation=Observation(
                screenshot=image, page=PageInfo(f"https://shop.test/{text}", text.title())
            ),
            action=ActionRecord(key="click", text=f"click {text}"),
            same_as_next_screenshot=image.name == following.name if following else None,
        )
        for text, image, following in zip(pictures, images, [*images[1:], None], strict=True)
    ]
    if answer is not None:
        last = ActionRecord(key="answer", arguments={"text": answer}, text=f"answer {answer!r}")
        steps[-1] = msgspec.structs.replace(steps[-1], action=last)
    row = ROW if row is None else row
    fields = {"ending": "max_steps" if answer is None else "answer", **fields}
    return Trajectory(
        task_id=str(row.get("task_id", "0")),
        task=msgspec.Raw(json.dumps(row).encode()),
        steps=tuple(steps),
        **fields,
    )
