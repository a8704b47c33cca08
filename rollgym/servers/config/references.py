"""References between servers: any setting that is `{type: …, name: …}`.

A mapping of exactly these two keys whose `type` is, or almost is, a kind of server. Whether the
server is there is known before anything starts, so a typo is told then and not by the first
rollout.
"""

from collections.abc import Iterator, Mapping, Sequence
from difflib import get_close_matches

from rollgym.servers.config.drafts import KINDS, Draft
from rollgym.servers.config.problems import CLOSE_ENOUGH, Problems, listed, suggestion
from rollgym.servers.config.sources import JsonValue, KeyPath, Sources


def check_references(
    drafts: Sequence[Draft], known: Mapping[str, str], sources: Sources, problems: Problems
) -> None:
    """`known` has the kind of every server by its name, also of those without a draft."""
    for draft in drafts:
        for at, kind, name in _references(draft.settings, draft.path):
            where, key = sources.of(at), ".".join(at[3:])
            if kind not in KINDS:
                problems.add(
                    where,
                    f"{draft.name}: `{key}` has the type {kind!r}{suggestion(kind, KINDS)}",
                    f"use one of {listed(KINDS)}",
                )
            elif name not in known:
                problems.add(
                    where,
                    f"{draft.name}: `{key}` names {name!r}, and no server has that name"
                    f"{suggestion(name, known)}",
                    f"name one of its type ({listed(_of_kind(kind, known))}), or add the file "
                    "that defines it to config_paths",
                )
            elif known[name] != kind:
                problems.add(
                    where,
                    f"{draft.name}: `{key}` asks for {name!r} among the {kind}, but it is one "
                    f"of the {known[name]}",
                    f"correct the type, or name one of {listed(_of_kind(kind, known))}",
                )


def _references(value: JsonValue, path: KeyPath) -> Iterator[tuple[KeyPath, str, str]]:
    match value:
        case {"type": str() as kind, "name": str() as name, **rest} if not rest and _is_kind(kind):
            yield path, kind, name
        case dict():
            for key, part in value.items():
                yield from _references(part, (*path, key))
        case list():
            for number, part in enumerate(value):
                yield from _references(part, (*path, str(number)))


def _is_kind(name: str) -> bool:
    """A tool is `{type: function, name: …}` and no reference."""
    return bool(get_close_matches(name, KINDS, 1, CLOSE_ENOUGH))


def _of_kind(kind: str, known: Mapping[str, str]) -> list[str]:
    return [name for name, its_kind in known.items() if its_kind == kind]
