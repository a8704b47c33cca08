"""Verifiers of users: functions that score episodes, named by the `verifier` of a task.

*Names.* `package.module:function`, or the name of an entry point of the group `webgym.verifiers`. A
module may also be in the working directory. All names of a task file are looked up before a rollout
starts.

*Arguments.* The trajectory (`webgym.Trajectory`), and, if the function has a parameter `session`,
the `TaskSession` of the episode: its name stood in place of `{session}` in the task's website, so
that the site can tell what was done in it. Without that placeholder it is None. A function may be
asynchronous. Each other one runs in a daemon thread of its own: a function that hangs is abandoned
at the deadline, and delays neither other work nor the end of the process.

*Result.* A reward, as a number or a bool; a mapping with `reward` and, if wanted, `step_rewards`
(one number for each step), `evaluation` and `is_blocked`; or an `EpisodeVerdict`. Anything else, an
exception and a reward that is not finite are failures, never a reward.
"""

import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from importlib.metadata import entry_points
from typing import Any

import msgspec

from rollgym.plugins import find_named, run_in_daemon_thread
from rollgym.records import VerifierError, boundary
from rollgym.store import RefusedError
from webgym.tasks.task import SESSION, WebTask
from webgym.trajectory.records import EpisodeVerdict, Trajectory

ENTRY_POINTS = "webgym.verifiers"
_FIELDS = frozenset(("reward", "step_rewards", "evaluation", "is_blocked"))

Verifier = Callable[..., Any]


class UnknownVerifierError(RefusedError):
    """A verifier that a task names does not exist, or is not a function."""


class TaskSession(msgspec.Struct, frozen=True):
    """The session of an episode at the task's site, and the page that it started at."""

    name: str
    start_url: str


@cache
def find_verifier(name: str) -> Verifier:
    """The function of this name. Raises UnknownVerifierError."""
    try:
        found: Verifier = find_named(name) if ":" in name else _entry_point(name)
    except UnknownVerifierError:
        raise
    except Exception as error:  # a user's module may raise anything when it is imported
        raise UnknownVerifierError(
            f"the verifier {name!r} cannot be loaded: {type(error).__name__}: {error}"
        ) from error
    if not callable(found):
        raise UnknownVerifierError(f"the verifier {name!r} is {found!r:.100}, not a function")
    return found


def _entry_point(name: str) -> Any:
    points = {point.name: point for point in entry_points(group=ENTRY_POINTS)}
    if name not in points:
        known = ", ".join(sorted(points)) or "none"
        raise UnknownVerifierError(
            f"there is no verifier {name!r}: give sites, miniwob, package.module:function, or an "
            f"entry point of the group {ENTRY_POINTS} (installed: {known})"
        )
    return points[name].load()


async def verify(task: WebTask, trajectory: Trajectory) -> EpisodeVerdict:
    """The verdict of the task's own verifier. Raises VerifierError, or a RolloutError of it."""
    name = task.verifier or ""
    try:
        function = find_verifier(name)
    except UnknownVerifierError as error:
        raise VerifierError(str(error), retryable=False) from error
    with boundary(VerifierError):
        result = await _called(function, task, trajectory)
    return _verdict(name, result, len(trajectory.steps))


async def _called(function: Verifier, task: WebTask, trajectory: Trajectory) -> Any:
    arguments: dict[str, Any] = {}
    if "session" in inspect.signature(function).parameters:
        has_session = SESSION in task.website
        session = TaskSession(trajectory.session, trajectory.start_url)
        arguments["session"] = session if has_session else None
    is_asynchronous = inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(
        getattr(function, "__call__", None)  # noqa: B004 - an object with an asynchronous __call__
    )
    if is_asynchronous:
        return await function(trajectory, **arguments)
    return await run_in_daemon_thread(partial(function, trajectory, **arguments), "verifier")


def _verdict(name: str, result: Any, steps: int) -> EpisodeVerdict:
    if isinstance(result, EpisodeVerdict):
        result = msgspec.structs.asdict(result)
        known: Any = {key: value for key, value in result.items() if key not in _FIELDS}
    else:
        known = {}
    given = dict(result) if isinstance(result, Mapping) else {"reward": result}
    unknown = sorted(map(str, given.keys() - _FIELDS - known.keys()))
    if unknown:
        raise _unusable(name, f"{unknown[0]!r:.60} is not one of {', '.join(sorted(_FIELDS))}")
    try:
        evaluation = msgspec.json.decode(msgspec.json.encode(given.get("evaluation") or {}))
        evaluation = evaluation if isinstance(evaluation, dict) else {"reason": evaluation}
    except (TypeError, ValueError) as error:
        raise _unusable(name, f"its evaluation is not JSON: {error}") from error
    return EpisodeVerdict(
        reward=_number(name, given.get("reward"), "reward"),
        evaluation={"judge": f"verifier:{name}", **evaluation},
        is_blocked=bool(given.get("is_blocked", False)),
        step_rewards=_step_rewards(name, given.get("step_rewards"), steps),
        **known,
    )


def _step_rewards(name: str, given: Any, steps: int) -> tuple[float, ...]:
    if given is None or (isinstance(given, Sequence) and not given):
        return ()
    rewards = tuple(_number(name, each, "step reward") for each in given)
    if len(rewards) != steps:
        raise _unusable(name, f"it gave {len(rewards)} step rewards for {steps} steps")
    return rewards


def _number(name: str, given: Any, what: str) -> float:
    try:
        value = math.nan if given is None or isinstance(given, str | bytes) else float(given)
    except (TypeError, ValueError, OverflowError):
        value = math.nan
    if not math.isfinite(value):
        raise _unusable(name, f"the {what} {given!r:.100} is not a finite number")
    return value


def _unusable(name: str, problem: str) -> VerifierError:
    return VerifierError(
        f"the result of the verifier {name} cannot be used: {problem}", retryable=False
    )
