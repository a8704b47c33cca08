"""How many tokens an answer took: `usage` as either API writes it."""

from rollgym.servers.responses.shape import (
    JsonObject,
    get_count,
    get_object,
    get_optional_object,
)


def responses_usage(completion: JsonObject) -> JsonObject | None:
    """Usage of a chat completion as Responses writes it; None where it has none."""
    if completion.get("usage") is None:
        return None
    usage = get_object(completion, "usage")
    prompt = get_optional_object(usage, "prompt_tokens_details")
    completed = get_optional_object(usage, "completion_tokens_details")
    spent, made = get_count(usage, "prompt_tokens"), get_count(usage, "completion_tokens")
    return {
        "input_tokens": spent,
        "input_tokens_details": {"cached_tokens": get_count(prompt, "cached_tokens")},
        "output_tokens": made,
        "output_tokens_details": {"reasoning_tokens": get_count(completed, "reasoning_tokens")},
        "total_tokens": spent + made,
    }


def chat_usage(response: JsonObject) -> JsonObject | None:
    """Usage of a Responses object as chat writes it; None where it has none."""
    if response.get("usage") is None:
        return None
    usage = get_object(response, "usage")
    prompt = get_optional_object(usage, "input_tokens_details")
    completed = get_optional_object(usage, "output_tokens_details")
    spent, made = get_count(usage, "input_tokens"), get_count(usage, "output_tokens")
    return {
        "prompt_tokens": spent,
        "completion_tokens": made,
        "total_tokens": spent + made,
        "prompt_tokens_details": {"cached_tokens": get_count(prompt, "cached_tokens")},
        "completion_tokens_details": {"reasoning_tokens": get_count(completed, "reasoning_tokens")},
    }
