"""Whether two commands mean the same run."""

from typing import Any

from rollgym.store import Identity, InputsIdentity, differences

INPUTS = InputsIdentity(2, 4, "ab" * 32)


def test_every_difference_is_named() -> None:
    cases: list[tuple[dict[str, Any], dict[str, Any], list[str]]] = [
        ({}, {}, []),
        ({"t": 1}, {"t": 1.5}, ["t: 1 in the run, 1.5 now"]),
        ({"t": None}, {}, ["t: null in the run, absent now"]),
        ({"b": 1, "a": 1}, {"b": 2, "a": 2}, ["a: 1 in the run, 2 now", "b: 1 in the run, 2 now"]),
    ]
    for before, now, lines in cases:
        assert differences(Identity(INPUTS, before, 0, ()), Identity(INPUTS, now, 0, ())) == lines


def test_a_setting_whose_mark_changed_since_is_not_compared() -> None:
    unmarked = Identity(INPUTS, {"a.wait": 1, "b": 2}, 0, ())
    marked = Identity(INPUTS, {"b": 2}, 0, ("a",))
    assert differences(unmarked, marked) == differences(marked, unmarked) == []
    assert differences(unmarked, Identity(INPUTS, {"b": 2}, 0, ("aa", "a.w"))) != []


def test_a_run_of_a_version_without_marks_is_compared_by_its_names() -> None:
    """It lacks what was left out by name then, and has what is marked now."""
    old = Identity(INPUTS, {"x.call_timeout": 9, "model": "m"}, 0)
    now = {"model": "m", "x.workers": 4, "pool.max_retries": 1, "judge": "http://x", "a.host[0]": 1}
    assert differences(old, Identity(INPUTS, now, 0, ("x.call_timeout",))) == []
    changed = Identity(INPUTS, {"model": "n", "temperature": 1}, 0, ("x.call_timeout",))
    assert differences(old, changed) == [
        'model: "m" in the run, "n" now',
        "temperature: absent in the run, 1 now",
    ]
