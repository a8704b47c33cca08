"""A function call: an item in Responses, an entry of a message's `tool_calls` in chat."""

from rollgym.servers.responses.shape import JsonObject, at, get_object, get_text


def chat_tool_call(item: JsonObject) -> JsonObject:
    """The entry for a function_call item. Raises ShapeError."""
    return {
        "id": get_text(item, "call_id"),
        "type": "function",
        "function": {"name": get_text(item, "name"), "arguments": get_text(item, "arguments")},
    }


def function_call_item(call: JsonObject) -> JsonObject:
    """The item for an entry of `tool_calls`. Raises ShapeError."""
    call_id, function = get_text(call, "id"), get_object(call, "function")
    with at("function"):
        name, arguments = get_text(function, "name"), get_text(function, "arguments")
    return {"type": "function_call", "call_id": call_id, "name": name, "arguments": arguments}
