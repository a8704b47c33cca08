"""The accessibility tree as text."""

from typing import Any

import msgspec
from hypothesis import example, given
from hypothesis import strategies as st

from webgym.browser.page.accessibility import (
    CHARACTER_LIMIT,
    LINE_LIMIT,
    read_tree,
    tree_text,
)
from webgym.browser.page.elements import AxNode


def node(
    number: int, role: str, name: str = "", children: tuple[int, ...] = (), **more: object
) -> dict[str, Any]:
    """A node as Chromium writes it. Keywords with an underscore are its properties."""
    properties = [
        {"name": key[1:], "value": {"type": "token", "value": value}}
        for key, value in more.items()
        if key.startswith("_")
    ]
    written: dict[str, Any] = {
        "nodeId": str(number),
        "ignored": more.get("ignored", False),
        "role": {"type": "role", "value": role},
        "name": {"type": "computedString", "value": name, "sources": [{"type": "attribute"}]},
        "properties": properties,
        "childIds": [str(child) for child in children],
        "backendDOMNodeId": number,
    }
    if "value" in more:
        written["value"] = {"type": "string", "value": more["value"]}
    if "parent" in more:
        written["parentId"] = str(more["parent"])
    return written


def read(*nodes: dict[str, Any]) -> tuple[AxNode, ...]:
    for parent in nodes:
        for child in nodes:
            if child["nodeId"] in parent["childIds"]:
                child.setdefault("parentId", parent["nodeId"])
    return read_tree(msgspec.json.encode({"nodes": list(nodes)}))


def test_what_says_nothing_is_left_out_and_its_children_are_lifted() -> None:
    text = tree_text(
        read(
            node(1, "RootWebArea", "Shop", (2,)),
            node(2, "none", "", (3,), ignored=True),
            node(3, "generic", "", (4, 6, 8)),
            node(4, "button", "Add to cart", (5,)),
            node(5, "StaticText", "Add to cart"),
            node(6, "paragraph", "", (7,)),
            node(7, "StaticText", "Two in stock", (9,)),
            node(8, "image"),
            node(9, "InlineTextBox", "Two in stock"),
        )
    )
    assert text.splitlines() == [
        'RootWebArea "Shop"',
        '  button "Add to cart"',
        '  text "Two in stock"',
    ]


def test_a_sentence_stays_whole_and_its_quotes_are_escaped() -> None:
    long = "word " * 100
    text = tree_text(
        read(
            node(1, "generic", "", (2, 3, 4, 5, 6, 7, 8)),
            node(2, "StaticText", 'Enter "'),
            node(3, "StaticText", "Riley"),
            node(4, "StaticText", f'" into the field. {long}'),
            node(5, "LineBreak", "\n"),
            node(6, "StaticText", "Then wait"),
            node(7, "button", 'The "OK" button'),
            node(8, "StaticText", "."),
        )
    )
    assert text.splitlines() == [
        f'text "Enter \\"Riley\\" into the field. {long.strip()}"',
        'text "Then wait"',
        'button "The \\"OK\\" button"',
    ]


def test_states_values_and_marks_are_written() -> None:
    text = tree_text(
        read(
            node(1, "RootWebArea", "Shop", (2, 3, 4, 5, 6)),
            node(2, "textbox", "Name", value="Ada  Byron", _focused=True, _required=True),
            node(3, "checkbox", "Gift", _checked="mixed", _disabled=True),
            node(4, "heading", "Maps", _level=2),
            node(5, "link", "More", _url="/more"),
            node(6, "combobox", "Size", value="Large", _expanded=False, _invalid="true"),
        ),
        marks={2: 12, 5: 7},
    )
    assert text.splitlines()[1:] == [
        '  [12] textbox "Name" value="Ada Byron" (focused, required)',
        '  checkbox "Gift" checked=mixed (disabled)',
        '  heading "Maps" level=2',
        '  [7] link "More" url=/more',
        '  combobox "Size" value="Large" expanded=false (invalid)',
    ]


def test_a_marked_element_has_a_line_even_if_the_tree_ignores_it() -> None:
    nodes = read(node(1, "RootWebArea", "", (2,)), node(2, "generic", "", ignored=True))
    assert tree_text(nodes, marks={2: 3}).splitlines() == ["RootWebArea", "  [3] generic"]


def test_frames_hang_below_their_element() -> None:
    outer = read(node(1, "RootWebArea", "Outer", (2,)), node(2, "Iframe", "Advert"))
    inner = read(node(1, "RootWebArea", "Inner", (5,)), node(5, "button", "Buy"))
    assert tree_text(outer, frames={2: inner}).splitlines() == [
        'RootWebArea "Outer"',
        '  Iframe "Advert"',
        '    RootWebArea "Inner"',
        '      button "Buy"',
    ]


def test_a_long_tree_is_cut_and_says_by_how_much() -> None:
    children = tuple(range(2, LINE_LIMIT + 102))
    nodes = read(
        node(1, "RootWebArea", "Long", children),
        *(node(number, "button", f"Button {number}") for number in children),
    )
    lines = tree_text(nodes).splitlines()
    assert len(lines) == LINE_LIMIT + 1
    assert lines[-1] == "… (101 more lines left out)"
    wordy = read(*(node(number, "button", f"{number} " * 50) for number in range(1, LINE_LIMIT)))
    assert CHARACTER_LIMIT - 300 < len(tree_text(wordy)) < CHARACTER_LIMIT + 100
    long = tree_text(read(node(1, "button", "x" * 1000)))
    assert len(long) < 250


def test_a_tree_that_is_not_whole_says_that_there_is_more() -> None:
    nodes = read(node(1, "RootWebArea", "Huge", (2,)), node(2, "button", "First"))
    assert tree_text(nodes, whole=False).splitlines() == [
        'RootWebArea "Huge"',
        '  button "First"',
        "… (the rest of this large page left out)",
    ]


def test_an_empty_tree_is_empty_text() -> None:
    assert tree_text(read()) == ""


@example([("StaticText", "0", [0, 0], False), ("button", "", [0], False)])
@given(
    st.lists(
        st.tuples(
            st.sampled_from(["button", "none", "StaticText", "generic", "textbox"]),
            st.text(max_size=8),
            st.lists(st.integers(0, 20), max_size=4),
            st.booleans(),
        ),
        max_size=20,
    )
)
def test_any_graph_of_nodes_ends_with_a_line_each_at_most(
    drawn: list[tuple[str, str, list[int], bool]],
) -> None:
    nodes = read(
        *(
            node(number, role, name, tuple(children), ignored=ignored)
            for number, (role, name, children, ignored) in enumerate(drawn)
        )
    )
    assert len(tree_text(nodes).splitlines()) <= len(nodes)


def test_joined_texts_are_all_written() -> None:
    pairs = [(f"{number} left, ", f"{number} right") for number in range(200)]
    nodes = [node(1, "RootWebArea", "", tuple(range(2, 602, 3)))]
    for place, (left, right) in enumerate(pairs):
        first = 2 + 3 * place
        nodes.append(node(first, "paragraph", "", (first + 1, first + 2)))
        nodes += [node(first + 1, "StaticText", left), node(first + 2, "StaticText", right)]
    lines = tree_text(read(*nodes)).splitlines()
    assert lines[1:] == [f'  text "{left}{right}"' for left, right in pairs]
