"""JSON as strangers write it: odd numbers, spaces and escapes, as bytes."""

import json
from collections.abc import Sequence

from hypothesis import strategies as st

NUMBERS = (
    "0",
    "-0.0",
    "1",
    "1.0",
    "1E0",
    "10e-1",
    "0.10",
    "123456789012345678901234567890",
    "1e400",
)
texts = st.text(st.characters(codec="utf-8"), max_size=8)
names = st.text("abcde_é", min_size=1, max_size=4)
spaces = st.sampled_from(["", " ", "\t", "  "])


def quoted(text: str, *, escaped: bool) -> str:
    return json.dumps(text, ensure_ascii=escaped)


def object_text(fields: Sequence[tuple[str, str]], space: str = "") -> str:
    parts = [f"{quoted(name, escaped=False)}{space}:{space}{value}" for name, value in fields]
    return "{" + space + f",{space}".join(parts) + space + "}"


scalars = st.one_of(
    st.sampled_from(("null", "true", "false", *NUMBERS)),
    st.builds(lambda text, escaped: quoted(text, escaped=escaped), texts, escaped=st.booleans()),
)

values: st.SearchStrategy[str] = st.recursive(
    scalars,
    lambda inner: st.one_of(
        st.builds(
            lambda parts, space: f"[{space}" + f"{space},".join(parts) + f"{space}]",
            st.lists(inner, max_size=3),
            spaces,
        ),
        st.builds(
            lambda fields, space: object_text(list(fields.items()), space),
            st.dictionaries(names, inner, max_size=3),
            spaces,
        ),
    ),
    max_leaves=6,
)


def objects(keys: st.SearchStrategy[str], *, max_size: int = 6) -> st.SearchStrategy[str]:
    """JSON objects with these names."""
    fields = st.dictionaries(keys, values, max_size=max_size)
    return st.builds(lambda pairs, space: object_text(list(pairs.items()), space), fields, spaces)
