"""The episodes that are remembered: one for each session, a bounded number of them.

A session is named by whoever opens its page, or by us. It has one task and one seed, and the first
end counts: a page that is opened again afterwards shows that the task has ended. So an agent that
failed cannot try again, and `reset` is for those who run it.
"""

import re
from collections import OrderedDict
from secrets import token_hex

import msgspec

from webgym.miniwob.catalogue import MiniWobTask

MOST_EPISODES = 4_096
LONGEST_INSTRUCTION = 4_000
LONGEST_REASON = 500
_NAME = re.compile(r"[A-Za-z0-9]{1,64}")


def is_session_name(text: str) -> bool:
    """Letters and digits, at most 64."""
    return _NAME.fullmatch(text) is not None


def new_session_name() -> str:
    return token_hex(16)


class OtherTaskError(Exception):
    """The session has another task, or another seed."""


class Truth(msgspec.Struct, frozen=True):
    """What happened in a session, as its page told it.

    `reward` is 1 where the task was solved and 0 otherwise, also while it is not done.
    """

    session: str
    task: str
    seed: int
    instruction: str | None = None
    done: bool = False
    raw_reward: float = 0.0
    reward: int = 0
    reason: str | None = None
    starts: int = 0


class Report(msgspec.Struct, frozen=True, tag_field="event"):
    """What a page tells."""


class Started(Report, frozen=True, tag="started"):
    instruction: str


class Ended(Report, frozen=True, tag="ended"):
    raw_reward: float | None = None
    reason: object = None


class Episodes:
    """Episodes by the names of their sessions; the one heard of longest ago is forgotten first."""

    def __init__(self, limit: int = MOST_EPISODES) -> None:
        self._limit = limit
        self._episodes: OrderedDict[str, tuple[MiniWobTask, Truth]] = OrderedDict()

    def open(self, session: str, task: MiniWobTask, seed: int) -> Truth:
        """The session's episode, made where there is none. Raises OtherTaskError."""
        known = self._episodes.get(session)
        if known is None:
            return self._keep(task, Truth(session, task.name, seed))
        truth = known[1]
        if (truth.task, truth.seed) != (task.name, seed):
            raise OtherTaskError(
                f"session {session} is for the task {truth.task} with seed {truth.seed}: "
                "open this one in a session of its own"
            )
        return self._keep(task, truth)

    def note(self, session: str, report: Started | Ended) -> bool:
        """Keep what the page says; False where nobody knows the session."""
        known = self._episodes.get(session)
        if known is None:
            return False
        task, truth = known
        if not truth.done:
            self._keep(task, _after(truth, task, report))
        return True

    def find(self, session: str) -> Truth | None:
        known = self._episodes.get(session)
        return known[1] if known else None

    def reset(self, session: str) -> bool:
        """Forget a session; False where there was none."""
        return self._episodes.pop(session, None) is not None

    def _keep(self, task: MiniWobTask, truth: Truth) -> Truth:
        self._episodes[truth.session] = (task, truth)
        self._episodes.move_to_end(truth.session)
        while len(self._episodes) > self._limit:
            self._episodes.popitem(last=False)
        return truth


def _after(truth: Truth, task: MiniWobTask, report: Started | Ended) -> Truth:
    replace = msgspec.structs.replace
    if isinstance(report, Started):
        instruction = report.instruction[:LONGEST_INSTRUCTION]
        return replace(truth, instruction=instruction, starts=truth.starts + 1)
    raw_reward = report.raw_reward or 0.0
    reason = None if report.reason is None else str(report.reason)[:LONGEST_REASON]
    return replace(
        truth, done=True, raw_reward=raw_reward, reward=task.reward(raw_reward), reason=reason
    )
