"""What a model server answers: Responses objects and chat completions, and errors."""

from typing import Any, NamedTuple

MODEL = "counterpart"
INPUT_TOKENS, OUTPUT_TOKENS = 10, 5
Json = dict[str, Any]


class Call(NamedTuple):
    """A call of a tool; the arguments are text, and need not be JSON."""

    call_id: str
    name: str
    arguments: str


class Turn(NamedTuple):
    """What the model does next: calls, or a text, perhaps after some reasoning."""

    calls: tuple[Call, ...] = ()
    text: str = ""
    reasoning: tuple[str, str] | None = None


def as_response(turn: Turn) -> Json:
    output: list[Json] = []
    if turn.reasoning:
        identity, text = turn.reasoning
        summary = [{"type": "summary_text", "text": text}]
        output.append({"id": identity, "type": "reasoning", "summary": summary})
    output += [
        {
            "id": f"fc_{call.call_id}",
            "type": "function_call",
            "call_id": call.call_id,
            "name": call.name,
            "arguments": call.arguments,
            "status": "completed",
        }
        for call in turn.calls
    ]
    if not turn.calls:
        content = [{"type": "output_text", "text": turn.text, "annotations": []}]
        output.append(
            {
                "id": "msg_1",
                "type": "message",
                "role": "assistant",
                "status": "completed",
                "content": content,
            }
        )
    return {
        "id": "resp_1",
        "object": "response",
        "created_at": 1_700_000_000,
        "status": "completed",
        "error": None,
        "incomplete_details": None,
        "instructions": None,
        "metadata": {},
        "model": MODEL,
        "output": output,
        "parallel_tool_calls": True,
        "temperature": 1.0,
        "tool_choice": "auto",
        "tools": [],
        "top_p": 1.0,
        "usage": {
            "input_tokens": INPUT_TOKENS,
            "input_tokens_details": {"cached_tokens": 0},
            "output_tokens": OUTPUT_TOKENS,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": INPUT_TOKENS + OUTPUT_TOKENS,
        },
    }


def as_chat_completion(turn: Turn) -> Json:
    message: Json = {"role": "assistant", "content": None if turn.calls else turn.text}
    if turn.calls:
        message["tool_calls"] = [
            {
                "id": call.call_id,
                "type": "function",
                "function": {"name": call.name, "arguments": call.arguments},
            }
            for call in turn.calls
        ]
    reason = "tool_calls" if turn.calls else "stop"
    return {
        "id": "chatcmpl_1",
        "object": "chat.completion",
        "created": 1_700_000_000,
        "model": MODEL,
        "choices": [{"index": 0, "message": message, "finish_reason": reason, "logprobs": None}],
        "usage": {
            "prompt_tokens": INPUT_TOKENS,
            "completion_tokens": OUTPUT_TOKENS,
            "total_tokens": INPUT_TOKENS + OUTPUT_TOKENS,
        },
    }


def models() -> Json:
    model = {"id": MODEL, "object": "model", "created": 1_700_000_000, "owned_by": "tests"}
    return {"object": "list", "data": [model]}


def error(message: str, kind: str = "invalid_request_error") -> Json:
    return {"error": {"message": message, "type": kind, "param": None, "code": None}}
