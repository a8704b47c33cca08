from collections.abc import Iterable

from pydantic import JsonValue

from resources_servers.code_gen.verification import same_text, same_value


def test_white_space_at_the_end_of_lines_and_text_does_not_matter() -> None:
    cases: Iterable[tuple[str, str]] = [
        ("3\n", "3"),
        ("a b\nc\n", "a b  \nc\n\n\n"),
        ("a\n", "a\r\n"),
        ("", "\n"),
        ("  indented\n", "  indented\n"),
    ]
    for expected, actual in cases:
        assert same_text(expected, actual, None)


def test_everything_else_in_a_text_matters() -> None:
    cases: Iterable[tuple[str, str]] = [
        ("3\n", "4\n"),
        ("a b\n", "a  b\n"),
        ("a\nb\n", "a b\n"),
        ("a\n", "\na\n"),
        ("a\n", " a\n"),
        ("a\nb\n", "a\n"),
        ("Yes\n", "yes\n"),
        ("0.5\n", "0.50\n"),
    ]
    for expected, actual in cases:
        assert not same_text(expected, actual, None)


def test_with_a_tolerance_words_are_compared_and_numbers_may_be_a_little_off() -> None:
    cases: Iterable[tuple[str, str, bool]] = [
        ("0.5 x\n", "0.50000001\nx\n", True),
        ("1000000\n", "1000000.4\n", True),
        ("0.5\n", "0.6\n", False),
        ("0.5\n", "0.5 0.5\n", False),
        ("0.5 0.5\n", "0.5\n", False),
        ("0.5\n", "nan\n", False),
        ("0.5\n", "half\n", False),
        ("inf\n", "1e999\n", False),
        ("1\n", "1" + "0" * 100 + "\n", False),
    ]
    for expected, actual, same in cases:
        assert same_text(expected, actual, 1e-6) is same


def test_equal_values_of_equal_types_are_the_same() -> None:
    cases: Iterable[tuple[JsonValue, object]] = [
        (None, None),
        (True, True),
        (4, 4),
        (10**30, 10**30),
        ("a", "a"),
        (0.3, 0.1 + 0.2),
        (4.0, 4),
        ([1, [2.0, "x"]], [1, [2, "x"]]),
        ({"a": [1], "b": None}, {"b": None, "a": [1]}),
    ]
    for expected, actual in cases:
        assert same_value(expected, actual, None)


def test_values_that_differ_in_type_or_content_are_not_the_same() -> None:
    cases: Iterable[tuple[JsonValue, object]] = [
        (1, True),
        (True, 1),
        (0, False),
        (0.0, False),
        (4, 4.0),
        (4, "4"),
        (None, 0),
        (None, ""),
        ("a", ["a"]),
        ([1, 2], [2, 1]),
        ([1], [1, 1]),
        ([1], {"0": 1}),
        ({"a": 1}, {"a": 1, "b": 2}),
        ({"a": 1, "b": 2}, {"a": 1}),
        ({"a": 1}, {"a": True}),
        (0.3, 0.31),
        (1.5, 10**400),
    ]
    for expected, actual in cases:
        assert not same_value(expected, actual, None)


def test_a_row_can_set_the_tolerance_of_floats_but_not_of_integers() -> None:
    assert same_value([0.5], [0.55], 0.1)
    assert not same_value([5], [6], 0.9)
