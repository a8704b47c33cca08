"""Fragments hold plain values, and reading one never runs anything."""

import os
import pickle
import pickletools
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from webgym.trajectory.torch_archive import PlainError, check, decode, encode

PLAIN = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**2000), 2**2000)
    | st.floats(allow_nan=False)
    | st.text(st.characters(codec="utf-8")),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=30,
)


@given(PLAIN)
def test_a_plain_value_comes_back_as_it_was(value: object) -> None:
    assert decode(encode(value)) == value
    assert pickle.loads(b"\x80\x02" + encode(value) + b".") == value


def test_large_containers_come_back_as_they_were() -> None:
    value = {"ids": list(range(300_000)), "by name": {str(n): [n] for n in range(5000)}}
    assert decode(encode(value)) == value


def test_a_fragment_refers_to_nothing_outside_itself() -> None:
    shared = ["the same", "the same"]
    fragment = encode([shared, shared])
    names = {opcode.name for opcode, _, _ in pickletools.genops(b"\x80\x02" + fragment + b".")}
    assert not {name for name in names if "PUT" in name or "GET" in name or "MEMO" in name}


def test_what_is_not_plain_is_not_written() -> None:
    cases: list[object] = [(1, 2), {1, 2}, b"bytes", object(), len, Path(), 1j, [{"deep": ()}]]
    for value in cases:
        with pytest.raises(PlainError):
            encode(value)


def test_what_is_nested_without_end_is_not_written() -> None:
    value: list[object] = []
    value.append(value)
    with pytest.raises(PlainError, match="nested too deeply"):
        encode(value)


class Hostile:
    """Runs a command when it is unpickled."""

    def __init__(self, command: str) -> None:
        self.command = command

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.system, (self.command,)


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_a_fragment_that_would_run_a_command_is_refused(protocol: int, tmp_path: Path) -> None:
    proof = tmp_path / "it ran"
    hostile = pickle.dumps([{"a": Hostile(f"touch '{proof}'")}], protocol)
    for fragment in (hostile, hostile[2:-1], hostile[:-1]):
        with pytest.raises(PlainError):
            decode(fragment)
    assert not proof.exists()


def test_an_opcode_that_is_not_plain_is_refused() -> None:
    cases: list[bytes] = [
        b"cos\nsystem\n",
        b"\x8c\x02os\x8c\x06system\x93",
        b"Pid\n",
        b"r\xff\xff\xff\x7f",
        b"\x96\xff\xff\xff\xff\xff\xff\xff\x7f",
        b"}2",
        b".",
    ]
    for fragment in cases:
        with pytest.raises(PlainError, match="not allowed in plain containers"):
            check(fragment)


def test_plain_opcodes_that_make_no_value_are_refused() -> None:
    cases: list[bytes] = [b"", b"(", b"}}s", b"a", b"K\x01K\x02s", b"(K\x01u", b"}Na"]
    for fragment in cases:
        with pytest.raises(PlainError):
            decode(fragment)


@given(PLAIN, st.data())
def test_a_fragment_that_was_cut_is_refused_or_a_smaller_value(
    value: object, data: st.DataObject
) -> None:
    fragment = encode([value])
    cut = fragment[: data.draw(st.integers(0, len(fragment) - 1))]
    try:
        decode(cut)
    except PlainError:
        return


@given(st.binary(max_size=60))
def test_any_bytes_are_read_or_refused(fragment: bytes) -> None:
    try:
        decode(fragment)
    except PlainError:
        return
