"""What an input row must say, and what is wrong with one that does not."""

from collections.abc import Collection, Iterator
from difflib import get_close_matches
from typing import Any

import msgspec

from rollgym.records import Row, RowError
from rollgym.rollouts.fields import AGENT, PARAMS, TASK_INDEX

LARGEST_INDEX = 2**63 - 1
_OBJECT = msgspec.json.Decoder(dict[str, Any])


def parsed_row(line: bytes) -> Row:
    """Raises RowError."""
    try:
        return Row.parse(line)
    except RecursionError as error:
        raise RowError("it is nested too deeply") from error


def agent_of(row: Row) -> str | None:
    """The agent that a row asks for; None where it leaves that to the command. Raises RowError."""
    reference = row.get(AGENT, object)
    name = reference.get("name") if isinstance(reference, dict) else reference
    if name is not None and not isinstance(name, str):
        raise RowError(f"{AGENT}.name must be a text")
    return name or None


def params_problems(row: Row) -> Iterator[str]:
    raw = row.fields.get(PARAMS)
    if raw is None:
        yield f"{PARAMS} is missing"
        return
    try:
        params = _OBJECT.decode(raw)
    except (msgspec.DecodeError, RecursionError) as error:
        is_object = bytes(raw).startswith(b"{")
        yield f"{PARAMS} cannot be read: {error}" if is_object else f"{PARAMS} must be an object"
        return
    if "input" not in params:
        yield f"{PARAMS}.input is missing"
    elif not isinstance(params["input"], str | list):
        yield f"{PARAMS}.input must be a text or a list of items"


def index_problems(row: Row) -> Iterator[str]:
    try:
        index = row.get(TASK_INDEX, int)
    except RowError as error:
        yield str(error)
        return
    if index is not None and not 0 <= index <= LARGEST_INDEX:
        yield f"{TASK_INDEX} must be a whole number from 0 on, and below 2**63"


def agent_problem(name: str, known: Collection[str]) -> str | None:
    """Why no server can be asked for by this name."""
    if name in known:
        return None
    close = get_close_matches(name, known, 1)
    listed = f"there are: {', '.join(known)}" if known else "there are none"
    meant = f"did you mean {close[0]}?" if close else listed
    return f"there is no agent {name!r}; {meant}"
