import pytest
from hypothesis import given
from hypothesis import strategies as st

from rollgym.export.filter import DEEPEST, GroupRewards, parse_filter
from rollgym.export.source import ExportError

HALF = GroupRewards.of([1.0, 0.0, 1.0, 0.0])
ALL = GroupRewards.of([1.0, 1.0])


def test_a_group_is_known_by_mean_extremes_and_size() -> None:
    assert GroupRewards.of([0.1, 0.2, 0.6]) == GroupRewards(avg=0.3, best=0.6, worst=0.1, n=3)


def test_a_filter_chooses_groups() -> None:
    cases: list[tuple[str, bool, bool]] = [
        ("0 < avg < 1", True, False),
        ("best == 1 and avg < 0.75", True, False),
        ("best == 1 and avg < 0.5", False, False),
        ("avg == 1 or n > 3", True, True),
        ("not worst == 1", True, False),
        ("not (avg == 1 or n == 4)", False, False),
        ("n>=4", True, False),
        ("worst != best", True, False),
        ("avg > -1e-3", True, True),
        ("-avg < -.75", False, True),
        ("n == 2 or n == 4 and avg == 1", False, True),
        ("(n == 2 or n == 4) and worst <= 0", True, False),
        ("not not avg == 1.", False, True),
    ]
    for text, half, whole in cases:
        chosen = parse_filter(text).accepts
        assert (chosen(HALF), chosen(ALL)) == (half, whole)


def test_what_cannot_be_read_is_shown_where_it_stands() -> None:
    cases: list[tuple[str, str, int]] = [
        ("", "a number, avg, best, worst or n, found the end", 0),
        ("avg", "a comparison such as `<`, found the end", 3),
        ("avg < ", "a number, avg, best, worst or n, found the end", 6),
        ("0 < mean", "a number, avg, best, worst or n, found mean", 4),
        ("avg = 1", "a comparison such as `<`, found =", 4),
        ("(avg < 1", "`)`, found the end", 8),
        ("avg < 1 n", "`and` or `or`, found n", 8),
        ("avg < 1)", "`and` or `or`, found )", 7),
        ("avg.real < 1", "a comparison such as `<`, found .", 3),
        ("__import__('os') == 1", "a number, avg, best, worst or n, found _", 0),
        ("avg < .", "a number, avg, best, worst or n, found .", 6),
        ("avg < --1", "a number, avg, best, worst or n, found -", 7),
    ]
    for text, expected, column in cases:
        with pytest.raises(ExportError) as refusal:
            parse_filter(text)
        lines = str(refusal.value).splitlines()
        assert lines[0] == f"the filter is invalid: expected {expected}"
        assert lines[2].index("^") == 2 + column


def test_nesting_is_bounded() -> None:
    cases: list[str] = ["(", "not "]
    for opening in cases:
        closing = ")" * (opening == "(")
        deep = DEEPEST - 1
        chosen = parse_filter(opening * deep + "n > 0" + closing * deep).accepts
        assert chosen(HALF) is (opening == "(" or deep % 2 == 0)
        with pytest.raises(ExportError, match="nests deeper than"):
            parse_filter(opening * 100_000 + "n > 0")


operands = st.sampled_from(["avg", "best", "worst", "n", "0", "1", "0.5", "2"])
comparisons = st.lists(
    st.tuples(st.sampled_from(["<", "<=", ">", ">=", "==", "!="]), operands),
    min_size=1,
    max_size=3,
)
plain = st.builds(
    lambda first, rest: first + "".join(f" {sign} {operand}" for sign, operand in rest),
    operands,
    comparisons,
)
filters = st.recursive(
    plain,
    lambda inner: (
        st.builds("({} and {})".format, inner, inner)
        | st.builds("({} or {})".format, inner, inner)
        | st.builds("{} and {}".format, inner, inner)
        | st.builds("{} or {}".format, inner, inner)
        | st.builds("not ({})".format, inner)
    ),
    max_leaves=6,
)


@given(filters, st.lists(st.sampled_from([0.0, 0.5, 1.0]), min_size=1, max_size=4))
def test_a_filter_means_what_it_means_in_python(text: str, rewards: list[float]) -> None:
    group = GroupRewards.of(rewards)
    names = {name: getattr(group, name) for name in GroupRewards.__struct_fields__}
    assert parse_filter(text).accepts(group) == eval(text, {}, names)
