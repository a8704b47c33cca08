"""Rows as ng_collect_rollouts writes them, and pages as a browser reads them."""

from collections.abc import Iterable, Mapping
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import msgspec

from rollgym.records import Completed, Row, Task
from rollgym.rollouts.output_row import failure_row, output_row
from tests.builders import failed, record

HOSTILE = "\"'><script>alert(1)</script><img src=x onerror=alert(2)>&lt;b&gt; javascript:alert(3)"


def rollout(
    task: int = 0,
    repeat: int = 0,
    reward: float = 1.0,
    *,
    question: str = "What is the weather?",
    answer: str = "It is warm.",
    arguments: str = '{"city": "Berlin", "days": 3}',
    verified: Mapping[str, Any] | None = None,
) -> bytes:
    """A question, some reasoning, a tool call, its result and an answer."""
    output = [
        {"type": "reasoning", "summary": [{"type": "summary_text", "text": "I shall look it up."}]},
        {"type": "function_call", "call_id": "c", "name": "get_weather", "arguments": arguments},
        {"type": "function_call_output", "call_id": "c", "output": "24 degrees"},
        {
            "type": "message",
            "role": "assistant",
            "content": [{"type": "output_text", "text": answer, "annotations": []}],
        },
    ]
    result = msgspec.json.encode(
        {"response": {"output": output, "model": "scripted"}, **(verified or {})}
    )
    outcome = Completed(reward, success=reward >= 1.0, result=msgspec.Raw(result))
    return output_row(_task(task, question), record(task, repeat, outcome=outcome)).raw + b"\n"


def failure(task: int = 0, repeat: int = 0, detail: str = "the tool broke") -> bytes:
    attempt = record(task, repeat, outcome=failed(detail=detail))
    return failure_row(_task(task, "?"), attempt).raw + b"\n"


def write(path: Path, lines: Iterable[bytes]) -> Path:
    path.write_bytes(b"".join(lines))
    return path


class Page(HTMLParser):
    """What a browser makes of a page: its elements, its links, and the text in between."""

    def __init__(self, body: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(body)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text += data + " "

    def links(self, beginning: str = "") -> list[str]:
        found = [str(attributes["href"]) for name, attributes in self.elements if name == "a"]
        return [link for link in found if link.startswith(beginning)]

    def count(self, tag: str) -> int:
        return sum(name == tag for name, _ in self.elements)


def _task(index: int, question: str) -> Task:
    asked = [
        {"role": "system", "content": "You forecast the weather."},
        {"role": "user", "content": question},
    ]
    tools = [{"type": "function", "name": "get_weather", "parameters": {}}]
    params = {"input": asked, "tools": tools, "temperature": 0.5}
    return Task(index, Row.of({"responses_create_params": params, "expected_city": "Berlin"}))
