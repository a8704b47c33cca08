"""Policy versions: which weights sampled a turn, and how many versions ago that was.

*A version* is a text that a trainer or its model server gives, such as `42` or `step-42`. A turn
without one is unknown: nothing is assumed from the turns around it, or from the name of the model.

*A turn during which the version changed* has its parts: each version in the order in which it
sampled, with the number of tokens where the server says it. `version` is that of the last part.

*Order.* Versions that are numbers, or that end with one after the same text, are in the order of
these numbers, and their distance is the difference. All others are in the order in which they were
first used, and their distance is that of their places. `VersionOrder` decides once for all versions
of a run.

*Staleness* of a rollout is the distance from its oldest turn to a version, and 0 for a rollout of a
later one. A rollout with an unknown turn has none.
"""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from typing import Any, NamedTuple, Self

import msgspec

LONGEST_VERSION = 200
"""Longer texts are not versions."""
MOST_PARTS = 1_000
TURNS_FIELD = "rollgym_turns"
"""The turns of a rollout in its row."""
_NUMBERED = re.compile(r"(.*?)([0-9]{1,18})", re.DOTALL)


class VersionPart(msgspec.Struct, frozen=True, array_like=True):
    """A part of a turn: the version, "" if unknown, and how many tokens it sampled, if known."""

    version: str
    tokens: int | None = None


class TurnVersion(NamedTuple):
    """What is known of the version of a turn. `parts` only where there are several versions."""

    version: str = ""
    parts: tuple[VersionPart, ...] = ()

    @classmethod
    def of(cls, versions: Iterable[str]) -> Self:
        """The version of a turn that these versions sampled, in this order."""
        return cls.of_parts([VersionPart(version) for version in versions])

    @classmethod
    def of_parts(cls, parts: Sequence[VersionPart]) -> Self:
        """The version of a turn with these parts. Neighbouring parts of one version are joined."""
        joined: list[VersionPart] = []
        for version, alike in groupby(parts, key=lambda part: part.version):
            counts = [part.tokens for part in alike]
            known = [count for count in counts if count is not None]
            joined.append(VersionPart(version, sum(known) if len(known) == len(counts) else None))
        if not joined:
            return cls()
        return cls(joined[-1].version, tuple(joined) if len(joined) > 1 else ())

    def checked(self, sampled: int) -> "TurnVersion":
        """The same, without the counts if they do not add up to the sampled tokens of the turn."""
        counts = [part.tokens for part in self.parts if part.tokens is not None]
        if not counts or (len(counts) == len(self.parts) and sum(counts) == sampled):
            return self
        return TurnVersion(self.version, tuple(VersionPart(part.version) for part in self.parts))


UNKNOWN = TurnVersion()


class PolicyTurn(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """A turn of the policy: when it was, and which version sampled it.

    `start` and `seconds` count from the start of the attempt, with the wait for a slot; `start` is
    None for a turn of an earlier attempt. `version` and `parts` are those of `TurnVersion`. `item`
    is the place of its last item in the output of the response, None for a turn that is not in it.
    """

    start: float | None = 0.0
    seconds: float = 0.0
    version: str = ""
    parts: tuple[VersionPart, ...] = ()
    item: int | None = None

    @property
    def versions(self) -> tuple[str, ...]:
        """The versions that sampled it, in their order; "" is an unknown one."""
        return tuple(part.version for part in self.parts) or (self.version,)


def of_earlier_attempt(turns: Iterable[PolicyTurn]) -> tuple[PolicyTurn, ...]:
    """The turns of a rollout for an attempt that did not play them itself."""
    return tuple(msgspec.structs.replace(turn, start=None) for turn in turns)


def versions_of(turns: Iterable[PolicyTurn]) -> frozenset[str] | None:
    """The versions of a rollout; None where one is unknown, or without turns."""
    found = frozenset(version for turn in turns for version in turn.versions)
    return found if found and "" not in found else None


def turns_by_version(turns: Iterable[PolicyTurn]) -> dict[str, int]:
    """How many turns each version sampled, without unknown ones; a turn of two counts for both."""
    return dict(Counter(name for turn in turns for name in dict.fromkeys(turn.versions) if name))


class VersionOrder:
    """The order of the versions of a run.

    `versions` are all that there are, in the order in which they were first used.
    """

    def __init__(self, versions: Iterable[str]) -> None:
        self.versions = tuple(dict.fromkeys(versions))
        found = [_NUMBERED.fullmatch(version) for version in self.versions]
        prefixes = {each[1] if each else None for each in found}
        self.is_numbered = len(prefixes) == 1 and None not in prefixes
        """Whether the versions are numbers, or end with one after the same text."""
        if self.is_numbered:
            self._prefix = prefixes.pop() or ""
            self._places = {each[0]: int(each[2]) for each in found if each}
        else:
            self._places = {version: place for place, version in enumerate(self.versions)}

    def place(self, version: str) -> int | None:
        """A number that grows with the order; None for a version that is not known."""
        place = self._places.get(version)
        if place is None and self.is_numbered:
            found = _NUMBERED.fullmatch(version)
            return int(found[2]) if found and found[1] == self._prefix else None
        return place

    @classmethod
    def of_first_uses(cls, first: Mapping[str, float]) -> "VersionOrder":
        """The order of versions of which each was first used at its time."""
        return cls(sorted(first, key=lambda version: (first[version], version)))

    @property
    def newest(self) -> str:
        """The last version; "" without any."""
        return max(self.versions, key=self._places.__getitem__, default="")

    def sorted(self) -> list[str]:
        return sorted(self.versions, key=self._places.__getitem__)

    def oldest(self, versions: Iterable[str]) -> str:
        """The first of these versions of the run, at least one."""
        return min(versions, key=self._places.__getitem__)

    def distance(self, version: str, later: str) -> int:
        """How many versions one is behind another, which may be unknown to the run only if the
        versions are numbered; 0 if it is not behind. Raises KeyError."""
        place = self.place(later)
        if place is None:
            raise KeyError(later)
        return max(0, place - self._places[version])


def note_first_uses(first: dict[str, float], turns: Iterable[PolicyTurn], began: float) -> None:
    """Note when each version was first used, with a rollout that began at this time."""
    for turn in turns:
        for version in turn.versions:
            if version:
                used = began + (turn.start or 0.0)
                first[version] = min(used, first.get(version, used))


def version_text(value: object) -> str:
    """A version as a text; "" for what is not one. A comma separates versions in a header."""
    if isinstance(value, int) and not isinstance(value, bool):
        value = str(value)
    if not isinstance(value, str):
        return ""
    text = value.strip()
    is_version = len(text) <= LONGEST_VERSION and text.isprintable() and "," not in text
    return text if is_version else ""


def require_version(text: str) -> str:
    """A version that a person or a trainer gives, without spaces around it. Raises ValueError."""
    version = version_text(text)
    if not version:
        raise ValueError(
            f"a policy version is a text of 1 to {LONGEST_VERSION} printable characters without"
            f" commas, not {text[:LONGEST_VERSION]!r}"
        )
    return version


def header_version(text: str) -> TurnVersion:
    """The version in a header: one, or several with commas between, in their order."""
    if "," not in text:
        return TurnVersion(version_text(text))
    return TurnVersion.of(map(version_text, text.split(",")[:MOST_PARTS]))


def body_version(answer: Mapping[str, Any]) -> TurnVersion:
    """The version that an answer of a model says in its fields; unknown where it says none.

    - `policy_versions`: `[["7", 12], ["8", 30]]`, in the order of the sampled tokens.
    - `policy_version`: one version.
    """
    if "policy_version" not in answer and "policy_versions" not in answer:
        return UNKNOWN  # the usual case, of every call
    parts = answer.get("policy_versions")
    if isinstance(parts, list) and parts and len(parts) <= MOST_PARTS:
        read = [_part(part) for part in parts]
        if all(part is not None for part in read):
            return TurnVersion.of_parts([part for part in read if part is not None])
    return TurnVersion(version_text(answer.get("policy_version")))


def merged_version(header: str, said: TurnVersion) -> TurnVersion:
    """The version of a turn: the parts that its answer says, else its header, else its answer."""
    return said if said.parts or not header else header_version(header)


def _part(value: object) -> VersionPart | None:
    match value:
        case [version, int(tokens)] if tokens >= 0 and not isinstance(tokens, bool):
            return VersionPart(version_text(version), tokens)
        case [version] | [version, None]:
            return VersionPart(version_text(version))
        case _:
            return None
