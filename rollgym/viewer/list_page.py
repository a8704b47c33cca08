"""The list: an overview, a filter, and a page of rollouts."""

from collections.abc import Iterator, Sequence

from rollgym.records import RowError
from rollgym.viewer.frame import NOTHING, Place, number, page, verdict
from rollgym.viewer.index import RolloutIndex
from rollgym.viewer.markup import Element, element, group
from rollgym.viewer.rollout import Rollout
from rollgym.viewer.selection import Filter, Overview

PAGE_SIZE = 50
_COLUMNS = ("Line", "Task", "Rollout", "Reward", "Success", "Tool calls", "Begins with")


def list_page(place: Place, index: RolloutIndex, wanted: Filter, number_of_page: int) -> bytes:
    """A page of the rollouts that fit; one beyond the last is the last."""
    lines = wanted.select(index.columns)
    pages = max(1, -(-len(lines) // PAGE_SIZE))
    current = min(max(1, number_of_page), pages)
    shown = lines[(current - 1) * PAGE_SIZE : current * PAGE_SIZE]
    overview = Overview.of(index.columns, lines)
    return page(
        place,
        place.section.capitalize(),
        _overview(overview),
        _unfinished(place, index),
        _form(place, wanted),
        _table(place, index, wanted, shown),
        _pages(place, wanted, current, pages),
    )


def _overview(overview: Overview) -> Element:
    rate = overview.success_rate
    numbers = {
        "rollouts": str(overview.rollouts),
        "mean reward": number(overview.mean_reward),
        "success rate": NOTHING if rate is None else f"{rate:.1%}",
    }
    if overview.unreadable:
        numbers["unreadable lines"] = str(overview.unreadable)
    pairs = (
        element("div", element("dt", name), element("dd", text)) for name, text in numbers.items()
    )
    return group("dl", pairs, class_="overview")


def _unfinished(place: Place, index: RolloutIndex) -> Element | None:
    rest = index.size - index.read
    if not rest or place.read < 1.0:
        return None
    text = f"Line {len(index) + 1} is not finished yet: it has {rest} bytes and no end."
    return element("p", text, class_="note")


def _form(place: Place, wanted: Filter) -> Element:
    options = (
        element("option", text, value=value, selected=wanted.query().get("success", "") == value)
        for text, value in (("any", ""), ("success", "true"), ("no success", "false"))
    )
    return element(
        "form",
        element("label", "Success ", group("select", options, name="success")),
        element("label", "Reward at least ", _input("min_reward", wanted, "decimal")),
        element("label", "Task ", _input("task", wanted, "numeric")),
        element("button", "Filter"),
        element("a", "Show all", href=place.url()) if wanted.query() else None,
        action=place.url(),
    )


def _input(name: str, wanted: Filter, mode: str) -> Element:
    value = wanted.query().get(name, "")
    return element("input", name=name, inputmode=mode, size=6, value=value, autocomplete="off")


def _table(place: Place, index: RolloutIndex, wanted: Filter, lines: Sequence[int]) -> Element:
    if not lines:
        return element("p", "Nothing fits the filter." if wanted.query() else "Nothing here yet.")
    head = group("tr", (element("th", name, scope="col") for name in _COLUMNS))
    rows = (_row(place, index, wanted, line) for line in lines)
    table = element("table", element("thead", head), group("tbody", rows))
    return element("div", table, class_="wide")


def _row(place: Place, index: RolloutIndex, wanted: Filter, line: int) -> Element:
    link = element("a", str(line), href=place.url(line, wanted.query()))
    try:
        rollout = Rollout(index.line(line))
    except RowError as error:
        problem = f"Line {line} cannot be read: {error}"
        return element("tr", element("td", link), element("td", problem, colspan=len(_COLUMNS) - 1))
    head = index.head(line)
    cells = (
        link,
        NOTHING if head.task is None else str(head.task),
        NOTHING if head.repeat is None else str(head.repeat),
        number(head.reward),
        element("span", rollout.failure_class) if rollout.failure_class else verdict(head.success),
        str(rollout.tool_calls),
        rollout.words,
    )
    return group("tr", (element("td", cell) for cell in cells))


def _pages(place: Place, wanted: Filter, current: int, pages: int) -> Element | None:
    if pages == 1:
        return None
    return group("nav", _page_links(place, wanted, current, pages), class_="pages")


def _page_links(place: Place, wanted: Filter, current: int, pages: int) -> Iterator[Element]:
    for text, target in (("First", 1), ("Previous", current - 1)):
        yield _page_link(place, wanted, text, target, active=current > 1)
    yield element("span", f"Page {current} of {pages}")
    for text, target in (("Next", current + 1), ("Last", pages)):
        yield _page_link(place, wanted, text, target, active=current < pages)


def _page_link(place: Place, wanted: Filter, text: str, target: int, *, active: bool) -> Element:
    if not active:
        return element("span", text, class_="off")
    return element("a", text, href=place.url(query={**wanted.query(), "page": str(target)}))
