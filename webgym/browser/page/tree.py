"""The accessibility tree of a page as text: one line for each thing that means something.

`Accessibility.getFullAXTree` gives the browser's own tree of one frame, thousands of nodes for a
middling page. Most carry nothing: boxes of text that repeat the text above them, containers without
a name. `tree_text` leaves those out, lifts their children, and writes the rest indented:

    RootWebArea "Harbour Books"
      navigation "Departments"
        [7] link "Maps" url=/maps
      [2] searchbox "Search" value="sextant" (focused)

The numbers are those of the set of marks. The tree does not know them: the caller says which
backend node each marked element is (`marks`), and hands over the trees of inner frames, by the
backend node of the frame's element (`frames`).
"""

from collections.abc import Iterator, Mapping, Sequence

import msgspec

LINE_LIMIT = 1_500
CHARACTER_LIMIT = 80_000
TEXT_LIMIT = 200
URL_LIMIT = 120

# Without a name these say nothing of their own.
_PLAIN = frozenset(
    {"none", "generic", "GenericContainer", "group", "paragraph", "LabelText", "MenuListPopup"}
    | {"presentation", "Section", "rowgroup", "LayoutTable", "LayoutTableRow", "LayoutTableCell"}
    | {"Abbr", "emphasis", "strong", "mark", "sectionheader", "sectionfooter", "ListMarker"}
    | {"image", "img", "SvgRoot"}
)
_DROPPED = frozenset({"InlineTextBox", "LineBreak"})
_NO_CHILDREN: frozenset[str] = frozenset({"textbox", "searchbox", "spinbutton", "slider", "Date"})
_PUNCTUATION = " ,.;:|/()[]·•-–—"  # noqa: RUF001 - dashes as pages write them
_STATES = ("focused", "disabled", "readonly", "required", "selected", "pressed", "multiselectable")


class AxValue(msgspec.Struct, frozen=True):
    value: str | bool | int | float | dict[str, object] | list[object] | None = None

    @property
    def text(self) -> str:
        match self.value:
            case None | dict() | list():
                return ""
            case bool():
                return "true" if self.value else "false"
            case _:
                return " ".join(str(self.value).split())


class AxProperty(msgspec.Struct, frozen=True):
    name: str
    value: AxValue


class AxNode(msgspec.Struct, frozen=True):
    """One node as the browser gives it; what we do not use is not decoded."""

    node_id: str = msgspec.field(name="nodeId")
    ignored: bool = False
    role: AxValue = AxValue()
    name: AxValue = AxValue()
    value: AxValue = AxValue()
    properties: tuple[AxProperty, ...] = ()
    parent_id: str | None = msgspec.field(name="parentId", default=None)
    child_ids: tuple[str, ...] = msgspec.field(name="childIds", default=())
    backend_id: int | None = msgspec.field(name="backendDOMNodeId", default=None)


class Outline(msgspec.Struct, frozen=True):
    """A tree that our script wrote; not `whole` where the page has more than it had room for."""

    nodes: tuple[AxNode, ...]
    whole: bool


class _Answer(msgspec.Struct, frozen=True):
    nodes: tuple[AxNode, ...]


_READ_ANSWER = msgspec.json.Decoder(_Answer).decode


class _Visit(msgspec.Struct, frozen=True):
    node: AxNode
    depth: int
    said: str
    """What the nearest line above says: text that only repeats it is left out."""
    tree: Mapping[str, AxNode]


def read_tree(answer: msgspec.Raw | bytes) -> tuple[AxNode, ...]:
    """The nodes in the answer of `Accessibility.getFullAXTree`."""
    return _READ_ANSWER(answer).nodes


def tree_text(
    nodes: Sequence[AxNode],
    *,
    marks: Mapping[int, int] | None = None,
    frames: Mapping[int, Sequence[AxNode]] | None = None,
    whole: bool = True,
    line_limit: int = LINE_LIMIT,
    character_limit: int = CHARACTER_LIMIT,
) -> str:
    """The tree as indented lines, bounded; the last line says how many were left out.

    Where the nodes are not the `whole` page it says that there is more.
    """
    lines: list[str] = []
    characters = left_out = 0
    for line in _lines(nodes, marks or {}, frames or {}):
        characters += len(line) + 1
        if left_out or len(lines) >= line_limit or characters > character_limit:
            left_out += 1
        else:
            lines.append(line)
    if left_out or not whole:
        many = f"{left_out} more lines" if whole else "the rest of this large page"
        lines.append(f"… ({many} left out)")
    return "\n".join(lines)


def _lines(
    nodes: Sequence[AxNode], marks: Mapping[int, int], frames: Mapping[int, Sequence[AxNode]]
) -> Iterator[str]:
    waiting = _roots(nodes, 0)
    seen: set[int] = set()
    last = ""
    while waiting:
        visit = waiting.pop()
        node = visit.node
        if id(node) in seen:
            continue
        seen.add(id(node))
        depth, said = visit.depth, visit.said
        mark = marks.get(node.backend_id) if node.backend_id is not None else None
        if _is_worth_a_line(node, (said, last), mark):
            yield "  " * depth + _line(node, mark)
            depth += 1
            said = last = node.name.text
        if node.backend_id is not None and node.backend_id in frames:
            waiting += _roots(frames[node.backend_id], depth)
        elif node.role.text not in _NO_CHILDREN:
            children = [visit.tree[child] for child in node.child_ids if child in visit.tree]
            waiting += [_Visit(child, depth, said, visit.tree) for child in reversed(children)]


def _roots(nodes: Sequence[AxNode], depth: int) -> list[_Visit]:
    tree = {node.node_id: node for node in nodes}
    roots = [node for node in nodes if node.parent_id not in tree]
    return [_Visit(root, depth, "", tree) for root in reversed(roots)]


def _is_worth_a_line(node: AxNode, said: tuple[str, str], mark: int | None) -> bool:
    role = node.role.text
    if role in _DROPPED:
        return False
    if mark is not None:
        return True
    if node.ignored:
        return False
    name = node.name.text
    around, last = said
    if role == "StaticText":
        return bool(name.strip(_PUNCTUATION)) and name not in around and name != last
    if role == "heading" and name == around:
        return False
    return bool(name) or role not in _PLAIN


def _line(node: AxNode, mark: int | None) -> str:
    role = node.role.text
    parts = [] if mark is None else [f"[{mark}]"]
    parts.append("text" if role == "StaticText" else role or "generic")
    name = node.name.text
    if name:
        parts.append(f'"{_cut(name, TEXT_LIMIT)}"')
    parts += _details(node, name)
    return " ".join(parts)


def _details(node: AxNode, name: str) -> Iterator[str]:
    properties = {each.name: each.value.text for each in node.properties}
    value = node.value.text
    if value and value != name:
        yield f'value="{_cut(value, TEXT_LIMIT)}"'
    if "level" in properties:
        yield f"level={properties['level']}"
    if node.role.text == "link" and properties.get("url"):
        yield f"url={_cut(properties['url'], URL_LIMIT)}"
    for state in ("checked", "expanded"):
        if state in properties:
            yield f"{state}={properties[state]}"
    states = [state for state in _STATES if properties.get(state) == "true"]
    if properties.get("invalid") not in {None, "", "false"}:
        states.append("invalid")
    if states:
        yield f"({', '.join(states)})"


def _cut(text: str, limit: int) -> str:
    return text if len(text) <= limit else f"{text[: limit - 1]}…"
