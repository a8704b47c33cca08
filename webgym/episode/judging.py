"""Judging an episode that has ended: its own deadline, repeated questions, tokens, and the outcome.

*Time.* The time of a task ends with its last step. Judging has its own deadline, which also covers
the wait for a free judge. After an error the judge is asked again, because a new episode costs
more.

*Tokens.* The judge's calls are counted where they are made: `count_judge_call` adds them to those
of the attempt that runs, also where the reply could not be used.
"""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

import msgspec

from rollgym.records import Completed, ModelUse, ModelUses, VerifierError
from rollgym.records.version import PolicyTurn, of_earlier_attempt
from rollgym.servers.context import working_for
from webgym.episode.interfaces import EpisodeJudge
from webgym.episode.log import PhaseTimes
from webgym.trajectory.records import UNPARSED, EpisodeVerdict, Trajectory

JUDGE_PAUSES = (1.0, 4.0)
"""Seconds before a judge that gave no verdict is called again."""


_JUDGED: ContextVar[ModelUses | None] = ContextVar("judge_calls", default=None)


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
    try:
        with working_for(name, due):
            async with asyncio.timeout_at(due):
                return await _ask(evaluator, trajectory)
    except TimeoutError as error:
        raise VerifierError(f"there was no verdict within {within:g} s") from error


async def _ask(evaluator: EpisodeJudge, trajectory: Trajectory) -> EpisodeVerdict:
    for pause in JUDGE_PAUSES:
        try:
            return await evaluator.evaluate(trajectory)
        except VerifierError as error:
            if error.retryable is False:
                raise
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
