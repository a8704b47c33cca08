"""Telling what is wrong with a configuration: everything at once, with key, place and remedy."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from typing import Any

from pydantic import ValidationError

from rollgym.store import RefusedError
from webgym.rollout.section import MISSING, KeyPath, S, Section, keys_of, section_in

Origin = Callable[[KeyPath], str]
"""Where a key was given, in words; empty where nobody knows."""


_MESSAGES = {"model_type": "keys and their values are needed"}


class SettingsError(RefusedError):
    """The configuration of a rollout cannot be used; nothing was started."""


def read(section: type[S], config: Mapping[str, Any], origin: Origin) -> S:
    """The section as the configuration has it. Raises SettingsError."""
    try:
        return section.model_validate(_without_missing(config))
    except ValidationError as error:
        lines = [f"  {problem}" for problem in _problems(section, error, origin)]
    raise SettingsError("\n".join(["the rollout cannot be run:", *lines]))


def _without_missing(config: Mapping[str, Any]) -> dict[str, Any]:
    return {
        str(key): _without_missing(value) if isinstance(value, Mapping) else value
        for key, value in config.items()
        if value != MISSING
    }


def _problems(section: type[Section], error: ValidationError, origin: Origin) -> Iterator[str]:
    """One for each key."""
    by_key: dict[KeyPath, list[Any]] = {}
    for each in error.errors(include_url=False):
        by_key.setdefault(_key_of(section, each["loc"]), []).append(each)
    for key, found in by_key.items():
        name, first = ".".join(key), found[0]
        place = origin(key)
        where = f" ({place})" if place else ""
        match first["type"]:
            case "missing":
                yield f"{name} is missing: give {name}=…"
            case "extra_forbidden":
                yield f"{name}: there is no such key{_meant(section, key)}{where}"
            case _:
                yield f"{name}: {_in_words(found)}, not {first['input']!r:.200}{where}"


def _key_of(section: type[Section], location: tuple[int | str, ...]) -> KeyPath:
    """The key that a location is about: its beginning, less the names of types that were tried."""
    key: list[str] = []
    known: type[Section] | None = section
    for part in map(str, location):
        if known is None:
            break
        if part == known.__name__:
            continue
        key.append(part)
        field = known.keys().get(part)
        known = section_in(field) if field else None
    return tuple(key)


def _in_words(found: list[Any]) -> str:
    """What the value may be; of one that may be several things, all of them."""
    messages = [
        _MESSAGES.get(each["type"], str(each["msg"]).removeprefix("Value error, "))
        for each in found
    ]
    return ", or ".join(dict.fromkeys(text[:1].lower() + text[1:] for text in messages))


def _meant(section: type[Section], key: KeyPath) -> str:
    """What somebody may have meant who wrote this key: one beside it, or of its name elsewhere."""
    *parents, name = key
    close = get_close_matches(name, _beside(section, parents), 1)
    elsewhere = sorted(each.path for each in keys_of(section) if each.path[-1] == name)
    if close:
        return f"; did you mean {'.'.join((*parents, close[0]))}?"
    if elsewhere:
        return f"; did you mean {'.'.join(elsewhere[0])}?"
    return "; --help lists those there are"


def _beside(section: type[Section], parents: Sequence[str]) -> Sequence[str]:
    for parent in parents:
        inner = section_in(section.keys()[parent])
        if inner is None:
            return ()
        section = inner
    return list(section.keys())
