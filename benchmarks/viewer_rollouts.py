"""A file of rollouts as large as wanted, and the failed attempts beside it.

Rows are as `ng_collect_rollouts` writes them: tasks with repeats, conversations of one to forty
tool calls, rewards that depend on the task, the verifier's fields. Among them are one rollout that
is very large, one with very many turns, and some whose answer has the words `NEEDLE` where all
others have `COMMON`. The same plan makes the same bytes. What a filter has to find is counted
along, so that answers can be checked before their speed is believed.

    python -m benchmarks.viewer_rollouts FOLDER --rollouts 2000 --bytes 100000000
"""

import argparse
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import accumulate
from math import ceil
from pathlib import Path
from random import Random

import msgspec

from benchmarks.viewer_rows import OVERHEAD, PART, Facts, Failed, Rows
from benchmarks.viewer_texts import Exchange, Writer

REPEATS = 8
NEEDLE = "quicksilver lantern"
NEEDLES = 20
NEEDLE_PLACE = 7
COMMON = "brass lamp"
FAILED_SHARE = 0.01
RETRIED_SHARE = 0.03
LEAST_EXCHANGE = 900
LONG_EXCHANGE = 1_000
DIFFERENT_EXCHANGES = 512
GIANT_EXCHANGES = 120
CALLS = (1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 24, 40)
WEIGHTS = (6, 10, 12, 12, 11, 10, 10, 8, 7, 6, 4, 2)
"""How many tools rollouts call, and how often each number is met."""
MEAN_CALLS = sum(n * weight for n, weight in zip(CALLS, WEIGHTS, strict=True)) / sum(WEIGHTS)
_UP_TO = tuple(accumulate(WEIGHTS))
_CHUNK = 8_000_000


class Plan(msgspec.Struct, frozen=True):
    """So many rollouts, in about so many bytes. Two are odd: one so large, one of so many turns."""

    rollouts: int
    bytes: int
    giant_bytes: int = 50_000_000
    long_turns: int = 5_000
    seed: int = 6

    @property
    def tasks(self) -> int:
        """The last two are of one rollout each: the large and the long one."""
        return ceil((self.rollouts - 2) / REPEATS) + 2

    @property
    def giant_task(self) -> int:
        return self.tasks - 2

    @property
    def long_task(self) -> int:
        return self.tasks - 1


class Collection(msgspec.Struct, frozen=True):
    """What was written. `totals` says how many rollouts a filter, as in a URL, has to find."""

    plan: Plan
    path: Path
    size: int
    totals: dict[str, int]


class Rollouts:
    """Makes the lines of a plan, those of the rollouts first: they decide which ones failed."""

    def __init__(self, plan: Plan) -> None:
        self.totals: Counter[str] = Counter()
        self._plan = plan
        self._random = Random(plan.seed)
        self._writer = Writer(plan.seed)
        self._rows = Rows(self._writer)
        share = max(0, plan.bytes - plan.giant_bytes) / plan.rollouts - OVERHEAD
        size = max(LEAST_EXCHANGE, int(share / MEAN_CALLS))
        self._exchanges = [self._exchange(number, size) for number in range(DIFFERENT_EXCHANGES)]
        self._failed: list[Failed] = []

    def lines(self) -> Iterator[bytes]:
        """The rollouts. The large one is after a third of them, the long one after two thirds."""
        plan = self._plan
        odd = {plan.rollouts // 3: self._giant, plan.rollouts * 2 // 3: self._long}
        number = 0
        for place in range(plan.rollouts):
            if place in odd:
                yield odd[place](place)
                continue
            task, repeat = divmod(number, REPEATS)
            number += 1
            chance = self._random.random()
            if chance < FAILED_SHARE + RETRIED_SHARE:
                self._failed.append(Failed(task, repeat, chance < FAILED_SHARE))
            if chance < FAILED_SHARE:
                self._count_failure(self._failed[-1])
            else:
                yield self._rollout(place, task, repeat)

    def failures(self) -> Iterator[bytes]:
        """The failed attempts of the rollouts that `lines` gave."""
        for number, failed in enumerate(self._failed):
            yield self._rows.failure(number, failed, self._partial(number))

    def _exchange(self, number: int, mean: int) -> Exchange:
        """Mostly small, sometimes large: the mean of all is as asked."""
        size = min(mean * 6.0, max(LEAST_EXCHANGE / 2, self._random.expovariate(1 / mean)))
        return self._writer.exchange(number, int(size))

    def _rollout(self, place: int, task: int, repeat: int) -> bytes:
        calls = self._random.choices(CALLS, cum_weights=_UP_TO)[0]
        first = self._random.randrange(DIFFERENT_EXCHANGES - calls)
        used = self._exchanges[first : first + calls]
        return self._row(Facts(place, task, repeat, calls), used)

    def _giant(self, place: int) -> bytes:
        size = max(LEAST_EXCHANGE, self._plan.giant_bytes // GIANT_EXCHANGES)
        used = [self._writer.exchange(number, size) for number in range(GIANT_EXCHANGES)]
        return self._row(Facts(place, self._plan.giant_task, 0, GIANT_EXCHANGES), used)

    def _long(self, place: int) -> bytes:
        calls = self._plan.long_turns // 2
        used = [self._writer.exchange(number, LONG_EXCHANGE) for number in range(calls)]
        return self._row(Facts(place, self._plan.long_task, 0, calls), used)

    def _row(self, facts: Facts, used: Sequence[Exchange]) -> bytes:
        needle = facts.place % max(1, self._plan.rollouts // NEEDLES) == NEEDLE_PLACE
        self._count(facts, used, needle=needle)
        return self._rows.rollout(facts, used, NEEDLE if needle else COMMON)

    def _partial(self, failure: int) -> Exchange:
        """What there is of the conversation of an attempt that failed."""
        return self._exchanges[failure % DIFFERENT_EXCHANGES]

    def _count(self, facts: Facts, used: Sequence[Exchange], *, needle: bool) -> None:
        totals, succeeded = self.totals, facts.reward >= 1
        totals[""] += 1
        totals["status=completed"] += 1
        totals[f"success={'true' if succeeded else 'false'}"] += 1
        totals[f"domain={facts.domain}"] += 1
        totals[f"agent={facts.agent}"] += 1
        totals["min_tool_calls=12"] += facts.calls >= 12
        totals["min_reward=0.4&max_reward=0.6"] += facts.reward == PART
        totals[f"q={NEEDLE}"] += needle
        totals["domain=physics&min_difficulty=7&success=false"] += (
            facts.domain == "physics" and facts.difficulty >= 7 and not succeeded
        )
        for tool in {exchange.tool for exchange in used}:
            totals[f"tool={tool}"] += 1

    def _count_failure(self, failed: Failed) -> None:
        """The last that failed. Its row does not say of which domain it was."""
        self.totals[""] += 1
        self.totals["status=failed"] += 1
        self.totals[f"kind={failed.kind}&status=failed"] += 1
        self.totals[f"agent={failed.agent}"] += 1
        self.totals[f"tool={self._partial(len(self._failed) - 1).tool}"] += 1


def write(folder: Path, plan: Plan) -> Collection:
    """Write the files of a plan, or find them in the folder. Raises OSError."""
    path, told = folder / "rollouts.jsonl", folder / "collection.json"
    try:
        known = msgspec.json.decode(told.read_bytes(), type=Collection)
    except (OSError, msgspec.DecodeError):
        known = None
    if known and known.plan == plan and path.exists() and path.stat().st_size == known.size:
        return msgspec.structs.replace(known, path=path)
    rollouts = Rollouts(plan)
    _write_lines(path, rollouts.lines())
    _write_lines(folder / "rollouts_failures.jsonl", rollouts.failures())
    collection = Collection(plan, path, path.stat().st_size, dict(rollouts.totals))
    told.write_bytes(msgspec.json.encode(collection, enc_hook=str))
    return collection


def _write_lines(path: Path, lines: Iterator[bytes]) -> None:
    waiting: list[bytes] = []
    size = 0
    with path.open("wb") as file:
        for line in lines:
            waiting.append(line)
            size += len(line)
            if size > _CHUNK:
                file.write(b"".join(waiting))
                waiting, size = [], 0
        file.write(b"".join(waiting))


def main() -> None:
    parser = argparse.ArgumentParser(description="Write a file of rollouts.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--rollouts", type=int, default=2_000)
    parser.add_argument("--bytes", type=int, default=100_000_000)
    arguments = parser.parse_args()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    write(arguments.folder, Plan(arguments.rollouts, arguments.bytes))


if __name__ == "__main__":
    main()
