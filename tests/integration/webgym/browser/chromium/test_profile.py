"""The folders of browsers: private, and removed by the next server after a kill."""

import stat
import tempfile
from pathlib import Path

import pytest

from webgym.browser.chromium.profile import ProfileFolder, private_folder, remove_leftovers


def test_a_folder_is_fresh_and_private(folder: Path) -> None:
    first, second = ProfileFolder(), ProfileFolder()
    assert first.path != second.path
    assert list(first.path.iterdir()) == []
    for path in (first.path, first.path.parent):
        assert stat.S_IMODE(path.stat().st_mode) == 0o700
    first.remove()
    second.remove()
    first.remove()
    assert list(private_folder().iterdir()) == []


def test_a_folder_in_use_is_not_removed(folder: Path) -> None:
    used = ProfileFolder()
    (private_folder() / "1-abandoned" / "profile").mkdir(parents=True)
    assert remove_leftovers() == 1
    assert list(private_folder().iterdir()) == [used.path]
    used.remove()


def test_a_folder_that_others_can_write_to_is_refused(folder: Path) -> None:
    private_folder().chmod(0o777)
    with pytest.raises(PermissionError, match="0700"):
        ProfileFolder()


def test_a_link_in_the_place_of_the_private_folder_is_refused(folder: Path) -> None:
    elsewhere = folder / "elsewhere"
    elsewhere.mkdir(mode=0o700)
    private = private_folder()
    private.rmdir()
    private.symlink_to(elsewhere)
    with pytest.raises(PermissionError, match="0700"):
        ProfileFolder()


def test_a_long_path_for_temporary_files_is_avoided(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A full Chromium makes a socket in there and does not start where its path is too long."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "a-rather-long-name-of-a-folder"))
    assert len(str(private_folder())) <= 41
