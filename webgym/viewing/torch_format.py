"""Files of trajectories (`.pt`): each record the fragment of one trajectory.

A fragment is a pickle of plain containers, which is checked before it is decoded and cannot run
anything. What is looked at then is its JSON.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from rollgym.records import NO_USAGE
from rollgym.viewer.source import Context, FactsOf, Place
from rollgym.viewer.summary import Summary
from rollgym.viewer.view import Document
from webgym.trajectory.plain import from_plain
from webgym.trajectory.plain_pickle import decode
from webgym.trajectory.torch_file import TorchFile
from webgym.viewing.document import TrajectoryDocument
from webgym.viewing.records import PLAIN_NAMES, Glances, PlainRecord, RawSteps
from webgym.viewing.summary import summarise

_GLANCES = msgspec.json.Decoder(PlainRecord[Glances])
_STEPS = msgspec.json.Decoder(PlainRecord[RawSteps])


class TorchFormat:
    """A `Format`."""

    name = "trajectories"
    by_lines = False

    def places(self, path: Path) -> Iterator[Place]:
        """Raises TorchFileError, StorageError."""
        with TorchFile(path) as file:
            for position, length in file.places():
                yield Place(position, length)

    def summary(self, record: bytes, facts_of: FactsOf) -> Summary:
        """Raises ValueError."""
        return _summary(json_of(record), facts_of)

    def document(self, record: bytes, context: Context) -> Document:
        """Raises ValueError."""
        json = json_of(record)
        return TrajectoryDocument(
            json,
            _STEPS.decode(json).account(NO_USAGE),
            PLAIN_NAMES,
            _summary(json, context.facts),
            lambda: _plain(json),
            size=len(record),
            has_images=context.images is not None,
        )


TORCH = TorchFormat()


def json_of(fragment: bytes) -> bytes:
    """A trajectory as JSON. Raises ValueError for what is none."""
    try:
        return msgspec.json.encode(decode(fragment))
    except (TypeError, OverflowError, RecursionError) as error:
        raise ValueError(f"the trajectory cannot be written as JSON: {error}") from error


def _summary(json: bytes, facts_of: FactsOf) -> Summary:
    record = _GLANCES.decode(json)
    usages = (step.response.usage for step in record.steps or () if step.response)
    return summarise(record.account(sum(usages, NO_USAGE)), facts_of)


def _plain(json: bytes) -> dict[str, Any]:
    """Raises TrajectoryError."""
    plain: dict[str, Any] = msgspec.json.decode(json)
    from_plain(plain)
    return plain
