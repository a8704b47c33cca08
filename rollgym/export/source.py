"""What an export reads: the completed rollouts of a source, and the conversations in them.

A *source* is a file of rollouts of tool agents (`rollouts.py`), or whatever a plug-in opens. It
knows the reward of every rollout; a format reads only the conversations that it needs.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Protocol, Self

import msgspec

from rollgym.monitor import coverage_of, recount
from rollgym.records.version import VersionOrder
from rollgym.servers.responses import JsonObject
from rollgym.store import RefusedError, read_manifest
from rollgym.store.errors import storage_errors

SHOWN = 20
BLOB = "blob:"
"""The beginning of an image's URL that names a file of the source."""


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
    """One completed rollout: its key, its position in the source, and its reward.

    `versions` are the policy versions of its turns; None where one is unknown.
    """

    task: int
    repeat: int
    line: int
    offset: int
    reward: float
    success: bool
    versions: frozenset[str] | None = None


class ExportedConversation(msgspec.Struct, frozen=True, kw_only=True):
    """A prompt, what the agent and its tools added to it, and the tools the model could call.

    `chat_template_kwargs` are the arguments that the chat template got. `flaw` says why the reply
    cannot be an example, such as that it could not be read; None if it can. An agent behind the
    gateway writes its prompt itself (`is_prompt_of_agent`), so those of one task may differ.
    """

    prompt: list[JsonObject]
    completion: list[JsonObject]
    tools: list[JsonObject] = []
    chat_template_kwargs: JsonObject = {}
    flaw: str | None = None
    is_prompt_of_agent: bool = False

    def begins_as(self, other: "ExportedConversation") -> bool:
        """Whether it has the same prompt and tools."""
        return (self.prompt, self.tools) == (other.prompt, other.tools)


class RewardNumbers(msgspec.Struct, frozen=True, kw_only=True):
    """The rewards of some rollouts; all but the count are None without any."""

    count: int
    mean: float | None = None
    std: float | None = None
    min: float | None = None
    max: float | None = None


class SourceCard(msgspec.Struct, frozen=True, kw_only=True):
    """What a source is: its files, and its runs as far as they are known.

    `runs` has the identity of each run. The other numbers count the rollouts of all of them by
    their outcome, None where a run is missing.
    """

    kind: str
    files: list[str]
    runs: list[JsonObject] = []
    expected: int | None = None
    completed: int | None = None
    failed: int | None = None
    omitted: int | None = None
    unresolved: int | None = None


class RolloutSource(Protocol):
    """The completed rollouts of one place. Its methods raise ExportError and StorageError."""

    is_stepwise: bool
    """Whether a rollout has one conversation for each step, in place of one that grows."""
    paths: Sequence[Path]
    """The files that are read."""

    def __len__(self) -> int:
        """The number of completed rollouts."""

    def groups(self) -> Iterator[list[RolloutPosition]]:
        """The rollouts of each task, in the order of tasks and repeats."""

    def row(self, position: RolloutPosition) -> bytes:
        """The rollout as JSON, with everything that was recorded."""

    def conversations(self, position: RolloutPosition) -> list[ExportedConversation]:
        """The conversations of a rollout: one, or one for each step."""

    def image(self, name: str) -> bytes:
        """The content of an image that a conversation names (`blob:<name>`)."""

    def version_order(self) -> VersionOrder:
        """The policy versions of all rollouts, in their order."""

    def card(self) -> SourceCard:
        """What the source is."""

    def problem(self, position: RolloutPosition, problem: str) -> ExportError:
        """The error for a rollout that cannot be exported."""

    def __enter__(self) -> Self: ...

    def __exit__(self, *_: object) -> None: ...


SourceOpener = Callable[[Path], RolloutSource | None]
"""Opens what is at a path; None for a path that is not of its kind. Raises StoreError."""


def reject_same_file(source: Path, target: Path) -> None:
    """Raises ExportError where the output would replace what is read, StorageError."""
    with storage_errors(target, "checking the output path"):
        same = target.exists() and source.exists() and target.samefile(source)
    if same:
        raise ExportError(f"{target} is the file to read: choose another output")


def source_card(kind: str, files: Sequence[str], runs: Sequence[Path]) -> SourceCard:
    """The card of a source with these runs, which are counted from their journals.

    A folder without a manifest is not a run. Raises RefusedError, StorageError.
    """
    found = [(run, manifest) for run in runs if (manifest := read_manifest(run)) is not None]
    card = SourceCard(kind=kind, files=[*files])
    if not found or len(found) < len(runs):
        return card
    counted: Counter[str] = Counter(expected=0, completed=0, failed=0, omitted=0, unresolved=0)
    known: list[JsonObject] = []
    for run, manifest in found:
        identity = manifest.identity
        coverage = coverage_of(identity.inputs, recount(run).summary())
        counted.update({name: getattr(coverage, name) for name in counted})
        known.append(
            {
                "run_id": manifest.run_id,
                "created": manifest.created,
                "seed": identity.seed,
                "inputs": msgspec.to_builtins(identity.inputs),
            }
        )
    return msgspec.structs.replace(card, runs=known, **counted)
