"""Judging an episode that has ended, at once or later, and the episodes that have no verdict yet.

*Time.* The time of a task ends with its last step. Judging has its own deadline, which also covers
the wait for a free judge. After an error the judge is asked again, because a new episode costs
more.

*Tokens.* The judge's calls are counted where they are made: `count_judge_call` adds them to those
of the attempt that runs, also where the reply could not be used.

*Episodes without a verdict* are judged again, and never run again. Between the last step and the
verdict an episode is a file in the run directory, `unjudged/<task>-<repeat>.json`, which also
survives `kill -9`. It is removed when the rollout has an outcome. After a failure or an omission,
the episode is in the journal, as the result of that record. Tasks whose server keeps the state of
the session are not kept: their verdict needs that state, and where it was lost the episode has to
run again.
"""

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path

import msgspec

from rollgym.closing import Closable
from rollgym.engine import AttemptRecorded, Event
from rollgym.records import (
    Completed,
    Failed,
    FailureKind,
    ModelUse,
    ModelUses,
    Omitted,
    RolloutKey,
    VerifierError,
)
from rollgym.records.decoding import JsonDecoder
from rollgym.records.version import PolicyTurn, of_earlier_attempt
from rollgym.servers.context import working_for
from rollgym.store import RecordLookup, journal_paths, read_records
from rollgym.store.disk import Disk, make_directory, write_atomically
from rollgym.store.errors import storage_errors
from webgym.episode.interfaces import EpisodeJudge
from webgym.episode.log import PhaseTimes
from webgym.trajectory.records import (
    ANSWER,
    MAX_STEPS,
    TASK_OVER,
    UNPARSED,
    EpisodeVerdict,
    Trajectory,
)

JUDGE_PAUSES = (1.0, 4.0)
"""Seconds before a judge that gave no verdict is called again."""


_JUDGED: ContextVar[ModelUses | None] = ContextVar("judge_calls", default=None)
FOLDER = "unjudged"
WHOLE_ENDINGS = frozenset((ANSWER, MAX_STEPS, TASK_OVER))
"""The endings of episodes that only lack a verdict."""
_JUDGING_FAILURES = frozenset((FailureKind.VERIFIER, FailureKind.TIMEOUT, FailureKind.CANCELLED))
_TRAJECTORY = JsonDecoder(Trajectory)


@contextmanager
def counting_judge_calls() -> Iterator[ModelUses]:
    """Count the judge's calls in this block, also those of tasks that it starts."""
    calls = ModelUses()
    token = _JUDGED.set(calls)
    try:
        yield calls
    finally:
        _JUDGED.reset(token)


def count_judge_call(use: ModelUse) -> None:
    """Add one call to those of the caller, if it counts them."""
    calls = _JUDGED.get()
    if calls is not None:
        calls.add(use)


async def judge(
    evaluator: EpisodeJudge, trajectory: Trajectory, within: float, name: str
) -> EpisodeVerdict:
    """The verdict on an episode, after `within` seconds at the latest. Raises VerifierError."""
    due = asyncio.get_running_loop().time() + within
    failed: list[VerifierError] = []
    try:
        with working_for(name, due):
            async with asyncio.timeout_at(due):
                return await _ask(evaluator, trajectory, failed)
    except TimeoutError as error:
        before = f", after: {failed[-1]}" if failed else ""
        raise VerifierError(f"there was no verdict within {within:g} s{before}") from error


async def _ask(
    evaluator: EpisodeJudge, trajectory: Trajectory, failed: list[VerifierError]
) -> EpisodeVerdict:
    """The verdict. The errors of earlier tries are added to `failed`."""
    for pause in JUDGE_PAUSES:
        try:
            return await evaluator.evaluate(trajectory)
        except VerifierError as error:
            if error.retryable is False:
                raise
            failed.append(error)
        await asyncio.sleep(pause)
    return await evaluator.evaluate(trajectory)


def completed(
    trajectory: Trajectory,
    verdict: EpisodeVerdict,
    times: PhaseTimes,
    models: tuple[ModelUse, ...],
    *,
    played_before: bool = False,
) -> Completed:
    """The outcome of an episode with its verdict, and with the calls of this attempt.

    `played_before` says that an earlier attempt played it.
    """
    judged = trajectory.judged(verdict)
    return Completed(
        verdict.reward,
        success=verdict.is_solved,
        measures=_measures(judged, verdict),
        usage=judged.usage,
        models=models,
        phases=times.phases,
        spans=tuple(times.spans),
        turns=turns_of(judged, played_before=played_before),
        result=msgspec.Raw(msgspec.json.encode(judged)),
    )


def turns_of(trajectory: Trajectory, *, played_before: bool) -> tuple[PolicyTurn, ...]:
    """The turns of an episode for the outcome of an attempt."""
    turns = trajectory.policy_turns
    return of_earlier_attempt(turns) if played_before else turns


def _measures(trajectory: Trajectory, verdict: EpisodeVerdict) -> dict[str, float]:
    keys = [step.action.key for step in trajectory.steps if step.action]
    said = [len(step.response.raw_response) for step in trajectory.steps if step.response]
    return {
        "steps": float(len(keys)),
        "response_length": sum(said) / len(said) if said else 0.0,
        "replies": float(len(said)),
        "tokens": float(trajectory.usage.input_tokens + trajectory.usage.output_tokens),
        "goback": float(keys.count("goback")),
        "unparsed": float(keys.count(UNPARSED)),
        "blocked": float(verdict.is_blocked),
        "judge_input_tokens": float(trajectory.judge_usage.input_tokens),
        "judge_output_tokens": float(trajectory.judge_usage.output_tokens),
    }


class _StoredEnding(msgspec.Struct):
    """The part of a stored trajectory that says whether it is whole."""

    ending: str = ""


_ENDING = JsonDecoder(_StoredEnding)


class UnjudgedEpisodes(Closable):
    """The episodes of a run that have no verdict. An observer, for one process at a time."""

    name = "episodes without a verdict"

    def __init__(self, directory: Path, disk: Disk | None = None) -> None:
        """`directory` is that of the run. Raises StoreError."""
        self._folder = directory / FOLDER
        self._disk = disk or Disk()
        self._lookup = RecordLookup()
        self._recorded: dict[RolloutKey, tuple[Path, int]] = {}
        for entry, is_current in read_records(journal_paths(directory)):
            attempt = entry.attempt
            if not (attempt.final and is_current):
                continue
            if isinstance(attempt.outcome, Completed):
                self.remove(attempt.key)
            elif _lacks_verdict(attempt.outcome):
                self._recorded[attempt.key] = entry.path, entry.offset

    def __iter__(self) -> Iterator[RolloutKey]:
        """The keys of all episodes, in order."""
        return iter(sorted({*self._recorded, *self._kept()}))

    async def keep(self, key: RolloutKey, trajectory: Trajectory) -> None:
        """Keep an episode until its rollout has an outcome. Raises StorageError."""
        await asyncio.to_thread(self._write, key, msgspec.json.encode(trajectory))

    async def find(self, key: RolloutKey) -> Trajectory | None:
        """The episode of a rollout, if it has one. Raises StoreError."""
        return await asyncio.to_thread(self.read, key)

    def read(self, key: RolloutKey) -> Trajectory | None:
        """As `find`, waiting for the disk."""
        path = self._path(key)
        try:
            with storage_errors(path, "reading an episode without a verdict"):
                if path.exists():
                    return _TRAJECTORY.decode(path.read_bytes())
            if key in self._recorded:
                attempt = self._lookup.record(*self._recorded[key])
                return _TRAJECTORY.decode(attempt.outcome.result)
        except msgspec.DecodeError:
            return None  # another version wrote it: the episode runs again
        return None

    async def discard(self, key: RolloutKey) -> None:
        """As `remove`, in a thread."""
        await asyncio.to_thread(self.remove, key)

    def observe(self, events: Sequence[Event]) -> None:
        """Remove the files of rollouts that have an outcome now."""
        for event in events:
            if isinstance(event, AttemptRecorded) and event.attempt.final:
                self.remove(event.attempt.key)

    def close(self) -> None:
        self._lookup.close()

    def _write(self, key: RolloutKey, data: bytes) -> None:
        path = self._path(key)
        with storage_errors(path, "keeping an episode without a verdict"):
            make_directory(self._disk, self._folder)
            write_atomically(self._disk, path, data)

    def remove(self, key: RolloutKey) -> None:
        """Remove the file of a rollout that has an outcome. Raises StorageError."""
        with storage_errors(self._folder, "removing a judged episode"):
            self._path(key).unlink(missing_ok=True)

    def _kept(self) -> Iterator[RolloutKey]:
        for path in self._folder.glob("*.json"):
            task, _, repeat = path.stem.partition("-")
            if task.isdecimal() and repeat.isdecimal():
                yield RolloutKey(int(task), int(repeat))

    def _path(self, key: RolloutKey) -> Path:
        return self._folder / f"{key.task}-{key.repeat}.json"


def _lacks_verdict(outcome: Failed | Omitted) -> bool:
    """Whether only the verdict is missing; a failure of another kind needs another episode."""
    if isinstance(outcome, Failed) and outcome.failure.kind not in _JUDGING_FAILURES:
        return False
    try:
        return _ENDING.decode(outcome.result).ending in WHOLE_ENDINGS
    except msgspec.DecodeError:
        return False
