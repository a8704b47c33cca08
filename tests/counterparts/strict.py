"""What a strict resources server accepts: the Responses API by the letter, and nothing besides.

The rules are those that the servers of NeMo Gym were observed to have: a request with an unknown
parameter, an invented status or reason, or an item of another shape is answered with 422.
"""

from collections.abc import Iterator
from typing import Any

Json = dict[str, Any]

PARAMETERS = frozenset(
    [
        "background",
        "include",
        "input",
        "instructions",
        "max_output_tokens",
        "max_tool_calls",
        "metadata",
        "model",
        "parallel_tool_calls",
        "previous_response_id",
        "prompt",
        "reasoning",
        "service_tier",
        "store",
        "temperature",
        "text",
        "tool_choice",
        "tools",
        "top_logprobs",
        "top_p",
        "truncation",
        "user",
        "stream",
    ]
)
STATUSES = ("completed", "failed", "in_progress", "cancelled", "queued", "incomplete")
ITEM_STATUSES = ("in_progress", "completed", "incomplete", None)
REASONS = ("max_output_tokens", "content_filter")


def problems(body: Json) -> list[Json]:
    """What is wrong with the body of a `/verify` or `/seed_session`, in the way of a validator."""
    found = list(_of_parameters(body["responses_create_params"]))
    if "response" in body:
        found += _of_response(body["response"])
    return [{"loc": ["body", *place.split(".")], "msg": message} for place, message in found]


def _of_parameters(params: Json) -> Iterator[tuple[str, str]]:
    for name in sorted(params.keys() - PARAMETERS):
        yield f"responses_create_params.{name}", "Extra inputs are not permitted"
    yield from _of_metadata(params.get("metadata"), "responses_create_params.metadata")


def _of_response(response: Json) -> Iterator[tuple[str, str]]:
    if response.get("status") not in (*STATUSES, None):
        yield "response.status", f"Input should be one of {STATUSES}"
    details = response.get("incomplete_details")
    if details is not None and details.get("reason") not in (*REASONS, None):
        yield "response.incomplete_details.reason", f"Input should be one of {REASONS}"
    yield from _of_metadata(response.get("metadata"), "response.metadata")
    for number, item in enumerate(response["output"]):
        for name, message in _of_item(item):
            yield f"response.output.{number}.{name}", message


def _of_item(item: Json) -> Iterator[tuple[str, str]]:
    if item.get("status") not in ITEM_STATUSES:
        yield "status", f"Input should be one of {ITEM_STATUSES}"
    match item:
        case {"type": "function_call_output", "call_id": str(), "output": str()}:
            return
        case {"type": "function_call", "call_id": str(), "name": str(), "arguments": str()}:
            return
        case {"type": "reasoning", "id": str(), "summary": list()}:
            return
        case {"type": "message", "id": str(), "content": list(parts)}:
            for part in parts:
                if part.get("type") == "output_text" and "annotations" not in part:
                    yield "content", "annotations: Field required"
        case _:
            yield "type", f"not an output item: {item}"


def _of_metadata(metadata: object, place: str) -> Iterator[tuple[str, str]]:
    if metadata is None:
        return
    if not isinstance(metadata, dict):
        yield place, "Input should be a valid dictionary"
        return
    for name, value in metadata.items():
        if not isinstance(value, str):
            yield f"{place}.{name}", "Input should be a valid string"
