"""Finding a Chromium to run.

*Order.* A browser that the user names comes first; if it cannot be used, that is an error. Then the
best browser of the machine: a headless shell, which is Chromium without windows and costs a third
of a full one per step, wherever it was installed from. Only then a full Chromium or Chrome.

*Checked.* A browser is used only if it prints its version. One with missing libraries and one that
is too old are skipped, and the error lists them if nothing better is found.

*Wrappers.* Distributions put scripts on PATH that add flags and stay between us and the browser.
Where the program behind the script is easy to find, it is used instead. Snaps are skipped: they see
neither our pipes nor our folders.
"""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Literal

import msgspec

BROWSER_VARIABLE = "ROLLGYM_BROWSER"
OLDEST_VERSION = 120
VERSION_TIMEOUT = 20.0
LINE_LIMIT = 200
HOW_TO_GET_ONE = (
    "To get one: `scripts/setup.sh browser` in a clone, or `apt-get install "
    "chromium-headless-shell` (Debian), or `playwright install --only-shell chromium`; or name one "
    f"with the variable {BROWSER_VARIABLE}."
)

BrowserKind = Literal["headless-shell", "full"]

_HEADLESS_NAMES = ("chromium-headless-shell", "chrome-headless-shell")
_FULL_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
_UNPACKED = "unpacked/chrome-headless-shell"
"""In the folder of the set-up script: a browser that came as an archive."""
_PLAYWRIGHT_HEADLESS = (
    _UNPACKED,
    "chromium_headless_shell-*/*/chrome-headless-shell",
    "chromium_headless_shell-*/*/headless_shell",
)
_PLAYWRIGHT_FULL = (
    "chromium-*/chrome-linux*/chrome",
    "chromium-*/chrome-mac*/*.app/Contents/MacOS/*",
)
_MAC_BUNDLES = (
    "Chromium.app/Contents/MacOS/Chromium",
    "Google Chrome.app/Contents/MacOS/Google Chrome",
)
_VERSION = re.compile(r"\b(\d+)(?:\.\d+){3}\b")
_REVISION = re.compile(r"-(\d+)$")
_SCRIPT_LIMIT = 16_384


class NoBrowserError(Exception):
    """No browser can be run, or not the one that the user named."""


class _UnusableError(Exception):
    """A candidate cannot be used. The message completes a sentence that begins with its path."""


class Browser(msgspec.Struct, frozen=True):
    """A program to run as a browser."""

    path: Path
    kind: BrowserKind = "headless-shell"
    source: str = "given"
    """Where it was found, in words."""
    version: str = ""

    @property
    def name(self) -> str:
        return self.path.name


def find_browser(explicit: str | Path | None = None) -> Browser:
    """The browser at `explicit`, else at the variable ROLLGYM_BROWSER, else the best one found.

    Runs the browser to get its version, so it blocks for a moment. Raises NoBrowserError.
    """
    if explicit is not None:
        return _named(str(explicit), "the setting `browser`")
    if named := os.environ.get(BROWSER_VARIABLE):
        return _named(named, f"the environment variable {BROWSER_VARIABLE}")
    skipped: list[str] = []
    for candidate in _candidates():
        try:
            return _checked(candidate)
        except _UnusableError as error:
            skipped.append(f"Skipped: {candidate.path} ({candidate.source}) {error}.")
    raise NoBrowserError("\n".join([_looked_for(), *skipped, HOW_TO_GET_ONE]))


def setup_folder() -> Path:
    """The folder where the set-up script puts a browser that it downloaded."""
    return Path(sys.prefix) / "browser"


def _named(named: str, source: str) -> Browser:
    found = shutil.which(Path(named).expanduser())
    if found is None:
        raise NoBrowserError(f"{source} says {named}, which is not a program that can be run")
    path = _behind_wrapper(Path(found).absolute())
    try:
        return _checked(Browser(path, _kind(path), source))
    except _UnusableError as error:
        raise NoBrowserError(f"{source} says {named}, which {error}") from error


def _kind(path: Path) -> BrowserKind:
    return "headless-shell" if "headless" in path.name else "full"


def _candidates() -> Iterator[Browser]:
    for kind in ("headless-shell", "full"):
        yield from _on_path(kind)
        yield from _installed_in(setup_folder(), kind, "downloaded by the set-up")
        for folder in _playwright_folders():
            yield from _installed_in(folder, kind, "installed by Playwright")
    if sys.platform == "darwin":
        for bundle in _MAC_BUNDLES:
            if (path := Path("/Applications", bundle)).exists():
                yield Browser(path, "full", "in /Applications")


def _on_path(kind: BrowserKind) -> Iterator[Browser]:
    for name in _HEADLESS_NAMES if kind == "headless-shell" else _FULL_NAMES:
        if found := shutil.which(name):
            yield Browser(_behind_wrapper(Path(found).absolute()), kind, f"{name} on PATH")


def _playwright_folders() -> Iterator[Path]:
    if named := os.environ.get("PLAYWRIGHT_BROWSERS_PATH"):
        yield Path(named)
    cache = "~/Library/Caches" if sys.platform == "darwin" else "~/.cache"
    with suppress(RuntimeError):  # the user has no home folder
        yield Path(cache, "ms-playwright").expanduser()


def _installed_in(folder: Path, kind: BrowserKind, source: str) -> Iterator[Browser]:
    """The browsers in a folder with the layout of Playwright, the newest first."""
    patterns = _PLAYWRIGHT_HEADLESS if kind == "headless-shell" else _PLAYWRIGHT_FULL
    found = [path for pattern in patterns for path in folder.glob(pattern)]
    for path in sorted(found, key=lambda path: _revision(path, folder), reverse=True):
        yield Browser(path, kind, source)


def _revision(path: Path, folder: Path) -> int:
    number = _REVISION.search(path.relative_to(folder).parts[0])
    return int(number[1]) if number else 0


def _behind_wrapper(path: Path) -> Path:
    """The program that a distribution's script starts, if it is easy to find; else the script.

    Debian, Alpine and Arch keep it in lib/chromium under the same name, Google beside the script.
    """
    if not _is_script(path):
        return path
    for program in (
        path.parent.parent / "lib/chromium" / path.name,
        path.resolve().parent / "chrome",
    ):
        if program.is_file() and os.access(program, os.X_OK) and not _is_script(program):
            return program
    return path


def _is_script(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            return file.read(2) == b"#!"
    except OSError:
        return False


def _is_snap(path: Path) -> bool:
    if path.resolve().name == "snap":
        return True
    return _is_script(path) and b"/snap/bin/" in path.read_bytes()[:_SCRIPT_LIMIT]


def _checked(candidate: Browser) -> Browser:
    """The candidate with its version. Raises _UnusableError."""
    if not os.access(candidate.path, os.X_OK):
        raise _UnusableError("is not executable")
    if _is_snap(candidate.path):
        raise _UnusableError("is a snap, which cannot be controlled from outside")
    output = _ask_version(candidate.path)
    version = _VERSION.search(output)
    if version is None:
        raise _UnusableError(f"is not a Chromium: `--version` prints {output!r}")
    if int(version[1]) < OLDEST_VERSION:
        raise _UnusableError(f"is version {version[0]}, older than {OLDEST_VERSION}")
    return msgspec.structs.replace(candidate, version=version[0])


def _ask_version(path: Path) -> str:
    """The first line that `--version` prints. Raises _UnusableError if it does not run."""
    try:
        asked = subprocess.run(  # noqa: S603 - the browser is the operator's own
            [path, "--version"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=VERSION_TIMEOUT,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise _UnusableError(f"does not run: {error}") from error
    if asked.returncode != 0:
        raise _UnusableError(
            f"does not run: {_first_line(asked.stderr) or _first_line(asked.stdout)}"
        )
    return _first_line(asked.stdout)


def _first_line(output: bytes) -> str:
    lines = output.decode(errors="replace").strip().splitlines()
    return lines[0][:LINE_LIMIT] if lines else ""


def _looked_for() -> str:
    names = ", ".join([*_HEADLESS_NAMES, *_FULL_NAMES])
    return (
        f"No browser was found. Looked for {names} on PATH, in {setup_folder()} and where "
        "Playwright installs browsers."
    )
