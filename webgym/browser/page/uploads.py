"""Files for the file dialogs of pages.

A dialog never opens: Chromium reports the field whose dialog was requested (`Tab.file_field`), also
if a script of the page clicked a hidden field. The files are written to a folder of the session,
because pages read them when a form is sent. The folder is removed with the session.
"""

import asyncio
import shutil
import tempfile
from pathlib import Path

from webgym.browser.contract.commands import UploadCoords, UploadFile, UploadId
from webgym.browser.contract.errors import CommandError
from webgym.browser.page.input import InputDevices, check_in_view
from webgym.browser.page.script import PageScript
from webgym.browser.page.tab import FileField, Tab

DIALOG_SECONDS = 3.0
"""For a page to request its file dialog after the click."""


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
