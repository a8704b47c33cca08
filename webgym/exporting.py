"""Web rollouts as a source of `rollgym export`.

An export reads what the viewer opens (`webgym.viewing.opener`): the journals of an iteration, of
all its ranks together, or a `.pt` file. Only completed rollouts are read, and of several final
records the one that counts.

*A conversation for each step.* An agent for web pages gets a new prompt at each step, because the
window of past pages moves on. The prompt is the one that was sent, which every step stores, with
the file names of its screenshots. A reply that could not be parsed cannot be an example.
"""

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

import msgspec

from rollgym.closing import Closable
from rollgym.export.filter import RolloutVersions
from rollgym.export.source import (
    ExportedConversation,
    ExportError,
    RolloutPosition,
    SourceCard,
    source_card,
)
from rollgym.records import Completed
from rollgym.records.decoding import JsonDecoder
from rollgym.records.version import PolicyTurn, VersionOrder, VersionPart
from rollgym.store.errors import storage_errors
from rollgym.store.reader import RecordLookup, read_records
from rollgym.viewer.source import SourcePart, ViewerSource
from webgym.trajectory.plain import SCREENSHOTS, TrajectoryError, from_plain
from webgym.trajectory.records import SUCCESS_REWARD, Step, Trajectory
from webgym.trajectory.torch_file import TorchFile, TorchFileError
from webgym.viewing.formats import TORCH
from webgym.viewing.opener import open_web

_BLOB_NAME = re.compile(r"[0-9a-f]{64}\.[a-z]{2,5}")
_TRAJECTORY = JsonDecoder(Trajectory)
_OUTCOMES = ("expected", "completed", "failed", "omitted", "unresolved")


def open_trajectories(path: Path) -> "TrajectorySource | None":
    """The web rollouts at a path; None where there are none.

    Raises ExportError for several iterations, StoreError.
    """
    with _readable():
        found = open_web(path)
        if not found:
            return None
        if len(found) > 1:
            names = "".join(f"\n  {each.path} ({each.title})" for each in found)
            raise ExportError(f"{path} has {len(found)} iterations. Give one of them:{names}")
        return TrajectorySource(found[0])


class _Place(NamedTuple):
    """Where a trajectory is: in which part, and its range there. A line of a journal has no end."""

    part: int
    start: int
    length: int = 0


class TrajectorySource(Closable):
    """The completed trajectories of an iteration or a file, open for reading."""

    is_stepwise = True

    def __init__(self, source: ViewerSource) -> None:
        """Note the reward and the place of every completed rollout. Raises StoreError."""
        self._parts = [part for part in source.parts if part.path.is_file()]
        self._title = source.title
        self._images = source.images
        self._places: list[_Place] = []
        self._files: dict[int, TorchFile] = {}
        self._lookup = RecordLookup()
        self._versions = RolloutVersions()
        try:
            self._groups = self._read()
        except BaseException:
            self.close()
            raise

    @property
    def paths(self) -> list[Path]:
        return [part.path for part in self._parts]

    def __len__(self) -> int:
        return len(self._places)

    def groups(self) -> Iterator[list[RolloutPosition]]:
        """The rollouts of each task, in the order of runs, tasks and repeats."""
        return iter(self._groups)

    def row(self, position: RolloutPosition) -> bytes:
        """The trajectory as JSON."""
        return msgspec.json.encode(self._trajectory(position))

    def conversations(self, position: RolloutPosition) -> list[ExportedConversation]:
        """One conversation for each step that has a reply. Raises ExportError, StoreError."""
        steps = self._trajectory(position).steps
        return [found for step in steps if (found := _conversation(step)) is not None]

    def image(self, name: str) -> bytes:
        """The content of a screenshot. Raises ExportError, StorageError."""
        if not _BLOB_NAME.fullmatch(name):
            raise ExportError(f"{name!r} is not the name of a screenshot")
        if self._images is None:
            raise ExportError(
                f"{self.paths[0]} has no folder {SCREENSHOTS} beside it: give the file in the "
                "folder of its experiment"
            )
        path = self._images / SCREENSHOTS / name[:2] / name
        with storage_errors(path, "reading a screenshot"):
            return path.read_bytes()

    def version_order(self) -> VersionOrder:
        return self._versions.order()

    def card(self) -> SourceCard:
        """What the source is; for `.pt` files the counts are those that they were saved with."""
        names = [part.path.name for part in self._parts]
        runs = dict.fromkeys(part.path.parent for part in self._parts if part.format is not TORCH)
        if len(self._files) == len(self._parts) == 1:
            saved = self._files[0].metadata
            counts = {name: saved[name] for name in _OUTCOMES if isinstance(saved.get(name), int)}
            card = SourceCard(kind="web rollouts", files=names)
            return msgspec.structs.replace(card, **counts)
        files = [f"{path.parent.name}/{path.name}" for path in self.paths]
        return source_card("web rollouts", files, list(runs))

    def problem(self, position: RolloutPosition, problem: str) -> ExportError:
        return ExportError(
            f"{self._title}: rollout {position.repeat} of task {position.task}: {problem}"
        )

    def close(self) -> None:
        self._lookup.close()
        for file in self._files.values():
            file.close()

    def _read(self) -> list[list[RolloutPosition]]:
        found: list[tuple[tuple[object, ...], RolloutPosition]] = []
        runs: dict[Path, list[int]] = {}
        for number, part in enumerate(self._parts):
            if part.format is TORCH:
                found += self._in_file(number, part)
            else:
                runs.setdefault(part.path.parent, []).append(number)
        for run, numbers in runs.items():
            found += self._in_run(run, numbers)
        found.sort(key=lambda each: (*each[0], each[1].repeat))
        return [
            [msgspec.structs.replace(position, task=number) for _, position in members]
            for number, (_, members) in enumerate(groupby(found, key=lambda each: each[0]))
        ]

    def _in_file(
        self, number: int, part: SourcePart
    ) -> Iterator[tuple[tuple[object, ...], RolloutPosition]]:
        file = self._files[number] = TorchFile(part.path)
        for start, length in file.places():
            plain = file.trajectory((start, length))
            reward = plain.get("reward")
            if plain.get("outcome") != "completed" or not isinstance(reward, int | float):
                continue
            index, repeat = plain.get("trajectory_index"), plain.get("repeat")
            if not isinstance(index, int) or not isinstance(repeat, int):
                raise ExportError(f"{part.path}: a trajectory has no index and no repeat")
            # Ranks count their tasks separately.
            group = (str(number), str(plain.get("task_id")), index)
            success = reward >= SUCCESS_REWARD
            place = _Place(number, start, length)
            self._versions.add(_turns_of(plain), 0.0)
            yield group, self._position(place, repeat, float(reward), success=success)

    def _in_run(
        self, run: Path, numbers: list[int]
    ) -> Iterator[tuple[tuple[object, ...], RolloutPosition]]:
        by_path = {self._parts[number].path: number for number in numbers}
        for entry, is_current in read_records(by_path):
            attempt = entry.attempt
            if attempt.final and is_current and isinstance(attempt.outcome, Completed):
                outcome = attempt.outcome
                place = _Place(by_path[entry.path], entry.offset)
                self._versions.add(outcome.turns, attempt.started)
                position = self._position(
                    place, attempt.repeat, outcome.reward, success=outcome.succeeded
                )
                yield (str(run), "", attempt.task), position

    def _position(
        self, place: _Place, repeat: int, reward: float, *, success: bool
    ) -> RolloutPosition:
        """The position of a trajectory; its task is numbered when all are known."""
        self._places.append(place)
        number = len(self._places)
        return RolloutPosition(
            task=0,
            repeat=repeat,
            line=number,
            offset=number - 1,
            reward=reward,
            success=success,
            versions=self._versions[number - 1],
        )

    def _trajectory(self, position: RolloutPosition) -> Trajectory:
        place = self._places[position.offset]
        try:
            if place.part in self._files:
                with _readable():
                    plain = self._files[place.part].trajectory((place.start, place.length))
                return from_plain(plain)
            record = self._lookup.record(self._parts[place.part].path, place.start)
            trajectory = _TRAJECTORY.decode(record.outcome.result)
            return trajectory.with_versions(record.outcome.turns)
        except (msgspec.DecodeError, TrajectoryError) as error:
            raise self.problem(position, f"its trajectory cannot be read: {error}") from error


class _SaidVersion(msgspec.Struct):
    version: str = ""
    version_parts: tuple[VersionPart, ...] = ()


class _SaidStep(msgspec.Struct):
    response: _SaidVersion | None = None


def _turns_of(plain: Mapping[str, object]) -> list[PolicyTurn]:
    """The turns of a trajectory in a `.pt` file; none where they cannot be read."""
    try:
        steps = msgspec.convert(plain.get("steps"), list[_SaidStep])
    except msgspec.ValidationError:
        return []
    said = (step.response for step in steps)
    return [PolicyTurn(version=each.version, parts=each.version_parts) for each in said if each]


@contextmanager
def _readable() -> Iterator[None]:
    try:
        yield
    except TorchFileError as error:
        raise ExportError(str(error)) from error


def _conversation(step: Step) -> ExportedConversation | None:
    """What the model was shown in a step, and its reply; None for a step without a reply."""
    response = step.response
    if response is None:
        return None
    flaw = None
    if not response.raw_prompt:
        flaw = "prompt not stored"
    elif response.parse_failure is not None:
        flaw = "reply not parsed"
    return ExportedConversation(
        prompt=[*response.raw_prompt],
        completion=[{"role": "assistant", "content": response.raw_response}],
        flaw=flaw,
    )
