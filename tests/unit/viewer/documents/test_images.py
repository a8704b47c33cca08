from base64 import b64encode
from pathlib import Path

import pytest

from rollgym.viewer.documents.images import dimensions, media_type_of, picture_of
from rollgym.viewer.view import PictureView
from tests.unit.viewer.documents.records import PIXEL, Surroundings, images, opened, turns

WITH_FOLDER = Surroundings(images=Path("shots"))


def shown(url: str, context: Surroundings | None = None) -> PictureView:
    content = [{"type": "image_url", "image_url": {"url": url}}]
    [turn] = turns({"role": "user", "content": content}, context=context)
    [image] = images(turn)
    return image


def test_a_picture_in_the_record_has_a_path_and_its_size() -> None:
    path = "/output/0/content/0/image_url/url"
    assert shown(PIXEL) == PictureView(path=path, width=5, height=5)


def test_a_picture_in_the_record_can_be_had_as_bytes() -> None:
    document = opened({"output": [{"role": "user", "content": [{"image_url": PIXEL}]}]})
    [image] = images(document.turns(0, 1)[0])
    picture = document.image(image.path)
    assert picture.media_type == "image/png"
    assert picture.data.startswith(b"\x89PNG")


def test_the_bytes_decide_what_a_picture_is() -> None:
    claimed = "data:image/jpeg;base64," + PIXEL.partition(",")[2]
    assert picture_of(claimed).media_type == "image/png"


def test_what_is_no_picture_that_is_shown_has_no_bytes() -> None:
    for url in [
        "data:image/svg+xml;base64,PHN2Zz48c2NyaXB0Lz48L3N2Zz4=",
        "data:image/svg+xml,<svg onload=alert(1)>",
        "data:text/html;base64,PHNjcmlwdD4=",
        "data:image/png;base64," + b64encode(b"<svg><script/></svg>").decode(),
        "data:image/png;base64,!!!!",
        "data:image/png;base64,abc",
        "https://elsewhere.example/x.png",
        "",
    ]:
        document = opened({"output": [{"role": "user", "content": [{"image_url": url}]}]})
        for path in ("/output/0/content/0/image_url", "/output/0", "/nothing", "nonsense", ""):
            with pytest.raises(KeyError):
                document.image(path)


def test_a_picture_elsewhere_is_named_and_not_loaded() -> None:
    for url, note in [
        ("https://elsewhere.example/x.png", "https://elsewhere.example/x.png"),
        ("data:image/svg+xml;base64,AAAA", "data of a type that is not shown: image/svg+xml"),
        ("javascript:alert(1)", "javascript:alert(1)"),
    ]:
        assert shown(url, WITH_FOLDER) == PictureView(note=note)


def test_a_relative_path_is_a_file_of_the_source() -> None:
    assert shown("./e0//shot.PNG", WITH_FOLDER) == PictureView(file="e0/shot.PNG")
    assert shown("e0/shot.png") == PictureView(note="e0/shot.png")


def test_a_path_that_leads_out_or_is_no_picture_is_no_file() -> None:
    for path in [
        "/etc/x.png",
        "../x.png",
        "a/../../x.png",
        "a\\..\\x.png",
        "file:x.png",
        "x.svg",
        "x",
        "a\0.png",
    ]:
        assert shown(path, WITH_FOLDER).file == ""


def test_dimensions_are_read_from_every_kind() -> None:
    jpeg = b"\xff\xd8\xff\xe0\x00\x04ab\xff\xc2\x00\x0b\x08\x00\x20\x00\x40\x03"
    gif = b"GIF89a\x40\x00\x20\x00"
    riff = b"RIFF\0\0\0\0WEBP"
    extended = riff + b"VP8X" + bytes(8) + b"\x3f\0\0\x1f\0\0"
    lossless = riff + b"VP8L" + bytes(5) + (63 | 31 << 14).to_bytes(4, "little")
    lossy = riff + b"VP8 " + bytes(10) + b"\x40\0\x20\0"
    for head in (jpeg, gif, extended, lossless, lossy):
        assert dimensions(head) == (64, 32), head
    for head in (b"", b"GIF89a", jpeg[:9], b"\xff\xd8\xff" + bytes(40), riff + b"XXXX"):
        assert dimensions(head) is None, head


def test_svg_is_no_picture() -> None:
    assert media_type_of(b"<svg xmlns='http://www.w3.org/2000/svg'/>") is None
