"""The tokens in the rows of rollouts, and in the results of journals.

A collection writes the turns of a rollout to `rollgym_tokens`. Web rollouts have them in the
responses of their steps. Rows of other programs, and those of earlier versions, have whole prompts
on the items of the response or in the steps; they are read like those of a collection.
"""

from collections.abc import Iterable
from typing import Any, NamedTuple

import msgspec

from rollgym.records.branches import Branch, branches_of
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
from rollgym.records.version import TURNS_FIELD, UNKNOWN, PolicyTurn, TurnVersion, VersionPart
from rollgym.servers.responses import JsonObject, Response


class _StepResponse(msgspec.Struct):
    tokens: TokenTurn | None = None
    version: str = ""
    version_parts: tuple[VersionPart, ...] = ()
    prompt_token_ids: list[int] | None = None
    token_ids: list[int] | None = None
    logprobs: list[float] | None = None


class _Step(msgspec.Struct):
    response: _StepResponse | None = None


class _Tokens(msgspec.Struct):
    turns: list[TokenTurn] | None = msgspec.field(default=None, name=ROW_FIELD)
    policy: list[PolicyTurn] | None = msgspec.field(default=None, name=TURNS_FIELD)
    steps: list[_Step] = []
    response: Any = None


_TOKENS = JsonDecoder(_Tokens)
_NAMES = frozenset(TOKEN_FIELDS)


class RolloutTokens(NamedTuple):
    """The tokens of a rollout, and the policy versions of the same turns.

    Without versions, they are in the turns, or unknown.
    """

    turns: list[TokenTurn]
    versions: list[TurnVersion]

    def branches(self) -> list[Branch]:
        """Raises TokenError."""
        return branches_of(self.turns, self.versions)


def rollout_tokens(result: bytes) -> RolloutTokens:
    """The tokens in a row or in the result of a record; no turns where it has none.

    Raises TokenError.
    """
    try:
        found = _TOKENS.decode(result)
    except msgspec.DecodeError as error:
        raise TokenError(f"the tokens cannot be read: {error}") from error
    said = [TurnVersion(turn.version, turn.parts) for turn in found.policy or ()]
    if found.turns is not None:
        return RolloutTokens(found.turns, said)
    if isinstance(found.response, dict):
        turns = _logged(Response.of(found.response)).turns
        of_items = {turn.item: each for turn, each in zip(found.policy or (), said, strict=True)}
        return RolloutTokens(turns, [of_items.get(turn.item, UNKNOWN) for turn in turns])
    responses = [step.response for step in found.steps if step.response is not None]
    kept = [(each.tokens, each) for each in responses if each.tokens is not None]
    if not kept:
        return RolloutTokens(_logged_steps(responses).turns, [])
    versions = [TurnVersion(each.version, each.version_parts) for _, each in kept]
    # Records of earlier versions have them in the tokens.
    has_versions = any(each.version for each in versions)
    return RolloutTokens([turn for turn, _ in kept], versions if has_versions else [])


def with_tokens_stored_once(response: Response) -> dict[str, Any]:
    """The fields of a row for a response with tokens on its items; {} for any other response."""
    if all(map(_NAMES.isdisjoint, response.output)):
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
        sample = TokenSample.of(item)
        if sample is not None:
            kinds = {each.get("type") for each in turn}
            log.add(sample, TurnKind("reasoning" in kinds, "function_call" in kinds), item=place)
            turn = []
    return log


def _logged_steps(responses: Iterable[_StepResponse]) -> TokenLog:
    log = TokenLog()
    for each in responses:
        found = {PROMPT_IDS: each.prompt_token_ids, SAMPLED_IDS: each.token_ids}
        sample = TokenSample.of(found | {LOG_PROBS: each.logprobs})
        if sample is not None:
            log.add(sample)
    return log
