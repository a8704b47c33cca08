"""The branches of a rollout, read from its turns.

*A branch* is a sequence in which every prompt begins with all ids of the turn before it. Where a
prompt does not, a new branch begins (`rollgym.records.tokens`).

Every sampled token is in the loss of one branch, the one in which it was sampled.
"""

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from rollgym.records.packing import TokenError, unpack_ids, unpack_numbers
from rollgym.records.tokens import TokenTurn, mismatch
from rollgym.records.version import TurnVersion


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
            raise TokenError(mismatch(len(logprobs), len(sampled)))
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
