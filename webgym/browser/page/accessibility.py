"""The accessibility tree of a whole tab: its page, the frames in it, and the numbers of the marks.

The browser gives the tree of one frame at a time and knows nothing of our numbers. It names the
elements that belong together, a frame's and a mark's, by the numbers of its own nodes.

It gives a frame's tree whole or not at all, and for tens of thousands of nodes that takes it half a
minute, in which the page stands still. So each frame is weighed first. Where the page is too heavy
our own script writes the beginning of its tree; frames that are too heavy are left out.
"""

import asyncio
import math
from collections import deque
from collections.abc import Awaitable, Iterable, Iterator, Sequence
from typing import TypeVar

import msgspec

from webgym.browser.chromium.connection import CallError
from webgym.browser.contract.answers import Element
from webgym.browser.page.errors import DocumentGoneError
from webgym.browser.page.script import MARKED_ELEMENTS, PageScript
from webgym.browser.page.tab import Tab
from webgym.browser.page.tree import AxNode, read_tree, tree_text

MOST_FRAMES = 30
MOST_WEIGHT = 10_000
"""Of all frames together. Each node weighs one, and text as much as it has lines: the browser makes
nodes of those. It takes about a second for so many."""
T = TypeVar("T")
_TREE = "Accessibility.getFullAXTree"
_WEIGH = f"""(() => {{
  let weight = 0;
  const roots = [document];
  const walkerOf = Document.prototype.createTreeWalker;  // a form's name may hide the document's
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
"""Elements and text of one frame; whatever is over the bound is not counted to the end."""


class _Frame(msgspec.Struct):
    id: str


class _FrameTree(msgspec.Struct, rename="camel"):
    frame: _Frame
    child_frames: list["_FrameTree"] = []


class _Frames(msgspec.Struct, rename="camel"):
    frame_tree: _FrameTree


class _Owner(msgspec.Struct, rename="camel"):
    backend_node_id: int


class _Described(msgspec.Struct):
    node: _Owner


_READ_FRAMES = msgspec.json.Decoder(_Frames).decode
_READ_OWNER = msgspec.json.Decoder(_Owner).decode
_READ_DESCRIBED = msgspec.json.Decoder(_Described).decode


async def accessibility_tree(
    tab: Tab, deadline: float, marked: Sequence[Element] | None = None
) -> str:
    """As text. `marked` are the elements just collected: their numbers are written beside them.

    Raises DocumentGoneError when the page navigates meanwhile.
    """
    try:
        page, *inner = await _weighed_frames(tab, deadline)
        if page.weight > MOST_WEIGHT:
            return await _outlined(tab, marked or (), deadline)
        light = list(_light(inner, MOST_WEIGHT - page.weight))
        nodes = read_tree(await tab.call(_TREE, deadline=deadline))
        marks = {} if marked is None else await _marked_nodes(tab, marked, deadline)
        found = await _all(_frame(tab, frame.id, deadline) for frame in light)
    except CallError as error:
        raise DocumentGoneError(str(error)) from error
    frames = dict(each for each in found if each is not None)
    return tree_text(nodes, marks=marks, frames=frames, whole=len(light) == len(inner))


async def _outlined(tab: Tab, marked: Sequence[Element], deadline: float) -> str:
    outline = await PageScript(tab.world).outline(deadline)
    marks = {element.id: element.id for element in marked if element.in_view}
    return tree_text(outline.nodes, marks=marks, whole=outline.whole)


class _Weighed(msgspec.Struct, frozen=True):
    id: str
    weight: float


async def _weighed_frames(tab: Tab, deadline: float) -> list[_Weighed]:
    """The page itself, then the frames in it; those beyond the bound are too heavy for anything."""
    answer = await tab.call("Page.getFrameTree", deadline=deadline)
    tree = _READ_FRAMES(answer).frame_tree
    page, *inner = [tree.frame.id, *_inner_frames(tree)]
    weights = await _all(_weight(tab, frame, deadline) for frame in (page, *inner[:MOST_FRAMES]))
    weights += [math.inf] * (1 + len(inner) - len(weights))
    pairs = zip((page, *inner), weights, strict=True)
    return [_Weighed(frame, weight) for frame, weight in pairs]


async def _weight(tab: Tab, frame: str, deadline: float) -> float:
    """One that goes away meanwhile weighs nothing."""
    try:
        return float(str(await tab.world.evaluate_in(frame, _WEIGH, deadline)))
    except CallError:
        return 0.0


def _light(frames: Iterable[_Weighed], room: float) -> Iterator[_Weighed]:
    """Those that can be asked for their trees."""
    for frame in frames:
        if frame.weight <= room:
            room -= frame.weight
            yield frame


async def _frame(tab: Tab, frame: str, deadline: float) -> tuple[int, tuple[AxNode, ...]] | None:
    params: dict[str, object] = {"frameId": frame}
    try:
        owner = await tab.call("DOM.getFrameOwner", params, deadline=deadline)
        tree = await tab.call(_TREE, params, deadline=deadline)
    except CallError:
        return None  # it went away meanwhile
    return _READ_OWNER(owner).backend_node_id, read_tree(tree)


def _inner_frames(tree: _FrameTree) -> list[str]:
    found: list[str] = []
    waiting = deque(tree.child_frames)
    while waiting:
        frame = waiting.popleft()
        found.append(frame.frame.id)
        waiting += frame.child_frames
    return found


async def _marked_nodes(tab: Tab, marked: Sequence[Element], deadline: float) -> dict[int, int]:
    """The number of each marked element by the browser's number for its node."""
    numbers = [element.id for element in marked if element.in_view]
    async with tab.world.handles(MARKED_ELEMENTS, deadline) as handles:
        nodes = await _all(_node(tab, handle, deadline) for handle in handles)
    pairs = zip(nodes, numbers, strict=False)
    return {node: number for node, number in pairs if node is not None}


async def _node(tab: Tab, handle: str | None, deadline: float) -> int | None:
    if handle is None:
        return None
    answer = await tab.call("DOM.describeNode", {"objectId": handle}, deadline=deadline)
    return _READ_DESCRIBED(answer).node.backend_node_id


async def _all(calls: Iterable[Awaitable[T]]) -> list[T]:
    """Their results; all have ended when the first error is raised."""
    results = await asyncio.gather(*calls, return_exceptions=True)
    for result in results:
        if isinstance(result, BaseException):
            raise result
    return [result for result in results if not isinstance(result, BaseException)]
