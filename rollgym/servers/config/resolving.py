"""From OmegaConf's nodes to plain values, with every `${…}` filled in.

Each place that cannot be filled in is one problem, named by the file and key that asks for it.
"""

import re
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from omegaconf import DictConfig, ListConfig, OmegaConf
from omegaconf.errors import (
    InterpolationKeyError,
    InterpolationToMissingValueError,
    MissingMandatoryValue,
    OmegaConfBaseException,
)

from rollgym.servers.config.problems import Problems
from rollgym.servers.config.sources import JsonValue, KeyPath, Settings, Sources

DEEPEST = 50
ENVIRONMENT_FILE = "env.yaml"
_WANTED_KEY = re.compile(r"Interpolation key '(.+)' not found")
_WANTED_VARIABLE = re.compile(r"Environment variable '(.+)' not found")
_USED = re.compile(r"\$\{\s*([A-Za-z_]\w*)\s*[.}\[]")


class Resolver:
    """Fills in interpolations; what cannot be had is added to `problems` and read as None."""

    def __init__(self, sources: Sources, problems: Problems, cwd: Path | None = None) -> None:
        self._sources = sources
        self._problems = problems
        self._cwd = cwd

    def mapping(self, node: DictConfig, path: KeyPath) -> Settings:
        """Every key of a mapping that stands at `path`."""
        return {
            str(key): self._item(partial(node.__getitem__, key), (*path, str(key))) for key in node
        }

    def value(self, content: DictConfig, key: str) -> JsonValue:
        """One key at the top of the configuration."""
        return self._item(partial(content.__getitem__, key), (key,))

    def _item(self, get: Callable[[], object], path: KeyPath) -> JsonValue:
        try:
            return self._plain(get(), path)
        except OmegaConfBaseException as error:
            what, fix = self._explain(error, path)
            self._problems.add(self._sources.of(path), f"{'.'.join(path)}: {what}", fix)
            return None

    def _plain(self, value: object, path: KeyPath) -> JsonValue:
        if len(path) > DEEPEST:
            self._problems.add(
                self._sources.of(path),
                f"{'.'.join(path[:4])}…: nested deeper than {DEEPEST} levels",
                "an interpolation that contains itself is the usual cause",
            )
            return None
        match value:
            case DictConfig():
                return self.mapping(value, path)
            case ListConfig():
                return [
                    self._item(partial(value.__getitem__, number), (*path, str(number)))
                    for number in range(len(value))
                ]
            case None | bool() | int() | float() | str():
                return value
            case _:
                kind = type(value).__name__
                self._problems.add(
                    self._sources.of(path),
                    f"{'.'.join(path)}: a {kind} is no setting",
                    "write text, a number, true, false, null, a list or a mapping",
                )
                return None

    def _explain(self, error: OmegaConfBaseException, path: KeyPath) -> tuple[str, str]:
        text = str(error).partition("\n")[0]
        if isinstance(error, MissingMandatoryValue | InterpolationToMissingValueError):
            return "has no value (it is `???`)", f"pass +{'.'.join(path)}=…"
        if isinstance(error, InterpolationKeyError) and (wanted := _WANTED_KEY.search(text)):
            where = f" in {self._cwd}" if self._cwd else ""
            return (
                f"asks for ${{{wanted[1]}}}, which nothing defines",
                f"add `{wanted[1]}: …` to {ENVIRONMENT_FILE}{where} or pass +{wanted[1]}=…",
            )
        if variable := _WANTED_VARIABLE.search(text):
            return (
                f"asks for the environment variable {variable[1]}, which is not set",
                f"export {variable[1]}=…, or give a default: ${{oc.env:{variable[1]},default}}",
            )
        return f"cannot be resolved ({text})", "correct the interpolation"


def variables_of(content: DictConfig) -> frozenset[str]:
    """The names at the top of the configuration that interpolations ask for."""
    return frozenset(_used(OmegaConf.to_container(content, resolve=False)))


def _used(value: object) -> Iterator[str]:
    match value:
        case str():
            yield from _USED.findall(value)
        case dict():
            for part in value.values():
                yield from _used(part)
        case list():
            for part in value:
                yield from _used(part)
