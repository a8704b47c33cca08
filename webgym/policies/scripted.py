"""The scripted baseline: it plays the recorded actions of the task that the chat names.

Recordings of the bundled sites' tasks are known by the words of the task. A task without one ends
at once with an answer that says so: the episode is over and earns nothing.
"""

import logging
from collections.abc import Mapping
from pathlib import Path

import msgspec

from webgym.environment.actions import Answer, Wait
from webgym.policies.chat import SeenChat
from webgym.policies.errors import PoliciesError
from webgym.policies.memory import Conversations
from webgym.policies.policy import Decision
from webgym.policies.script import LostError, Script
from webgym.sites.errors import SitesError
from webgym.sites.tasks import SPLITS, ActionKind, Solution, load_solutions, load_tasks
from webgym.sites.tasks.solutions import action_of

NO_RECORDING = "There is no recording for this task."
LOST = "The page does not show what the recording goes on with."
MOST_DECISIONS = 100
_LOGGER = logging.getLogger("webgym.policies")


class _Row(msgspec.Struct, frozen=True):
    task_name: str
    actions: tuple[dict[ActionKind, str | bool | tuple[str, str]], ...]
    task_id: str = ""


def load_recordings(file: Path | None = None) -> dict[str, Solution]:
    """By the words of the task: those of the bundled sites, and those of a file.

    Raises PoliciesError.
    """
    solutions = load_solutions()
    tasks = [task for split in SPLITS for task in load_tasks(split)]
    known = {_key(task.task_name): solutions[task.task_id] for task in tasks}
    return known if file is None else known | _read_file(file)


class ScriptedPolicy:
    """Each conversation plays its task's recording from the start."""

    def __init__(self, recordings: Mapping[str, Solution]) -> None:
        self._recordings = recordings
        self._playing = Conversations(self._begin)

    def decide(self, chat: SeenChat) -> Decision:
        """The next action of the recording."""
        return self._playing.decide(chat, lambda script: _next(script, chat))

    def _begin(self, chat: SeenChat) -> Script | None:
        solution = self._recordings.get(_key(chat.task))
        if solution is None:
            _LOGGER.warning("there is no recording for the task %.200r", chat.task)
            return None
        return Script(solution, chat.mode, must_see=False)


def _next(script: Script | None, chat: SeenChat) -> Decision:
    if script is None:
        return Decision(Answer(NO_RECORDING), "End the task: nothing was recorded for it.")
    if chat.page is None:
        return Decision(Answer(LOST), "End the task: the chat shows no page as text.")
    try:
        for _ in range(MOST_DECISIONS):
            action = script.decide(chat.page)
            if action is not None:
                waits = isinstance(action, Wait)
                why = "Wait for the page." if waits else "Do what was recorded next."
                return Decision(action, why)
    except LostError as error:
        _LOGGER.warning("the recording of %.200r cannot go on: %s", chat.task, error)
    return Decision(Answer(LOST), "End the task: the recording cannot go on.")


def _read_file(file: Path) -> dict[str, Solution]:
    """Raises PoliciesError."""
    decoder = msgspec.json.Decoder(_Row)
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
                f"{file}, line {number} is no recording ({error}): each line is an object with "
                "`task_name` and `actions`"
            ) from error
        found[_key(row.task_name)] = Solution(row.task_id or row.task_name, actions)
    return found


def _key(task: str) -> str:
    return " ".join(task.split()).casefold()
