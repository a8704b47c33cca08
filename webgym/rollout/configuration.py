"""A configuration of rollouts, composed from files and overrides.

Files and overrides are Hydra's. A config is searched by name in the folders of the user, if some
are given, then in ours; its `defaults` may name others. `key=value`, `+key=value` and `++key=value`
all set a value; unknown keys are reported later, with all other problems. A mapping may also be
written as JSON or YAML with quoted keys. It is merged with the mapping of the files, except ratios
and steps, which are replaced as a whole.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
from hydra import compose, initialize_config_dir
from hydra.core.global_hydra import GlobalHydra
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override
from hydra.errors import HydraException
from hydra.types import RunMode
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from rollgym.cli.process import relative_path
from rollgym.records.decoding import TOO_DEEP
from rollgym.suggestions import advice
from webgym.settings import COMMAND_LINE, KeyPath, WebSettingsError

HYDRA_VERSION = "1.3"
LONGEST_SHOWN = 200
_WITH_COMMAS = "rank_weights"
_REPLACED = frozenset(
    f"env_config.{name}"
    for name in (
        "difficulty_ratio",
        "domain_ratio",
        "train_difficulty_max_steps",
        "test_difficulty_max_steps",
    )
)
"""Mappings that an override replaces as a whole."""
_OVERRIDE_ADVICE = (
    "write key=value without spaces; quote a value with special characters (= , : brackets) "
    "twice: \"key='a=b'\""
)


class ComposedConfig(NamedTuple):
    """A whole configuration, and the origins of its values. Later files win."""

    values: dict[str, Any]
    overridden: frozenset[KeyPath]
    files: tuple[Path, ...]

    def origin(self, key: KeyPath) -> str:
        """The origin of a key: the command line, or the last file that sets it."""
        if any(_is_within(path, key) or _is_within(key, path) for path in self.overridden):
            return COMMAND_LINE
        for file in reversed(self.files):
            if _has(file, key):
                return relative_path(file)
        return ""


def compose_config(
    directory: Path, name: str, overrides: Sequence[str], *own: Path
) -> ComposedConfig:
    """Compose a configuration; `own` are folders of the user. Raises WebSettingsError."""
    parsed = read_overrides(overrides)
    folders = main, *others = config_folders(directory, name, *own)
    for_hydra = [each for each in parsed if _is_for_hydra(each, folders)]
    lines = [str(each.input_line) for each in for_hydra]
    lines = [*search_override(others), *lines]
    try:
        with _no_other_hydra(), initialize_config_dir(str(main), version_base=HYDRA_VERSION):
            config = compose(name, lines)
            loader = GlobalHydra.instance().config_loader()
            parts = loader.compute_defaults_list(name, lines, RunMode.RUN).defaults
        _apply([each for each in parsed if each not in for_hydra], config)
        values = plain_values(config)
    except (HydraException, OmegaConfBaseException) as error:
        raise WebSettingsError(f"config {name!r}: {in_a_line(error)}") from error
    except RecursionError as error:
        raise WebSettingsError(f"config {name!r}: {TOO_DEEP}") from error
    names = [part.config_path for part in parts if part.config_path]
    found = [_file(folder, each) for each in names for folder in (main, *others)]
    keys = frozenset(tuple(each.key_or_group.split(".")) for each in parsed)
    return ComposedConfig(values, keys, tuple(path for path in found if path.is_file()))


@contextmanager
def _no_other_hydra() -> Iterator[None]:
    """Allow a composition inside `hydra.main`, which has composed the same configuration."""
    active = GlobalHydra.instance().hydra
    GlobalHydra.instance().clear()
    try:
        yield
    finally:
        GlobalHydra.instance().hydra = active


def config_folders(directory: Path, name: str, *own: Path) -> list[Path]:
    """The folders to search, in their order: the first has the config. Raises WebSettingsError."""
    folders = [folder.resolve() for folder in (*own, directory)]
    _require(folders, name)
    return sorted(folders, key=lambda folder: not _file(folder, name).is_file())


def search_override(folders: Sequence[Path]) -> list[str]:
    """The override with which Hydra searches these folders besides the main one."""
    search = ",".join(f"'file://{folder}'" for folder in folders)
    return [f"hydra.searchpath=[{search}]"] if folders else []


def config_names(directory: Path) -> list[str]:
    return sorted(path.stem for path in directory.glob("*.yaml"))


def plain_values(config: DictConfig) -> dict[str, Any]:
    """The values of a Hydra node. Raises OmegaConfBaseException."""
    values = OmegaConf.to_container(config, resolve=True, throw_on_missing=False)
    return {str(key): value for key, value in values.items()} if isinstance(values, dict) else {}


def read_overrides(overrides: Sequence[str], *, sweeps: bool = False) -> list[Override]:
    """Parse overrides; `sweeps` allows several values for a key. Raises WebSettingsError."""
    parser, problems, read = OverridesParser.create(), [], []
    for text in filter(str.strip, overrides):
        try:
            override = _read_override(parser, text)
        except (HydraException, RecursionError):
            problems.append(
                f"  {text[:LONGEST_SHOWN]}: this is not an override; {_OVERRIDE_ADVICE}"
            )
            continue
        if override.is_sweep_override() and not sweeps:
            key, _, value = text.partition("=")
            problems.append(f'  {text}: give one value, or a list in brackets: "{key}=[{value}]"')
        read.append(override)
    if problems:
        text = "\n".join(["The settings cannot be used:", *problems])
        raise WebSettingsError(text, is_misuse=True)
    return read


def hydra_lines(overrides: Sequence[Override], folders: Sequence[Path]) -> list[str]:
    """The overrides as Hydra itself accepts them, also for keys that no file has."""
    lines: list[str] = []
    for each in overrides:
        if _is_for_hydra(each, folders) or each.is_delete():
            lines.append(str(each.input_line))
            continue
        key, value = each.key_or_group, each.value() if not each.is_sweep_override() else None
        lines += [f"++{path}=null" for path in _replaced(key, value)]
        written = str(each.input_line).partition("=")[2]
        is_json = isinstance(value, dict) and _hydra_value(written) is None
        lines.append(f"++{key}={_as_hydra(value) if is_json else _hydra_value(written)}")
    return lines


def _hydra_value(written: str) -> str | None:
    """A value as it was written, or quoted; None for a mapping that Hydra cannot parse."""
    parser = OverridesParser.create()
    for text in (written, f"'{written}'"):
        try:
            parser.parse_overrides([f"key={text}"])
        except HydraException:
            if written.startswith("{"):
                return None
        else:
            return text
    return written


def _as_hydra(value: object) -> str:
    """A value of JSON in Hydra's syntax, whose keys have no quotes."""
    match value:
        case dict():
            pairs = (f"{_escaped(str(key))}: {_as_hydra(each)}" for key, each in value.items())
            return "{" + ", ".join(pairs) + "}"
        case list():
            return "[" + ", ".join(map(_as_hydra, value)) + "]"
        case str():
            quoted = value.replace("\\", "\\\\").replace("'", "\\'")
            return f"'{quoted}'"
        case _:
            return msgspec.json.encode(value).decode()


def _escaped(key: str) -> str:
    return "".join(f"\\{letter}" if letter in "\\()[]{}:=, \t" else letter for letter in key)


def _read_override(parser: OverridesParser, text: str) -> Override:
    """Parse an override. Raises HydraException. A shell removes the quotes of `"2,1,1"`."""
    key, _, value = text.partition("=")
    try:
        (override,) = parser.parse_overrides([text])
    except HydraException:
        mapping = _mapping(value)
        if mapping is None:
            raise
        (override,) = parser.parse_overrides([f"{key}={{}}"])
        return replace(override, _value=mapping, input_line=text)
    if override.is_sweep_override() and override.key_or_group.endswith(_WITH_COMMAS):
        (override,) = parser.parse_overrides([f"{key}='{value}'"])
    return override


def _mapping(text: str) -> dict[str, Any] | None:
    """A mapping in JSON or YAML; Hydra's own form has no quoted keys."""
    if not text.startswith("{"):
        return None
    try:
        value = msgspec.yaml.decode(text)
    except msgspec.DecodeError:
        return None
    return {str(key): each for key, each in value.items()} if isinstance(value, dict) else None


def _is_for_hydra(override: Override, folders: Sequence[Path]) -> bool:
    """Whether an override chooses a file of a group, or configures Hydra itself."""
    key = override.key_or_group
    if key.startswith("hydra.") or "/" in key or override.package is not None:
        return True
    return any((folder / key).is_dir() for folder in folders)


def _apply(overrides: Sequence[Override], config: DictConfig) -> None:
    """Set values, also of keys that no file has, and remove keys. Raises WebSettingsError."""
    OmegaConf.set_struct(config, False)
    for override in overrides:
        if override.is_delete():
            _remove(override, config)
            continue
        key, value = override.key_or_group, override.value()
        for path in _replaced(key, value):
            OmegaConf.update(config, path, None, merge=False, force_add=True)
        merge = isinstance(value, dict)
        OmegaConf.update(config, key, value, merge=merge, force_add=True)


def _replaced(key: str, value: object) -> Iterator[str]:
    """The paths of mappings in a value that replace those of the files."""
    if key in _REPLACED:
        yield key
    elif isinstance(value, dict):
        for name, inner in value.items():
            yield from _replaced(f"{key}.{name}", inner)


def _remove(override: Override, config: DictConfig) -> None:
    """Remove `~key`, or `~key=value` where the key has this value. Raises WebSettingsError."""
    *parents, name = override.key_or_group.split(".")
    parent = OmegaConf.select(config, ".".join(parents)) if parents else config
    if not isinstance(parent, DictConfig) or name not in set(parent):
        raise WebSettingsError(
            f"{override.input_line}: there is no such key to remove", is_misuse=True
        )
    value = override.value()
    if value is not None and parent[name] != value:
        raise WebSettingsError(f"{override.input_line}: its value is {parent[name]!r:.100}")
    del parent[name]


def _require(folders: Sequence[Path], name: str) -> None:
    for folder in folders:
        if not folder.is_dir():
            raise WebSettingsError(f"{relative_path(folder)} is not a folder")
    if any(_file(folder, name).is_file() for folder in folders):
        return
    names = [each for folder in folders for each in config_names(folder)]
    meant = advice(name, names, f"the configs are {', '.join(names) or 'none'}")
    places = " or ".join(relative_path(folder) for folder in folders)
    raise WebSettingsError(f"there is no config {name!r} in {places}: {meant}", is_misuse=True)


def _file(folder: Path, name: str) -> Path:
    return folder / (name if name.endswith(".yaml") else f"{name}.yaml")


def _has(file: Path, key: KeyPath) -> bool:
    node: object = OmegaConf.to_container(OmegaConf.load(file), resolve=False)
    for name in key:
        if not isinstance(node, dict) or name not in {str(each) for each in node}:
            return False
        node = {str(each): value for each, value in node.items()}[name]
    return True


def _is_within(inner: KeyPath, outer: KeyPath) -> bool:
    return inner[: len(outer)] == outer


def in_a_line(error: Exception) -> str:
    lines = (line.strip() for line in str(error).splitlines())
    return "; ".join(line for line in lines if line)
