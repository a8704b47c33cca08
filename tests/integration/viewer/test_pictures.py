import asyncio
import os
from http import HTTPStatus
from pathlib import Path

import pytest

from rollgym.viewer.errors import RequestError
from rollgym.viewer.http import files
from rollgym.viewer.http.files import read_picture

PNG = b"\x89PNG\r\n\x1a\n" + bytes(32)
JPEG = b"\xff\xd8\xff\xe0" + bytes(32)
GIF = b"GIF89a" + bytes(32)
WEBP = b"RIFF\x20\0\0\0WEBP" + bytes(32)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Pictures in it, and one beside it, which is private."""
    images = tmp_path / "screenshots"
    (images / "ab").mkdir(parents=True)
    (images / "ab/one.png").write_bytes(PNG)
    (tmp_path / "secret.png").write_bytes(PNG)
    return images


def test_a_picture_is_what_it_begins_as_whatever_it_is_called(folder: Path) -> None:
    for data, media_type in [
        (PNG, "image/png"),
        (JPEG, "image/jpeg"),
        (GIF, "image/gif"),
        (WEBP, "image/webp"),
    ]:
        (folder / "ab/any.html").write_bytes(data)
        found = read_picture(folder, "ab/any.html")
        assert (found.media_type, found.data) == (media_type, data)


def test_a_file_that_only_has_the_name_of_a_picture_is_rejected(folder: Path) -> None:
    for data in [
        b'<svg xmlns="http://www.w3.org/2000/svg"><script>alert(1)</script></svg>',
        b"<!doctype html><script>alert(1)</script>",
        b" " + PNG,
        b"RIFF\0\0\0\0WAVE",
        b"",
    ]:
        (folder / "ab/fake.png").write_bytes(data)
        assert refused(folder, "ab/fake.png") == HTTPStatus.UNSUPPORTED_MEDIA_TYPE


def test_a_path_that_leads_to_no_picture_of_the_folder_finds_nothing(folder: Path) -> None:
    for name in [
        "../secret.png",
        "ab/../../secret.png",
        "ab/../../screenshots/../secret.png",
        "..",
        ".",
        "",
        "ab",
        "ab/",
        "ab/one.png/",
        "ab/one.png/x",
        "ab/none.png",
        "ab/one.png\0.png",
        "a" * 5_000,
    ]:
        if name == "ab/one.png/":
            assert read_picture(folder, name).data == PNG  # the same file, written carelessly
        else:
            assert refused(folder, name) == HTTPStatus.NOT_FOUND


def test_an_absolute_path_is_not_read(folder: Path) -> None:
    assert refused(folder, str(folder.parent / "secret.png")) == HTTPStatus.NOT_FOUND
    assert refused(folder, "/etc/passwd") == HTTPStatus.NOT_FOUND


def test_links_are_followed_within_the_folder_and_not_out_of_it(folder: Path) -> None:
    (folder / "in.png").symlink_to("ab/one.png")
    (folder / "out.png").symlink_to("../secret.png")
    (folder / "far.png").symlink_to(folder.parent / "secret.png")
    (folder / "up").symlink_to("..")
    (folder / "loop.png").symlink_to("loop.png")
    (folder / "round").symlink_to("round/round")
    assert read_picture(folder, "in.png").data == PNG
    for name in ("out.png", "far.png", "up/secret.png", "loop.png", "round/x.png"):
        assert refused(folder, name) == HTTPStatus.NOT_FOUND


def test_a_folder_that_is_a_link_itself_is_read_where_it_leads(folder: Path) -> None:
    link = folder.parent / "link"
    link.symlink_to(folder)
    assert read_picture(link, "ab/one.png").data == PNG
    assert refused(link, "../secret.png") == HTTPStatus.NOT_FOUND


def test_pipes_and_devices_are_not_pictures_and_are_not_waited_for(folder: Path) -> None:
    os.mkfifo(folder / "pipe.png")
    (folder / "zero.png").symlink_to("/dev/zero")

    async def ask() -> list[HTTPStatus]:
        async with asyncio.timeout(10):
            names = ("pipe.png", "zero.png")
            return [await asyncio.to_thread(refused, folder, name) for name in names]

    assert asyncio.run(ask()) == [HTTPStatus.NOT_FOUND, HTTPStatus.NOT_FOUND]


def test_a_picture_that_is_too_large_is_rejected(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "LARGEST_PICTURE", len(PNG) - 1)
    assert refused(folder, "ab/one.png") == HTTPStatus.REQUEST_ENTITY_TOO_LARGE


def test_without_a_folder_there_is_no_picture(folder: Path) -> None:
    assert refused(None, "ab/one.png") == HTTPStatus.NOT_FOUND
    assert refused(folder / "none", "ab/one.png") == HTTPStatus.NOT_FOUND


def refused(folder: Path | None, name: str) -> HTTPStatus:
    with pytest.raises(RequestError) as caught:
        read_picture(folder, name)
    return caught.value.status
