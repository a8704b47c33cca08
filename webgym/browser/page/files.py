"""The files of one session: downloads, where its profile keeps them, and uploads.

*Downloads.* Chromium writes a file under a name of its own into a folder of the session. A step
waits a moment for the downloads that it began, and answers the complete files; one that takes
longer comes with a later step. Files that are too large are cancelled.

*Uploads.* A file dialog never opens: Chromium reports the field whose dialog was requested
(`Tab.file_field`), also if a script of the page clicked a hidden field. The files are written to a
folder, because pages read them when a form is sent.

The folders are removed with the session.
"""

import asyncio
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

from webgym.browser.chromium.profile import ProfileFolder
from webgym.browser.contract.answers import DownloadedFile, Incident
from webgym.browser.contract.commands import UploadCoords, UploadFile, UploadId
from webgym.browser.contract.errors import CommandError
from webgym.browser.page.input import InputDevices, check_in_view
from webgym.browser.page.script import PageScript
from webgym.browser.page.tab import Download, FileField, Tab

LARGEST_FILE = 16 * 2**20
MOST_FILES = 20
"""Complete files that wait for a step."""
WAIT_SECONDS = 10.0
DIALOG_SECONDS = 3.0
"""For a page to request its file dialog after the click."""
LONGEST_NAME = 200


class Downloads:
    """What one session downloads. `report` is called for incidents, `cancel` to stop a download."""

    def __init__(
        self, report: Callable[[Incident], None], cancel: Callable[[str], None], *, kept: bool
    ) -> None:
        """Without `kept`, all downloads are refused. Raises OSError if no folder can be made."""
        self._report = report
        self._cancel = cancel
        self._folder = ProfileFolder() if kept else None
        self._running: dict[str, Download] = {}
        self._complete: list[Download] = []
        self._changed = asyncio.Event()

    @property
    def folder(self) -> Path | None:
        """Where Chromium writes them; None where they are refused."""
        return None if self._folder is None else self._folder.path

    def began(self, download: Download) -> None:
        if self._folder is None:
            self._report(Incident("download", f"refused: {download.url[:500]}"))
        elif len(self._running) + len(self._complete) >= MOST_FILES:
            self._report(Incident("limit", f"more than {MOST_FILES} downloads in one step"))
            self._cancel(download.guid)
        else:
            self._running[download.guid] = download

    def progressed(self, guid: str, received: float, state: str) -> None:
        download = self._running.get(guid)
        if download is None:
            return
        if received > LARGEST_FILE:
            self._report(
                Incident(
                    "download", f"cancelled, more than {LARGEST_FILE >> 20} MiB: {download.url}"
                )
            )
            self._cancel(guid)
            state = "canceled"
        if state == "inProgress":
            return
        del self._running[guid]
        if state == "completed":
            self._complete.append(download)
            self._report(Incident("download", f"saved: {_name(download)}, {received:.0f} bytes"))
        self._changed.set()

    async def wait(self, deadline: float) -> None:
        """Wait for the running downloads, at most a few seconds."""
        loop = asyncio.get_running_loop()
        until = min(deadline, loop.time() + WAIT_SECONDS)
        while self._running and loop.time() < until:
            self._changed.clear()
            try:
                async with asyncio.timeout_at(until):
                    await self._changed.wait()
            except TimeoutError:
                break

    async def take(self) -> tuple[DownloadedFile, ...]:
        """The complete files since the last call."""
        complete, self._complete = self._complete, []
        if self.folder is None or not complete:
            return ()
        return tuple(
            [
                await asyncio.to_thread(self._read, self.folder / each.guid, each)
                for each in complete
            ]
        )

    async def close(self) -> None:
        if self._folder is not None:
            await asyncio.to_thread(self._folder.remove)

    def _read(self, path: Path, download: Download) -> DownloadedFile:
        data = path.read_bytes()
        path.unlink()
        name = _name(download)
        return DownloadedFile(name, download.url[:2000], data)


def _name(download: Download) -> str:
    """The name that the site suggests, without folders."""
    return Path(download.suggested_filename).name[:LONGEST_NAME] or "download"


class Uploads:
    """The files that one session has given to its pages."""

    def __init__(self) -> None:
        self._folder: Path | None = None

    async def give(self, command: UploadCoords | UploadId, tab: Tab, deadline: float) -> None:
        """Click the target and give the files to the dialog that it requests.

        Raises CommandError if it requests none, or takes only one file.
        """
        if isinstance(command, UploadId):
            located = await PageScript(tab.world).locate(command.id, deadline)
            x, y = located.x, located.y
        else:
            x, y = command.x, command.y
            check_in_view(tab, x, y)
        tab.file_field = None
        await InputDevices(tab).click(x, y, deadline)
        field = await _requested(tab, deadline)
        if field is None or field.backend_node_id is None:
            raise CommandError("the click opened no file dialog: aim at the field for files")
        if field.mode != "selectMultiple" and len(command.files) > 1:
            raise CommandError(f"the field takes one file, not {len(command.files)}")
        paths = await asyncio.to_thread(self._write, command.files)
        params = {"files": paths, "backendNodeId": field.backend_node_id}
        await tab.call("DOM.setFileInputFiles", params, deadline=deadline)

    def close(self) -> None:
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder = None

    def _write(self, files: tuple[UploadFile, ...]) -> list[str]:
        """Each upload has its own folder, so that no file is replaced while a page reads it."""
        if self._folder is None:
            self._folder = Path(tempfile.mkdtemp(prefix="rollgym-upload-"))
        folder = Path(tempfile.mkdtemp(dir=self._folder))
        paths = []
        for number, file in enumerate(files):
            place = folder / str(number)
            place.mkdir()
            path = place / file.name
            path.write_bytes(file.data)
            paths.append(str(path))
        return paths


async def _requested(tab: Tab, deadline: float) -> FileField | None:
    now = asyncio.get_running_loop().time
    soon = min(deadline, now() + DIALOG_SECONDS)
    while tab.file_field is None and not tab.is_over and now() < soon:
        await tab.activity.changed(soon - now())
    return tab.file_field
