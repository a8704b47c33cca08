"""Settings that a mapping takes over from another one: `_inherit_from`, `_copy`, `_delete_key`.

    reasoning_off:
      _inherit_from: policy_model
      responses_api_models:
        vllm_model:
          chat_template_kwargs: {enable_thinking: false}

`_inherit_from` takes the mapping at a dotted path and merges its own keys over it. The original is
gone then, so a file can rename a server of another file and change it; several mappings may take
over the same one. `_copy` does the same and keeps the original. A single value is taken over with
`${inherit_from:path}` or `${copy:path}`. `_delete_key` names keys that are then removed, separated
by commas.

All of it happens on the merged layers, before interpolations are resolved. What is wrong becomes a
problem, and the mapping stays as it is without these keys.
"""

import re
from typing import Any, NamedTuple

from omegaconf import DictConfig, OmegaConf

from rollgym.servers.config.problems import KeyPath, Location, Locations, Problems, key_path
from rollgym.suggestions import suggestion

INHERIT_FROM = "_inherit_from"
COPY = "_copy"
DELETE_KEY = "_delete_key"
_VALUE = re.compile(r"\$\{(inherit_from|copy):([^{}]+)\}")


class _Taken(NamedTuple):
    """A path that is taken over, and whether the original stays."""

    path: KeyPath
    kept: bool


def apply_inheritance(
    content: DictConfig, locations: Locations, problems: Problems
) -> tuple[DictConfig, dict[str, Location]]:
    """The content with everything taken over; and the servers that are gone, with the reason's
    place.
    """
    plain = OmegaConf.to_container(content, resolve=False)
    assert isinstance(plain, dict)  # noqa: S101 - it is a DictConfig
    if not _uses_inheritance(plain):
        return content, {}
    inheritance = _Inheritance(plain, locations, problems)
    whole = inheritance.expanded(plain, (), ())
    inheritance.delete(whole, ())
    for path in inheritance.gone:
        _remove(whole, path)
    renamed = {path[0]: place for path, place in inheritance.gone.items() if len(path) == 1}
    return OmegaConf.create(whole), renamed


class _Inheritance:
    """`gone` has the paths whose originals are gone, with the place of `_inherit_from`."""

    def __init__(self, whole: dict[Any, Any], locations: Locations, problems: Problems) -> None:
        self.gone: dict[KeyPath, Location] = {}
        self._whole = whole
        self._locations = locations
        self._problems = problems

    def expanded(self, value: Any, path: KeyPath, pending: tuple[KeyPath, ...]) -> Any:
        """The value at `path` with everything taken over.

        `pending` are the paths that are being taken over; meeting one again is a circle.
        """
        match value:
            case dict():
                return self._mapping(value, path, pending)
            case list():
                return [
                    self.expanded(part, (*path, str(number)), pending)
                    for number, part in enumerate(value)
                ]
            case str() if found := _VALUE.fullmatch(value):
                taken = _Taken(key_path(found[2]), found[1] == "copy")
                return self._original(taken, path, pending)
            case _:
                return value

    def _mapping(self, value: dict[Any, Any], path: KeyPath, pending: tuple[KeyPath, ...]) -> Any:
        own = {
            key: self.expanded(part, (*path, str(key)), pending)
            for key, part in value.items()
            if key not in (INHERIT_FROM, COPY)
        }
        for key in (INHERIT_FROM, COPY):
            if key in value:
                taken = _Taken(key_path(str(value[key])), key == COPY)
                original = self._original(taken, path, pending)
                if isinstance(original, dict):
                    own = _merged(original, own)
        return own

    def _original(self, taken: _Taken, path: KeyPath, pending: tuple[KeyPath, ...]) -> Any:
        where, shown = self._locations.of(path), ".".join(taken.path)
        if taken.path in pending or path[: len(taken.path)] == taken.path:
            circle = " and ".join(".".join(each) for each in (*pending, taken.path))
            self._problems.add(
                where,
                f"{'.'.join(path)}: it takes over {shown}, which contains it ({circle})",
                "take over a mapping that does not depend on this one",
            )
            return None
        original: Any = self._whole
        for depth, key in enumerate(taken.path):
            if not isinstance(original, dict) or key not in original:
                known = [str(name) for name in original] if isinstance(original, dict) else []
                missing = ".".join(taken.path[: depth + 1])
                self._problems.add(
                    where,
                    f"{'.'.join(path)}: it takes over {shown}, but there is no "
                    f"{missing}{suggestion(key, known)}",
                    "correct the path, or add the file that has it to config_paths",
                )
                return None
            original = original[key]
        if not taken.kept:
            self.gone[taken.path] = where
        self._locations.inherit(taken.path, path)
        return self.expanded(original, taken.path, (*pending, taken.path))

    def delete(self, value: Any, path: KeyPath) -> None:
        """Carry out every `_delete_key`, when everything is taken over."""
        if not isinstance(value, dict):
            return
        for key in filter(None, map(str.strip, str(value.pop(DELETE_KEY, "")).split(","))):
            if key not in value:
                self._problems.add(
                    self._locations.of((*path, DELETE_KEY)),
                    f"{'.'.join(path)}: {DELETE_KEY} names {key!r}, which is not there"
                    f"{suggestion(key, [str(name) for name in value])}",
                    "correct the name or leave it out",
                )
            value.pop(key, None)
        for name, part in value.items():
            self.delete(part, (*path, str(name)))


def _uses_inheritance(value: object) -> bool:
    match value:
        case dict():
            return any(
                key in (INHERIT_FROM, COPY, DELETE_KEY) or _uses_inheritance(part)
                for key, part in value.items()
            )
        case list():
            return any(map(_uses_inheritance, value))
        case str():
            return _VALUE.fullmatch(value) is not None
        case _:
            return False


def _merged(original: dict[Any, Any], own: dict[Any, Any]) -> dict[Any, Any]:
    """Both, with the values of `own` where both have one."""
    merged = dict(original)
    for key, value in own.items():
        earlier = merged.get(key)
        if isinstance(earlier, dict) and isinstance(value, dict):
            merged[key] = _merged(earlier, value)
        else:
            both = key == DELETE_KEY and earlier
            merged[key] = f"{earlier},{value}" if both else value
    return merged


def _remove(whole: Any, path: KeyPath) -> None:
    for key in path[:-1]:
        whole = whole.get(key) if isinstance(whole, dict) else None
    if isinstance(whole, dict):
        whole.pop(path[-1], None)
