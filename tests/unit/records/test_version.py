"""Policy versions: what endpoints say, and their order."""

from typing import Any

import pytest

from rollgym.records.version import (
    LONGEST_VERSION,
    PolicyTurn,
    TurnVersion,
    VersionOrder,
    VersionPart,
    body_version,
    header_version,
    merged_version,
    versions_of,
)


@pytest.mark.parametrize(
    ("text", "versions"),
    [
        ("7", ["7"]),
        (" step-7 ", ["step-7"]),
        ("7,8", ["7", "8"]),
        ("7, 7, 8", ["7", "8"]),
        (",8", ["", "8"]),
        ("", [""]),
        ("x" * (LONGEST_VERSION + 1), [""]),
    ],
)
def test_a_header_has_one_version_or_several(text: str, versions: list[str]) -> None:
    assert list(turn(header_version(text)).versions) == versions


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ({"policy_version": 7}, TurnVersion("7")),
        ({"policy_version": True}, TurnVersion()),
        ({"policy_version": "7,8"}, TurnVersion()),
        ({"policy_version": {"v": 7}}, TurnVersion()),
        ({}, TurnVersion()),
        ({"policy_versions": [["7", 3]]}, TurnVersion("7")),
        (
            {"policy_versions": [["7", 3], ["7", 2], [8, 1]], "policy_version": "9"},
            TurnVersion("8", (VersionPart("7", 5), VersionPart("8", 1))),
        ),
        (
            {"policy_versions": [["7"], ["8", None]]},
            TurnVersion("8", (VersionPart("7"), VersionPart("8"))),
        ),
        ({"policy_versions": [["7", -1]], "policy_version": "9"}, TurnVersion("9")),
        ({"policy_versions": "7", "policy_version": "9"}, TurnVersion("9")),
    ],
)
def test_an_answer_says_its_version_or_those_of_its_tokens(
    answer: dict[str, Any], expected: TurnVersion
) -> None:
    assert body_version(answer) == expected


def test_the_tokens_of_an_answer_say_more_than_its_header_and_this_more_than_a_field() -> None:
    parts = TurnVersion.of(["7", "8"])
    assert merged_version("9", parts) == parts
    assert merged_version("9", TurnVersion("7")) == TurnVersion("9")
    assert merged_version("", TurnVersion("7")) == TurnVersion("7")


def test_numbered_versions_are_in_the_order_of_their_numbers() -> None:
    for prefix in ("", "step-", "v2.step"):
        order = VersionOrder([f"{prefix}{number}" for number in (10, 9, 8)])
        assert order.sorted() == [f"{prefix}{number}" for number in (8, 9, 10)]
        assert order.newest == f"{prefix}10"
        assert order.distance(f"{prefix}8", f"{prefix}20") == 12
        assert order.distance(f"{prefix}10", f"{prefix}9") == 0
        assert order.place("other-3") is None


def test_other_versions_are_in_the_order_in_which_they_are_given() -> None:
    for versions in (("red", "green", "blue"), ("a-2", "b-1"), ("7", "final")):
        order = VersionOrder(versions)
        assert not order.is_numbered
        assert order.sorted() == list(versions)
        assert order.distance(versions[0], versions[-1]) == len(versions) - 1
        assert order.place("12") is None


def test_a_rollout_with_an_unknown_turn_has_no_versions() -> None:
    both = [turn(TurnVersion("7")), turn(TurnVersion.of(["7", "8"]))]
    assert versions_of(both) == frozenset(("7", "8"))
    assert versions_of([turn(TurnVersion("7")), PolicyTurn()]) is None
    assert versions_of([turn(TurnVersion.of(["", "8"]))]) is None
    assert versions_of([]) is None


def turn(version: TurnVersion) -> PolicyTurn:
    return PolicyTurn(version=version.version, parts=version.parts)
