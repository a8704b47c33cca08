"""The scripted policy: it replays the recorded solution of the task that the chat names.

Recordings of the bundled sites' tasks are found by the text of the task. A task without a recording
ends at once with an answer that says so, and gets no reward.

*Conversations.* The chat itself shows only the last rounds in full, so the policy keeps the
position in the recording, for a bounded number of conversations. A conversation starts over with
its first turn, so that an episode that is retried plays the recording from the start. A request
that is sent again, because its response was lost, gets the same decision again.
"""

import logging
from collections import OrderedDict
from collections.abc import Mapping
from pathlib import Path

import msgspec

from rollgym.records.decoding import JsonDecoder
from rollgym.store import RefusedError
from webgym.actions.space import GiveAnswer, Wait
from webgym.policies.chat import DecisionTurn, PolicyDecision
from webgym.policies.script import Script, ScriptError
from webgym.sites.errors import SitesError
from webgym.sites.tasks.task import (
    SPLITS,
    ActionKind,
    Solution,
    action_of,
    load_solutions,
    load_tasks,
)

NO_RECORDING = "There is no recording for this task."
CANNOT_CONTINUE = "The page does not show what the recording continues with."
MOST_CONVERSATIONS = 4_096
MOST_DECISIONS = 100
_LOGGER = logging.getLogger("webgym.policies")


class PoliciesError(RefusedError):
    """The policy was not served: its port is in use, or the recordings cannot be read."""


class ScriptedPolicy:
    """Each conversation plays its task's recording from the start."""

    def __init__(
        self, recordings: Mapping[str, Solution], most_conversations: int = MOST_CONVERSATIONS
    ) -> None:
        self._recordings = recordings
        self._most = most_conversations
        self._conversations: OrderedDict[str, _Playback] = OrderedDict()

    def decide(self, turn: DecisionTurn) -> PolicyDecision:
        """The next action of the recording, or the decision made for this very turn before."""
        playback = self._conversations.get(turn.conversation)
        if playback is None or (turn.is_first and playback.digest != turn.digest):
            playback = _Playback(self._script(turn))
        if turn.conversation:  # without a name the next request may belong to any conversation
            self._remember(turn.conversation, playback)
        return playback.decide(turn)

    def _script(self, turn: DecisionTurn) -> Script | None:
        solution = self._recordings.get(_key(turn.task))
        if solution is None:
            _LOGGER.warning("there is no recording for the task %.200r", turn.task)
            return None
        return Script(solution, turn.mode, must_see=False)

    def _remember(self, conversation: str, playback: "_Playback") -> None:
        self._conversations[conversation] = playback
        self._conversations.move_to_end(conversation)
        while len(self._conversations) > self._most:
            self._conversations.popitem(last=False)


class _Playback:
    """One conversation: its script, and the digest and decision of its last turn."""

    def __init__(self, script: Script | None) -> None:
        self.digest: bytes | None = None
        self._script = script
        self._decision: PolicyDecision | None = None

    def decide(self, turn: DecisionTurn) -> PolicyDecision:
        if self._decision is None or self.digest != turn.digest:
            self.digest, self._decision = turn.digest, _next_decision(self._script, turn)
        return self._decision


def _next_decision(script: Script | None, turn: DecisionTurn) -> PolicyDecision:
    if script is None:
        return PolicyDecision(
            GiveAnswer(NO_RECORDING), "End the task: nothing was recorded for it."
        )
    if turn.page is None:
        return PolicyDecision(
            GiveAnswer(CANNOT_CONTINUE), "End the task: the chat has no page text."
        )
    try:
        for _ in range(MOST_DECISIONS):
            action = script.decide(turn.page)
            if action is not None:
                is_wait = isinstance(action, Wait)
                reason = "Wait for the page." if is_wait else "Do the next recorded action."
                return PolicyDecision(action, reason)
    except ScriptError as error:
        _LOGGER.warning("the recording of %.200r cannot continue: %s", turn.task, error)
    return PolicyDecision(
        GiveAnswer(CANNOT_CONTINUE), "End the task: the recording cannot continue."
    )


class _RecordingRow(msgspec.Struct, frozen=True):
    task_name: str
    actions: tuple[dict[ActionKind, str | bool | tuple[str, str]], ...]
    task_id: str = ""


def load_recordings(file: Path | None = None) -> dict[str, Solution]:
    """By the text of the task: the recordings of the bundled sites, and those of a file.

    Raises PoliciesError.
    """
    solutions = load_solutions()
    tasks = [task for split in SPLITS for task in load_tasks(split)]
    known = {_key(task.task_name): solutions[task.task_id] for task in tasks}
    return known if file is None else known | _read_file(file)


def _read_file(file: Path) -> dict[str, Solution]:
    """Raises PoliciesError."""
    decoder = JsonDecoder(_RecordingRow)
    found: dict[str, Solution] = {}
    try:
        lines = file.read_bytes().splitlines()
    except OSError as error:
        raise PoliciesError(
            f"cannot read the recordings in {file} ({error.strerror or error}): name another file"
        ) from error
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            row = decoder.decode(line)
            actions = tuple(action_of(each) for each in row.actions)
        except (msgspec.DecodeError, UnicodeDecodeError, SitesError) as error:
            raise PoliciesError(
                f"{file}, line {number} is not a recording ({error}): each line must be an object "
                "with `task_name` and `actions`"
            ) from error
        found[_key(row.task_name)] = Solution(row.task_id or row.task_name, actions)
    return found


def _key(task: str) -> str:
    return " ".join(task.split()).casefold()
