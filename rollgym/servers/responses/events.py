"""A finished answer as the events of a stream, for a client that asked for one.

The events are those that the API would have sent for this answer, in the same order; a text comes
in one piece. Each event is one block of server-sent events.
"""

from collections.abc import Iterator

import msgspec

from rollgym.servers.responses.shape import JsonObject

DONE = b"data: [DONE]\n\n"
"""The end of a stream of chat completions."""
_ENDINGS = {"incomplete": "response.incomplete", "failed": "response.failed"}


def response_events(response: JsonObject) -> Iterator[bytes]:
    """The events of a finished Responses object."""
    for number, event in enumerate(_response_events(response)):
        yield sse({**event, "sequence_number": number}, str(event["type"]))


def completion_chunks(completion: JsonObject, *, with_usage: bool) -> Iterator[bytes]:
    """The chunks of a finished chat completion. `with_usage` adds one with the token counts."""
    head = {
        name: value for name, value in completion.items() if name not in {"choices", "usage"}
    } | {"object": "chat.completion.chunk"}
    for choice in completion.get("choices") or ():
        for changed in _choice_chunks(choice):
            chunk = {"index": choice.get("index", 0), "finish_reason": None, **changed}
            yield sse({**head, "choices": [chunk]})
    if with_usage and completion.get("usage") is not None:
        yield sse({**head, "choices": [], "usage": completion["usage"]})
    yield DONE


def anthropic_events(message: JsonObject) -> Iterator[bytes]:
    """The events of a finished Message of the Anthropic API."""
    for event in _anthropic_events(message):
        yield sse(event, str(event["type"]))


def sse(data: JsonObject, event: str = "") -> bytes:
    """One block of server-sent events."""
    name = f"event: {event}\n" if event else ""
    return b"%bdata: %b\n\n" % (name.encode(), msgspec.json.encode(data))


def _response_events(response: JsonObject) -> Iterator[JsonObject]:
    started = {**response, "status": "in_progress", "output": [], "usage": None}
    started |= {"incomplete_details": None, "error": None}
    yield {"type": "response.created", "response": started}
    yield {"type": "response.in_progress", "response": started}
    for index, item in enumerate(response.get("output") or ()):
        yield from _item_events(item, {"output_index": index})
    ending = _ENDINGS.get(str(response.get("status")), "response.completed")
    yield {"type": ending, "response": response}


def _item_events(item: JsonObject, place: JsonObject) -> Iterator[JsonObject]:
    within = {"item_id": item.get("id") or "", **place}
    kind, empty = item.get("type"), {**item, "status": "in_progress"}
    inner: list[JsonObject] = []
    if kind == "message":
        empty["content"] = []
        inner = [
            event
            for number, part in enumerate(_parts(item, "content"))
            for event in _content_events(part, {**within, "content_index": number})
        ]
    elif kind == "function_call":
        empty["arguments"] = ""
        given = item.get("arguments") or ""
        named = {"name": item.get("name"), "arguments": given}
        inner = [
            {"type": "response.function_call_arguments.delta", "delta": given, **within},
            {"type": "response.function_call_arguments.done", **named, **within},
        ]
    elif kind == "reasoning":
        empty["summary"] = []
        inner = list(_reasoning_events(item, within))
    yield {"type": "response.output_item.added", "item": empty, **place}
    yield from inner
    yield {"type": "response.output_item.done", "item": item, **place}


def _content_events(part: JsonObject, place: JsonObject) -> Iterator[JsonObject]:
    name = "refusal" if part.get("type") == "refusal" else "text"
    prefix = "response.refusal" if name == "refusal" else "response.output_text"
    text = part.get(name) or ""
    logprobs = {} if name == "refusal" else {"logprobs": part.get("logprobs") or []}
    yield {"type": "response.content_part.added", "part": {**part, name: ""}, **place}
    yield {"type": f"{prefix}.delta", "delta": text, **logprobs, **place}
    yield {"type": f"{prefix}.done", name: text, **logprobs, **place}
    yield {"type": "response.content_part.done", "part": part, **place}


def _reasoning_events(item: JsonObject, within: JsonObject) -> Iterator[JsonObject]:
    summary = "response.reasoning_summary"
    for number, part in enumerate(_parts(item, "summary")):
        place, text = {**within, "summary_index": number}, part.get("text") or ""
        yield {"type": f"{summary}_part.added", "part": {**part, "text": ""}, **place}
        yield {"type": f"{summary}_text.delta", "delta": text, **place}
        yield {"type": f"{summary}_text.done", "text": text, **place}
        yield {"type": f"{summary}_part.done", "part": part, **place}
    for number, part in enumerate(_parts(item, "content")):
        place, text = {**within, "content_index": number}, part.get("text") or ""
        yield {"type": "response.reasoning_text.delta", "delta": text, **place}
        yield {"type": "response.reasoning_text.done", "text": text, **place}


def _anthropic_events(message: JsonObject) -> Iterator[JsonObject]:
    usage = message["usage"]
    started = {**message, "content": [], "stop_reason": None}
    yield {"type": "message_start", "message": {**started, "usage": {**usage, "output_tokens": 0}}}
    for index, block in enumerate(message["content"]):
        empty, deltas = _block_deltas(block)
        yield {"type": "content_block_start", "index": index, "content_block": empty}
        for delta in deltas:
            yield {"type": "content_block_delta", "index": index, "delta": delta}
        yield {"type": "content_block_stop", "index": index}
    ending = {name: message[name] for name in ("stop_reason", "stop_sequence")}
    yield {"type": "message_delta", "delta": ending, "usage": usage}
    yield {"type": "message_stop"}


def _block_deltas(block: JsonObject) -> tuple[JsonObject, list[JsonObject]]:
    """A content block as it starts, and what is added to it."""
    if block["type"] == "tool_use":
        written = msgspec.json.encode(block["input"]).decode()
        return {**block, "input": {}}, [{"type": "input_json_delta", "partial_json": written}]
    if block["type"] == "thinking":
        thought = {"type": "thinking_delta", "thinking": block["thinking"]}
        signed = {"type": "signature_delta", "signature": block["signature"]}
        return {**block, "thinking": ""}, [thought, signed]
    return {**block, "text": ""}, [{"type": "text_delta", "text": block["text"]}]


def _parts(item: JsonObject, name: str) -> list[JsonObject]:
    value = item.get(name)
    if isinstance(value, str):
        return [{"type": "output_text", "text": value, "annotations": []}]
    return [part for part in value if isinstance(part, dict)] if isinstance(value, list) else []


def _choice_chunks(choice: JsonObject) -> Iterator[JsonObject]:
    """The changing fields of each chunk of one choice."""
    message = {name: value for name, value in choice["message"].items() if value is not None}
    calls = message.pop("tool_calls", None) or []
    yield {"delta": {"role": message.pop("role", "assistant"), "content": ""}}
    if message:
        logprobs = choice.get("logprobs")
        yield {"delta": message, **({"logprobs": logprobs} if logprobs else {})}
    for number, call in enumerate(calls):
        yield {"delta": {"tool_calls": [{"index": number, **call}]}}
    sent = {"message", "logprobs", "index"}
    yield {"delta": {}, **{name: value for name, value in choice.items() if name not in sent}}
