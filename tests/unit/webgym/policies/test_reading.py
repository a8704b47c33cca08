import time

from tests.unit.webgym.policies.pages import KETTLE
from webgym.policies.heuristic.passages import Cell, read_passages
from webgym.policies.reading import DEEPEST, Node, read_nodes, spoken


def test_lines_of_the_tree_become_nodes() -> None:
    text = 'RootWebArea "A "great" site" (focused)\n  [3] textbox "City" value="Hest" (required)\nx'
    assert list(read_nodes(text)) == [
        Node(0, "RootWebArea", 'A "great" site'),
        Node(1, "textbox", "City", "Hest"),
        Node(0, "x"),
    ]


def test_a_line_that_is_no_node_is_a_text() -> None:
    assert list(read_nodes("1 to 4  of 4")) == [Node(0, "text", "1 to 4 of 4")]


def test_what_is_said_has_no_roles() -> None:
    assert spoken('RootWebArea "Title"\n  heading "One" level=1\n  text "two"') == "One\ntwo"


def test_lines_made_to_be_hard_to_read_are_read_at_once() -> None:
    began = time.monotonic()
    list(read_nodes('text "x"' + ' a="b"' * 200 + " !"))
    [node] = read_nodes(" " * 10_000 + "text")
    assert node.depth == DEEPEST
    assert time.monotonic() - began < 1


def test_sentences_rows_and_entries_are_passages_and_surroundings_are_not() -> None:
    passages = read_passages(KETTLE)
    assert [each.text for each in passages if each.kind == "sentence"] == [
        "Copper Kettle",
        "Boils water for tea.",
        "It is made in Hest.",
        "Sizes",
    ]
    assert [each.text for each in passages if each.kind == "entry"] == ["Free delivery"]
    assert [(each.text, each.heading) for each in passages if each.kind == "row"] == [
        ("Capacity: 1.7 litres", "Copper Kettle"),
        ("Weight: 900 g", "Copper Kettle"),
        ("Size: Small; Price: $30", "Sizes"),
        ("Size: Large; Price: $1,050", "Sizes"),
    ]
    assert passages[-2].cells == (Cell("Size", "Large"), Cell("Price", "$1,050"))


def test_rows_of_one_table_can_be_compared_and_those_of_two_cannot() -> None:
    groups = [each.group for each in read_passages(KETTLE) if each.kind == "row"]
    assert groups[0] == groups[1] != groups[2] == groups[3]
