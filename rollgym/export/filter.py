"""What an export leaves out: tasks by the rewards of their rollouts, and stale rollouts.

*Rewards.* A filter is a text such as `0 < avg < 1` or `best == 1 and not avg >= 0.5`:

    filter      = conjunction { "or" conjunction }
    conjunction = negation { "and" negation }
    negation    = "not" negation | "(" filter ")" | comparison
    comparison  = operand operator operand { operator operand }
    operand     = number | "avg" | "best" | "worst" | "n"
    operator    = "<" | "<=" | ">" | ">=" | "==" | "!="

A comparison chains as in Python: `0 < avg < 1` is `0 < avg and avg < 1`. The parser below turns the
text into functions of the rewards; the text is never evaluated as code.

*Staleness.* A rollout counts by its oldest turn, so that none of its turns is staler than the
limit. One with a turn of an unknown version is left out, because nothing says that it is not stale.
What the distance between two versions is says `rollgym.records.version`.
"""

import operator
import re
from array import array
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import msgspec

from rollgym.export.source import ExportError, RolloutPosition
from rollgym.metrics.exact import Moments
from rollgym.records.version import PolicyTurn, VersionOrder, note_first_uses, versions_of

DEEPEST = 20
_NUMBER = re.compile(r"(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:e[+-]?[0-9]+)?")
_TOKEN = re.compile(rf"{_NUMBER.pattern}|[a-z]+|[<>=!]=|\S")
_END = "the end"

Compare = Callable[[float, float], bool]
_OPERATORS: dict[str, Compare] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
}
SHOWN = 8
UNKNOWN = "policy version unknown"
STALE = "stale"


class GroupRewards(msgspec.Struct, frozen=True):
    """The numbers of a task in a filter: mean, largest and smallest reward, number of rollouts."""

    avg: float
    best: float
    worst: float
    n: int

    @classmethod
    def of(cls, rewards: Sequence[float]) -> "GroupRewards":
        """Compute the numbers from at least one finite reward."""
        return cls(Moments(rewards).mean or 0.0, max(rewards), min(rewards), len(rewards))


Condition = Callable[[GroupRewards], bool]
_Operand = Callable[[GroupRewards], float]


class RewardFilter(NamedTuple):
    """A filter: the text of the user, and what it means."""

    text: str
    accepts: Condition


def parse_filter(text: str) -> RewardFilter:
    """Read a filter. Raises ExportError that shows the invalid position."""
    return RewardFilter(text, _FilterParser(text).parse())


class _Token(NamedTuple):
    text: str
    start: int


class _FilterParser:
    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = [_Token(match[0], match.start()) for match in _TOKEN.finditer(text)]
        self._tokens.append(_Token(_END, len(text)))
        self._position = 0
        self._depth = 0

    def parse(self) -> Condition:
        condition = self._filter()
        if self._peek() != _END:
            raise self._error("`and` or `or`")
        return condition

    def _filter(self) -> Condition:
        conditions = [self._conjunction()]
        while self._accept("or"):
            conditions.append(self._conjunction())
        return lambda rewards: any(condition(rewards) for condition in conditions)

    def _conjunction(self) -> Condition:
        conditions = [self._negation()]
        while self._accept("and"):
            conditions.append(self._negation())
        return lambda rewards: all(condition(rewards) for condition in conditions)

    def _negation(self) -> Condition:
        self._depth += 1
        if self._depth > DEEPEST:
            raise ExportError(f"the filter nests deeper than {DEEPEST} levels: {self._text}")
        try:
            if self._accept("not"):
                condition = self._negation()
                return lambda rewards: not condition(rewards)
            if self._accept("("):
                condition = self._filter()
                if not self._accept(")"):
                    raise self._error("`)`")
                return condition
            return self._comparison()
        finally:
            self._depth -= 1

    def _comparison(self) -> Condition:
        operands, comparisons = [self._operand()], [self._operator()]
        operands.append(self._operand())
        while self._peek() in _OPERATORS:
            comparisons.append(self._operator())
            operands.append(self._operand())
        return _chain(operands, comparisons)

    def _operator(self) -> Compare:
        compare = _OPERATORS.get(self._peek())
        if compare is None:
            raise self._error("a comparison such as `<`")
        self._position += 1
        return compare

    def _operand(self) -> _Operand:
        sign = -1.0 if self._accept("-") else 1.0
        token = self._peek()
        if token in GroupRewards.__struct_fields__:
            self._position += 1
            return lambda rewards: sign * float(getattr(rewards, token))
        if _NUMBER.fullmatch(token):
            self._position += 1
            number = sign * float(token)
            return lambda rewards: number
        raise self._error("a number, avg, best, worst or n")

    def _peek(self) -> str:
        return self._tokens[self._position].text

    def _accept(self, text: str) -> bool:
        accepted = self._peek() == text
        self._position += accepted
        return accepted

    def _error(self, expected: str) -> ExportError:
        token = self._tokens[self._position]
        return ExportError(
            f"the filter is invalid: expected {expected}, found {token.text}\n"
            f"  {self._text}\n  {' ' * token.start}^\n"
            "A filter looks like `0 < avg < 1` or `best == 1 and avg < 0.5`."
        )


def _chain(operands: list[_Operand], comparisons: list[Compare]) -> Condition:
    def holds(rewards: GroupRewards) -> bool:
        values = [operand(rewards) for operand in operands]
        pairs = zip(comparisons, values, values[1:], strict=False)
        return all(compare(left, right) for compare, left, right in pairs)

    return holds


class Staleness(msgspec.Struct, frozen=True):
    """At most `most` versions behind `version`; without one, behind the newest of the rollouts."""

    most: int
    version: str = ""


class StalenessFilter:
    """A limit for the rollouts of a source, whose versions are in this order."""

    def __init__(self, order: VersionOrder, limit: Staleness) -> None:
        """Raises ExportError for a version whose place is unknown."""
        version = limit.version or order.newest
        self.limit = Staleness(limit.most, version)
        """The limit, with the version that it counts from."""
        self._order = order
        if not order.versions:
            raise ExportError(
                "no turn of these rollouts has a policy version, so how stale they are is unknown: "
                "export them without a limit"
            )
        if order.place(version) is None:
            listed = ", ".join(order.sorted()[-SHOWN:])
            raise ExportError(
                f"{version!r} is not a policy version of these rollouts; the latest are: {listed}"
            )

    def problem(self, member: RolloutPosition) -> str | None:
        """Why a rollout is left out."""
        if member.versions is None:
            return UNKNOWN
        behind = self._order.distance(self._order.oldest(member.versions), self.limit.version)
        return STALE if behind > self.limit.most else None

    def fresh(self, members: Sequence[RolloutPosition]) -> list[RolloutPosition]:
        """The rollouts that are not left out."""
        return [member for member in members if self.problem(member) is None]


class RolloutVersions:
    """The versions of the rollouts of a source, a few bytes for each of them."""

    def __init__(self) -> None:
        self._known: dict[frozenset[str] | None, int] = {}
        self._listed: list[frozenset[str] | None] = []
        self._of_rollout = array("l")
        self._first: dict[str, float] = {}

    def add(self, turns: Iterable[PolicyTurn], started: float) -> None:
        """Add the next rollout; `started` is when its attempt began."""
        turns = tuple(turns)
        note_first_uses(self._first, turns, started)
        versions = versions_of(turns)
        number = self._known.setdefault(versions, len(self._listed))
        if number == len(self._listed):
            self._listed.append(versions)
        self._of_rollout.append(number)

    def __getitem__(self, rollout: int) -> frozenset[str] | None:
        return self._listed[self._of_rollout[rollout]]

    def order(self) -> VersionOrder:
        """The order of all versions: without numbers, that of their first uses."""
        return VersionOrder.of_first_uses(self._first)
