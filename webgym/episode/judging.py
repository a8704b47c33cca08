"""Judging an episode that has ended: its own deadline, repeated questions, tokens, and the outcome.

*Time.* The time of a task ends with its last step. Judging has its own deadline, which also covers
the wait for a free judge. After an error the judge is asked again, because a new episode costs
more.

*Tokens.* The judge's tokens are counted where they are spent: `count_judge_tokens` adds them to the
tally of the attempt that runs, also those of replies that could not be used.
"""

import asyncio
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar

import msgspec

from rollgym.records import NO_USAGE, Completed, Usage, VerifierError
from rollgym.servers.context import working_for
from webgym.episode.interfaces import EpisodeJudge
from webgym.trajectory.records import UNPARSED, EpisodeVerdict, Trajectory

JUDGE_PAUSES = (1.0, 4.0)
"""Seconds before a judge that gave no verdict is called again."""


class JudgeTally(msgspec.Struct):
    """The tokens of the judge so far."""

    usage: Usage = NO_USAGE


_TALLY: ContextVar[JudgeTally | None] = ContextVar("judge_tally", default=None)


@contextmanager
def tallying() -> Iterator[JudgeTally]:
    """Count the judge's tokens in this block, also those of tasks that it starts."""
    tally = JudgeTally()
    token = _TALLY.set(tally)
    try:
        yield tally
    finally:
        _TALLY.reset(token)


def count_judge_tokens(usage: Usage) -> None:
    """Add the tokens of one reply to the tally of the caller, if there is one."""
    tally = _TALLY.get()
    if tally is not None:
        tally.usage += usage


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
    trajectory: Trajectory, verdict: EpisodeVerdict, phases: Mapping[str, float]
) -> Completed:
    """The outcome of an episode with its verdict."""
    judged = trajectory.judged(verdict)
    return Completed(
        verdict.reward,
        success=verdict.is_solved,
        measures=_measures(judged, verdict),
        usage=judged.usage,
        phases=dict(phases),
        result=msgspec.Raw(msgspec.json.encode(judged)),
    )


def _measures(trajectory: Trajectory, verdict: EpisodeVerdict) -> dict[str, float]:
    keys = [step.action.key for step in trajectory.steps if step.action]
    said = [len(step.response.raw_response) for step in trajectory.steps if step.response]
    return {
        "steps": float(len(keys)),
        "response_length": sum(said) / len(said) if said else 0.0,
        "goback": float(keys.count("goback")),
        "unparsed": float(keys.count(UNPARSED)),
        "blocked": float(verdict.is_blocked),
        "judge_input_tokens": float(trajectory.judge_usage.input_tokens),
        "judge_output_tokens": float(trajectory.judge_usage.output_tokens),
    }
