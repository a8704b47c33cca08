"""What an export reads: the completed rollouts of a source, and the conversations in them.

A *source* is a file of rollouts of tool agents (`rollouts.py`), or whatever a plug-in opens. It
knows the reward of every rollout; a format reads only the conversations that it needs.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Protocol

import msgspec

from rollgym.servers.responses import JsonObject
from rollgym.store import RefusedError

SHOWN = 20


class ExportError(RefusedError):
    """The rollouts cannot be exported, and no file was written."""


class BadRowsError(ExportError):
    """Some lines of the file are not valid rollouts; the message lists the first ones."""

    def __init__(self, path: Path, problems: Sequence[tuple[int, str]]) -> None:
        shown = [f"{path}:{line}: {problem}" for line, problem in problems[:SHOWN]]
        if len(problems) > SHOWN:
            shown.append("... and more")
        advice = "Nothing was written. Export the file of rollouts that a collection wrote."
        super().__init__("\n".join([*shown, advice]))


class RolloutPosition(msgspec.Struct, frozen=True):
    """One completed rollout: its key, its position in the source, and its reward."""

    task: int
    repeat: int
    line: int
    offset: int
    reward: float
    success: bool


class ExportedConversation(msgspec.Struct, frozen=True, kw_only=True):
    """A prompt, what the agent and its tools added to it, and the tools the model could call.

    `chat_template_kwargs` are the arguments that the chat template got. `flaw` says why the reply
    is no example, such as one that could not be read; None for a good one.
    """

    prompt: list[JsonObject]
    completion: list[JsonObject]
    tools: list[JsonObject] = []
    chat_template_kwargs: JsonObject = {}
    flaw: str | None = None


class RolloutSource(Protocol):
    """The completed rollouts of one place. Its methods raise ExportError and StorageError."""

    def __len__(self) -> int:
        """The number of completed rollouts."""

    def groups(self) -> Iterator[list[RolloutPosition]]:
        """The rollouts of each task, in the order of tasks and repeats."""

    def row(self, position: RolloutPosition) -> bytes:
        """The rollout as JSON, with everything that was recorded."""

    def conversations(self, position: RolloutPosition) -> list[ExportedConversation]:
        """The conversations of a rollout: one, or one for each step of an agent that has no
        growing conversation."""

    def problem(self, position: RolloutPosition, problem: str) -> ExportError:
        """The error for a rollout that cannot be exported."""

    def close(self) -> None: ...
