"""What can be read off a page of the viewer, as numbers and places."""

import re
from typing import Any

from playwright.sync_api import Locator, Page, expect

from tests.e2e.viewer.serving import Viewer

WITHIN = """(element, picture) => {
  const shot = document.querySelector(picture).getBoundingClientRect();
  const box = element.getBoundingClientRect();
  return [(box.x + box.width / 2 - shot.x) / shot.width,
          (box.y + box.height / 2 - shot.y) / shot.height];
}"""
SCREENSHOT = ".shot-picture img"


def total(page: Page) -> int:
    """How many rollouts the list says there are, once it says so."""
    words = page.locator(".total")
    expect(words).to_have_text(re.compile(r"^[\d,]+ rollouts?$"))
    return number(words.text_content())


def counted(words: str | None) -> int:
    """The number of rollouts in the name of a bar."""
    found = re.search(r"([\d,]+) rollouts?", words or "")
    assert found, words
    return number(found[1])


def number(words: str | None) -> int:
    """The first whole number in some words."""
    found = re.search(r"\d[\d,]*", words or "")
    assert found, words
    return int(found[0].replace(",", ""))


def share(words: str | None) -> float:
    """The percentage in some words, as a fraction; it was rounded to a whole percent."""
    found = re.search(r"([\d.]+)\s%", words or "")
    assert found, words
    return float(found[1]) / 100


def centre(element: Locator) -> tuple[float, float]:
    """Where the middle of something is, in fractions of the screenshot it is drawn on."""
    x, y = element.evaluate(WITHIN, SCREENSHOT)
    return float(x), float(y)


def loaded(image: Locator) -> None:
    """Until a picture is there."""
    expect(image).to_have_js_property("complete", True)
    assert image.evaluate("(image) => image.naturalWidth") > 0


def entries(viewer: Viewer, source: str, query: str = "") -> list[dict[str, Any]]:
    """What the list has for a query."""
    answer = viewer.json(f"/api/s/{source}/rollouts?limit=500&{query}")
    found: list[dict[str, Any]] = answer["entries"]
    return found
