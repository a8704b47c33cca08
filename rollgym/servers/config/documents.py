"""YAML files: their contents, the lines of their keys, and their values with every `${…}` resolved.

The text is read twice: by OmegaConf for its values, with the dialect that Hydra users know, and by
the YAML parser for the line numbers, which OmegaConf does not keep. Each interpolation that cannot
be resolved is one problem, with the file and key of the setting that uses it.
"""

import re
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import NamedTuple

import yaml  # type: ignore[import-untyped]
from omegaconf import DictConfig, ListConfig, OmegaConf
from omegaconf.errors import (
    InterpolationKeyError,
    InterpolationToMissingValueError,
    MissingMandatoryValue,
    OmegaConfBaseException,
)

from rollgym.servers.config.problems import (
    ConfigError,
    JsonValue,
    KeyPath,
    Locations,
    Problem,
    Problems,
    Settings,
    key_path,
)

DEEPEST = 50
ENVIRONMENT_FILE = "env.yaml"
_WANTED_KEY = re.compile(r"Interpolation key '(.+)' not found")
_WANTED_VARIABLE = re.compile(r"Environment variable '(.+)' not found")
_USED = re.compile(r"\$\{\s*([A-Za-z_]\w*)\s*[.}\[]")


class KeyLine(NamedTuple):
    """The line of a key, and whether its value is a mapping."""

    path: KeyPath
    line: int
    is_mapping: bool


class Document(NamedTuple):
    """A YAML file. `shown` is its path for messages."""

    shown: str
    content: DictConfig
    lines: tuple[KeyLine, ...]


def shown_path(path: Path, cwd: Path) -> str:
    """The path relative to the working directory where the file is in it, absolute otherwise."""
    return str(path.relative_to(cwd)) if path.is_relative_to(cwd) else str(path)


def read_document(path: Path, cwd: Path) -> Document:
    """Read a file. Raises ConfigError where it cannot be read, is not YAML, or not a mapping."""
    shown = shown_path(path, cwd)
    try:
        text = path.read_text("utf-8")
        node = yaml.compose(text, yaml.SafeLoader)
        if node is None:
            return Document(shown, OmegaConf.create({}), ())
        if not isinstance(node, yaml.MappingNode):
            raise _error(shown, "the file is not a mapping", "write `name: value` lines at its top")
        content = OmegaConf.create(text)
    except OSError as error:
        reason = error.strerror or str(error)
        raise _error(shown, f"cannot be read ({reason})", "check its path and mode") from error
    except UnicodeDecodeError as error:
        raise _error(shown, f"not UTF-8 at byte {error.start}", "save it as UTF-8") from error
    except yaml.MarkedYAMLError as error:
        raise _error(_marked(shown, error), _reason(error), "correct the YAML there") from error
    except yaml.YAMLError as error:
        raise _error(shown, f"not YAML ({_first_line(error)})", "correct it") from error
    except RecursionError as error:
        raise _error(
            shown, "it is nested too deeply, or an alias contains itself", "write the value out"
        ) from error
    except OmegaConfBaseException as error:
        lines = {line.path: line.line for line in _key_lines(node, ())} if node else {}
        line = lines.get(key_path(error.full_key or ""))
        where = shown if line is None else f"{shown}:{line}"
        raise _error(where, f"{error.full_key}: {_first_line(error)}", "correct it") from error
    assert isinstance(content, DictConfig)  # noqa: S101 - a mapping node was just seen
    return Document(shown, content, tuple(_key_lines(node, ())))


def _key_lines(node: yaml.Node, path: KeyPath) -> Iterator[KeyLine]:
    if isinstance(node, yaml.MappingNode):
        parts = [(key.value, key.start_mark.line + 1, value) for key, value in node.value]
    elif isinstance(node, yaml.SequenceNode):
        parts = [
            (str(number), value.start_mark.line + 1, value)
            for number, value in enumerate(node.value)
        ]
    else:
        return
    for key, line, value in parts:
        inner = (*path, str(key))
        yield KeyLine(inner, line, isinstance(value, yaml.MappingNode))
        yield from _key_lines(value, inner)


def _error(where: str, what: str, fix: str) -> ConfigError:
    return ConfigError([Problem(where, what, fix)])


def _marked(shown: str, error: yaml.MarkedYAMLError) -> str:
    mark = error.problem_mark or error.context_mark
    return shown if mark is None else f"{shown}:{mark.line + 1}:{mark.column + 1}"


def _reason(error: yaml.MarkedYAMLError) -> str:
    parts = [part for part in (error.context, error.problem) if part]
    return f"not valid YAML ({', '.join(parts)})"


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0]


class Resolver:
    """Resolves interpolations; one that cannot be resolved becomes a problem, and None."""

    def __init__(self, locations: Locations, problems: Problems, cwd: Path | None = None) -> None:
        self._sources = locations
        self._problems = problems
        self._cwd = cwd

    def mapping(self, node: DictConfig, path: KeyPath) -> Settings:
        """The values of a mapping at `path`."""
        return {
            str(key): self._item(partial(node.__getitem__, key), (*path, str(key))) for key in node
        }

    def value(self, content: DictConfig, key: str) -> JsonValue:
        """The value of one key at the top of the configuration."""
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
                    f"{'.'.join(path)}: a {kind} is not allowed as a setting",
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
                f"uses ${{{wanted[1]}}}, which is not defined",
                f"add `{wanted[1]}: …` to {ENVIRONMENT_FILE}{where} or pass +{wanted[1]}=…",
            )
        if variable := _WANTED_VARIABLE.search(text):
            return (
                f"uses the environment variable {variable[1]}, which is not set",
                f"export {variable[1]}=…, or give a default: ${{oc.env:{variable[1]},default}}",
            )
        return f"cannot be resolved ({text})", "correct the interpolation"


def variables_of(content: DictConfig) -> frozenset[str]:
    """The names at the top of the configuration that interpolations use."""
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
