"""The accessibility tree of a tab as text, with its frames and the numbers of the marks.

`Accessibility.getFullAXTree` returns the browser's tree of one frame: thousands of nodes for a
medium page. Most of them add nothing: text boxes that repeat the text above them, containers
without a name. `tree_text` leaves those out, moves their children up, and writes the rest indented.
A sentence stays whole, although its bold words and links without a line of their own are nodes:

    RootWebArea "Harbour Books"
      navigation "Departments"
        [7] link "Maps" url=/maps
      text "Enter \"sextant\" and press Search."
      [2] searchbox "Search" value="sextant" (focused)

The numbers are those of the set of marks. The browser does not know them: it identifies elements
and frames by its own node numbers, and the caller passes the backend node of each marked element
(`marks`) and the trees of inner frames by the backend node of their element (`frames`).

The browser returns the tree of a frame completely or not at all. For tens of thousands of nodes
that takes half a minute, in which the page does nothing else. So each frame is weighed first. If
the page is too heavy, our own script writes the beginning of its tree; frames that are too heavy
are left out.
"""

import asyncio
import math
from collections import deque
from collections.abc import Awaitable, Iterable, Iterator, Mapping, Sequence
from typing import TypeVar

import msgspec

from rollgym.records.failure import cut_text
from webgym.browser.chromium.connection import CallError
from webgym.browser.contract.answers import Element
from webgym.browser.page.activity import FrameInfo
from webgym.browser.page.elements import AxNode, AxValue, DocumentGoneError
from webgym.browser.page.script import NUMBERED_ELEMENTS, PageScript
from webgym.browser.page.tab import Tab
from webgym.browser.page.world import ScriptWorld

LINE_LIMIT = 1_500
CHARACTER_LIMIT = 80_000
TEXT_LIMIT = 200
SENTENCE_LIMIT = 2_000
URL_LIMIT = 120

# These roles carry no information without a name.
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


class _TreeResult(msgspec.Struct, frozen=True):
    nodes: tuple[AxNode, ...]


_READ_ANSWER = msgspec.json.Decoder(_TreeResult).decode


class _FrameNodes(msgspec.Struct, frozen=True):
    """The nodes of one frame by their ids, and the ids of those that were visited."""

    nodes: Mapping[str, AxNode]
    visited: set[str]


class _TreeVisit(msgspec.Struct, frozen=True):
    node: AxNode
    depth: int
    said: str
    """The text of the nearest line above: text that only repeats it is left out."""
    frame: _FrameNodes


def read_tree(answer: msgspec.Raw | bytes) -> tuple[AxNode, ...]:
    """The nodes in the answer of `Accessibility.getFullAXTree`."""
    return _READ_ANSWER(answer).nodes


def tree_text(
    nodes: Sequence[AxNode],
    *,
    marks: Mapping[int, int] | None = None,
    frames: Mapping[int, Sequence[AxNode]] | None = None,
    whole: bool = True,
) -> str:
    """The tree as indented lines, bounded; the last line says how many were left out.

    If the nodes are not the `whole` page, the last line says that there is more.
    """
    lines: list[str] = []
    characters = left_out = 0
    for line in _lines(nodes, marks or {}, frames or {}):
        characters += len(line) + 1
        if left_out or len(lines) >= LINE_LIMIT or characters > CHARACTER_LIMIT:
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
    waiting, unread = _roots(nodes, 0), dict(frames)
    last = ""
    while waiting:
        visit = waiting.pop()
        node, frame = visit.node, visit.frame
        if node.node_id in frame.visited:
            continue
        frame.visited.add(node.node_id)
        depth, said = visit.depth, visit.said
        mark = marks.get(node.backend_id) if node.backend_id is not None else None
        if _needs_line(node, (said, last), mark):
            yield "  " * depth + _line(node, mark)
            depth += 1
            said = last = node.name.text
        if node.backend_id is not None and node.backend_id in unread:
            waiting += _roots(unread.pop(node.backend_id), depth)
        elif node.role.text not in _NO_CHILDREN:
            children = _whole_texts(
                frame.nodes[child] for child in node.child_ids if child in frame.nodes
            )
            waiting += [_TreeVisit(child, depth, said, frame) for child in reversed(children)]


def _whole_texts(children: Iterable[AxNode]) -> list[AxNode]:
    """The children, with adjacent texts as one: a bold word splits a sentence into three.

    Texts of our own outline stay apart, because they have lost the spaces between them.
    """
    whole: list[AxNode] = []
    for child in children:
        last = whole[-1] if whole else None
        if last is not None and _is_text(child) and _is_text(last):
            said = str(last.name.value or "")
            if len(said) < SENTENCE_LIMIT:
                name = AxValue(f"{said}{child.name.value or ''}")
                whole[-1] = msgspec.structs.replace(last, name=name, child_ids=())
                continue
        whole.append(child)
    return whole


def _is_text(node: AxNode) -> bool:
    return node.role.text == "StaticText" and not node.ignored and node.backend_id is not None


def _roots(nodes: Sequence[AxNode], depth: int) -> list[_TreeVisit]:
    frame = _FrameNodes({node.node_id: node for node in nodes}, set())
    roots = [node for node in nodes if node.parent_id not in frame.nodes]
    return [_TreeVisit(root, depth, "", frame) for root in reversed(roots)]


def _needs_line(node: AxNode, said: tuple[str, str], mark: int | None) -> bool:
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
        parts.append(_quoted(name, SENTENCE_LIMIT if role == "StaticText" else TEXT_LIMIT))
    parts += _details(node, name)
    return " ".join(parts)


def _details(node: AxNode, name: str) -> Iterator[str]:
    properties = {each.name: each.value.text for each in node.properties}
    value = node.value.text
    if value and value != name:
        yield f"value={_quoted(value, TEXT_LIMIT)}"
    if "level" in properties:
        yield f"level={properties['level']}"
    if node.role.text == "link" and properties.get("url"):
        yield f"url={cut_text(properties['url'], URL_LIMIT)}"
    for state in ("checked", "expanded"):
        if state in properties:
            yield f"{state}={properties[state]}"
    states = [state for state in _STATES if properties.get(state) == "true"]
    if properties.get("invalid") not in {None, "", "false"}:
        states.append("invalid")
    if states:
        yield f"({', '.join(states)})"


def _quoted(text: str, limit: int) -> str:
    """As JSON: quotes in the text are escaped."""
    return msgspec.json.encode(cut_text(text, limit)).decode()


MOST_FRAMES = 30
MOST_WEIGHT = 10_000
"""Of all frames together. Each node weighs one, and text one per line, because the browser makes a
node of each line. The browser takes about a second for this many."""
T = TypeVar("T")
_TREE = "Accessibility.getFullAXTree"
_WEIGH = f"""(() => {{
  let weight = 0;
  const roots = [document];
  const walkerOf = Document.prototype.createTreeWalker;  // a form's name may hide the method
  while (roots.length) {{
    const walker = walkerOf.call(document, roots.pop(), {0x1 | 0x4});
    for (let node = walker.nextNode(); node; node = walker.nextNode()) {{
      weight += 1 + (node.nodeType === 3 ? node.length / 80 : 0);
      if (weight > {MOST_WEIGHT}) return weight;
      if (node.shadowRoot) roots.push(node.shadowRoot);
    }}
  }}
  return weight;
}})()"""
"""Counts the elements and text of one frame; stops counting above the limit."""


class _FrameTree(msgspec.Struct, rename="camel"):
    frame: FrameInfo
    child_frames: list["_FrameTree"] = []


class _Frames(msgspec.Struct, rename="camel"):
    frame_tree: _FrameTree


class _Owner(msgspec.Struct, rename="camel"):
    backend_node_id: int


class _DescribedNode(msgspec.Struct):
    node: _Owner


_READ_FRAMES = msgspec.json.Decoder(_Frames).decode
_READ_OWNER = msgspec.json.Decoder(_Owner).decode
_READ_DESCRIBED = msgspec.json.Decoder(_DescribedNode).decode


async def accessibility_tree(
    tab: Tab, deadline: float, marked: Sequence[Element] | None = None
) -> str:
    """The tree as text. `marked` are the elements just collected: the tree shows their numbers.

    Raises DocumentGoneError if the page navigates meanwhile.
    """
    try:
        (_, weight), *inner = await _weighed_frames(tab, deadline)
        if weight > MOST_WEIGHT:
            return await _outlined(tab, marked or (), deadline)
        light = list(_light(inner, MOST_WEIGHT - weight))
        nodes = read_tree(await tab.call(_TREE, deadline=deadline))
        marks = {} if marked is None else await _marks(tab, marked, deadline)
        found = await _all(_frame(tab, frame, deadline) for frame in light)
    except CallError as error:
        raise DocumentGoneError(str(error)) from error
    frames = dict(each for each in found if each is not None)
    return tree_text(nodes, marks=marks, frames=frames, whole=len(light) == len(inner))


async def _outlined(tab: Tab, marked: Sequence[Element], deadline: float) -> str:
    outline = await PageScript(tab.world).outline(deadline)
    marks = {element.id: element.id for element in marked if element.in_view}
    return tree_text(outline.nodes, marks=marks, whole=outline.whole)


async def _weighed_frames(tab: Tab, deadline: float) -> list[tuple[str, float]]:
    """The page, then its frames, with weights. Frames beyond `MOST_FRAMES` weigh infinitely."""
    answer = await tab.call("Page.getFrameTree", deadline=deadline)
    frames = _frames(_READ_FRAMES(answer).frame_tree)
    weights = await _all(_weight(tab, frame, deadline) for frame in frames[: 1 + MOST_FRAMES])
    weights += [math.inf] * (len(frames) - len(weights))
    return list(zip(frames, weights, strict=True))


async def _weight(tab: Tab, frame: str, deadline: float) -> float:
    """Zero for a frame that is removed meanwhile."""
    try:
        return float(str(await tab.world.evaluate_in(frame, _WEIGH, deadline)))
    except CallError:
        return 0.0


def _light(frames: Iterable[tuple[str, float]], budget: float) -> Iterator[str]:
    """The frames whose trees fit into the budget."""
    for frame, weight in frames:
        if weight <= budget:
            budget -= weight
            yield frame


async def _frame(tab: Tab, frame: str, deadline: float) -> tuple[int, tuple[AxNode, ...]] | None:
    params: dict[str, object] = {"frameId": frame}
    try:
        owner = await tab.call("DOM.getFrameOwner", params, deadline=deadline)
        tree = await tab.call(_TREE, params, deadline=deadline)
    except CallError:
        return None  # it was removed meanwhile
    return _READ_OWNER(owner).backend_node_id, read_tree(tree)


def _frames(tree: _FrameTree) -> list[str]:
    """The page and its inner frames, the outer ones first."""
    found: list[str] = []
    waiting = deque([tree])
    while waiting:
        frame = waiting.popleft()
        found.append(frame.frame.id)
        waiting += frame.child_frames
    return found


async def _marks(tab: Tab, marked: Sequence[Element], deadline: float) -> dict[int, int]:
    numbers = [element.id for element in marked if element.in_view]
    return await _numbered_nodes(tab, tab.world, numbers, deadline)


async def _numbered_nodes(
    tab: Tab, world: ScriptWorld, numbers: Iterable[int], deadline: float
) -> dict[int, int]:
    """The number of each of these elements, by the backend node of the browser."""
    own = [number for number in numbers if number not in world.adopted]
    async with world.handles(NUMBERED_ELEMENTS, deadline, *own) as handles:
        nodes = await _all(_node(tab, handle, deadline) for handle in handles)
    found = {node: number for node, number in zip(nodes, own, strict=False) if node is not None}
    frames: dict[int, dict[int, int]] = {}
    for number in numbers:
        if number in world.adopted:
            frame, local = world.adopted[number]
            frames.setdefault(frame, {})[local] = number
    for frame, locals_ in frames.items():
        inner = await world.frame(frame, deadline)
        there = await _numbered_nodes(tab, inner, locals_, deadline)
        found |= {node: locals_[local] for node, local in there.items()}
    return found


async def _node(tab: Tab, handle: str | None, deadline: float) -> int | None:
    if handle is None:
        return None
    answer = await tab.call("DOM.describeNode", {"objectId": handle}, deadline=deadline)
    return _READ_DESCRIBED(answer).node.backend_node_id


async def _all(calls: Iterable[Awaitable[T]]) -> list[T]:
    """The results of all calls. The first error is raised when all have ended."""
    results = await asyncio.gather(*calls, return_exceptions=True)
    for result in results:
        if isinstance(result, BaseException):
            raise result
    return [result for result in results if not isinstance(result, BaseException)]
