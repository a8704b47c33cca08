"""The exact tokens of a rollout: what the model read and sampled, stored once, and the branches.

*A turn* is one answer of the model: the ids of its prompt, the sampled ids, and their log
probabilities. The prompt of a conversation's next turn usually begins with all ids of the turn
before, so a turn stores only what is new: `keep` ids of the turn `after` come first. The tokens of
a conversation of n turns are therefore O(n).

*A branch* is a sequence in which every prompt begins with all ids of the turn before it. Where a
prompt does not, a new branch begins, `keep` says where and `reason` which part of the turn before
is different:

- `prompt`: its prompt; messages were dropped, or written in another way.
- `reasoning`: its reasoning, which templates leave out of later prompts.
- `end`: only its last token, such as another end of the turn.
- `tool_call`: its tool calls, for example with other spaces in the JSON.
- `text`: its text, for example tokenised in another way.

Every sampled token is in the loss of one branch, the one in which it was sampled.

*Tokens that do not fit together*, such as four log probabilities for five ids, are kept as far as
they can be used, and `problem` says what is wrong. They are never in the loss.
"""

from array import array
from collections.abc import Iterable, Mapping, Sequence
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
    unpack_ids,
    unpack_numbers,
)
from rollgym.records.version import TurnVersion

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


_NO_TOKENS = TokenTurn()
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


class _End(msgspec.Struct, frozen=True, eq=False):
    """The last turn of a branch, with all its ids."""

    turn: int
    ids: bytes
    prompt_length: int
    kind: TurnKind


class _NewTurn(msgspec.Struct, frozen=True, eq=False):
    """A turn whose ids are not packed yet."""

    turn: TokenTurn
    prompt: "array[int]" = _NO_IDS
    sampled: "array[int]" = _NO_IDS


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
                msgspec.structs.replace(new.turn, prompt=next(texts), sampled=next(texts))
                for new in self._new
            ]
            self._new.clear()
        return self._packed

    def skip_to(self, number: int) -> None:
        """Make the next turn the one of this number; those before it have no tokens."""
        while len(self) < number:
            self._new.append(_NewTurn(_NO_TOKENS))

    def add(self, sample: TokenSample, kind: TurnKind = PLAIN, *, item: int | None = None) -> None:
        """Add a turn. What it shares with earlier ones is left out."""
        if not sample.prompt and not sample.sampled:
            self._new.append(_NewTurn(TokenTurn(item=item, problem=sample.problem)))
            return
        prompt, sampled = as_ids(sample.prompt), as_ids(sample.sampled)
        read = prompt.tobytes()
        end, keep, reason = self._longest_prefix(read)
        turn = TokenTurn(
            after=end.turn if end else None,
            keep=keep if end and reason else None,
            logprobs="" if sample.logprobs is None else pack_numbers(sample.logprobs),
            reason=reason,
            item=item,
            problem=sample.problem,
        )
        if end is not None and not reason:
            self._ends.remove(end)
        self._ends = self._ends[1 - MOST_ENDS :]
        whole = read + sampled.tobytes()
        self._ends.append(_End(len(self), whole, len(prompt), kind))
        self._new.append(_NewTurn(turn, prompt[keep:], sampled))

    def _longest_prefix(self, prompt: bytes) -> tuple[_End | None, int, str]:
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


class SampledRange(msgspec.Struct, frozen=True, array_like=True):
    """The ids from `start` up to `end`, and the policy version that sampled them.

    "" where it is unknown, also because it is unknown which of two versions sampled which of them.
    """

    start: int
    end: int
    version: str


class Branch(msgspec.Struct, frozen=True, kw_only=True):
    """Tokens of which every one followed from all before it.

    - `input_ids`, `loss_mask`: the ids; 1 for those that were sampled in this branch, else 0.
    - `logprobs`: for each id, 0.0 where the mask is 0; None where one of them is unknown.
    - `turns`: the numbers of its turns; `version`: the policy version of the last one, "" if
      unknown; `versions`: those of all, in the order of their first turns, without unknown ones;
      `version_ranges`: which ids each of them sampled.
    - `reason`, `left_at`: why it is not one with the branch before it, and after how many ids.
    - `problems`: of turns whose tokens do not fit together, and are not in the loss.
    """

    input_ids: list[int]
    loss_mask: list[int]
    logprobs: list[float] | None
    turns: tuple[int, ...]
    version: str = ""
    versions: tuple[str, ...] = ()
    version_ranges: tuple[SampledRange, ...] = ()
    reason: str = ""
    left_at: int = 0
    problems: tuple[str, ...] = ()


class _Growing:
    """A branch that further turns may continue."""

    def __init__(self, start: list[int], turn: TokenTurn) -> None:
        self.ids = start
        self.mask = [0] * len(start)
        self.logprobs = [0.0] * len(start)
        self.all_known = True
        self.turns: list[int] = []
        self.version = ""
        self.versions: dict[str, None] = {}
        self.version_ranges: list[SampledRange] = []
        self.problems: list[str] = []
        self.reason, self.left_at = turn.reason, len(start)

    def extend(self, number: int, turn: TokenTurn, version: TurnVersion) -> None:
        prompt, sampled = unpack_ids(turn.prompt), unpack_ids(turn.sampled)
        logprobs = unpack_numbers(turn.logprobs)
        trained = not turn.problem
        if logprobs and len(logprobs) != len(sampled):
            raise TokenError(_mismatch(len(logprobs), len(sampled)))
        self.all_known = self.all_known and (bool(logprobs) or not sampled or not trained)
        self.ids += prompt + sampled
        self.mask += [0] * len(prompt) + [int(trained)] * len(sampled)
        self.logprobs += [0.0] * len(prompt)
        self.logprobs += logprobs if logprobs and trained else [0.0] * len(sampled)
        self.turns.append(number)
        if turn.problem:
            self.problems.append(turn.problem)
        if trained and sampled:
            self._note_version(version, len(sampled))

    def _note_version(self, version: TurnVersion, sampled: int) -> None:
        """Note which version sampled the last ids."""
        parts = version.checked(sampled).parts
        self.version = version.version
        self.versions |= dict.fromkeys(each.version for each in parts or (version,) if each.version)
        end = len(self.ids)
        start = end - sampled
        if not parts or parts[0].tokens is None:
            self._add_range(start, end, "" if parts else version.version)
            return
        for part in parts:
            self._add_range(start, start := start + (part.tokens or 0), part.version)

    def _add_range(self, start: int, end: int, version: str) -> None:
        if start < end:
            self.version_ranges.append(SampledRange(start, end, version))

    def finished(self) -> Branch:
        return Branch(
            input_ids=self.ids,
            loss_mask=self.mask,
            logprobs=self.logprobs if self.all_known else None,
            turns=tuple(self.turns),
            version=self.version,
            versions=tuple(self.versions),
            version_ranges=tuple(self.version_ranges),
            reason=self.reason,
            left_at=self.left_at,
            problems=tuple(self.problems),
        )


def branches_of(turns: Iterable[TokenTurn], versions: Sequence[TurnVersion] = ()) -> list[Branch]:
    """The branches of a rollout's turns, in the order in which they begin. Raises TokenError.

    `versions` are those of its turns; without them, those in the turns themselves.
    """
    found: list[_Growing] = []
    of_turn: dict[int, tuple[_Growing, int]] = {}
    latest = ""
    for number, turn in enumerate(turns):
        latest = turn.version or latest
        version = versions[number] if number < len(versions) else TurnVersion(latest)
        if not turn.prompt and not turn.sampled and turn.after is None:
            continue
        try:
            branch = _continued(turn, of_turn)
            if branch is None:
                branch = _Growing(_kept(turn, of_turn), turn)
                found.append(branch)
            branch.extend(number, turn, version)
        except TokenError as error:
            raise TokenError(f"the tokens of turn {number} cannot be read: {error}") from error
        of_turn[number] = branch, len(branch.ids)
    return [each.finished() for each in found]


def _continued(turn: TokenTurn, of_turn: Mapping[int, tuple[_Growing, int]]) -> _Growing | None:
    """The branch that a turn continues at its end."""
    if turn.after is None or turn.keep is not None or turn.after not in of_turn:
        return None
    branch, length = of_turn[turn.after]
    return branch if length == len(branch.ids) else None


def _kept(turn: TokenTurn, of_turn: Mapping[int, tuple[_Growing, int]]) -> list[int]:
    """The ids with which the branch of a turn begins."""
    if turn.after is None:
        return []
    if turn.after not in of_turn:
        raise TokenError(f"it follows turn {turn.after}, which has no tokens before it")
    branch, length = of_turn[turn.after]
    keep = length if turn.keep is None else turn.keep
    if not 0 <= keep <= length:
        raise TokenError(f"it keeps {keep} of the {length} ids of turn {turn.after}")
    return branch.ids[:keep]


def _common(one: bytes, other: bytes) -> int:
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
    return "" if len(logprobs) == sampled else _mismatch(len(logprobs), sampled)


def _mismatch(known: int, sampled: int) -> str:
    return f"there are {known} log probabilities for {sampled} generated tokens"
