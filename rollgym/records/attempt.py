"""The record of one attempt at a rollout: a line of the journal.

A rollout ends with the attempt whose record says `final`; the records before it, numbered from 1,
are its history. A line that was read is passed on as bytes and never encoded again, so fields of
a later minor version survive programs that do not know them. A line of a later schema version is
rejected.

Each line ends with a checksum. Lines of earlier versions have none and are read without one.
"""

from enum import Enum

import msgspec

from rollgym.records.decoding import JsonDecoder, line_with_checksum, require_checksum
from rollgym.records.outcome import Outcome
from rollgym.records.task import Natural, RolloutKey

SCHEMA_VERSION = 1


class SchemaVersionError(ValueError):
    """The record was written by a later version of the schema."""


class RecordError(ValueError):
    """The attempt cannot be written as a valid record."""


class RecordState(Enum):
    """What a record means for its rollout now.

    A resumed run may run failed and omitted rollouts again. The old outcome counts until a new
    one replaces it:

    - `CURRENT`: it is the rollout's outcome (or, where it is not final, a part of its history).
    - `REOPENED`: it still is the outcome, but the rollout is running again.
    - `SUPERSEDED`: another record is the rollout's outcome. This one counts as an attempt only.
    """

    CURRENT = "current"
    REOPENED = "reopened"
    SUPERSEDED = "superseded"


class Attempt(msgspec.Struct, frozen=True, kw_only=True):
    """One attempt. `started` is wall-clock time since the epoch, `seconds` is its duration.

    `repeats` is the number of repeats of the task, so that a journal can be counted by itself.
    """

    v: int = SCHEMA_VERSION
    task: Natural
    repeat: Natural
    repeats: Natural
    attempt: Natural
    final: bool
    seed: int
    started: float
    seconds: float
    outcome: Outcome

    @property
    def key(self) -> RolloutKey:
        return RolloutKey(self.task, self.repeat)


_UNWRITABLE = "the record cannot be written as JSON"
_ENCODER = msgspec.json.Encoder()
_DECODER = JsonDecoder(Attempt)


def encode_attempt(attempt: Attempt) -> bytes:
    """The line of an attempt, as `encode_and_read` gives it. Raises RecordError."""
    return encode_and_read(attempt)[0]


def encode_unread(attempt: Attempt) -> bytes:
    """The line of an attempt, for another process that decodes it before it is written.

    Line breaks between the tokens of a `result` become spaces. Raises RecordError.
    """
    return line_with_checksum(_encoded(attempt))


def encode_and_read(attempt: Attempt) -> tuple[bytes, Attempt]:
    """Return the line of an attempt, with its newline, and the attempt as the line says it.

    Structs are not checked when they are made, and a `result` holds whatever bytes the worker
    gave. So the line is decoded again here, and every line of a journal can be read. Raises
    RecordError where that fails.
    """
    encoded = _encoded(attempt)
    try:
        read = _DECODER.decode(encoded)
    except ValueError as error:
        raise RecordError(f"{_UNWRITABLE}: {error}") from error
    return line_with_checksum(encoded), read


def _encoded(attempt: Attempt) -> bytes:
    """Raises RecordError."""
    try:
        encoded = _ENCODER.encode(attempt)
        if b"\n" in encoded:
            # Inside JSON strings a line break is always escaped, so these are between tokens.
            encoded = encoded.replace(b"\n", b" ")
        if not encoded.isascii():
            encoded.decode("utf-8")
    except (TypeError, ValueError, OverflowError) as error:
        raise RecordError(f"{_UNWRITABLE}: {error}") from error
    return encoded


def decode_attempt(line: bytes) -> Attempt:
    """Raises msgspec.DecodeError for an invalid record, SchemaVersionError for a later version.

    Raises ChecksumError for a record that was changed after it was written.
    """
    attempt = _DECODER.decode(line)
    if attempt.v > SCHEMA_VERSION:
        raise SchemaVersionError(
            f"the record has schema version {attempt.v}, but this program reads versions up to "
            f"{SCHEMA_VERSION}: upgrade rollgym to read it"
        )
    require_checksum(line)
    return attempt
