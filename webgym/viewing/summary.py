"""What the index keeps of a web rollout, from either form of its trajectory.

As in the metrics of an iteration, a rollout that a page blocked is neither a success nor none.
"""

from collections import Counter

import msgspec

from rollgym.monitor import printable_line
from rollgym.viewer.formats.cause import cause_of
from rollgym.viewer.source import FactsOf
from rollgym.viewer.summary import (
    DETAIL_LIMIT,
    FIELD_LIMIT,
    Scalar,
    Status,
    Summary,
)
from webgym.trajectory.step import BLOCKED, INVALID_URL, UNPARSED
from webgym.trajectory.trajectory import ANSWER
from webgym.viewing.records import (
    COMPLETED,
    FAILED,
    OMITTED,
    Account,
    ActionGlance,
    Glances,
    StepGlance,
)
from webgym.viewing.task_facts import facts_in

_STATUSES = {COMPLETED: Status.COMPLETED, FAILED: Status.FAILED, OMITTED: Status.OMITTED}
_NO_ACTIONS = frozenset((UNPARSED, BLOCKED, INVALID_URL))
"""Keys of steps in which the agent did nothing."""


class _Answer(msgspec.Struct, frozen=True):
    text: str = ""


class _Words(msgspec.Struct, frozen=True):
    subdomain: str = ""


_ANSWER = msgspec.json.Decoder(_Answer)
_WORDS = msgspec.json.Decoder(_Words)


def summarise(account: Account[Glances], facts_of: FactsOf) -> Summary:
    """Raises ValueError for an outcome that there is not."""
    if account.status not in _STATUSES:
        raise ValueError(f"there is no outcome {account.status!r:.60}")
    trajectory, steps = account.trajectory, account.trajectory.steps or ()
    keys = Counter(step.action.key for step in steps if step.action)
    failure, usage = account.failure, account.usage
    is_blocked = any(map(_is_blocked, steps))
    return Summary(
        status=_STATUSES[account.status] if account.final else Status.RETRIED,
        task=account.trajectory_index,
        repeat=account.repeat,
        attempt=account.attempt,
        reward=account.reward,
        success=None if is_blocked else account.success,
        kind=failure.kind if failure else "",
        cause=cause_of(failure.detail) if failure else "",
        steps=len(steps),
        tool_calls=sum(count for key, count in keys.items() if key not in _NO_ACTIONS),
        input_tokens=usage.input_tokens,
        output_tokens=usage.output_tokens,
        seconds=account.seconds,
        started=account.started,
        model=trajectory.model,
        ending=trajectory.ending,
        facts=facts_of(account.trajectory_index) or facts_in(trajectory.task),
        detail=printable_line(_detail(account, steps), DETAIL_LIMIT),
        tools=dict(keys),
        fields=_fields(account, is_blocked=is_blocked),
    )


def _detail(account: Account[Glances], steps: Glances) -> str:
    if account.failure is not None:
        return account.failure.detail
    last = steps[-1].action if steps else None
    return account.reason or _answer(last)


def _answer(last: ActionGlance | None) -> str:
    if last is None or last.key != ANSWER:
        return ""
    try:
        return _ANSWER.decode(last.arguments).text
    except msgspec.DecodeError:
        return ""


def _fields(account: Account[Glances], *, is_blocked: bool) -> dict[str, Scalar]:
    trajectory = account.trajectory
    texts = {
        "task_id": trajectory.task_id,
        "subdomain": _subdomain(trajectory.task),
        "split": trajectory.split,
        "interaction_mode": trajectory.interaction_mode,
    }
    fields: dict[str, Scalar] = {
        name: printable_line(text, FIELD_LIMIT) for name, text in texts.items() if text
    }
    return fields | {"is_blocked": is_blocked}


def _is_blocked(step: StepGlance) -> bool:
    return step.reward is not None and step.reward.is_blocked


def _subdomain(task: msgspec.Raw) -> str:
    try:
        return _WORDS.decode(task).subdomain
    except msgspec.DecodeError:
        return ""
