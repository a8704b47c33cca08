"""What an agent observes of a page, and what a chat shows of it as text.

An `AgentObservation` holds everything that a step in the browser returned. A `PageText` is the part
of it that is shown as text: chosen, bounded, and with the number of things that were left out.
"""

import re
from collections.abc import Iterator, Sequence
from urllib.parse import urlsplit

import msgspec

from rollgym.records.failure import cut_text
from webgym.actions.space import FULL_SCALE
from webgym.browser.contract.answers import Element, Incident, OpenTab, Option, PageInfo, Picture
from webgym.browser.contract.commands import InteractionMode
from webgym.trajectory.records import Step


class AgentObservation(msgspec.Struct, frozen=True, kw_only=True):
    """The current page.

    `blob` names the stored picture; `tree` is the accessibility tree, if it was asked for.
    `feedback` is for the model: why its last reply was not an action, or why the action failed.
    `incidents` are what happened besides: dialogs, refused downloads and addresses, tabs.
    """

    page: PageInfo
    picture: Picture | None = None
    blob: str = ""
    elements: tuple[Element, ...] = ()
    tree: str | None = None
    feedback: str | None = None
    incidents: tuple[Incident, ...] = ()


class Round(msgspec.Struct, frozen=True):
    """A finished step with its observation.

    The pictures, elements and trees of rounds that are out of the window may be dropped.
    """

    observation: AgentObservation
    step: Step


INCIDENTS = 5
INCIDENT_CHARACTERS = 300
_HAPPENED = {
    "dialog": "The page showed a dialog",
    "new_tab": "A new tab was opened and is the current one",
    "tab_closed": "A tab was closed",
    "download": "A download",
    "refused": "An address was refused",
}


def write_incidents(incidents: tuple[Incident, ...]) -> list[str]:
    """What happened to an agent, one line each; of many the first ones."""
    texts = {
        f"{_HAPPENED.get(each.kind, each.kind)}: {' '.join(each.detail.split())}": None
        for each in incidents
    }
    lines = [text[:INCIDENT_CHARACTERS] for text in texts][:INCIDENTS]
    more = len(texts) - len(lines)
    return [*lines, f"{more} more like these"] if more else lines


NUMBER_RANGES = 20


def write_numbers(elements: Sequence[Element]) -> str:
    """The numbers of these elements, such as `1 to 7, 9`; of many ranges the first ones."""
    ranges: list[tuple[int, int]] = []
    for number in sorted(element.id for element in elements):
        if ranges and number == ranges[-1][1] + 1:
            ranges[-1] = (ranges[-1][0], number)
        else:
            ranges.append((number, number))
    texts = [f"{low} to {high}" if high > low else f"{low}" for low, high in ranges]
    return ", ".join(texts[:NUMBER_RANGES] + ["…"] * (len(texts) > NUMBER_RANGES))


OPTIONS_EACH = 50
NAME_LIMIT = 300
URL_LIMIT = 500
HREF_LIMIT = 120
FARTHEST = 100_000

_MARK = re.compile(r"^( *)\[[0-9]+\] ", re.MULTILINE)


class ScrollPosition(msgspec.Struct, frozen=True):
    """How many pixels of the page are above and below the screen."""

    above: int = 0
    below: int = 0


class PageOption(msgspec.Struct, frozen=True):
    """One entry of a drop-down list; `id` is its mark, if elements have marks."""

    text: str
    id: int | None = None
    selected: bool = False


class PageElement(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An element, with its mark (`id`) or with its point in thousandths of the screen.

    `text` is its text, if that is neither its name nor its value. `flags` are among checked,
    unchecked, expanded, collapsed, disabled, focused, editable, scrollable, out of view.
    """

    id: int | None = None
    point: tuple[int, int] | None = None
    role: str
    name: str
    text: str | None = None
    type: str | None = None
    value: str | None = None
    placeholder: str | None = None
    url: str | None = None
    flags: tuple[str, ...] = ()
    options: tuple[PageOption, ...] = ()
    options_left_out: int = 0


class PageText(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The part of a page that is shown as text, and how much is left out."""

    url: str
    title: str
    status: int | None = None
    tabs: int = 1
    tab_list: tuple[OpenTab, ...] = ()
    scroll: ScrollPosition = ScrollPosition()
    elements: tuple[PageElement, ...] = ()
    elements_left_out: int = 0
    text: str = ""
    text_left_out: int = 0


def header_of(page: PageInfo) -> PageText:
    """The page's address, title and scroll position, without its content."""
    hidden = page.page_height - page.scroll_y - page.height
    return PageText(
        url=cut_text(page.url, URL_LIMIT),
        title=cut_text(page.title, NAME_LIMIT),
        status=page.status if page.status is not None and page.status >= 400 else None,
        tabs=max(1, page.tabs),
        tab_list=tuple(map(_tab, page.tab_list)) if page.tabs > 1 else (),
        scroll=ScrollPosition(_whole(page.scroll_y, 0, 10**9), _whole(hidden, 0, 10**9)),
    )


def _tab(tab: OpenTab) -> OpenTab:
    url, title = cut_text(tab.url, HREF_LIMIT), cut_text(tab.title, HREF_LIMIT)
    return msgspec.structs.replace(tab, url=url, title=title)


def element_of(element: Element, page: PageInfo, mode: InteractionMode) -> PageElement:
    """The part of an element that is shown."""
    marks = mode == "set_of_marks"
    value, placeholder = element.value, element.placeholder or None
    name = element.name or element.text
    text = element.text if element.text not in {"", name, value, placeholder} else None
    plain_type = element.tag != "input" or element.type in {None, "text", "submit", "button"}
    return PageElement(
        id=element.id if marks else None,
        point=None if marks else _middle(element, page),
        role=cut_text(element.role or element.tag, NAME_LIMIT),
        name=cut_text(name, NAME_LIMIT),
        text=_bounded(text),
        type=None if plain_type else _bounded(element.type),
        value=_bounded(value),
        placeholder=None if placeholder == name else _bounded(placeholder),
        url=_relative(element.href, page.url) if element.href else None,
        flags=tuple(_flags(element)),
        options=tuple(_option(each, marks) for each in element.options[:OPTIONS_EACH]),
        options_left_out=max(0, len(element.options) - OPTIONS_EACH),
    )


def text_of(tree: str | None, mode: InteractionMode) -> str:
    """The page's text, without marks if elements have none."""
    text = tree or ""
    return _MARK.sub(r"\1", text) if mode == "coordinates" else text


def _option(option: Option, marks: bool) -> PageOption:
    text = cut_text(option.text or option.value, NAME_LIMIT)
    return PageOption(text, option.id if marks else None, option.selected)


def _flags(element: Element) -> Iterator[str]:
    if element.checked is not None:
        yield "checked" if element.checked else "unchecked"
    if element.expanded is not None:
        yield "expanded" if element.expanded else "collapsed"
    for name in ("disabled", "focused", "editable", "scrollable"):
        if getattr(element, name):
            yield name
    if not element.in_view:
        yield "out of view"


def _middle(element: Element, page: PageInfo) -> tuple[int, int]:
    """The middle of its visible part; of an element out of view, the middle of the whole."""
    box, ends = element.box, []
    for start, length, size in (
        (box.x, box.width, page.width),
        (box.y, box.height, page.height),
    ):
        low, high = start, start + length
        limits = (-FARTHEST, FARTHEST)
        if element.in_view:
            low, high, limits = max(low, 0), min(high, size), (0, FULL_SCALE)
        ends.append(_whole((low + high) / 2 * FULL_SCALE / max(1, size), *limits))
    return ends[0], ends[1]


def _whole(number: float, lowest: int, highest: int) -> int:
    """Rounded and bounded; NaN becomes the highest."""
    return round(max(lowest, min(highest, number)))


def _relative(href: str, base: str) -> str:
    """The URL without its origin, if that is the page's own."""
    try:
        here, there = urlsplit(base), urlsplit(href)
    except ValueError:
        return cut_text(href, HREF_LIMIT)
    if there.netloc and (there.scheme, there.netloc) == (here.scheme, here.netloc):
        origin = f"{there.scheme}://{there.netloc}"
        href = (href[len(origin) :] or "/") if href.startswith(origin) else href
    return cut_text(href, HREF_LIMIT)


def _bounded(text: str | None) -> str | None:
    return None if text is None else cut_text(text, NAME_LIMIT)
