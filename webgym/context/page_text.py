"""A page as text: written for a model without vision, and read back exactly by programs.

    Address: "https://harbour.example/maps?page=2"
    Title: "Maps"
    Scroll: 600 pixels above the screen, 1632 below it
    Elements:
    [2] searchbox "Search" value="sextant" (focused, editable)
    [7] link "Charts" url="/charts"
    [9] combobox "Order" value="Price" (collapsed)
      [10] option "Price" (selected)
      [11] option "Name"
    Text:
    RootWebArea "Maps"
      heading "Maps and charts"

With coordinates an element starts with its middle instead of its mark, in thousandths of the
screenshot: `(512, 340) button "Add to cart"`; beyond 0 to 1000 it is out of view.

*Two steps.* `page_of` chooses what is shown of an observation, inside the limits, and counts what
is left out; `write_page` writes that, and `read_page` reads the same back.

*A page cannot forge lines.* Its texts about an element are quoted as JSON, and its own text comes
last. A server may turn `<|im_end|>` anywhere in a message into the token that ends it, and a page
may contain `</page>` or `<tool_call>`. So a `<` that could start a tag is written as `\\u003c` in
quotes and as `<\\` in the text, and no page can close its block, open a call, or write a control
token.
"""

import re

import msgspec

from webgym.browser.contract.answers import OpenTab, PageInfo
from webgym.browser.contract.commands import InteractionMode
from webgym.context.page_view import (
    AgentObservation,
    PageElement,
    PageOption,
    PageText,
    ScrollPosition,
    element_of,
    header_of,
    text_of,
)

_TAG_LIKE = re.compile(r"<(?=\\*[/|｜A-Za-z])")  # noqa: RUF001 - one that tokenizers know
_OTHER_TAG_LIKE = re.compile(rf"(?!</?(?:tool_call|think)>){_TAG_LIKE.pattern}")
_INERT = re.compile(r"<\\(?=\\*[/|｜A-Za-z])")  # noqa: RUF001
_CONTROL_TOKEN = re.compile(r"<([|｜])")  # noqa: RUF001


def escape_tags(text: str) -> str:
    """Put a backslash after each `<` that could start a tag; `unescape_tags` is the inverse."""
    return _TAG_LIKE.sub(r"<\\", text)


def escape_other_tags(text: str) -> str:
    """As `escape_tags`, except for the tags that a reply consists of: for our words about it."""
    return _OTHER_TAG_LIKE.sub(r"<\\", text)


def unescape_tags(text: str) -> str:
    """The text that `escape_tags` was given."""
    return _INERT.sub("<", text)


def quote_json(value: object) -> str:
    """JSON on one line, with `\\u003c` for each `<` that could start a tag."""
    return _TAG_LIKE.sub(r"\\u003c", msgspec.json.encode(value).decode())


def escape_control_tokens(text: str) -> str:
    """A reply as the history shows it: with its tags, without control tokens of the template."""
    return _CONTROL_TOKEN.sub(r"<\\\1", text)


OPENING, CLOSING = "<page>", "</page>"
PAGE_CHARACTERS = 20_000

_QUOTED = r'"(?:[^"\\\n]|\\.)*+"'
_HEADER = re.compile(
    rf"Address: (?P<url>{_QUOTED})\n"
    rf"Title: (?P<title>{_QUOTED})\n"
    r"(?:Status: (?P<status>[0-9]{1,15})\n)?"
    r"(?:Tabs: (?P<tabs>[0-9]{1,15})\n)?"
    rf"(?P<tab_list>(?:Tab [0-9]{{1,15}}(?: \(current\))?: {_QUOTED} {_QUOTED}\n)*+)"
    r"Scroll: (?P<above>[0-9]{1,15}) pixels above the screen, (?P<below>[0-9]{1,15}) below it\n?"
)
_TAB = re.compile(
    rf"Tab (?P<number>[0-9]+)(?P<current> \(current\))?: (?P<url>{_QUOTED}) (?P<title>{_QUOTED})\n"
)
_ELEMENTS = re.compile(r"Elements(?: \((?P<left_out>[0-9]{1,15}) more left out\))?:(?:\n|$)")
_TEXT = re.compile(r"Text(?: \((?P<left_out>[0-9]{1,15}) more characters left out\))?:\n")
_LINE = re.compile(
    r"(?:\[(?P<id>[0-9]{1,15})\]|\((?P<x>-?[0-9]{1,15}), (?P<y>-?[0-9]{1,15})\)) "
    rf"(?P<role>[A-Za-z]+|{_QUOTED}) (?P<name>{_QUOTED})"
    rf"(?P<details>(?: [a-z]+={_QUOTED})*+)"
    r"(?: \((?P<flags>[a-z ,]+)\))?(?: \+(?P<left_out>[0-9]{1,15}) options)?"
)
_OPTION = re.compile(
    rf"  (?:\[(?P<id>[0-9]{{1,15}})\] )?option (?P<text>{_QUOTED})(?P<selected> \(selected\))?"
)
_DETAIL = re.compile(rf" ([a-z]+)=({_QUOTED})")
_DETAILS = ("text", "type", "value", "placeholder", "url")


def write_header(page: PageInfo) -> str:
    """The page's address, title and scroll position."""
    return _header(header_of(page))


def write_page(
    current: AgentObservation, mode: InteractionMode, characters: int = PAGE_CHARACTERS
) -> str:
    """The page in about this many characters; `read_page` reads it."""
    page, elements = _chosen(current, mode, characters)
    left_out = f" ({page.elements_left_out} more left out)" if page.elements_left_out else ""
    lines = [_header(page), f"Elements{left_out}:", *elements]
    if page.text:
        left_out = f" ({page.text_left_out} more characters left out)" * bool(page.text_left_out)
        lines += [f"Text{left_out}:", escape_tags(page.text)]
    return "\n".join(lines)


def page_of(
    current: AgentObservation, mode: InteractionMode, characters: int = PAGE_CHARACTERS
) -> PageText:
    """The part that `write_page` shows: two thirds are for elements, the rest for text."""
    page, _ = _chosen(current, mode, characters)
    return page


def read_page(text: str) -> PageText | None:
    """The page in a message, or in the output of `write_page`; None if there is none."""
    try:
        return _read_block(_block(text))
    except (msgspec.DecodeError, UnicodeEncodeError):  # quotes that `write_page` never writes
        return None


def _read_block(block: str) -> PageText | None:
    header = _HEADER.match(block)
    if header is None:
        return None
    section = _ELEMENTS.match(block, header.end())
    elements, at = _read_elements(block, section.end() if section else header.end())
    prose = _TEXT.match(block, at)
    return PageText(
        url=_unquoted(header["url"]),
        title=_unquoted(header["title"]),
        status=int(header["status"]) if header["status"] else None,
        tabs=int(header["tabs"] or 1),
        tab_list=tuple(map(_read_tab, _TAB.finditer(header["tab_list"]))),
        scroll=ScrollPosition(int(header["above"]), int(header["below"])),
        elements=elements,
        elements_left_out=int(section["left_out"] or 0) if section else 0,
        text=unescape_tags(block[prose.end() :]) if prose else "",
        text_left_out=int(prose["left_out"] or 0) if prose else 0,
    )


def _chosen(
    current: AgentObservation, mode: InteractionMode, characters: int
) -> tuple[PageText, list[str]]:
    """The part that is shown, and its elements as text, whose length decides how many fit."""
    elements: list[PageElement] = []
    lines: list[str] = []
    room = characters * 2 // 3
    for element in current.elements:
        shown = element_of(element, current.page, mode)
        line = _element_lines(shown)
        if len(line) >= room:
            break
        room -= len(line) + 1
        elements.append(shown)
        lines.append(line)
    text = text_of(current.tree, mode)
    kept = _cut(text, room + characters - characters * 2 // 3)
    page = msgspec.structs.replace(
        header_of(current.page),
        elements=tuple(elements),
        elements_left_out=len(current.elements) - len(elements),
        text=kept,
        text_left_out=len(text) - len(kept),
    )
    return page, lines


def _header(page: PageText) -> str:
    lines = [f"Address: {quote_json(page.url)}", f"Title: {quote_json(page.title)}"]
    if page.status is not None:
        lines.append(f"Status: {page.status}")
    if page.tabs > 1:
        lines.append(f"Tabs: {page.tabs}")
        lines += map(_tab_line, page.tab_list)
    above, below = page.scroll.above, page.scroll.below
    return "\n".join([*lines, f"Scroll: {above} pixels above the screen, {below} below it"])


def _tab_line(tab: OpenTab) -> str:
    current = " (current)" if tab.current else ""
    return f"Tab {tab.number}{current}: {quote_json(tab.url)} {quote_json(tab.title)}"


def _read_tab(line: re.Match[str]) -> OpenTab:
    url, title = _unquoted(line["url"]), _unquoted(line["title"])
    return OpenTab(int(line["number"]), url, title, bool(line["current"]))


def _cut(text: str, limit: int) -> str:
    """At most `limit` characters of the text, in whole lines if possible."""
    if len(text) <= limit:
        return text
    end = text.rfind("\n", 0, limit + 1)
    return text[: end if end > 0 else limit]


def _element_lines(element: PageElement) -> str:
    aim = f"[{element.id}]" if element.point is None else f"{element.point}"
    is_word = element.role.isascii() and element.role.isalpha()
    role = element.role if is_word else quote_json(element.role)
    line = f"{aim} {role} {quote_json(element.name)}"
    for name in _DETAILS:
        detail = getattr(element, name)
        if detail is not None:
            line += f" {name}={quote_json(detail)}"
    if element.flags:
        line += f" ({', '.join(element.flags)})"
    if element.options_left_out:
        line += f" +{element.options_left_out} options"
    return "\n".join([line, *map(_option_line, element.options)])


def _option_line(option: PageOption) -> str:
    number = "" if option.id is None else f"[{option.id}] "
    return f"  {number}option {quote_json(option.text)}{' (selected)' * option.selected}"


def _block(text: str) -> str:
    """The text between the last opening tag and the next closing one; pages contain neither."""
    start = f"\n{text}".rfind(f"\n{OPENING}\n")
    if start < 0:
        return text
    start += len(OPENING) + 1
    end = text.find(f"\n{CLOSING}", start)
    return text[start : end if end >= 0 else len(text)]


def _read_elements(block: str, at: int) -> tuple[tuple[PageElement, ...], int]:
    elements: list[PageElement] = []
    while (line := _LINE.match(block, at)) is not None:
        at = line.end() + 1
        options: list[PageOption] = []
        while (entry := _OPTION.match(block, at)) is not None:
            number = int(entry["id"]) if entry["id"] else None
            options.append(PageOption(_unquoted(entry["text"]), number, bool(entry["selected"])))
            at = entry.end() + 1
        elements.append(_read_element(line, tuple(options)))
    return tuple(elements), at


def _read_element(line: re.Match[str], options: tuple[PageOption, ...]) -> PageElement:
    details = {name: _unquoted(value) for name, value in _DETAIL.findall(line["details"])}
    role = line["role"]
    return PageElement(
        id=int(line["id"]) if line["id"] else None,
        point=(int(line["x"]), int(line["y"])) if line["x"] else None,
        role=_unquoted(role) if role.startswith('"') else role,
        name=_unquoted(line["name"]),
        text=details.get("text"),
        type=details.get("type"),
        value=details.get("value"),
        placeholder=details.get("placeholder"),
        url=details.get("url"),
        flags=tuple(line["flags"].split(", ")) if line["flags"] else (),
        options=options,
        options_left_out=int(line["left_out"] or 0),
    )


def _unquoted(text: str) -> str:
    return msgspec.json.decode(text, type=str)
