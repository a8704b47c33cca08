"""The pages of MiniWoB++, which the PyPI package `miniwob` has.

Only its files are needed. Importing the package would need Selenium, Gymnasium and more, so it is
found without an import: installed, or unpacked by `fetch_package`, which leaves out its
requirements. The sources beside the pages describe each task.

*Catalogue.* It has the facts about tasks that their pages do not have. Every page works offline.
Some tasks need what our actions cannot do: drags that are not straight lines, or reacting in time.
MiniWoB++ gives a *raw reward* from -1 to 1 when an episode ends. A task is solved if it is 1. A few
tasks measure the distance of a click, so that 1 cannot be reached; those are solved from 0.8 on.
"""

import ast
import os
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from importlib.resources import files
from pathlib import Path
from typing import Literal

import msgspec

from rollgym.store import RefusedError
from rollgym.store.packages import PackageFetchError, PinnedPackage
from rollgym.suggestions import nearest


class MiniWobError(RefusedError):
    """MiniWoB++ cannot be served: pages or a task are missing, or the port is in use."""


class MissingTaskError(MiniWobError):
    """No task has this name."""


FOLDER_VARIABLE = "MINIWOB_FOLDER"
_PINNED = PinnedPackage(
    "miniwob", "1.1.0", "297006e84219d56ad037e843527ed773a4a82509dc43b6031ec4a3ad3e3e61d9"
)


class Package(msgspec.Struct, frozen=True):
    """The package's folder."""

    folder: Path

    @property
    def html(self) -> Path:
        return self.folder / "html"

    def names(self) -> list[str]:
        """The names of all tasks that have a page."""
        return sorted(page.stem for page in (self.html / "miniwob").glob("*.html"))

    def page(self, name: str) -> str:
        """The page of a task of `names`."""
        return (self.html / "miniwob" / f"{name}.html").read_text("utf-8")

    def descriptions(self) -> Mapping[str, str]:
        """Descriptions of the tasks, if the sources have them."""
        source = self.folder / "envs" / "miniwob_envs.py"
        if not source.is_file():
            return {}
        texts = dict(_described(source.read_text("utf-8")))
        return {name: _resolved(text, texts) for name, text in texts.items()}


def find_package(folder: Path | None = None) -> Package:
    """Look in this folder or MINIWOB_FOLDER, else where it is installed or was unpacked.

    Raises MiniWobError.
    """
    named = folder or (Path(given) if (given := os.environ.get(FOLDER_VARIABLE)) else None)
    places = [named] if named else list(_PINNED.places())
    for place in places:
        if (place / "html" / "miniwob").is_dir():
            return Package(place)
    if named:
        raise MiniWobError(
            f"{named} is not a folder of the package miniwob: it has no html/miniwob"
        )
    raise MiniWobError(
        "the pages of MiniWoB++ are missing: get them with `python -m webgym.miniwob --fetch` "
        "(2 MB), or install the extra rollgym[miniwob]"
    )


def provide_package() -> Package:
    """The package, fetched if it is missing. Raises MiniWobError."""
    if os.environ.get(FOLDER_VARIABLE):
        return find_package()
    try:
        return find_package()
    except MiniWobError:
        return fetch_package()


def fetch_package() -> Package:
    """Unpack the package without its requirements into the user's cache. Raises MiniWobError.

    pip or uv get it from the package index that they are set up with, and its hash is checked.
    """
    try:
        _PINNED.fetch()
    except PackageFetchError as error:
        raise MiniWobError(str(error)) from error
    return find_package(cache_folder() / "miniwob")


def cache_folder() -> Path:
    """The folder that `fetch_package` unpacks into."""
    return _PINNED.folder


def _described(source: str) -> Iterator[tuple[str, str]]:
    for node in ast.parse(source).body:
        if isinstance(node, ast.ClassDef):
            for statement in node.body:
                match statement:
                    case ast.Assign([ast.Name("subdomain")], ast.Constant(str(name))):
                        yield name, _first_paragraph(ast.get_docstring(node) or "")


def _first_paragraph(docstring: str) -> str:
    """The first paragraph that is not a heading."""
    paragraphs = [part for part in docstring.split("\n\n") if not part.startswith("#")]
    return " ".join(paragraphs[0].split()) if paragraphs else ""


def _resolved(text: str, texts: Mapping[str, str]) -> str:
    """Resolve the descriptions of variants: `[other-task] What differs.`"""
    variant = re.fullmatch(r"\[([a-z0-9-]+)\] *(.+)", text)
    if variant is None or variant[1] not in texts:
        return text
    return f"{texts[variant[1]]} ({variant[2].rstrip('.')})"


Obstacle = Literal["drag", "real_time"]
SOLVED = 1.0
NEARLY = 0.8

_EASY, _MEDIUM, _HARD = 2, 4, 7


class _TaskLists(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The content of catalogue.toml: names of tasks."""

    drag: frozenset[str]
    real_time: frozenset[str]
    by_distance: frozenset[str]
    medium: frozenset[str]
    hard: frozenset[str]


_TASK_LISTS = msgspec.convert(
    tomllib.loads(files("webgym.miniwob").joinpath("catalogue.toml").read_text("utf-8")), _TaskLists
)


class MiniWobTask(msgspec.Struct, frozen=True):
    """One kind of task; a seed makes an episode of it."""

    name: str
    description: str
    difficulty: int = _EASY
    obstacle: Obstacle | None = None
    solved_at: float = SOLVED

    def reward(self, raw_reward: float) -> int:
        """1 if this raw reward means that the task is solved, else 0."""
        return int(raw_reward >= self.solved_at)


class Catalogue:
    """The tasks of a package by their names."""

    def __init__(self, package: Package) -> None:
        descriptions = package.descriptions()
        self.tasks = {name: _task(name, descriptions.get(name, "")) for name in package.names()}

    def find(self, name: str) -> MiniWobTask:
        """Raises MissingTaskError."""
        task = self.tasks.get(name)
        if task is None:
            close = nearest(name, self.tasks)
            hint = f": did you mean {close}?" if close else ""
            raise MissingTaskError(f"there is no task {name[:80]!r}{hint}")
        return task

    def choose(self, names: Iterable[str] | None = None) -> list[MiniWobTask]:
        """The named tasks, or all that our actions can solve. Raises MissingTaskError."""
        if names is not None:
            return [self.find(name) for name in names]
        return [task for task in self.tasks.values() if not task.obstacle]


def _task(name: str, description: str) -> MiniWobTask:
    obstacle: Obstacle | None = None
    if name in _TASK_LISTS.drag:
        obstacle = "drag"
    elif name in _TASK_LISTS.real_time:
        obstacle = "real_time"
    difficulty = _EASY
    if name in _TASK_LISTS.hard:
        difficulty = _HARD
    elif name in _TASK_LISTS.medium:
        difficulty = _MEDIUM
    solved_at = NEARLY if name in _TASK_LISTS.by_distance else SOLVED
    return MiniWobTask(name, description, difficulty, obstacle, solved_at)
