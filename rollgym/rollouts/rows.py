"""Rows of rollouts: the names of their fields, and how rows are read and changed.

Bytes of a row that are not changed stay the same. The row of a run that verifies stored rollouts
again also says which rollouts these were: the k-th repeat of the task is the k-th of them.

*Names that collide.* An input row or a verifier may have a field `output`, or keys in `metadata`,
that a collection writes too. They keep their values, and those of the collection are written
elsewhere: the conversation to `rollgym_output`, a number to `metadata.rollgym.<key>`, and all
metadata to `rollgym_metadata` where `metadata` is not an object. `own_output` and `own_metadata`
read the values of the collection.

*Sampling seeds* are in `responses_create_params.metadata.extra_body`, an object written as JSON in
a string. The parameters themselves have no field for a seed, and strict servers reject unknown
ones. Runs of earlier versions have it there, and keep it when they are continued.
"""

from collections.abc import Collection, Mapping
from functools import lru_cache
from typing import Any

import msgspec

from rollgym.records import Row, RowError, Task
from rollgym.records.decoding import JsonDecoder, decode_json
from rollgym.records.row import CALLS_FIELD
from rollgym.records.tokens import ROW_FIELD
from rollgym.records.version import TURNS_FIELD
from rollgym.store import Manifest

PARAMS = "responses_create_params"
SEED = "seed"
EXTRA_BODY = "extra_body"
"""In the metadata of the parameters."""
AGENT = "agent_ref"
TASK_INDEX = "_ng_task_index"
ROLLOUT_INDEX = "_ng_rollout_index"
FAILURE_CLASS = "_ng_failure_class"
FAILURE_TERMINAL = "_ng_failure_terminal"
NO_PERSIST = "_ng_no_persist"
STORED_ROLLOUTS = "_rollgym_stored_rollouts"
"""In the rows of a run that verifies again."""

RESPONSE = "response"
OUTPUT = "output"
REWARD = "reward"
SUCCESS = "success"
METADATA = "metadata"
OWN_OUTPUT = "rollgym_output"
OWN_METADATA = "rollgym_metadata"
TOKENS = ROW_FIELD
"""The tokens of all turns, which only a collection writes."""
CALLS = CALLS_FIELD
TURNS = TURNS_FIELD
"""The turns of the policy with their versions, where some are known."""
KEPT = (TOKENS, CALLS, TURNS)
"""What only the collection that made a response can write beside it."""
MOVED = "rollgym"
"""The key of `metadata` with our numbers whose names were in use."""
SIGNS = "signs"
"""The key of `metadata` with the signs that the rollout deserves a look."""
VERSIONS = "policy_versions"
"""The key of `metadata` with the number of turns of each policy version."""
METADATA_NAMES = frozenset(
    (
        *("reasoning_steps", "tool_calls_made", "verification_score", "attempts", "started"),
        *("seconds", "timings", "spans", "usage", "models", "cost_usd", "stopped_by"),
        *("tool_errors", "tool_calls_rejected", "tool_calls_from_text", SIGNS, VERSIONS),
    )
)
"""Our keys of `metadata`."""

_OF_ROLLOUTS = frozenset((RESPONSE, REWARD, ROLLOUT_INDEX))
ADD_SEED = "num_repeats_add_seed"
"""The setting of a run that gives every repeat a sampling seed: where it is, or true in runs of
earlier versions."""
IN_EXTRA_BODY = "metadata.extra_body"
_FIELDS = JsonDecoder(dict[str, msgspec.Raw])
_OBJECT = JsonDecoder(dict[str, Any])


class RepeatSeeds(msgspec.Struct, frozen=True):
    """The sampling seeds of the repeats of every task: `first`, and one more for each further."""

    first: int
    in_extra_body: bool = True

    @classmethod
    def of(cls, run: Manifest) -> "RepeatSeeds | None":
        """The seeds of a run; None where it adds none."""
        setting = run.identity.config.get(ADD_SEED)
        return cls(run.identity.seed, setting == IN_EXTRA_BODY) if setting else None

    def params(self, row: Row, repeat: int) -> msgspec.Raw:
        """The parameters of one repeat of the row."""
        return _seeded(row, self.first + repeat, in_extra_body=self.in_extra_body)


def _seeded(row: Row, seed: int, *, in_extra_body: bool) -> msgspec.Raw:
    params = Row(bytes(row.fields[PARAMS]))
    if not in_extra_body:
        return msgspec.Raw(params.with_fields({SEED: seed}).raw)
    body = msgspec.json.encode({**extra_body(params), SEED: seed}).decode()
    metadata = object_fields(params.fields.get(METADATA)) or {}
    return msgspec.Raw(params.with_fields({METADATA: {**metadata, EXTRA_BODY: body}}).raw)


def extra_body(params: Row) -> dict[str, Any]:
    """The further parameters for the endpoint. Raises RowError where they cannot be read."""
    raw = (object_fields(params.fields.get(METADATA)) or {}).get(EXTRA_BODY)
    if raw is None or bytes(raw) == b"null":
        return {}
    try:
        return _OBJECT.decode(decode_json(raw, str))
    except msgspec.DecodeError as error:
        raise RowError(
            f"{PARAMS}.{METADATA}.{EXTRA_BODY} must be a JSON object in a string: {error}"
        ) from error


def without_seed(row: Row) -> Row:
    """The row without its sampling seed, wherever it is. Raises RowError."""
    if PARAMS not in row.fields:
        return row
    params = before = Row(bytes(row.fields[PARAMS]))
    params = without_fields(params, (SEED,))
    body = extra_body(params)
    if SEED in body:
        metadata = dict(object_fields(params.fields[METADATA]) or {})
        del metadata[EXTRA_BODY], body[SEED]
        kept = {**metadata, EXTRA_BODY: msgspec.json.encode(body).decode()} if body else metadata
        params = (
            params.with_fields({METADATA: kept}) if kept else without_fields(params, (METADATA,))
        )
    return row if params == before else row.with_fields({PARAMS: msgspec.Raw(params.raw)})


def object_fields(raw: msgspec.Raw | None) -> Mapping[str, msgspec.Raw] | None:
    """The fields of a value that is an object; None for another value."""
    return _FIELDS.decode(raw) if raw is not None and bytes(raw).startswith(b"{") else None


def own_output(fields: Mapping[str, msgspec.Raw]) -> msgspec.Raw | None:
    """The conversation that a collection wrote into a row."""
    return fields.get(OWN_OUTPUT, fields.get(OUTPUT))


def own_metadata(fields: Mapping[str, msgspec.Raw]) -> Mapping[str, msgspec.Raw]:
    """The metadata of a row, in which our numbers have the names that they always have."""
    moved = object_fields(fields.get(OWN_METADATA))
    if moved is not None:
        return moved
    metadata = object_fields(fields.get(METADATA)) or {}
    moved = object_fields(metadata.get(MOVED))
    return metadata if moved is None else {**metadata, **moved}


def metadata_fields(theirs: Mapping[str, Any], ours: Mapping[str, Any]) -> dict[str, Any]:
    """The metadata of a row that has theirs and ours, of which ours move aside."""
    if theirs.keys().isdisjoint(ours):
        return {METADATA: {**theirs, **ours}}
    moved = {name: value for name, value in ours.items() if name in theirs}
    others = {name: value for name, value in ours.items() if name not in theirs}
    return {METADATA: {**theirs, **others, MOVED: moved}}


def is_rollout(row: Row) -> bool:
    """Whether a row is the result of a collection, and not only a task."""
    return row.fields.keys() >= _OF_ROLLOUTS


def without_results(row: Row) -> Row:
    """The row of a rollout without what its collection wrote, as far as the row alone tells."""
    dropped = {RESPONSE, REWARD, SUCCESS, ROLLOUT_INDEX, OWN_OUTPUT, OWN_METADATA, *KEPT}
    if OWN_OUTPUT not in row.fields:
        dropped.add(OUTPUT)
    metadata = object_fields(row.fields.get(METADATA))
    if metadata is None or OWN_METADATA in row.fields:
        return without_fields(row, dropped)
    moved = object_fields(metadata.get(MOVED)) or {}
    theirs = {
        name: raw
        for name, raw in metadata.items()
        if name != MOVED and (name not in METADATA_NAMES or name in moved)
    }
    if not theirs:
        return without_fields(row, {*dropped, METADATA})
    return without_fields(row, dropped).with_fields({METADATA: theirs})


def requested_agent(row: Row) -> str | None:
    """The agent that an input row names; None where the command decides. Raises RowError."""
    raw = row.fields.get(AGENT)
    return None if raw is None else _named_agent(bytes(raw))


@lru_cache(maxsize=1024)  # a run has few agents, and asks for them several times a rollout
def _named_agent(reference_json: bytes) -> str | None:
    try:
        reference = decode_json(reference_json)
    except msgspec.DecodeError as error:
        raise RowError(f"field {AGENT!r}: {error}") from error
    name = reference.get("name") if isinstance(reference, dict) else reference
    if name is not None and not isinstance(name, str):
        raise RowError(f"{AGENT}.name must be a text")
    return name or None


def agent_name(row: Row) -> str:
    """The agent of a row that was prepared for a run."""
    return requested_agent(row) or ""


def without_fields(row: Row, names: Collection[str]) -> Row:
    """The row without the fields of these names."""
    if row.fields.keys().isdisjoint(names):
        return row
    return Row.of({name: raw for name, raw in row.fields.items() if name not in names})


def merge_fields(row: Row, overrides: Mapping[str, Any]) -> Row:
    """The row with overrides, which are merged into objects."""
    changes: dict[str, Any] = {}
    for name, value in overrides.items():
        present = row.fields.get(name)
        if isinstance(value, Mapping) and present is not None and bytes(present).startswith(b"{"):
            changes[name] = msgspec.Raw(merge_fields(Row(bytes(present)), value).raw)
        else:
            changes[name] = value
    return row.with_fields(changes)


class StoredRollout(msgspec.Struct, frozen=True, omit_defaults=True):
    """A rollout that is verified again: which repeat of its task it was, and its sampling seed."""

    repeat: int
    seed: int | None = None
    in_extra_body: bool = False

    @classmethod
    def of(cls, row: Row) -> "StoredRollout":
        """The rollout of an output row. Raises RowError."""
        params = Row(bytes(row.fields[PARAMS]))
        seed, inside = params.get(SEED, object), extra_body(params).get(SEED)
        repeat = row.get(ROLLOUT_INDEX, int, 0)
        for found, in_extra_body in ((seed, False), (inside, True)):
            if isinstance(found, int) and not isinstance(found, bool):
                return cls(repeat, found, in_extra_body)
        return cls(repeat)

    @classmethod
    def of_failure(cls, row: Row, task: Row, seeds: RepeatSeeds | None) -> "StoredRollout":
        """The rollout of a row of failures, which has no parameters; `task` is its input row."""
        repeat = row.get(ROLLOUT_INDEX, int, 0)
        earlier = task.fields.get(STORED_ROLLOUTS)
        if earlier is not None:
            same = (stored for stored in _STORED.decode(earlier) if stored.repeat == repeat)
            return next(same, cls(repeat))
        return cls(repeat, seeds.first + repeat, seeds.in_extra_body) if seeds else cls(repeat)


_STORED = JsonDecoder(list[StoredRollout])


def rollout_row(task: Task, repeat: int) -> tuple[Row, int]:
    """The input row of one rollout, and its number among the repeats of the task."""
    raw = task.row.fields.get(STORED_ROLLOUTS)
    if raw is None:
        return task.row, repeat
    stored = _STORED.decode(raw)[repeat]
    row = without_fields(task.row, (STORED_ROLLOUTS,))
    if stored.seed is not None:
        params = _seeded(row, stored.seed, in_extra_body=stored.in_extra_body)
        row = row.with_fields({PARAMS: params})
    return row, stored.repeat
