"""The accessibility tree of a whole tab: its page, the frames in it, and the numbers of the marks.

The browser gives the tree of one frame at a time and knows nothing of our numbers. It names the
elements that belong together, a frame's and a mark's, by the numbers of its own nodes.
"""

import asyncio
from collections.abc import Awaitable, Iterable, Sequence
from typing import TypeVar

import msgspec

from webgym.browser.chromium.connection import CallError
from webgym.browser.contract.answers import Element
from webgym.browser.page.script import MARKED_ELEMENTS
from webgym.browser.page.tab import DocumentGoneError, Tab
from webgym.browser.page.tree import AxNode, read_tree, tree_text

MOST_FRAMES = 30
T = TypeVar("T")
_TREE = "Accessibility.getFullAXTree"


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
        nodes = read_tree(await tab.call(_TREE, deadline=deadline))
        marks = {} if marked is None else await _marked_nodes(tab, marked, deadline)
        frames = await _frames(tab, deadline)
    except CallError as error:
        raise DocumentGoneError(str(error)) from error
    return tree_text(nodes, marks=marks, frames=frames)


async def _frames(tab: Tab, deadline: float) -> dict[int, tuple[AxNode, ...]]:
    """The trees of the frames, by the node of the element that holds each."""
    answer = await tab.call("Page.getFrameTree", deadline=deadline)
    inner = _inner_frames(_READ_FRAMES(answer).frame_tree)
    found = await _all(_frame(tab, frame, deadline) for frame in inner)
    return dict(each for each in found if each is not None)


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
    waiting = [*tree.child_frames]
    while waiting and len(found) < MOST_FRAMES:
        frame = waiting.pop(0)
        found.append(frame.frame.id)
        waiting += frame.child_frames
    return found


async def _marked_nodes(tab: Tab, marked: Sequence[Element], deadline: float) -> dict[int, int]:
    """The number of each marked element by the browser's number for its node."""
    numbers = [element.id for element in marked if element.in_view]
    async with tab.handles(MARKED_ELEMENTS, deadline) as handles:
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
