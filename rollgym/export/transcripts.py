"""The conversations of a file of rollouts, read where its index says they stand."""

from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from rollgym.export.errors import BadRowsError
from rollgym.export.index import RolloutPlace
from rollgym.export.messages import Conversation, ConversationError, conversation
from rollgym.store.errors import storage_error

_DOING = "reading the rollouts"


class Transcripts:
    """One file, open for reading."""

    def __init__(self, path: Path) -> None:
        """Raises StorageError."""
        self._path = path
        try:
            self._file = path.open("rb")
        except OSError as error:
            raise storage_error(error, path, _DOING) from error

    def of(self, place: RolloutPlace) -> Conversation:
        """Raises BadRowsError for a rollout that chat messages cannot express, StorageError."""
        try:
            self._file.seek(place.offset)
            line = self._file.readline()
        except OSError as error:
            raise storage_error(error, self._path, _DOING) from error
        try:
            return conversation(line)
        except ConversationError as error:
            raise BadRowsError(self._path, [(place.line, str(error))]) from error

    def together(self, places: Sequence[RolloutPlace]) -> list[Conversation]:
        """Conversations to be compared with each other, which only those with one prompt can be.

        Raises as `of` does, and BadRowsError where a prompt is another one.
        """
        conversations = [self.of(place) for place in places]
        for place, found in zip(places, conversations, strict=True):
            first = conversations[0]
            if (found.prompt, found.tools) != (first.prompt, first.tools):
                problem = (
                    f"prompt or tools differ from those in line {places[0].line}, but both are "
                    f"rollouts of task {place.task}: different tasks need different indices"
                )
                raise BadRowsError(self._path, [(place.line, problem)])
        return conversations

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._file.close()
