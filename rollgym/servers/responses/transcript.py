"""The output of an episode as a chat-style transcript: the `output` of a rollout's row.

A transcript is for people and for tools that read chat. Each text is one entry, the calls of one
turn are together in the next entry, and the outputs of the tools follow. Reasoning is a field of
the entry that follows it. An item of an unknown kind is kept whole under `item`, so that nothing
here can fail a rollout that is finished.
"""

from collections.abc import Iterable
from typing import Any

from rollgym.servers.responses.content import assistant_content, chat_content, reasoning_text
from rollgym.servers.responses.shape import JsonObject, ShapeError, as_object


def chat_transcript(output_items: Iterable[object]) -> list[JsonObject]:
    """Entries with `role` and `content`, `tool_calls`, or `tool_call_id`; in order."""
    transcript = _Transcript()
    for item in output_items:
        try:
            transcript.add(as_object(item))
        except ShapeError:
            transcript.keep_whole(item)
    return transcript.finish()


class _Transcript:
    def __init__(self) -> None:
        self._entries: list[JsonObject] = []
        self._reasoning: list[str] = []
        self._calls: list[JsonObject] | None = None

    def add(self, item: JsonObject) -> None:
        kind = item.get("type") or "message"
        if kind == "function_call":
            self._add_call(item)
            return
        self._calls = None
        if kind == "reasoning":
            self._reasoning.append(reasoning_text(item))
        elif kind == "function_call_output":
            content = _plain(chat_content(item, "output"))
            entry = {"role": "tool", "tool_call_id": item.get("call_id"), "content": content}
            self._entries.append(entry)
        elif kind == "message" and item.get("role") == "assistant":
            self._add_text(item)
        elif kind == "message":
            content = _plain(chat_content(item, "content"))
            self._entries.append({"role": item.get("role"), "content": content})
        else:
            raise ShapeError("type", f"{kind!r} is unknown")

    def keep_whole(self, item: object) -> None:
        self._calls = None
        self._entries.append(self._assistant({"item": item}))

    def finish(self) -> list[JsonObject]:
        if any(self._reasoning):
            self._entries.append(self._assistant({"content": ""}))
        return self._entries

    def _add_text(self, item: JsonObject) -> None:
        texts, refusals = assistant_content(item)
        entry = self._assistant({"content": "".join(texts)})
        if refusals:
            entry["refusal"] = "".join(refusals)
        self._entries.append(entry)

    def _add_call(self, item: JsonObject) -> None:
        function = {"name": item.get("name"), "arguments": item.get("arguments")}
        call = {"id": item.get("call_id"), "type": "function", "function": function}
        if self._calls is None:
            self._calls = []
            self._entries.append(self._assistant({"tool_calls": self._calls}))
        self._calls.append(call)

    def _assistant(self, fields: JsonObject) -> JsonObject:
        entry: JsonObject = {"role": "assistant", **fields}
        if any(self._reasoning):
            entry["reasoning"] = "\n".join(filter(None, self._reasoning))
        self._reasoning = []
        return entry


def _plain(content: str | list[Any]) -> str | list[Any]:
    """Join texts to one text; content with images stays a list of parts."""
    if isinstance(content, str) or any(part["type"] != "text" for part in content):
        return content
    return "\n".join(part["text"] for part in content)
