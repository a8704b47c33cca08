"""The exact tokens of a rollout: what the model read and sampled, stored once.

*A turn* is one answer of the model: the ids of its prompt, the sampled ids, and their log
probabilities. The prompt of a conversation's next turn usually begins with all ids of the turn
before, so a turn stores only what is new: `keep` ids of the turn `after` come first. The tokens of
a conversation of n turns are therefore O(n).

*Breaks.* Where a prompt does not begin with all ids of the turn before it, `keep` says where and
`reason` which part of the turn before is different:

- `prompt`: its prompt; messages were dropped, or written in another way.
- `reasoning`: its reasoning, which templates leave out of later prompts.
- `end`: only its last token, such as another end of the turn.
- `tool_call`: its tool calls, for example with other spaces in the JSON.
- `text`: its text, for example tokenised in another way.

`rollgym.records.branches` reads the turns.

*Tokens that do not fit together*, such as four log probabilities for five ids, are kept as far as
they can be used, and `problem` says what is wrong. They are never in the loss.
"""

from array import array
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any

import msgspec

from rollgym.records.packing import (
    ID_CODE,
    ID_SIZE,
    TokenError,
    as_ids,
    pack_each,
    pack_numbers,
)

PROMPT_IDS = "prompt_token_ids"
SAMPLED_IDS = "generation_token_ids"
LOG_PROBS = "generation_log_probs"
ROW_FIELD = "rollgym_tokens"
"""The turns of a rollout in its row."""
TOKEN_FIELDS = (PROMPT_IDS, SAMPLED_IDS, LOG_PROBS)
"""The tokens of a turn on its last output item, under the names of NeMo Gym."""
MOST_ENDS = 16
"""The most branches that a next prompt is compared with."""
_NUMBERS = frozenset({int, float})
_ARRAYS = (list, tuple)
_FEW = 4
"""The most tokens that open the reasoning of a turn."""


class BreakReason(StrEnum):
    """The part of a turn that the next prompt does not repeat as it was."""

    PROMPT = "prompt"
    REASONING = "reasoning"
    END = "end"
    TOOL_CALL = "tool_call"
    TEXT = "text"


class TokenTurn(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """The tokens of one turn, packed.

    - `after`, `keep`: it begins with the first `keep` ids of the turn `after`, its number from 0;
      without `keep` with all of them. Without `after` it stands alone.
    - `prompt`, `sampled`, `logprobs`: the ids that follow, the sampled ids, their log
      probabilities.
    - `reason`: the `BreakReason` of a turn that does not continue another one.
    - `version`: the policy version in rows of earlier versions of rollgym; without it, that of the
      turn before. Now the turns of the row have it (`rollgym.records.version`).
    - `item`: the last item of the turn in the output of the response.
    - `problem`: why the tokens are incomplete.
    """

    after: int | None = None
    keep: int | None = None
    prompt: str = ""
    sampled: str = ""
    logprobs: str = ""
    reason: str = ""
    version: str = ""
    item: int | None = None
    problem: str = ""


_NO_IDS = array(ID_CODE)


class TokenSample(msgspec.Struct, frozen=True, kw_only=True):
    """The tokens of one turn as the model server gave them.

    `logprobs` are None where they are unknown.
    """

    prompt: Sequence[int] = ()
    sampled: Sequence[int] = ()
    logprobs: Sequence[float] | None = None
    problem: str = ""

    @classmethod
    def of(cls, fields: Mapping[str, Any]) -> "TokenSample | None":
        """Read the `TOKEN_FIELDS` of an item; None where it has no ids. Tokens that do not fit
        together have a `problem`."""
        prompt, sampled = fields.get(PROMPT_IDS), fields.get(SAMPLED_IDS)
        if prompt is None and sampled is None:
            return None
        logprobs = fields.get(LOG_PROBS)
        try:
            ids = _checked(PROMPT_IDS, prompt), _checked(SAMPLED_IDS, sampled)
        except TokenError as error:
            return cls(problem=str(error))
        problem = "" if logprobs is None else _logprobs_problem(logprobs, len(ids[1]))
        return cls(
            prompt=ids[0],
            sampled=ids[1],
            logprobs=None if problem else logprobs,
            problem=problem,
        )


class TurnKind(msgspec.Struct, frozen=True):
    """What a turn consists of, for the reason of a break after it."""

    reasoning: bool = False
    tool_calls: bool = False


PLAIN = TurnKind()


class _End(msgspec.Struct, eq=False):
    """The last turn of a branch, with all its ids."""

    turn: int
    ids: bytearray
    prompt_length: int
    kind: TurnKind


class _NewTurn(msgspec.Struct, eq=False, gc=False):
    """A turn whose ids are not packed yet."""

    prompt: "array[int]" = _NO_IDS
    sampled: "array[int]" = _NO_IDS
    logprobs: str = ""
    after: int | None = None
    keep: int | None = None
    reason: str = ""
    item: int | None = None
    problem: str = ""


class TokenLog:
    """The turns of a rollout, as they are made."""

    def __init__(self) -> None:
        self._packed: list[TokenTurn] = []
        self._new: list[_NewTurn] = []
        self._ends: list[_End] = []

    def __len__(self) -> int:
        return len(self._packed) + len(self._new)

    @property
    def turns(self) -> list[TokenTurn]:
        """All turns. New ones are packed here, because that costs less for many at once."""
        if self._new:
            texts = iter(pack_each([ids for new in self._new for ids in (new.prompt, new.sampled)]))
            self._packed += [
                TokenTurn(
                    prompt=next(texts),
                    sampled=next(texts),
                    logprobs=new.logprobs,
                    after=new.after,
                    keep=new.keep,
                    reason=new.reason,
                    item=new.item,
                    problem=new.problem,
                )
                for new in self._new
            ]
            self._new.clear()
        return self._packed

    def skip_to(self, number: int) -> None:
        """Make the next turn the one of this number; those before it have no tokens."""
        while len(self) < number:
            self._new.append(_NewTurn())

    def add(self, sample: TokenSample, kind: TurnKind = PLAIN, *, item: int | None = None) -> None:
        """Add a turn. What it shares with earlier ones is left out."""
        if not sample.prompt and not sample.sampled:
            self._new.append(_NewTurn(item=item, problem=sample.problem))
            return
        prompt, sampled = as_ids(sample.prompt), as_ids(sample.sampled)
        whole = bytearray(prompt)
        end, keep, reason = self._longest_prefix(whole)
        turn = _NewTurn(
            prompt=prompt[keep:],
            sampled=sampled,
            logprobs="" if sample.logprobs is None else pack_numbers(sample.logprobs),
            after=end.turn if end else None,
            keep=keep if end and reason else None,
            reason=reason,
            item=item,
            problem=sample.problem,
        )
        if end is not None and not reason:
            self._ends.remove(end)
        self._ends = self._ends[1 - MOST_ENDS :]
        whole += sampled
        self._ends.append(_End(len(self), whole, len(prompt), kind))
        self._new.append(turn)

    def extend(
        self,
        prompt: "array[int]",
        sampled: "array[int]",
        logprobs: Sequence[float] | None,
        kind: TurnKind = PLAIN,
    ) -> None:
        """Add a turn whose prompt is all ids of the last turn that has some, and then `prompt`."""
        end, known = self._ends[-1], "" if logprobs is None else pack_numbers(logprobs)
        turn = _NewTurn(prompt, sampled, known, end.turn)
        end.turn, end.kind = len(self), kind
        end.ids += prompt
        end.prompt_length = len(end.ids) // ID_SIZE
        end.ids += sampled
        self._new.append(turn)

    @property
    def last_prompt(self) -> "array[int]":
        """The ids of the prompt of the turn that was added last, of those that have ids."""
        if not self._ends:
            return _NO_IDS
        last = self._ends[-1]
        return array(ID_CODE, last.ids[: last.prompt_length * ID_SIZE])

    def _longest_prefix(self, prompt: bytearray) -> tuple[_End | None, int, str]:
        """The branch that shares the most with a prompt, how many ids, and why not all of them."""
        best, most = None, 0
        for end in reversed(self._ends):
            if prompt.startswith(end.ids):
                return end, len(end.ids) // ID_SIZE, ""
            if (common := _common(prompt, end.ids)) > most or best is None:
                best, most = end, common
        if best is None:
            return None, 0, ""
        reason = _reason(best, most)
        return (best, most, reason) if most else (None, 0, reason)


def _reason(end: _End, kept: int) -> BreakReason:
    if kept < end.prompt_length:
        return BreakReason.PROMPT
    if kept >= len(end.ids) // ID_SIZE - 1:
        return BreakReason.END
    if end.kind.reasoning and kept < end.prompt_length + _FEW:
        return BreakReason.REASONING
    return BreakReason.TOOL_CALL if end.kind.tool_calls else BreakReason.TEXT


def _common(one: bytearray, other: bytearray) -> int:
    """The number of ids at the beginning that are the same."""
    low, high = 0, min(len(one), len(other)) // ID_SIZE + 1
    while high - low > 1:
        middle = (low + high) // 2
        part = slice(low * ID_SIZE, middle * ID_SIZE)
        if one[part] == other[part]:
            low = middle
        else:
            high = middle
    return low


def _checked(name: str, ids: object) -> "array[int]":
    """Raises TokenError, which names the field."""
    if isinstance(ids, array):
        return ids
    if not isinstance(ids, _ARRAYS):
        raise TokenError(f"{name} is missing" if ids is None else f"{name} must be an array")
    try:
        return array(ID_CODE, ids)
    except (OverflowError, TypeError) as error:
        raise TokenError(f"{name} must hold whole numbers from 0 to 2**64 - 1") from error


def _logprobs_problem(logprobs: object, sampled: int) -> str:
    if not isinstance(logprobs, _ARRAYS):
        return f"{LOG_PROBS} must be an array"
    if not _NUMBERS.issuperset(map(type, logprobs)):
        return f"{LOG_PROBS} must hold numbers only"
    return "" if len(logprobs) == sampled else mismatch(len(logprobs), sampled)


def mismatch(known: int, sampled: int) -> str:
    return f"there are {known} log probabilities for {sampled} generated tokens"
