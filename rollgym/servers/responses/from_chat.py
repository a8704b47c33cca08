"""Chat completions of an endpoint, converted to Responses objects.

The one choice of a completion becomes up to three kinds of item, in this order: reasoning, message,
function calls. A stop for length or by a filter makes the response `incomplete`; a completion that
the server itself aborted raises an error.

*Exact tokens.* A trainer needs the tokens that the model was given and sampled, and the log
probability of each; it cannot recompute them, because tokenising a text again need not give the
same tokens. They become three fields of the turn's last item (`TOKEN_FIELDS`). In a chat completion
they stand on the message under the same names, or where vLLM puts them: `prompt_token_ids` beside
the choices or on the choice, `token_ids` on the choice, and log probabilities under `logprobs`,
with llama.cpp's ids. They are passed on as they are: `rollgym.records.tokens` checks them.

*The policy version* stays a field of the object (`rollgym.records.version`).
"""

from time import time
from typing import Annotated, Any, Required, TypedDict
from uuid import uuid4

import msgspec

from rollgym.records import ModelMalformedError
from rollgym.records.decoding import JsonDecoder
from rollgym.records.failure import shorten
from rollgym.records.tokens import LOG_PROBS, PROMPT_IDS, SAMPLED_IDS, TOKEN_FIELDS
from rollgym.servers.final_answer import split_thinking
from rollgym.servers.responses.messages import chat_reasoning, function_call_item
from rollgym.servers.responses.shape import (
    JsonObject,
    ShapeError,
    as_object,
    at,
    convert_each,
    get_array,
    get_count,
    get_object,
    get_optional_array,
    get_optional_object,
    get_optional_text,
    get_seconds,
    shape_errors_as,
)
from rollgym.servers.responses.to_chat import LOGPROBS

_NULL = msgspec.Raw(b"null")
_TOKEN_NAMES = frozenset(TOKEN_FIELDS)


class _SampledToken(msgspec.Struct, gc=False):
    """An entry of the log probabilities without its text and alternatives."""

    logprob: msgspec.Raw = _NULL
    id: Any = msgspec.UNSET


class _LogProbs(TypedDict, total=False):
    content: list[_SampledToken] | None


class _Choice(TypedDict, total=False):
    message: Any
    finish_reason: Any
    logprobs: _LogProbs | None
    prompt_token_ids: Any
    token_ids: msgspec.Raw
    policy_version: Any
    policy_versions: Any


class _Completion(TypedDict, total=False):
    id: Any
    created: Any
    model: Any
    choices: Required[Annotated[list[_Choice], msgspec.Meta(min_length=1)]]
    usage: Any
    prompt_token_ids: Any
    policy_version: Any
    policy_versions: Any
    metadata: Any
    system_fingerprint: Any
    timings: Any


READ_OF_CHAT = JsonDecoder(_Completion)
"""Decodes the fields of a chat completion that are read here, for speed: a completion with tokens
has hundreds of texts and alternatives that are not needed. Log probabilities stay JSON, to be
encoded again. Fails for completions with another shape, which are to be decoded whole."""
_INCOMPLETE = {"length": "max_output_tokens", "content_filter": "content_filter"}
_ABORTED = frozenset({"abort", "error"})
_VERSIONS = ("policy_versions", "policy_version")
_DEFAULT_VERSION = "default"
"""What SGLang says as long as no trainer has named its weights."""
_ECHOED = (
    "instructions",
    "max_output_tokens",
    "metadata",
    "reasoning",
    "temperature",
    "text",
    "top_logprobs",
    "top_p",
    "user",
)


def response_from_chat(
    completion: object, params: JsonObject, *, think_tags: bool = False
) -> JsonObject:
    """The Responses object for `completion`, the response to a request with `params`.

    With `think_tags`, reasoning is also looked for at the start of the text. Raises
    ModelMalformedError that says what is wrong with a completion that cannot be read.
    """
    with shape_errors_as(ModelMalformedError, "the chat completion cannot be read"):
        answer = as_object(completion)
        choice = _first_choice(answer)
        suffix = _suffix(answer)
        with at("choices[0]"):
            reason = _incomplete_reason(choice)
            status = "incomplete" if reason else "completed"
            output = _output(choice, params, suffix, think_tags)
            output[-1]["status"] = status
            output[-1].update(chat_token_fields(answer, choice))
        return {
            "id": f"resp_{suffix}",
            "object": "response",
            "created_at": get_seconds(answer, "created") or int(time()),
            "status": status,
            "error": None,
            "incomplete_details": {"reason": reason} if reason else None,
            "model": get_optional_text(answer, "model") or params.get("model") or "",
            "output": output,
            "usage": responses_usage(answer),
            **answer_versions(answer, choice),
            **_echo(params),
        }


def answer_versions(answer: JsonObject, choice: JsonObject) -> JsonObject:
    """What a completion or its choice says of the policy version, in the fields of a response."""
    said = {
        name: holder[name] for holder in (answer, choice) for name in _VERSIONS if name in holder
    }
    metadata = answer.get("metadata")
    if not said and isinstance(metadata, dict):  # SGLang
        version = metadata.get("weight_version")
        said = {} if version in (None, _DEFAULT_VERSION) else {"policy_version": version}
    if answer.get("system_fingerprint") is not None:
        said["system_fingerprint"] = answer["system_fingerprint"]
    return said


def _first_choice(answer: JsonObject) -> JsonObject:
    if not answer.get("choices"):
        raise ShapeError("choices", f"missing or empty in {shorten(str(answer), 300)}")
    return as_object(get_array(answer, "choices")[0], "choices[0]")


def _incomplete_reason(choice: JsonObject) -> str | None:
    finish = get_optional_text(choice, "finish_reason")
    if finish in _ABORTED:
        raise ShapeError("finish_reason", f"the server aborted the completion ({finish})")
    return _INCOMPLETE.get(finish or "")


def _suffix(answer: JsonObject) -> str:
    """The common part of the ids of the response and its items."""
    identity = get_optional_text(answer, "id")
    return identity.removeprefix("chatcmpl-") if identity else uuid4().hex


def _output(
    choice: JsonObject, params: JsonObject, suffix: str, think_tags: bool
) -> list[JsonObject]:
    message = get_object(choice, "message")
    with at("message"):
        reasoning = chat_reasoning(message)
        text = get_optional_text(message, "content") or ""
        refusal = get_optional_text(message, "refusal")
        calls = _function_calls(message, suffix)
    if think_tags and not reasoning:
        reasoning, text = split_thinking(text)
    output: list[JsonObject] = []
    if reasoning:
        output.append(_reasoning_item(reasoning, suffix))
    if text or refusal or not (reasoning or calls):
        output.append(_message_item(text, refusal, _asked_logprobs(choice, params), suffix))
    output += calls
    return output


def _reasoning_item(reasoning: str, suffix: str) -> JsonObject:
    return {
        "type": "reasoning",
        "id": f"rs_{suffix}",
        "summary": [{"type": "summary_text", "text": reasoning}],
        "status": "completed",
    }


def _message_item(
    text: str, refusal: str | None, logprobs: list[Any] | None, suffix: str
) -> JsonObject:
    content: list[JsonObject] = []
    if text or not refusal:
        part: JsonObject = {"type": "output_text", "text": text, "annotations": []}
        if logprobs is not None:
            part["logprobs"] = logprobs
        content.append(part)
    if refusal:
        content.append({"type": "refusal", "refusal": refusal})
    return {
        "type": "message",
        "id": f"msg_{suffix}",
        "role": "assistant",
        "content": content,
        "status": "completed",
    }


def _function_calls(message: JsonObject, suffix: str) -> list[JsonObject]:
    entries = get_optional_array(message, "tool_calls")
    calls = convert_each("tool_calls", entries, function_call_item)
    for index, call in enumerate(calls):
        call["id"] = f"fc_{suffix}_{index}"
        call["status"] = "completed"
    return calls


def _asked_logprobs(choice: JsonObject, params: JsonObject) -> list[Any] | None:
    """Log probabilities with the texts of the tokens, and alternatives; both only on request.

    llama.cpp gives twenty alternatives of each token where none are asked for.
    """
    if not asks_for_logprobs(params):
        return None
    entries = get_optional_array(get_optional_object(choice, "logprobs"), "content")
    if params.get("top_logprobs"):
        return entries
    return [{**e, "top_logprobs": []} if isinstance(e, dict) else e for e in entries]


def asks_for_logprobs(params: JsonObject) -> bool:
    """Whether the parameters of a request ask for log probabilities with the texts of tokens."""
    if params.get("logprobs") or params.get("top_logprobs"):
        return True
    include = params.get("include")
    return isinstance(include, list) and LOGPROBS in include


def _echo(params: JsonObject) -> JsonObject:
    """The parameters of the request, which a Responses object repeats."""
    parallel = params.get("parallel_tool_calls")
    return {
        "parallel_tool_calls": True if parallel is None else parallel,
        "tool_choice": params.get("tool_choice") or "auto",
        "tools": params.get("tools") or [],
        **{name: params[name] for name in _ECHOED if params.get(name) is not None},
    }


def chat_token_fields(completion: JsonObject, choice: JsonObject) -> JsonObject:
    """The tokens of a chat completion as fields of an output item, as the server gave them."""
    message = get_object(choice, "message")
    fields: JsonObject = {}
    if not _TOKEN_NAMES.isdisjoint(message):
        fields = {name: message[name] for name in TOKEN_FIELDS if message.get(name) is not None}
    prompt, sampled = completion.get("prompt_token_ids"), choice.get("token_ids")
    if prompt is None:
        prompt = choice.get("prompt_token_ids")
    if prompt is not None:
        fields.setdefault(PROMPT_IDS, prompt)
    if sampled is not None and sampled != _NULL:
        fields.setdefault(SAMPLED_IDS, sampled)
    entries = _log_probs(choice)
    if entries is not None:
        try:
            if isinstance(entries, list) and entries and isinstance(entries[0], _SampledToken):
                fields.setdefault(LOG_PROBS, [each.logprob for each in entries])
                if entries[0].id is not msgspec.UNSET:  # llama.cpp
                    ids = (None if each.id is msgspec.UNSET else each.id for each in entries)
                    fields.setdefault(SAMPLED_IDS, [*ids])
                return fields
            fields.setdefault(LOG_PROBS, [entry.get("logprob") for entry in entries])
            if entries and "id" in entries[0]:  # llama.cpp
                fields.setdefault(SAMPLED_IDS, [entry.get("id") for entry in entries])
        except (AttributeError, TypeError):
            fields.setdefault(LOG_PROBS, entries)
    return fields


def _log_probs(choice: JsonObject) -> Any:
    logprobs = choice.get("logprobs")
    return logprobs.get("content") if isinstance(logprobs, dict) else logprobs


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
