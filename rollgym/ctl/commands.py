"""The commands of `rollgym ctl`, what each does, and what it answers."""

from collections.abc import Callable
from typing import Any

import msgspec

from rollgym.engine import CollectionStatus, Control, State, describe_time

LARGEST_MESSAGE = 1 << 16
PERSON = "paused with rollgym ctl"
"""The reason of a hold that a person asked for."""


class _ControlCommand(msgspec.Struct, frozen=True, tag_field="command"):
    """A command, which JSON calls by its name on the command line."""

    async def carry_out(self, control: Control, by: str) -> str:
        """Do it and say what was done. Raises ValueError for a value that cannot be used."""
        raise NotImplementedError


class ShowStatus(_ControlCommand, frozen=True, tag="status"):
    """Say what the collection is doing."""

    async def carry_out(self, control: Control, by: str) -> str:
        return ""


class Pause(_ControlCommand, frozen=True, tag="pause"):
    """Start no rollout; running ones finish."""

    async def carry_out(self, control: Control, by: str) -> str:
        if not control.hold(PERSON, by=by):
            return "It is paused already."
        return f"Paused: nothing starts. {_running(control)} will finish."


class Resume(_ControlCommand, frozen=True, tag="resume"):
    """Go on after a pause."""

    async def carry_out(self, control: Control, by: str) -> str:
        was = control.release(PERSON, by=by)
        others = "; ".join(control.holds)
        if others:
            return f"It is not paused any more, but it still waits: {others}."
        if control.state is State.STOPPING:
            return "It is stopping: nothing more starts."
        return "It goes on." if was else "It was not paused."


class SetConcurrency(_ControlCommand, frozen=True, tag="concurrency"):
    """Run up to `limit` rollouts at a time; None for what the collecting command says."""

    limit: int | None

    async def carry_out(self, control: Control, by: str) -> str:
        control.set_concurrency(self.limit, by=by)
        status = control.status()
        limit = self.limit or (status.limit if status else None)
        if limit is None:
            return "The limit is that of the collecting command."
        whose = "" if self.limit else " for now, as the collecting command says"
        return f"Up to {limit} rollouts at a time{whose}; {_running(control)}."


class SetBudget(_ControlCommand, frozen=True, tag="budget"):
    """Change the limits of the run; None removes one."""

    max_tokens: int | msgspec.UnsetType | None = msgspec.UNSET
    max_cost: float | msgspec.UnsetType | None = msgspec.UNSET

    async def carry_out(self, control: Control, by: str) -> str:
        control.set_budget(max_tokens=self.max_tokens, max_cost=self.max_cost, by=by)
        parts = []
        if self.max_tokens is not msgspec.UNSET:
            parts.append(
                f"{self.max_tokens:,} tokens" if self.max_tokens else "any number of tokens"
            )
        if self.max_cost is not msgspec.UNSET:
            parts.append(f"${self.max_cost:g}" if self.max_cost else "any amount of money")
        return f"The run may use {' and '.join(parts)}."


class SetDeadline(_ControlCommand, frozen=True, tag="deadline"):
    """Stop the collection at a time of the wall clock; None removes the deadline."""

    at: float | None

    async def carry_out(self, control: Control, by: str) -> str:
        control.set_deadline(self.at, by=by)
        return f"It stops at {describe_time(self.at)}." if self.at else "It has no deadline."


class SetPolicyVersion(_ControlCommand, frozen=True, tag="policy"):
    """Note the current version of the policy."""

    version: str

    async def carry_out(self, control: Control, by: str) -> str:
        before = control.policy_version
        control.set_policy_version(self.version, by=by)
        was = f" (it was {before})" if before is not None else ""
        return f"The policy has version {control.policy_version} from now on{was}."


class RetryFailed(_ControlCommand, frozen=True, tag="retry-failed"):
    """Run failed rollouts again, and omitted ones too if asked for."""

    omitted: bool = False

    async def carry_out(self, control: Control, by: str) -> str:
        count = await control.retry_failed(omitted=self.omitted, by=by)
        which = "failed or omitted" if self.omitted else "failed"
        if not count:
            return f"There is no {which} rollout to run again."
        return f"{count} {which} rollout{'s run' if count != 1 else ' runs'} again."


class RequestStop(_ControlCommand, frozen=True, tag="stop"):
    """Stop when running rollouts are done, or `now`."""

    now: bool = False

    async def carry_out(self, control: Control, by: str) -> str:
        running = _running(control)
        control.stop(now=self.now, by=by)
        if self.now:
            return f"Stopping now: {running} cancelled, to run again next time."
        return f"Stopping: {running} will finish. `stop --now` does not wait for them."


Command = (
    ShowStatus
    | Pause
    | Resume
    | SetConcurrency
    | SetBudget
    | SetDeadline
    | SetPolicyVersion
    | RetryFailed
    | RequestStop
)


class ControlAnswer(msgspec.Struct, frozen=True):
    """What was done, or the `problem`; and the state of the collection after it.

    `status` is missing before the first rollout and after the last one.
    """

    state: State
    said: str = ""
    problem: str = ""
    status: CollectionStatus | None = None


def encode(message: Command | ControlAnswer) -> bytes:
    """The line of a message."""
    return msgspec.json.encode(message) + b"\n"


async def answer(command: Command, control: Control, by: str) -> ControlAnswer:
    """Carry out a command; what was changed is on disk then. Raises StorageError."""
    if control.state is State.ENDED and not isinstance(command, ShowStatus):
        problem = "the collection has ended: its last files are written"
        return ControlAnswer(control.state, problem=problem)
    said = problem = ""
    try:
        said = await command.carry_out(control, by)
    except ValueError as error:
        problem = str(error)
    await control.flush()
    return ControlAnswer(control.state, said, problem, control.status())


def _running(control: Control) -> str:
    status = control.status()
    count = status.running if status else 0
    return f"{count} running rollout{'s' * (count != 1)}"


Describe = Callable[[CollectionStatus], Any]
_LINES: tuple[tuple[str, Describe], ...] = (
    ("rollouts", lambda s: f"{s.expected} expected = {_outcomes(s)}"),
    ("running", lambda s: f"{s.running} of up to {s.limit} (the limit is {s.concurrency})"),
    ("waiting", lambda s: f"{s.waiting} between two attempts" if s.waiting else None),
    ("again", lambda s: f"{s.reopened} run again" if s.reopened else None),
    ("tokens", lambda s: f"{s.tokens:,}" + (f" of {s.max_tokens:,}" if s.max_tokens else "")),
    ("cost", lambda s: f"${s.cost:.4f}" + (f" of ${s.max_cost:.4f}" if s.max_cost else "")),
    ("deadline", lambda s: describe_time(s.deadline) if s.deadline is not None else None),
    ("policy", lambda s: f"version {s.policy_version}" if s.policy_version else None),
    ("held", lambda s: "; ".join(s.holds)),
    ("stopping", lambda s: s.stopping),
)


def _outcomes(status: CollectionStatus) -> str:
    done = (("completed", status.completed), ("failed", status.failed), ("omitted", status.omitted))
    left = status.expected - sum(count for _, count in done)
    return " + ".join(f"{count} {name}" for name, count in (*done, ("unresolved", left)))


def describe(status: CollectionStatus) -> list[str]:
    """The lines about a collection, for a terminal."""
    found = ((name, line(status)) for name, line in _LINES)
    return [f"{name + ':':<10}{line}" for name, line in found if line]
