"""One YAML file: what it says, and on which line each of its keys stands.

The text is read twice: by OmegaConf for its values, with the dialect that Hydra users know, and by
the YAML parser itself for the marks, which OmegaConf does not keep.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import yaml  # type: ignore[import-untyped]
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from rollgym.servers.config.problems import ConfigError, Problem
from rollgym.servers.config.sources import KeyPath, key_path


class KeyLine(NamedTuple):
    """Where a key stands, and whether its value is a mapping."""

    path: KeyPath
    line: int
    is_mapping: bool


class Document(NamedTuple):
    """A file that was read. `shown` is its path as messages name it."""

    shown: str
    content: DictConfig
    lines: tuple[KeyLine, ...]


def shown_path(path: Path, cwd: Path) -> str:
    """Relative to the working directory where the file is in it, whole otherwise."""
    return str(path.relative_to(cwd)) if path.is_relative_to(cwd) else str(path)


def read_document(path: Path, cwd: Path) -> Document:
    """Raises ConfigError where the file cannot be read, is no YAML, or is no mapping."""
    shown = shown_path(path, cwd)
    try:
        text = path.read_text("utf-8")
        node = yaml.compose(text, yaml.SafeLoader)
        if node is None:
            return Document(shown, OmegaConf.create({}), ())
        if not isinstance(node, yaml.MappingNode):
            raise _refused(shown, "the file is no mapping", "write `name: value` lines at its top")
        content = OmegaConf.create(text)
    except OSError as error:
        reason = error.strerror or str(error)
        raise _refused(shown, f"cannot be read ({reason})", "check its path and mode") from error
    except UnicodeDecodeError as error:
        raise _refused(shown, f"no UTF-8 at byte {error.start}", "save it as UTF-8") from error
    except yaml.MarkedYAMLError as error:
        raise _refused(_marked(shown, error), _reason(error), "correct the YAML there") from error
    except yaml.YAMLError as error:
        raise _refused(shown, f"no YAML ({_first_line(error)})", "correct it") from error
    except RecursionError as error:
        raise _refused(shown, "an alias contains itself", "write the value out") from error
    except OmegaConfBaseException as error:
        lines = {line.path: line.line for line in _key_lines(node, ())} if node else {}
        line = lines.get(key_path(error.full_key or ""))
        where = shown if line is None else f"{shown}:{line}"
        raise _refused(where, f"{error.full_key}: {_first_line(error)}", "correct it") from error
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


def _refused(where: str, what: str, fix: str) -> ConfigError:
    return ConfigError([Problem(where, what, fix)])


def _marked(shown: str, error: yaml.MarkedYAMLError) -> str:
    mark = error.problem_mark or error.context_mark
    return shown if mark is None else f"{shown}:{mark.line + 1}:{mark.column + 1}"


def _reason(error: yaml.MarkedYAMLError) -> str:
    said = [part for part in (error.context, error.problem) if part]
    return f"no valid YAML ({', '.join(said)})"


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0]
