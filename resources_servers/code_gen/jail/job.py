"""What the judge tells the launcher: the program, how to run it, and within which limits.

It crosses as `marshal`, which costs nothing to import and reads back plain data exactly. That is
safe in this direction only: from the judge, whom the launcher trusts.
"""

from __future__ import annotations

import marshal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

LENGTH_BYTES = 8


class Limits:
    """The resources of one run. Sizes are in bytes."""

    __slots__ = ("cpu_seconds", "memory", "open_files", "scratch", "threads")

    def __init__(
        self, *, cpu_seconds: int, memory: int, scratch: int, threads: int, open_files: int
    ) -> None:
        self.cpu_seconds = cpu_seconds
        self.memory = memory
        self.scratch = scratch
        self.threads = threads
        self.open_files = open_files


class Job:
    """One run of one program. With an entry point that function is called, and its result wanted.

    `parent` is the process of the judge, `layers` what to isolate the program with.
    """

    __slots__ = ("arguments", "entry_point", "layers", "limits", "parent", "source")

    def __init__(
        self,
        *,
        source: str,
        limits: Limits,
        layers: Sequence[str],
        parent: int,
        entry_point: str | None = None,
        arguments: Sequence[object] = (),
    ) -> None:
        self.source = source
        self.limits = limits
        self.layers = layers
        self.parent = parent
        self.entry_point = entry_point
        self.arguments = arguments

    def to_bytes(self) -> bytes:
        """Raises ValueError for arguments that are not plain data."""
        fields = {name: getattr(self, name) for name in self.__slots__}
        fields["limits"] = {name: getattr(self.limits, name) for name in Limits.__slots__}
        fields["layers"], fields["arguments"] = list(self.layers), list(self.arguments)
        body = marshal.dumps(fields)
        return len(body).to_bytes(LENGTH_BYTES, "little") + body

    @classmethod
    def from_bytes(cls, body: bytes) -> Job:
        fields = marshal.loads(body)  # noqa: S302 - written by the judge
        fields["limits"] = Limits(**fields["limits"])
        return cls(**fields)
