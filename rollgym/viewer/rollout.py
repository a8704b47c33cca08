"""One row as a page shows it: decoded field by field, with nothing assumed of the fields."""

from functools import cached_property
from typing import Any

import msgspec

from rollgym.monitor import printable_line
from rollgym.records import Row, RowError
from rollgym.rollouts.fields import (
    FAILURE_CLASS,
    METADATA,
    OUTPUT,
    PARAMS,
    RESPONSE,
    REWARD,
    ROLLOUT_INDEX,
    SUCCESS,
    TASK_INDEX,
)
from rollgym.viewer.index import LONGEST_LINE
from rollgym.viewer.transcript import Turn, output_turns, prompt_turns

WORDS_LIMIT = 120
FAILURE = "failure"
_ELSEWHERE = frozenset(
    (PARAMS, OUTPUT, RESPONSE, REWARD, SUCCESS, METADATA, TASK_INDEX, ROLLOUT_INDEX, FAILURE)
)
_CONVERSATION = frozenset(("input", "instructions", "tools"))


class Rollout:
    """A row of a file of rollouts, or of one of failures."""

    def __init__(self, line: bytes) -> None:
        """Raises RowError."""
        if len(line) >= LONGEST_LINE:
            raise RowError(f"longer than {LONGEST_LINE >> 20} MiB")
        try:
            self._fields = Row.parse(line).fields
        except RecursionError as error:
            raise RowError("nested too deeply") from error

    def value(self, name: str) -> Any:
        """A field decoded; its text where it holds what cannot be, None where it is not there."""
        raw = self._fields.get(name)
        try:
            return None if raw is None else msgspec.json.decode(raw)
        except (msgspec.DecodeError, RecursionError):
            return bytes(raw or b"").decode("utf-8", "replace")

    @cached_property
    def params(self) -> dict[str, Any]:
        params = self.value(PARAMS)
        return params if isinstance(params, dict) else {}

    @cached_property
    def prompt(self) -> list[Turn]:
        return prompt_turns(self.params)

    @cached_property
    def turns(self) -> list[Turn]:
        return output_turns(self.value(OUTPUT), self.value(RESPONSE))

    @property
    def sampling(self) -> dict[str, Any]:
        """The parameters beside the conversation itself."""
        return {key: value for key, value in self.params.items() if key not in _CONVERSATION}

    @property
    def other_fields(self) -> dict[str, Any]:
        """What the task brought along and the verifier added."""
        return {name: self.value(name) for name in self._fields if name not in _ELSEWHERE}

    @property
    def failure_class(self) -> str:
        named = self.value(FAILURE_CLASS)
        return named if isinstance(named, str) else ""

    @property
    def tool_calls(self) -> int:
        return sum(len(turn.calls) for turn in self.turns)

    @property
    def words(self) -> str:
        """How the task begins, or where the prompt is not kept, why it failed."""
        asked = [turn.text for turn in self.prompt if turn.role == "user"]
        failure = self.value(FAILURE)
        if not asked and isinstance(failure, dict):
            asked = [str(failure.get("detail", ""))]
        return printable_line(asked[0] if asked else "", WORDS_LIMIT)
