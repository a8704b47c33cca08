"""The tokens in the rows of rollouts, and in the results of journals.

A collection writes the turns of a rollout to `rollgym_tokens`. Web rollouts have them in the
responses of their steps. Rows of other programs, and those of earlier versions, have whole prompts
on the items of the response or in the steps; they are read like those of a collection.
"""

from collections.abc import Iterable
from typing import Any

import msgspec

from rollgym.records.decoding import JsonDecoder
from rollgym.records.packing import TokenError
from rollgym.records.tokens import (
    LOG_PROBS,
    PROMPT_IDS,
    ROW_FIELD,
    SAMPLED_IDS,
    TOKEN_FIELDS,
    TokenLog,
    TokenSample,
    TokenTurn,
    TurnKind,
)
from rollgym.servers.responses import JsonObject, Response


class _StepResponse(msgspec.Struct):
    tokens: TokenTurn | None = None
    model: str = ""
    prompt_token_ids: list[int] | None = None
    token_ids: list[int] | None = None
    logprobs: list[float] | None = None


class _Step(msgspec.Struct):
    response: _StepResponse | None = None


class _Tokens(msgspec.Struct):
    turns: list[TokenTurn] | None = msgspec.field(default=None, name=ROW_FIELD)
    steps: list[_Step] = []
    response: Any = None


_TOKENS = JsonDecoder(_Tokens)


def token_turns(result: bytes) -> list[TokenTurn]:
    """The turns in a row or in the result of a record; [] where it has no tokens.

    Raises TokenError.
    """
    try:
        found = _TOKENS.decode(result)
    except msgspec.DecodeError as error:
        raise TokenError(f"the tokens cannot be read: {error}") from error
    if found.turns is not None:
        return found.turns
    if isinstance(found.response, dict):
        return _logged(Response.of(found.response)).turns
    responses = [step.response for step in found.steps if step.response is not None]
    turns = [response.tokens for response in responses if response.tokens is not None]
    return turns or _logged_steps(responses).turns


def with_tokens_stored_once(response: Response) -> dict[str, Any]:
    """The fields of a row for a response with tokens on its items; {} for any other response."""
    if not any(name in item for item in response.output for name in TOKEN_FIELDS):
        return {}
    turns = _logged(response).turns
    bare = [
        {name: value for name, value in item.items() if name not in TOKEN_FIELDS}
        for item in response.output
    ]
    return {"response": {**response.raw, "output": bare}, ROW_FIELD: turns}


def _logged(response: Response) -> TokenLog:
    """The tokens on the items of a whole conversation. What follows a call's output is a turn."""
    log, turn = TokenLog(), list[JsonObject]()
    for place, item in enumerate(response.output):
        turn.append(item)
        sample = TokenSample.of(item, response.version)
        if sample is not None:
            kinds = {each.get("type") for each in turn}
            log.add(sample, TurnKind("reasoning" in kinds, "function_call" in kinds), item=place)
            turn = []
    return log


def _logged_steps(responses: Iterable[_StepResponse]) -> TokenLog:
    log = TokenLog()
    for each in responses:
        found = {PROMPT_IDS: each.prompt_token_ids, SAMPLED_IDS: each.token_ids}
        sample = TokenSample.of(found | {LOG_PROBS: each.logprobs}, each.model)
        if sample is not None:
            log.add(sample)
    return log
