"""The exact tokens of a turn: what the model was given, what it sampled, and how likely each was.

They are what a trainer needs and cannot recompute: tokenising a text again need not give the tokens
that were sampled. On an output item they are three fields (`FIELDS`); in a chat completion they
stand on the message under the same names, or where vLLM puts them: `prompt_token_ids` beside the
choices or on the choice, `token_ids` on the choice, and log probabilities under `logprobs`.
"""

from typing import Any

from rollgym.servers.responses.shape import (
    JsonObject,
    ShapeError,
    convert_each,
    get_array,
    get_object,
    get_optional_object,
)

PROMPT = "prompt_token_ids"
GENERATION = "generation_token_ids"
LOG_PROBS = "generation_log_probs"
FIELDS = (PROMPT, GENERATION, LOG_PROBS)

_IDS = frozenset({int})
_NUMBERS = frozenset({int, float})


def token_fields(source: JsonObject) -> JsonObject:
    """The fields among FIELDS that `source` has."""
    return {name: source[name] for name in FIELDS if source.get(name) is not None}


def chat_token_fields(completion: JsonObject, choice: JsonObject) -> JsonObject:
    """What a chat completion says of its tokens, as fields of an output item. Raises ShapeError."""
    fields: JsonObject = token_fields(get_object(choice, "message"))
    for source, name, field in (
        (completion, "prompt_token_ids", PROMPT),
        (choice, "prompt_token_ids", PROMPT),
        (choice, "token_ids", GENERATION),
    ):
        if source.get(name) is not None:
            fields.setdefault(field, source[name])
    log_probs = _log_probs(choice)
    if log_probs is not None:
        fields.setdefault(LOG_PROBS, log_probs)
    _check(fields)
    return fields


def _log_probs(choice: JsonObject) -> list[Any] | None:
    logprobs = get_optional_object(choice, "logprobs")
    if logprobs.get("content") is None:
        return None
    entries = get_array(logprobs, "content")
    return convert_each("logprobs.content", entries, lambda entry: entry.get("logprob"))


def _check(fields: JsonObject) -> None:
    for name in fields:
        numbers = get_array(fields, name)
        if not _NUMBERS.issuperset(map(type, numbers)):
            raise ShapeError(name, "must hold numbers only")
        if name != LOG_PROBS and not _IDS.issuperset(map(type, numbers)):
            raise ShapeError(name, "must hold whole numbers only")
    if GENERATION in fields and LOG_PROBS in fields:
        sampled, known = len(fields[GENERATION]), len(fields[LOG_PROBS])
        if sampled != known:
            raise ShapeError(LOG_PROBS, f"there are {known} for {sampled} generated tokens")
